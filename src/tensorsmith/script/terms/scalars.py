"""The functions of the script form that make scalar expressions."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

from tensorsmith.errors import DTypeError, ScriptError
from tensorsmith.ir.dtype import DType, dtype, index
from tensorsmith.ir.expr import (
    Binary,
    Cast,
    Const,
    Expr,
    ExprLike,
    Max,
    Min,
    Neg,
    Reinterpret,
    TruncDiv,
    TruncMod,
    as_expr,
    binary,
)
from tensorsmith.ir.intrinsic import INTRINSICS

DTypeLike = DType | str


def index_expr(value: object) -> Expr:
    """`value` as an index: a subscript, an extent. Fixed-width integers are cast.

    Raises DTypeError for floats and what else has no place there.
    """
    e = as_expr(value, index)  # type: ignore[arg-type]  # refuses what is not an expression
    if e.dtype is index:
        return e
    if e.dtype.is_integer and e.dtype.lanes == 1:
        return Cast(e, index)
    raise DTypeError(f"{e!r} is {e.dtype} where an index is needed", try_="T.index(...)")


def cast(value: ExprLike, type_: DTypeLike) -> Expr:
    """`value` converted to another type. A number is taken as index, bool or float32 first."""
    return Cast(as_expr(value), dtype(type_))


def const(value: float, type_: DTypeLike = index) -> Expr:
    """A constant of the type."""
    return Const(value, dtype(type_))


def reinterpret(value: ExprLike, type_: DTypeLike) -> Expr:
    """The bits of `value` read as another type of the same width."""
    return Reinterpret(as_expr(value), dtype(type_))


def neg(value: ExprLike) -> Expr:
    """``-value`` as an operation; ``-5`` by itself is a constant."""
    return Neg(as_expr(value))


def _chain(op: type[Binary], values: tuple[ExprLike, ...]) -> Expr:
    if len(values) < 2:
        raise ScriptError(f"{op.__name__.lower()} takes two values or more, not {len(values)}")
    first, second, *others = values
    return reduce(lambda a, b: binary(op, a, b), others, binary(op, first, second))


def min(*values: ExprLike) -> Expr:
    """The least of two values or more; NaN if one is NaN."""
    return _chain(Min, values)


def max(*values: ExprLike) -> Expr:
    """The greatest of two values or more; NaN if one is NaN."""
    return _chain(Max, values)


def truncdiv(a: ExprLike, b: ExprLike) -> Expr:
    """The integer quotient rounded towards zero, as C's ``/``."""
    return binary(TruncDiv, a, b)


def truncmod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder of `truncdiv`, as C's ``%``: has the sign of `a`."""
    return binary(TruncMod, a, b)


abs: Final[Callable[..., Expr]] = INTRINSICS["abs"]
