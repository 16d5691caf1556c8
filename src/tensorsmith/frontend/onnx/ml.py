"""Operators of the domain ai.onnx.ml: encoders, scalers, trees and other classical models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.strings import label_encoder
from tensorsmith.frontend.onnx.trees import tree_ensemble
from tensorsmith.ir import Buffer


def array_feature_extractor(node: Node) -> Buffer:
    """Columns at positions."""
    return node("array_feature_extractor", node.tensor(0), node.tensor(1))


def binarizer(node: Node) -> Buffer:
    """1 above a threshold, else 0."""
    x = node.tensor()
    threshold = node.builder.scalar(node.number("threshold", 0.0), x.dtype)
    return node("cast", node("greater", x, threshold), dtype=x.dtype.name)


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "ArrayFeatureExtractor": array_feature_extractor,
    "Binarizer": binarizer,
    "LabelEncoder": label_encoder,
    "TreeEnsemble": tree_ensemble,
}
"""By operator of the domain ai.onnx.ml."""
