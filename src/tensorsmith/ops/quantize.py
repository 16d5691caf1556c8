"""Numbers as few bits: quantization by scales and zero points, and products of quantized tensors.

A scale stands for the whole tensor, for one position of an axis, or for a block of an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.ir import DType, Expr, Kind, as_expr, const
from tensorsmith.ir.dtype import dtype as as_dtype
from tensorsmith.ir.dtype import float32, int32
from tensorsmith.ops.broadcast import broadcast_index, broadcast_shapes
from tensorsmith.ops.cast import cast_element
from tensorsmith.ops.indexing import check_extents, is_one
from tensorsmith.ops.operands import as_axis, check_rank, computed_in, converted, one_dtype, widened
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor

Place = Callable[[Sequence[Expr]], tuple[Expr, ...]]
"""Where in a tensor of scales that of an element stands."""


def _place(op: str, x: Tensor, scale: Tensor, axis: int, block: int) -> Place:
    """Where the scale of each element of `x` stands. Raises ShapeError if `scale` does not fit."""
    if scale.rank == 0 or all(map(is_one, scale.shape)):
        return lambda i: (as_expr(0),) * scale.rank
    along = as_axis(op, axis, x.rank)
    if not block:
        check_rank(f"{op} with a scale for an axis", scale, 1, 1)
        check_extents(scale.shape[0], x.shape[along], f"{op} takes one scale a position")
        return lambda i: (i[along],)
    if block < 0:
        raise ShapeError(f"{op} takes blocks of at least 1 element", given=f"{block}")
    check_rank(f"{op} with blocks", scale, x.rank, x.rank)
    for d, (extent, count) in enumerate(zip(x.shape, scale.shape, strict=True)):
        wanted = (extent + block - 1) // block if d == along else extent
        check_extents(count, wanted, f"{op} takes one scale a block")
    return lambda i: tuple(a // block if d == along else a for d, a in enumerate(i))


def _check_zero(op: str, zero: Tensor | None, scale: Tensor) -> None:
    """Raise ShapeError unless there is a zero point for each scale."""
    if zero is not None and zero.rank != scale.rank and not all(map(is_one, zero.shape)):
        raise ShapeError(f"{op} takes a zero point a scale", given=f"{zero!r} and {scale!r}")


def quantize_linear(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block: int = 0,
    dtype: str = "uint8",
    saturate: bool = True,
    precision: str | None = None,
) -> Tensor:
    """``x / scale + zero``, rounded half to even, within the range of the type.

    dtype: of the result, if there is no `zero`. axis: of scales for positions or blocks. block:
    elements a scale; 0 for scales of the tensor or of positions. precision: the type to divide in,
    by default that of the scale. saturate: of 8-bit floats, as in `cast`.
    """
    _check_zero("quantize_linear", zero, scale)
    one_dtype("quantize_linear", Kind.FLOAT | Kind.INT, x)
    one_dtype("quantize_linear", Kind.FLOAT | Kind.INT | Kind.STORAGE, scale)
    place = _place("quantize_linear", x, scale, axis, block)
    result = as_dtype(dtype) if zero is None else zero.dtype
    default = scale.dtype if scale.dtype.is_float else float32
    division = default if precision is None else as_dtype(precision)

    def element(*i: Expr) -> Expr:
        at = place(i)
        dividend = converted(_float(x[i], division), computed_in(division))
        quotient = dividend / converted(_float(scale[at], division), computed_in(division))
        quotient = widened(converted(quotient, division))
        if not result.is_integer:
            return cast_element(quotient, result, saturate=saturate)
        point = None if zero is None else zero[at if zero.rank == scale.rank else (0,) * zero.rank]
        return saturated(quotient, point, result)

    return te.compute(x.shape, element, "quantize_linear")


def _float(value: Expr, type_: DType) -> Expr:
    """A number as a float of this type."""
    return converted(value, type_)


def saturated(value: Expr, zero: Expr | None, type_: DType) -> Expr:
    """A float to the nearest integer, moved by a zero point, within the range of the type."""
    number = T.round(value)
    if zero is not None:
        number = number + T.cast(T.cast(zero, "int32"), number.dtype)
    low, high = (as_expr(float(e), number.dtype) for e in (type_.min_value, type_.max_value))
    within = T.max(T.min(number, high), low)
    return T.cast(within, type_) if type_.bits >= 32 else T.cast(T.cast(within, int32), type_)


def dequantize_linear(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block: int = 0,
    dtype: str | None = None,
) -> Tensor:
    """``(x - zero) * scale``, in the type `dtype` (by default that of the scale)."""
    _check_zero("dequantize_linear", zero, scale)
    one_dtype("dequantize_linear", Kind.BITS | Kind.STORAGE, *(t for t in (x, zero) if t))
    one_dtype("dequantize_linear", Kind.FLOAT | Kind.STORAGE, scale)
    place = _place("dequantize_linear", x, scale, axis, block)
    result = scale.dtype if dtype is None else as_dtype(dtype)

    def element(*i: Expr) -> Expr:
        at = place(i)
        value = x[i] if x.dtype.kind is Kind.STORAGE else T.cast(x[i], int32)
        if zero is not None and x.dtype.is_integer:
            point = zero[at if zero.rank == scale.rank else (0,) * zero.rank]
            value = value - T.cast(point, int32)
        return converted(T.cast(value, float32) * T.cast(widened(scale[at]), float32), result)

    return te.compute(x.shape, element, "dequantize_linear")


def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`x` as uint8 by the scale and zero point that its range (with 0) asks for, and these two."""
    one_dtype("dynamic_quantize_linear", Kind.FLOAT, x)
    axes = tuple(te.reduce_axis(e, f"k{d}") for d, e in enumerate(x.shape))
    at = tuple(a.var for a in axes)
    if axes:
        least, most = (
            te.compute((), lambda r=r: r(x[at], axis=axes), n)
            for r, n in ((te.min, "least"), (te.max, "greatest"))
        )
    else:
        least = most = te.compute((), lambda: x[()], "only")
    zero = as_expr(0.0, x.dtype)

    def step() -> Expr:
        low, high = T.min(least[()], zero), T.max(most[()], zero)
        span = T.select(T.equal(low, high), as_expr(1.0, x.dtype), high - low)
        return span / as_expr(255.0, x.dtype)

    scale = te.compute((), step, "scale")

    def point() -> Expr:
        start = T.neg(T.min(least[()], zero) / scale[()])
        return T.cast(T.round(T.max(T.min(start, 255.0), 0.0)), "uint8")

    zero_point = te.compute((), point, "zero_point")
    uint8 = as_dtype("uint8")
    quantized = te.compute(
        x.shape, lambda *i: saturated(x[i] / scale[()], zero_point[()], uint8), "quantized"
    )
    return quantized, scale, zero_point


def requantize(
    total: Tensor,
    left: Tensor,
    right: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axes: tuple[int, int] = (0, 1),
    dtype: str = "uint8",
) -> Tensor:
    """A product of quantized tensors in few bits: ``total * left * right / scale + zero``.

    left, right: the scales of the factors, scalars or one a position of ``axes`` of `total`.
    scale, zero: those of the result. dtype: of the result, if there is no `zero`. In 32-bit floats.
    """
    one_dtype("requantize", Kind.INT, total)
    type_ = as_dtype(dtype) if zero is None else zero.dtype
    places = [
        _place("requantize", total, s, axis, 0) if s.rank < 2 else _aligned(total, s)
        for s, axis in ((left, axes[0]), (right, axes[1]), (scale, axes[1]))
    ]

    def element(*i: Expr) -> Expr:
        a, b, c = (
            T.cast(s[place(i)], float32)
            for s, place in zip((left, right, scale), places, strict=True)
        )
        value = T.cast(total[i], float32) * (a * b / c)
        return saturated(value, None if zero is None else zero[(0,) * zero.rank], type_)

    return te.compute(total.shape, element, "requantized")


def _aligned(x: Tensor, scale: Tensor) -> Place:
    """Where the scale of each element stands, if `scale` broadcasts to `x`."""
    broadcast_shapes(x.shape, scale.shape)
    return lambda i: broadcast_index(scale.shape, x.shape, i)


def matmul_nbits(
    a: Tensor,
    weight: Tensor,
    scales: Tensor,
    zeros: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    depth: int,
    columns: int,
    bits: int = 4,
    block: int = 32,
) -> Tensor:
    """The product of `a` (..., depth) and a matrix of `bits` an element, scaled by blocks.

    weight: (columns, blocks, words of a block), integers of 8 or 32 bits that hold several elements
    each along the depth, the first in the low bits; elements of words with signs have such, too.
    scales: (columns, blocks), or all of these in one axis. zeros: of the type of the scales, one a
    block; or uint8, packed as the weight is along the blocks of a column; if None, 0 where
    elements have signs, else 2**(bits - 1). Source: ONNX Runtime.
    """
    type_ = one_dtype("matmul_nbits", Kind.FLOAT, *(t for t in (a, scales, bias) if t))
    if bits not in (2, 4, 8) or block < 16 or block & (block - 1):
        raise ShapeError("blocks of 2, 4 or 8 bits", given=f"bits={bits}, block={block}")
    one_dtype("matmul_nbits", Kind.BITS, weight)
    check_rank("matmul_nbits", a, 1)
    check_rank("matmul_nbits", weight, 3, 3)
    blocks, each = -(-depth // block), weight.dtype.bits // bits
    for extent, wanted in zip(weight.shape, (columns, blocks, block // each), strict=True):
        check_extents(extent, wanted, "a packed matrix that is not as large as it says")
    check_extents(a.shape[-1], depth, "the depth of matmul_nbits")
    wide = computed_in(type_)
    has_signs = weight.dtype.kind is Kind.INT

    def scale_at(held: Tensor, n: Expr, b: Expr) -> Expr:
        return converted(held[(n, b) if held.rank == 2 else (n * blocks + b,)], wide)

    def zero_at(n: Expr, b: Expr) -> Expr | None:
        if zeros is None:
            return None if has_signs else as_expr(float(1 << (bits - 1)), wide)
        if zeros.dtype is type_:
            return scale_at(zeros, n, b)
        stride = -(-blocks // (8 // bits))
        at, place = b // (8 // bits), b % (8 // bits)
        byte = zeros[(n, at) if zeros.rank == 2 else (n * stride + at,)]
        return T.cast(_digit(byte, place, bits), wide)

    def number(n: Expr, k: Expr) -> Expr:
        b = k // block
        value = T.cast(_digit(weight[n, b, k % block // each], k % each, bits), wide)
        zero = zero_at(n, b)
        return (value if zero is None else value - zero) * scale_at(scales, n, b)

    matrix = te.compute((columns, depth), number, "unpacked")
    k = te.reduce_axis(depth, "k")
    shape = (*a.shape[:-1], as_expr(columns))
    total = te.compute(
        shape,
        lambda *i: te.sum(converted(a[(*i[:-1], k)], wide) * matrix[i[-1], k], axis=k),
        "matmul_nbits",
    )
    if bias is None and total.dtype is type_:
        return total

    def element(*i: Expr) -> Expr:
        value = total[i] if bias is None else total[i] + converted(bias[i[-1]], wide)
        return converted(value, type_)

    return te.compute(shape, element, "matmul_out")


def _digit(word: Expr, place: Expr, bits: int) -> Expr:
    """Some bits of a word, counted from the low ones; of a word with signs a number with one."""
    type_ = word.dtype
    if bits == type_.bits:
        return word
    shift = T.cast(Analyzer().simplify(place * bits), type_)
    if type_.kind is Kind.INT:
        return (word << (const(type_.bits - bits, type_) - shift)) >> const(
            type_.bits - bits, type_
        )
    return (word >> shift) & const((1 << bits) - 1, type_)


OPERATORS: Final[tuple[Operator, ...]] = operators(
    quantize_linear,
    dequantize_linear,
    dynamic_quantize_linear,
    requantize,
    matmul_nbits,
)
