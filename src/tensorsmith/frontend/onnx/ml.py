"""Operators of the domain ai.onnx.ml: encoders, scalers, and linear models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.positions import check_along
from tensorsmith.frontend.onnx.scores import (
    TRANSFORMS,
    as_floats,
    labelled,
    labels_of,
    transformed,
    with_other_class,
)
from tensorsmith.frontend.onnx.strings import label_encoder, string_positions
from tensorsmith.frontend.onnx.support_vectors import svm_classifier, svm_regressor
from tensorsmith.frontend.onnx.trees import (
    tree_ensemble,
    tree_ensemble_classifier,
    tree_ensemble_regressor,
)
from tensorsmith.frontend.onnx.values import Read
from tensorsmith.ir import Buffer


def array_feature_extractor(node: Node) -> Buffer:
    """Columns at positions."""
    x, positions = node.tensor(0), node.tensor(1)
    check_along(node, x, positions, -1)
    return node("array_feature_extractor", x, positions)


def binarizer(node: Node) -> Buffer:
    """1 above a threshold, else 0."""
    x = node.tensor()
    threshold = node.builder.scalar(node.number("threshold", 0.0), x.dtype)
    return node("cast", node("greater", x, threshold), dtype=x.dtype.name)


def scaler(node: Node) -> Buffer:
    """(x - offset) * scale."""
    x = as_floats(node, node.tensor())
    parts = [np.array(node.numbers(n, ()), np.float32) for n in ("offset", "scale")]
    offset, scale = (node.builder.constant(p, "factor") for p in parts)
    return node("mul", node("sub", x, offset), scale)


def normalizer(node: Node) -> Buffer:
    """Rows over their norms."""
    norm = node.text("norm", "MAX", ("MAX", "L1", "L2"))
    return node("normalizer", as_floats(node, node.tensor()), norm=norm.lower())


def imputer(node: Node) -> Buffer:
    """Another value where there is none."""
    x = node.tensor()
    if x.dtype.is_float:
        values = np.array(node.numbers("imputed_value_floats", ()), x.dtype.numpy)
        replaced = node.number("replaced_value_float", 0.0)
        node.ignore("replaced_value_int64", "imputed_value_int64s")
    else:
        values = np.array(node.integers("imputed_value_int64s", ()), x.dtype.numpy)
        replaced = node.integer("replaced_value_int64", 0)
        node.ignore("replaced_value_float", "imputed_value_floats")
    if not values.size:
        node.wrong("there is no value to put in")
    if replaced != replaced:
        gone = node("is_nan", x)
    else:
        gone = node("equal", x, node.builder.scalar(replaced, x.dtype))
    return node("where", gone, node.builder.constant(values, "imputed"), x)


def one_hot_encoder(node: Node) -> Buffer:
    """A new last axis with 1 at the category of an element."""
    node.ignore("zeros")
    x = node.text_tensor()
    if x is not None:
        names = node.texts("cats_strings")
        positions = string_positions(node, x, names)
        count = len(names)
    else:
        numbers = np.array(node.integers("cats_int64s"), np.int64)
        apart = node("expand_dims", node("cast", node.tensor(), dtype="int64"), axes=(-1,))
        hit = node("equal", apart, node.builder.constant(numbers, "categories"))
        return node("cast", hit, dtype="float32")
    apart = node("expand_dims", positions, axes=(-1,))
    places = node.builder.constant(np.arange(count, dtype=np.int64), "categories")
    return node("cast", node("equal", apart, places), dtype="float32")


def feature_vectorizer(node: Node) -> Buffer:
    """Columns of several tensors side by side, as floats."""
    node.ignore("inputdimensions")
    parts = [as_floats(node, x) for x in node.tensors()]
    rows = [node("expand_dims", p, axes=(0,)) if p.rank == 1 else p for p in parts]
    return node("concat", *rows, axis=1)


def _scores(node: Node, x: Buffer, targets: int) -> Buffer:
    """x @ coefficients + intercepts: a column a target."""
    coefficients = np.array(node.numbers("coefficients"), np.float32)
    if targets < 1 or coefficients.size % targets:
        node.wrong(f"{coefficients.size} coefficients for {targets} targets")
    weight = node.builder.constant(coefficients.reshape(targets, -1), "coefficients")
    product = node("gemm", as_floats(node, x), weight, trans_b=True)
    intercepts = node.numbers("intercepts", None)
    if not intercepts:
        return product
    bias = node.builder.constant(np.array(intercepts, np.float32), "intercepts")
    return node("add", product, bias)


def linear_regressor(node: Node) -> Buffer:
    """A linear function."""
    scores = _scores(node, node.tensor(), node.integer("targets", 1))
    return transformed(node, scores, node.text("post_transform", "NONE", TRANSFORMS))


def linear_classifier(node: Node) -> tuple[Read, ...]:
    """The class of the greatest linear function, and all of them."""
    node.ignore("multi_class")
    labels, named = labels_of(node)
    transform = node.text("post_transform", "NONE", TRANSFORMS)
    count = len(node.numbers("intercepts", None) or labels)
    scores = _scores(node, node.tensor(), count)
    if count == 1 and len(labels) == 2:
        chosen = node("greater", scores, node.builder.scalar(0.0, "float32"))
        position = node("reshape", node("cast", chosen, dtype="int64"), shape=scores.shape[:1])
        both = with_other_class(node, scores, transform)
        return labelled(node, position, labels, named=named), both
    position = node("argmax", scores, axis=1, keep_dims=False)
    found = labelled(node, position, labels, named=named)
    return found, transformed(node, scores, transform)


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "ArrayFeatureExtractor": array_feature_extractor,
    "Binarizer": binarizer,
    "FeatureVectorizer": feature_vectorizer,
    "Imputer": imputer,
    "LabelEncoder": label_encoder,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "Normalizer": normalizer,
    "OneHotEncoder": one_hot_encoder,
    "SVMClassifier": svm_classifier,
    "SVMRegressor": svm_regressor,
    "Scaler": scaler,
    "TreeEnsemble": tree_ensemble,
    "TreeEnsembleClassifier": tree_ensemble_classifier,
    "TreeEnsembleRegressor": tree_ensemble_regressor,
}
"""By operator of the domain ai.onnx.ml."""
