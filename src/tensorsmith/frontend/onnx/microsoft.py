"""Operators of the domain com.microsoft: fused ones, as ONNX Runtime's optimiser leaves them.

Source: ONNX Runtime, ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx import creation, movement, normalize, select, windows
from tensorsmith.frontend.onnx.activations import with_alpha
from tensorsmith.frontend.onnx.elementwise import one
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.positions import check_along
from tensorsmith.ir import Buffer


def fused_matmul(node: Node) -> Buffer:
    """alpha * a @ b, each transposed on request."""
    if node.flag("transBatchA") or node.flag("transBatchB"):
        node.unsupported("a product whose first axes are exchanged")
    a, b = node.tensor(0), node.tensor(1)
    if node.flag("transA") and a.rank > 1:
        a = _transposed(node, a)
    if node.flag("transB") and b.rank > 1:
        b = _transposed(node, b)
    return scaled(node, node("matmul", a, b), node.number("alpha", 1.0))


def _transposed(node: Node, x: Buffer) -> Buffer:
    axes = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    return node("transpose", x, axes=axes)


def scaled(node: Node, x: Buffer, factor: float) -> Buffer:
    """`x` times a number."""
    return x if factor == 1 else node("mul", x, node.builder.scalar(factor, x.dtype))


def activated(node: Node, x: Buffer) -> Buffer:
    """`x` after the activation that the node names, if it names one."""
    name = node.text("activation", "")
    params = node.numbers("activation_params", ())
    if name in ("Relu", "Sigmoid", "Tanh"):
        return node(name.lower(), x)
    if name == "LeakyRelu":
        return node("leaky_relu", x, alpha=params[0] if params else 0.01)
    if name == "HardSigmoid":
        alpha, beta = params if len(params) == 2 else (0.2, 0.5)
        return node("hard_sigmoid", x, alpha=alpha, beta=beta)
    if name == "Clip" and len(params) == 2:
        low, high = (node.builder.scalar(p, x.dtype) for p in params)
        return node("clip", x, low, high)
    if name:
        node.unsupported(f"the activation {name!r}")
    return x


def expand_dims(node: Node) -> Buffer:
    """A new axis, whose place is an operand."""
    axes = node.constants(1)
    if axes is None or len(axes) != 1:
        node.wrong("takes one axis")
    return node("expand_dims", node.tensor(), axes=axes)


def fused_conv(node: Node) -> Buffer:
    """A convolution, a sum with another tensor, and an activation."""
    made = windows.conv(node)
    added = node.optional(3)
    return activated(node, made if added is None else node("add", made, added))


def fused_gemm(node: Node) -> Buffer:
    """A product of matrices, and an activation."""
    alpha = node.number("activation_alpha") if node.has("activation_alpha") else None
    node.ignore("activation_beta", "activation_gamma")
    made = node(
        "gemm",
        node.tensor(0),
        node.tensor(1),
        node.optional(2),
        trans_a=node.flag("transA"),
        trans_b=node.flag("transB"),
        alpha=node.number("alpha", 1.0),
        beta=node.number("beta", 1.0),
    )
    if node.text("activation", "") == "LeakyRelu" and alpha is not None:
        return node("leaky_relu", made, alpha=alpha)
    return activated(node, made)


def with_bias(node: Node, x: Buffer, bias: Buffer | None) -> Buffer:
    """The sum, where there is a bias."""
    return x if bias is None else node("add", x, bias)


def bias_gelu(node: Node) -> Buffer:
    """gelu(x + bias)."""
    return node("gelu", with_bias(node, node.tensor(0), node.optional(1)))


def fast_gelu(node: Node) -> Buffer:
    """The approximation of gelu(x + bias) by tanh."""
    return node("gelu", with_bias(node, node.tensor(0), node.optional(1)), is_tanh=True)


def skip_layer_norm(node: Node) -> tuple[Buffer | None, ...]:
    """layer_norm(x + skip + bias)."""
    total = with_bias(node, node("add", node.tensor(0), node.tensor(1)), node.optional(4))
    epsilon = node.number("epsilon", 1e-12)
    operands = (total, node.tensor(2), node.optional(3))
    statistics = node.has_output(1) or node.has_output(2)
    made = node.apply("layer_norm", *operands, axis=-1, epsilon=epsilon, with_statistics=statistics)
    return (*made, *(() if statistics else (None, None)), total)


def skip_rms_norm(node: Node) -> tuple[Buffer | None, ...]:
    """rms_norm(x + skip + bias)."""
    total = with_bias(node, node("add", node.tensor(0), node.tensor(1)), node.optional(3))
    made = node("rms_norm", total, node.tensor(2), axis=-1, epsilon=node.number("epsilon", 1e-12))
    return (made, None, None, total)


def rows(node: Node, table: Buffer, positions: Buffer) -> Buffer:
    """The rows of a table at positions."""
    check_along(node, table, positions, 0)
    return node("gather", table, positions, axis=0)


def embed_layer_norm(node: Node) -> tuple[Buffer | None, ...]:
    """layer_norm of the sum of the embeddings of words, positions and segments."""
    ids, segments = node.tensor(0), node.optional(1)
    words, positions, segment_table = node.tensor(2), node.tensor(3), node.optional(4)
    mask, places = node.optional(7), node.optional(8)
    node.ignore("mask_index_type")
    total = rows(node, words, ids)
    if places is None:
        length = ids.shape[1]
        here = node("slice", positions, starts=(0,), extents=(length,), axes=(0,))
    else:
        here = rows(node, positions, places)
    total = node("add", total, here)
    if segments is not None and segment_table is not None:
        total = node("add", total, rows(node, segment_table, segments))
    epsilon = node.number("epsilon", 1e-12)
    made = node("layer_norm", total, node.tensor(5), node.tensor(6), axis=-1, epsilon=epsilon)
    if mask is None:
        zero = node.builder.scalar(0, "int32")
        counts = node("full", zero, shape=ids.shape[:1])
    else:
        counts = node("reduce_sum", mask, axes=(1,), keep_dims=False)
    return made, counts, total


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "BiasGelu": bias_gelu,
    "ExpandDims": expand_dims,
    "EmbedLayerNormalization": embed_layer_norm,
    "FastGelu": fast_gelu,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "GatherND": movement.gather_nd,
    "Gelu": one("gelu"),
    "LayerNormalization": normalize.layer_norm,
    "Range": creation.range_,
    "QuickGelu": with_alpha("swish", 1.702),
    "SimplifiedLayerNormalization": normalize.rms_norm,
    "SkipLayerNormalization": skip_layer_norm,
    "SkipSimplifiedLayerNormalization": skip_rms_norm,
    "TransposeMatMul": fused_matmul,
    "Trilu": select.trilu,
    "Unique": select.unique,
}
"""By operator of the domain com.microsoft."""

IN_DEFAULT_DOMAIN: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "FusedConv": fused_conv,
    "SimplifiedLayerNormalization": normalize.rms_norm,
}
"""What ONNX Runtime writes in ONNX's own domain, though it is not defined there."""
