"""Pieces of models as graph functions, beside what NumPy computes for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorsmith.ir import Buffer, Var
from tensorsmith.ops import GraphBuilder

Array = np.ndarray[Any, Any]


class Weights:
    """Random weights, the same in every run."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)

    def __call__(self, *shape: int) -> Array:
        """A weight of this shape."""
        return (self.random.standard_normal(shape) * 0.3).astype(np.float32)


def layer_norm(b: GraphBuilder, x: Buffer, gamma: Array, beta: Array) -> Buffer:
    """Layer normalisation as exporters write it, operator by operator."""
    mean = b("reduce_mean", x, axes=(-1,))
    centred = b("sub", x, mean)
    square = b("mul", centred, centred)
    variance = b("reduce_mean", square, axes=(-1,))
    deviation = b("sqrt", b("add", variance, b.scalar(1e-5, "float32")))
    normal = b("div", centred, deviation)
    return b("add", b("mul", normal, b.constant(gamma)), b.constant(beta))


def layer_norm_of(x: Array, gamma: Array, beta: Array) -> Array:
    """The same with NumPy."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def encoder_layer(
    b: GraphBuilder, x: Buffer, mask: Buffer, weights: Weights, heads: int, width: int
) -> Buffer:
    """A layer of BERT: attention over all positions that the mask (b, s) allows, then two products
    with GELU between them, each with its residual and normalisation."""
    batch, length, _ = x.shape
    depth = width // heads

    def dense(value: Buffer, inner: int, outer: int) -> Buffer:
        product = b("matmul", value, b.constant(weights(inner, outer)))
        return b("add", product, b.constant(weights(outer)))

    def split(value: Buffer) -> Buffer:
        parts = b("reshape", value, shape=(batch, length, heads, depth))
        return b("transpose", parts, axes=(0, 2, 1, 3))

    q, k, v = (split(dense(x, width, width)) for _ in range(3))
    scores = b("matmul", q, b("transpose", k, axes=(0, 1, 3, 2)))
    scores = b("div", scores, b.scalar(float(np.sqrt(depth)), "float32"))
    weight = b("softmax", b("add", scores, mask), axis=-1)
    mixed = b("transpose", b("matmul", weight, v), axes=(0, 2, 1, 3))
    mixed = b("reshape", mixed, shape=(batch, length, width))
    x = b("add", dense(mixed, width, width), x)
    x = layer_norm(b, x, weights(width), weights(width))
    inner = dense(x, width, 4 * width)
    scaled = b("div", inner, b.scalar(float(np.sqrt(2)), "float32"))
    half = b("mul", inner, b.scalar(0.5, "float32"))
    active = b("mul", half, b("add", b("erf", scaled), b.scalar(1.0, "float32")))
    x = b("add", dense(active, 4 * width, width), x)
    return layer_norm(b, x, weights(width), weights(width))


def encoder_layer_of(x: Array, mask: Array, weights: Weights, heads: int, width: int) -> Array:
    """The same with NumPy."""
    from math import erf

    batch, length, _ = x.shape
    depth = width // heads

    def dense(value: Array, inner: int, outer: int) -> Array:
        return value @ weights(inner, outer) + weights(outer)

    def split(value: Array) -> Array:
        return value.reshape(batch, length, heads, depth).transpose(0, 2, 1, 3)

    q, k, v = (split(dense(x, width, width)) for _ in range(3))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(depth) + mask
    power = np.exp(scores - scores.max(-1, keepdims=True))
    weight = power / power.sum(-1, keepdims=True)
    mixed = (weight @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
    x = dense(mixed, width, width) + x
    x = layer_norm_of(x, weights(width), weights(width))
    inner = dense(x, width, 4 * width)
    active = 0.5 * inner * (1 + np.vectorize(erf)(inner / np.sqrt(2)))
    x = dense(active.astype(np.float32), 4 * width, width) + x
    return layer_norm_of(x, weights(width), weights(width))


def encoder(layers: int, heads: int, width: int) -> tuple[GraphBuilder, Buffer]:
    """An encoder over a batch and a length that are not known."""
    from tensorsmith.ops import OPERATORS

    b = GraphBuilder(OPERATORS)
    batch, length = Var("batch", low=1), Var("length", low=1)
    x = b.param("x", (batch, length, width), "float32")
    allowed = b.param("allowed", (batch, length), "int64")
    wide = b("expand_dims", allowed, axes=(1, 2))
    keep = b("cast", wide, dtype="float32")
    bias = b("mul", b("sub", b.scalar(1.0, "float32"), keep), b.scalar(-10000.0, "float32"))
    weights = Weights()
    for _ in range(layers):
        x = encoder_layer(b, x, bias, weights, heads, width)
    return b, x


def residual_block(b: GraphBuilder, x: Buffer, weights: Weights, channels: int) -> Buffer:
    """Two convolutions with biases and a residual, as ResNet has with its batch norms folded."""

    def conv(value: Buffer) -> Buffer:
        w, c = weights(channels, channels, 3, 3), weights(channels)
        return b("conv", value, b.constant(w), b.constant(c), pads=(1, 1, 1, 1))

    inner = b("relu", conv(x))
    return b("relu", b("add", conv(inner), x))
