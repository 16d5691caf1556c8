"""Powers, of bases and exponents whose types may differ."""

from __future__ import annotations

from typing import Final

from tensorsmith import te
from tensorsmith.ir import (
    INTRINSICS,
    And,
    BitAnd,
    Cast,
    Eq,
    Expr,
    Kind,
    Lt,
    Min,
    Mul,
    Ne,
    Neg,
    Select,
    as_expr,
)
from tensorsmith.ir.dtype import float64
from tensorsmith.ops.broadcast import elementwise
from tensorsmith.ops.operands import computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor

_pow: Final = INTRINSICS["pow"]
_abs: Final = INTRINSICS["abs"]


def pow_(base: Tensor, exponent: Tensor) -> Tensor:
    """``base ** exponent`` in the type of `base`; the exponent is a number of any type.

    A power of integers wraps; to an exponent below 0 it is 0, 1 or -1, without its fraction. One of
    an integer to a float is computed in float64, and rounded towards zero.
    """
    type_ = one_dtype("pow", Kind.BITS | Kind.FLOAT, base)
    other = one_dtype("pow", Kind.BITS | Kind.FLOAT, exponent)
    if type_.is_integer and other.is_integer:
        return elementwise("pow", _of_integers, base, exponent)
    if type_.is_integer or other is float64:
        inner = float64
    else:
        inner = computed_in(type_)

    def element(b: Expr, e: Expr) -> Expr:
        return converted(_pow(converted(b, inner), converted(e, inner)), type_)

    if other.is_float or other.bits < 32:
        return elementwise("pow", element, base, exponent)
    # An exponent that is rounded to a float may lose that it is odd. There are few exponents, most
    # often: so their conversions are not repeated for each base.
    rounded, odd = te.compute(
        exponent.shape, lambda *i: (Cast(exponent[i], inner), _is_odd(exponent[i])), "exponents"
    )

    def signed(b: Expr, e: Expr, is_odd: Expr) -> Expr:
        value = _pow(converted(b, inner), e)
        is_negative = Lt(b, as_expr(0.0, b.dtype))
        return converted(Select(And(is_odd, is_negative), Neg(_abs(value)), value), type_)

    return elementwise("pow", signed, base, rounded, odd)


def _is_odd(e: Expr) -> Expr:
    one = as_expr(1, e.dtype)
    return Eq(BitAnd(e, one), one)


def _of_integers(b: Expr, e: Expr) -> Expr:
    """The power of integers, by repeated squares.

    Exponents beyond the number of bits count as that: then the power of an even base is 0, that of
    1 or -1 follows from whether the exponent is odd, and no type holds those of others.
    """
    type_, other = b.dtype, e.dtype
    one, none = as_expr(1, type_), as_expr(0, other)
    most = min(type_.bits, other.max_value)
    limit = as_expr(most, other)
    factors = Min(e, limit)
    value, square = one, b
    for bit in range(most.bit_length()):
        is_set = Ne(BitAnd(factors, as_expr(1 << bit, other)), none)
        value = Mul(value, Select(is_set, square, one))
        square = Mul(square, square)
    last = Select(_is_odd(e), b, one)
    if most < other.max_value:
        value = Select(Lt(limit, e), Mul(value, last), value)
    if other.kind is Kind.UINT:
        return value
    magnitude = _abs(b) if type_.kind is Kind.INT else b
    below = Select(Eq(magnitude, one), last, as_expr(0, type_))
    return Select(Lt(e, none), below, value)


OPERATORS: Final[tuple[Operator, ...]] = operators(pow_)
