"""Operators of the domain com.microsoft on quantized tensors.

Those that ONNX itself would write as a dequantization, an operator and a quantization are read as
these three. Source: ONNX Runtime, ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import ml_dtypes
import numpy as np

from tensorsmith.frontend.onnx import quantize, windows
from tensorsmith.frontend.onnx.microsoft import scaled, with_bias
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.positions import check_along
from tensorsmith.frontend.onnx.types import Array
from tensorsmith.ir import Buffer


def plain(node: Node, at: int) -> Buffer:
    """The numbers that operands `at` (the tensor, its scale, its zero point) stand for."""
    operands = (node.tensor(at), node.tensor(at + 1), node.optional(at + 2))
    return node("dequantize_linear", *operands)


def quantized(node: Node, value: Buffer, at: int, like: Buffer) -> Buffer:
    """Numbers as operands `at` (a scale, a zero point) say, in the type of `like`."""
    operands = (node.tensor(at), node.optional(at + 1))
    return node("quantize_linear", value, *operands, dtype=like.dtype.name)


def of_one(op: str) -> Converter:
    """The converter for an operator of a quantized tensor: x, its parameters, the result's."""

    def convert(node: Node) -> Buffer:
        return quantized(node, node(op, plain(node, 0)), 3, node.tensor(0))

    return convert


def of_two(op: str) -> Converter:
    """The converter for an operator of two quantized tensors."""

    def convert(node: Node) -> Buffer:
        return quantized(node, node(op, plain(node, 0), plain(node, 3)), 6, node.tensor(0))

    return convert


def leaky_relu(node: Node) -> Buffer:
    """Leaky relu."""
    made = node("leaky_relu", plain(node, 0), alpha=node.number("alpha", 0.01))
    return quantized(node, made, 3, node.tensor(0))


def softmax(node: Node) -> Buffer:
    """Softmax along one axis."""
    axis = node.integer("axis", -1)
    if node.integer("opset", 13) < 13:
        node.unsupported("softmax over several axes")
    made = node("softmax", plain(node, 0), axis=axis)
    return quantized(node, made, 3, node.tensor(0))


def global_average_pool(node: Node) -> Buffer:
    """The mean of each image."""
    last = node.flag("channels_last")
    x = node.tensor(0)
    axes = tuple(range(1, x.rank - 1)) if last else tuple(range(2, x.rank))
    return quantized(node, node("reduce_mean", plain(node, 0), axes=axes), 3, x)


def average_pool(node: Node) -> Buffer:
    """The mean of each window."""
    if node.flag("channels_last"):
        node.unsupported("images whose channels are last")
    made = windows.average_pool(node.with_inputs((plain(node, 0),)))
    return quantized(node, made, 3, node.tensor(0))


def reduce_mean(node: Node) -> Buffer:
    """The mean over axes."""
    axes = node.integers("axes", None)
    keep = node.flag("keepdims", default=True)
    made = node("reduce_mean", plain(node, 0), axes=axes, keep_dims=keep)
    return quantized(node, made, 3, node.tensor(0))


def concat(node: Node) -> Buffer:
    """One after the other: the result's parameters, then each tensor with its own."""
    count = (len(node.inputs) - 2) // 3
    parts = [plain(node, 2 + 3 * k) for k in range(count)]
    made = node("concat", *parts, axis=node.integer("axis"))
    return quantized(node, made, 0, node.tensor(2))


def gemm(node: Node) -> Buffer:
    """alpha * a @ b + c of quantized matrices; floats if the result has no scale."""
    a, b = node.tensor(0), node.tensor(3)
    a_zero, b_zero = node.optional(2), node.optional(5)
    trans_a, trans_b = node.flag("transA"), node.flag("transB")
    if trans_a:
        a = node("transpose", a, axes=(1, 0))
    if trans_b:
        b = node("transpose", b, axes=(1, 0))
    total = node("matmul_integer", a, b, a_zero, b_zero)
    total = with_bias(node, total, node.optional(6))
    made = node("cast", total, dtype="float32")
    factor = node("mul", node.tensor(1), node.tensor(4))
    made = scaled(node, node("mul", made, factor), node.number("alpha", 1.0))
    return made if node.optional(7) is None else quantized(node, made, 7, node.tensor(0))


def matmul_to_float(node: Node) -> Buffer:
    """The product of matrices of bytes, times their scales, plus a bias."""
    a, b, a_scale, b_scale = (node.tensor(n) for n in range(4))
    total = node("matmul_integer", a, b, node.optional(4), node.optional(5))
    return _to_float(node, total, (a_scale, b_scale), node.optional(6))


def dynamic_matmul(node: Node) -> Buffer:
    """The product of floats, quantized by their range, with a matrix of bytes."""
    x, weight, w_scale = (node.tensor(n) for n in range(3))
    bytes_, scale, zero = node.apply("dynamic_quantize_linear", x)
    total = node("matmul_integer", bytes_, weight, zero, node.optional(3))
    return _to_float(node, total, (scale, w_scale), node.optional(4))


def _to_float(
    node: Node, total: Buffer, scales: tuple[Buffer, Buffer], bias: Buffer | None
) -> Buffer:
    made = node("cast", total, dtype=scales[0].dtype.name)
    return with_bias(node, node("mul", made, node("mul", *scales)), bias)


# --- Weights of few bits ---------------------------------------------------------------------


def where(node: Node) -> Buffer:
    """A choice between two quantized tensors."""
    chosen = node("where", node.tensor(0), plain(node, 1), plain(node, 4))
    return quantized(node, chosen, 7, node.tensor(1))


def gather_blocks(node: Node) -> Buffer:
    """The slices of a quantized tensor at positions, as the numbers that they stand for."""
    data, positions, scales = (node.tensor(n) for n in range(3))
    bits, block = node.integer("bits", 4), node.integer("block_size", 128)
    along, axis = node.integer("gather_axis", 0), node.integer("quantize_axis", 1)
    zero = node.optional(3)
    if not (-data.rank <= along < data.rank and -data.rank <= axis < data.rank and block > 0):
        node.wrong(f"gathers along {along}, in blocks of {block} along {axis}", given=f"{data!r}")
    along, axis = along % data.rank, axis % data.rank
    if along == axis or bits not in (2, 4, 8):
        node.unsupported(f"{bits} bits in blocks along axis {axis}, gathered along axis {along}")
    check_along(node, data, positions, along)
    parts = [data, scales, *(() if zero is None else (zero,))]
    values, scale, *points = (node("gather", p, positions, axis=along) for p in parts)
    place = axis if axis < along else axis + positions.rank - 1
    if data.dtype.name == "uint8":
        values, *points = (_elements(node, v, bits) for v in (values, *points))
        if not points:
            half = node.builder.scalar(1 << (bits - 1), "uint8")
            points = [node("expand", half, shape=scale.shape)]
        elif points[0].shape[-1] is not scale.shape[-1]:
            points = [node("slice", points[0], starts=(0,), extents=scale.shape[-1:], axes=(-1,))]
    return node("dequantize_linear", values, scale, *points, axis=place, block=block)


def _elements(node: Node, x: Buffer, bits: int) -> Buffer:
    """A byte for each element of so many bits, of which a byte holds several, the lowest first."""
    if bits == 8:
        return x
    shifts = node.builder.constant(np.arange(0, 8, bits, dtype=np.uint8), "shifts")
    moved = node("shift_right", node("expand_dims", x, axes=(-1,)), shifts)
    mask = node.builder.scalar((1 << bits) - 1, "uint8")
    shape = (*x.shape[:-1], x.shape[-1] * (8 // bits))
    return node("reshape", node("bitwise_and", moved, mask), shape=shape)


FEWEST_IN_BLOCK: Final = 16
"""Elements of a block that fill whole words, of few bits, too."""


def matmul_n_bits(node: Node) -> Buffer:
    """The product with a matrix whose elements have few bits, with a scale for each block."""
    node.ignore("accuracy_level")
    x = node.tensor(0)
    rows, size = node.integer("N"), node.integer("K")
    bits, block = node.integer("bits", 4), node.integer("block_size")
    if bits not in (2, 4, 8) or block < 1 or size < 1 or rows < 1:
        node.unsupported(f"weights of {bits} bits in blocks of {block}")
    if node.value(4) is not None:
        node.unsupported("weights whose columns are in another order", because="g_idx is given")
    packed = node.known(1)
    assert packed is not None
    blocks = -(-size // block)
    if packed.size % rows or packed.size // rows * 8 // bits < size:
        node.wrong(f"{packed.size} bytes for a weight of {rows} by {size}")
    if block >= FEWEST_IN_BLOCK and not block & (block - 1):
        return _by_words(node, packed.reshape(rows, -1), (rows, size, blocks), bits)
    weight = unpacked(packed.reshape(rows, -1), bits)
    held = node.builder.constant(weight[:, :size], "weight")
    scales = node("reshape", node.tensor(2), shape=(rows, blocks))
    zero = _zero_points(node, (rows, blocks), bits)
    if zero.dtype is held.dtype:
        dense = node("dequantize_linear", held, scales, zero, axis=1, block=block)
    else:
        plain_ = node("dequantize_linear", held, scales, None, axis=1, block=block)
        moved = node("mul", zero, scales)
        wide = node("expand_dims", moved, axes=(2,))
        spread = node("expand", wide, shape=(rows, blocks, block))
        flat = node("reshape", spread, shape=(rows, blocks * block))
        cut = node("slice", flat, starts=(0,), extents=(size,), axes=(1,))
        dense = node("sub", plain_, cut)
    made = node("matmul", x, node("transpose", dense, axes=(1, 0)))
    return with_bias(node, made, node.optional(5))


def _by_words(node: Node, packed: Array, sizes: tuple[int, int, int], bits: int) -> Buffer:
    """The product with a weight that stays packed, in words of 32 bits. sizes: rows, columns and
    blocks of a row."""
    rows, size, blocks = sizes
    block = node.integer("block_size")
    given = np.ascontiguousarray(packed.view(np.uint8)[:, : blocks * block * bits // 8])
    if given.shape[1] * 8 != blocks * block * bits:
        node.wrong(f"{given.shape[1]} bytes a row for {blocks} blocks of {block} times {bits} bits")
    words = given.view("<u4").reshape(rows, blocks, -1).astype(np.uint32)
    zero: Buffer | None = None
    if node.optional(3) is None:  # half of the range less, and so numbers with signs
        half = sum(1 << (at + bits - 1) for at in range(0, 32, bits))
        words = (words ^ np.uint32(half)).view(np.int32)
    else:
        zero = node("cast", _zero_points(node, (rows, blocks), bits), dtype="float32")
    x = node.tensor(0)
    if zero is not None and zero.dtype is not x.dtype:
        zero = node("cast", zero, dtype=x.dtype.name)
    return node(
        "matmul_nbits",
        x,
        node.builder.constant(words, "weight"),
        node("reshape", node.tensor(2), shape=(rows, blocks)),
        zero,
        node.optional(5),
        depth=size,
        columns=rows,
        bits=bits,
        block=block,
    )


def _zero_points(node: Node, shape: tuple[int, int], bits: int) -> Buffer:
    """One a block: in the type of the weights, or in that of the scales."""
    given = node.optional(3)
    type_ = np.dtype(getattr(ml_dtypes, f"uint{bits}", None) or f"uint{bits}")
    if given is None:
        return node.builder.constant(np.full(shape, 1 << (bits - 1)).astype(type_), "zero")
    if given.dtype.is_float:
        return node("reshape", given, shape=shape)
    packed = node.known(3)
    assert packed is not None
    return node.builder.constant(
        unpacked(packed.reshape(shape[0], -1), bits)[:, : shape[1]], "zero"
    )


def unpacked(packed: Array, bits: int) -> Array:
    """Bytes of several elements each, the first in the lowest bits, as one element a byte."""
    raw = packed.view(np.uint8)
    if bits == 8:
        return raw
    parts = [(raw >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    flat = np.stack(parts, -1).reshape(raw.shape[0], -1)
    return flat.astype(np.dtype(getattr(ml_dtypes, f"uint{bits}")))


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "DequantizeLinear": quantize.dequantize_linear,
    "DynamicQuantizeMatMul": dynamic_matmul,
    "GatherBlockQuantized": gather_blocks,
    "MatMulIntegerToFloat": matmul_to_float,
    "MatMulNBits": matmul_n_bits,
    "QGemm": gemm,
    "QLinearAdd": of_two("add"),
    "QLinearAveragePool": average_pool,
    "QLinearConcat": concat,
    "QLinearGlobalAveragePool": global_average_pool,
    "QLinearLeakyRelu": leaky_relu,
    "QLinearMul": of_two("mul"),
    "QLinearReduceMean": reduce_mean,
    "QLinearSigmoid": of_one("sigmoid"),
    "QLinearSoftmax": softmax,
    "QLinearWhere": where,
    "QuantizeLinear": quantize.quantize_linear,
}
"""By operator of the domain com.microsoft."""
