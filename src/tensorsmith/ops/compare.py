"""Comparisons, tests of elements, and logic: results are bools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorsmith.ir import INTRINSICS, And, Const, Eq, Expr, Kind, Le, Lt, Ne, Not, Or, as_expr
from tensorsmith.ir.dtype import bool_
from tensorsmith.ops.broadcast import elementwise
from tensorsmith.ops.operands import one_dtype, widened
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor

_NUMBER: Final = Kind.NUMBER
_FLOAT: Final = Kind.FLOAT | Kind.STORAGE


def _binary(name: str, kinds: Kind, function: Callable[[Expr, Expr], Expr], doc: str) -> Operator:
    def compute(a: Tensor, b: Tensor) -> Tensor:
        one_dtype(name, kinds, a, b)
        return elementwise(name, function, a, b)

    compute.__name__ = name
    compute.__doc__ = doc
    return Operator(name, compute)


_BINARY: Final = (
    _binary("equal", _NUMBER | Kind.BOOL, Eq, "Whether a == b; false for NaN."),
    _binary("less", _NUMBER, Lt, "Whether a < b; false for NaN."),
    _binary("less_equal", _NUMBER, Le, "Whether a <= b; false for NaN."),
    _binary("greater", _NUMBER, lambda a, b: Lt(b, a), "Whether a > b; false for NaN."),
    _binary("greater_equal", _NUMBER, lambda a, b: Le(b, a), "Whether a >= b; false for NaN."),
    _binary("logical_and", Kind.BOOL, And, "Both of two bools."),
    _binary("logical_or", Kind.BOOL, Or, "Either of two bools."),
    _binary("logical_xor", Kind.BOOL, Ne, "One of two bools."),
)


def logical_not(x: Tensor) -> Tensor:
    """The other bool."""
    one_dtype("logical_not", Kind.BOOL, x)
    return elementwise("logical_not", Not, x)


def is_nan(x: Tensor) -> Tensor:
    """Whether an element is NaN."""
    one_dtype("is_nan", _FLOAT, x)
    return elementwise("is_nan", lambda v: INTRINSICS["isnan"](widened(v)), x)


def is_inf(x: Tensor, *, negative: bool = True, positive: bool = True) -> Tensor:
    """Whether an element is infinite, of the signs that are asked for."""
    one_dtype("is_inf", _FLOAT, x)

    def element(v: Expr) -> Expr:
        value = widened(v)
        infinite = INTRINSICS["isinf"](value)
        if negative and positive:
            return infinite
        zero = as_expr(0.0, value.dtype)
        if negative or positive:
            return And(infinite, Lt(value, zero) if negative else Lt(zero, value))
        return Const(value=False, dtype=bool_)

    return elementwise("is_inf", element, x)


OPERATORS: Final[tuple[Operator, ...]] = (*_BINARY, *operators(logical_not, is_nan, is_inf))
