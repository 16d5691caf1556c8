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
    Mul,
    Neg,
    Select,
    as_expr,
)
from tensorsmith.ir.dtype import float64
from tensorsmith.ops.broadcast import broadcast_index, broadcast_shapes, elementwise
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
        return _of_integers(base, exponent)
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


def _of_integers(base: Tensor, exponent: Tensor) -> Tensor:
    """A product of up to as many factors as the type has bits.

    With more the power of an even base is 0, that of 1 or -1 follows from whether the exponent is
    odd, and no type holds those of others.
    """
    type_, other = base.dtype, exponent.dtype
    shape = broadcast_shapes(base.shape, exponent.shape)
    k = te.reduce_axis(type_.bits, "k")

    def operands(i: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        return (
            base[broadcast_index(base.shape, shape, i)],
            exponent[broadcast_index(exponent.shape, shape, i)],
        )

    def factors(*i: Expr) -> te.Reduce:
        b, e = operands(i)
        return te.prod(Select(Lt(Cast(k.var, other), e), b, as_expr(1, type_)), axis=k)

    product = te.compute(shape, factors, "pow_factors")

    def element(*i: Expr) -> Expr:
        b, e = operands(i)
        value = product[i]
        last = Select(_is_odd(e), b, as_expr(1, type_))
        if type_.bits <= other.max_value:
            beyond = Lt(as_expr(type_.bits, other), e)
            value = Select(beyond, Mul(value, last), value)
        if other.kind is Kind.UINT:
            return value
        magnitude = _abs(b) if type_.kind is Kind.INT else b
        is_unit = Eq(magnitude, as_expr(1, type_))
        below = Select(is_unit, last, as_expr(0, type_))
        return Select(Lt(e, as_expr(0, other)), below, value)

    return te.compute(shape, element, "pow")


OPERATORS: Final[tuple[Operator, ...]] = operators(pow_)
