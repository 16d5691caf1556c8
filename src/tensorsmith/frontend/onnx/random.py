"""Random numbers. The same in each run: a node without a seed has one of its place in the model."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

import numpy as np

from tensorsmith.frontend.onnx import types
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import Buffer, Expr, as_expr


def _seed(node: Node) -> int:
    """The node's seed: the bits of the attribute, which is a float."""
    if not node.has("seed"):
        return node.reader.next_seed()
    (bits,) = struct.unpack("<I", struct.pack("<f", node.number("seed")))
    return int(bits)


def _type(node: Node, default: str) -> str:
    number = node.integer("dtype", 0)
    return types.element_type(number, "the result").name if number else default


def _uniform(node: Node, shape: tuple[Expr, ...], dtype: str) -> Buffer:
    low, high = node.number("low", 0.0), node.number("high", 1.0)
    seed = _seed(node)
    return node("random_uniform", shape=shape, dtype=dtype, low=low, high=high, seed=seed)


def _normal(node: Node, shape: tuple[Expr, ...], dtype: str) -> Buffer:
    mean, scale = node.number("mean", 0.0), node.number("scale", 1.0)
    seed = _seed(node)
    return node("random_normal", shape=shape, dtype=dtype, mean=mean, scale=scale, seed=seed)


def random_uniform(node: Node) -> Buffer:
    """Of a shape that is given."""
    return _uniform(node, tuple(map(as_expr, node.integers("shape"))), _type(node, "float32"))


def random_uniform_like(node: Node) -> Buffer:
    """Of another tensor's shape."""
    x = node.tensor()
    return _uniform(node, x.shape, _type(node, x.dtype.name))


def random_normal(node: Node) -> Buffer:
    """Of a shape that is given."""
    return _normal(node, tuple(map(as_expr, node.integers("shape"))), _type(node, "float32"))


def random_normal_like(node: Node) -> Buffer:
    """Of another tensor's shape."""
    x = node.tensor()
    return _normal(node, x.shape, _type(node, x.dtype.name))


def bernoulli(node: Node) -> Buffer:
    """1 with a probability, else 0."""
    x = node.tensor()
    return node("bernoulli", x, dtype=_type(node, x.dtype.name), seed=_seed(node))


def multinomial(node: Node) -> Buffer:
    """Classes drawn by their chances."""
    samples = node.integer("sample_size", 1)
    dtype = _type(node, "int32")
    return node("multinomial", node.tensor(), samples=samples, dtype=dtype, seed=_seed(node))


def dropout_by_attribute(node: Node) -> tuple[Buffer, ...]:
    """Dropout of a trained model: nothing is dropped."""
    node.ignore("ratio", "is_test", "consumed_inputs")
    return _all_kept(node, node.tensor())


def _all_kept(node: Node, x: Buffer) -> tuple[Buffer, ...]:
    """`x`, and the mask that says so if it is asked for."""
    if not node.has_output(1):
        return (x,)
    kept = node.builder.constant(np.array(node.opset >= 10), "kept")
    if node.opset < 10:
        kept = node.builder.scalar(1, x.dtype, "kept")
    return (x, node("full", kept, shape=x.shape))


def dropout(node: Node) -> tuple[Buffer, ...]:
    """Dropout, which drops something in training."""
    x = node.tensor()
    trains = node.known(2)
    ratio = node.optional(1)
    share = 0.5 if ratio is None else None
    if trains is None or not trains.any():
        node.ignore("seed")
        return _all_kept(node, x)
    if share is None:
        known = node.known(1)
        assert known is not None
        share = float(known.reshape(-1)[0])
    seed = node.integer("seed") if node.has("seed") else node.reader.next_seed()
    if share == 0:
        return _all_kept(node, x)
    return node.apply("dropout", x, ratio=share, seed=seed)


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "Bernoulli": bernoulli,
    "Dropout": {1: dropout_by_attribute, 12: dropout},
    "Multinomial": multinomial,
    "RandomNormal": random_normal,
    "RandomNormalLike": random_normal_like,
    "RandomUniform": random_uniform,
    "RandomUniformLike": random_uniform_like,
}
"""By operator of ONNX's own domain."""
