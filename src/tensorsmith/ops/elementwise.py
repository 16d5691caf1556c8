"""Arithmetic on elements: numbers in, numbers of the same type out, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

from tensorsmith.errors import ShapeError
from tensorsmith.ir import (
    INTRINSICS,
    Add,
    Binary,
    Div,
    Eq,
    Expr,
    FloorMod,
    Kind,
    Lt,
    Max,
    Min,
    Mul,
    Ne,
    Neg,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    as_expr,
)
from tensorsmith.ops.broadcast import elementwise
from tensorsmith.ops.operands import as_float, converted, one_dtype, widened
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor

_SIGNED: Final = Kind.INT | Kind.FLOAT


# --- Of one operand --------------------------------------------------------------------------


def _unary(name: str, kinds: Kind, function: Callable[[Expr], Expr], doc: str) -> Operator:
    def compute(x: Tensor) -> Tensor:
        one_dtype(name, kinds, x)
        return elementwise(name, function, x)

    compute.__name__ = name
    compute.__doc__ = doc
    return Operator(name, compute)


def _abs(x: Expr) -> Expr:
    return x if x.dtype.kind is Kind.UINT else INTRINSICS["abs"](x)


def _sign(x: Expr) -> Expr:
    """-1, 0 or 1; NaN for NaN."""
    zero, one = as_expr(0, x.dtype), as_expr(1, x.dtype)
    rest = Select(Eq(x, zero), zero, x) if x.dtype.is_float else zero
    if x.dtype.kind is not Kind.UINT:
        rest = Select(Lt(x, zero), as_expr(-1, x.dtype), rest)
    return Select(Lt(zero, x), one, rest)


def _erf(x: Expr) -> Expr:
    """The error function; of an integer without its fraction."""
    return converted(INTRINSICS["erf"](as_float(x)), x.dtype)


_FUNCTIONS: Final = tuple(
    _unary(name, Kind.FLOAT, INTRINSICS[name], INTRINSICS[name].doc)
    for name in (
        *("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceil", "trunc", "round"),
    )
)

_UNARY: Final = (
    *_FUNCTIONS,
    _unary("abs", Kind.NUMBER, _abs, "Magnitude; of the least integer, itself."),
    _unary("neg", _SIGNED, Neg, "The negative; of the least integer, itself."),
    _unary("sign", Kind.NUMBER, _sign, _sign.__doc__ or ""),
    _unary("erf", Kind.NUMBER, _erf, _erf.__doc__ or ""),
    _unary("reciprocal", Kind.FLOAT, lambda x: 1.0 / x, "1 / x."),
)


# --- Of two operands -------------------------------------------------------------------------


def _divide(a: Expr, b: Expr) -> Expr:
    """The quotient; of integers rounded towards zero, and 0 where `b` is 0."""
    if a.dtype.is_float:
        return Div(a, b)
    return _by_nonzero(TruncDiv, a, b)


def _by_nonzero(op: type[Binary], a: Expr, b: Expr) -> Expr:
    """An integer division that gives 0 where `b` is 0, and is defined there for all lanes."""
    zero, one = as_expr(0, b.dtype), as_expr(1, b.dtype)
    is_zero = Eq(b, zero)
    return op(Select(is_zero, zero, a), Select(is_zero, one, b))


def _remainder(a: Expr, b: Expr) -> Expr:
    """What remains of a / b, with the sign of `b`; of integers 0 where `b` is 0."""
    if not a.dtype.is_float:
        return _by_nonzero(FloorMod, a, b)
    x, y = widened(a), widened(b)
    rest = INTRINSICS["fmod"](x, y)
    zero = as_expr(0.0, x.dtype)
    nothing = INTRINSICS["copysign"](zero, y)
    signed = Select(Ne(Lt(rest, zero), Lt(y, zero)), rest + y, rest)
    return converted(Select(Eq(rest, zero), nothing, signed), a.dtype)


def _c_remainder(a: Expr, b: Expr) -> Expr:
    """What remains of a / b, with the sign of `a`; of integers 0 where `b` is 0."""
    return INTRINSICS["fmod"](a, b) if a.dtype.is_float else _by_nonzero(TruncMod, a, b)


def _binary(name: str, function: Callable[[Expr, Expr], Expr], doc: str) -> Operator:
    def compute(a: Tensor, b: Tensor) -> Tensor:
        one_dtype(name, Kind.NUMBER, a, b)
        return elementwise(name, function, a, b)

    compute.__name__ = name
    compute.__doc__ = doc
    return Operator(name, compute)


_BINARY: Final = (
    _binary("add", Add, "Sum of two."),
    _binary("sub", Sub, "Difference."),
    _binary("mul", Mul, "Product of two."),
    _binary("div", _divide, _divide.__doc__ or ""),
    _binary("mod", _remainder, _remainder.__doc__ or ""),
    _binary("fmod", _c_remainder, _c_remainder.__doc__ or ""),
)


# --- Of any number ---------------------------------------------------------------------------


def _some(name: str, xs: tuple[Tensor, ...], kinds: Kind) -> None:
    if not xs:
        raise ShapeError(f"{name} takes one operand or more")
    one_dtype(name, kinds, *xs)


def _variadic(name: str, op: type[Binary], doc: str) -> Operator:
    def compute(*xs: Tensor) -> Tensor:
        _some(name, xs, Kind.NUMBER)
        return elementwise(name, lambda *elements: reduce(op, elements), *xs)

    compute.__name__ = name
    compute.__doc__ = doc
    return Operator(name, compute)


def _total(elements: tuple[Expr, ...]) -> Expr:
    return reduce(Add, map(widened, elements))


def sum_(*xs: Tensor) -> Tensor:
    """The sum of the operands; narrow floats are rounded once."""
    _some("sum", xs, Kind.NUMBER)
    type_ = xs[0].dtype
    return elementwise("sum", lambda *e: converted(_total(e), type_), *xs)


def mean(*xs: Tensor) -> Tensor:
    """The mean of the operands; narrow floats are rounded once."""
    _some("mean", xs, Kind.FLOAT)
    type_ = xs[0].dtype
    return elementwise("mean", lambda *e: converted(_total(e) / float(len(e)), type_), *xs)


_VARIADIC: Final = (
    _variadic("min", Min, "The least of the operands; NaN if one is NaN."),
    _variadic("max", Max, "The greatest of the operands; NaN if one is NaN."),
    *operators(sum_, mean),
)


# --- Others ----------------------------------------------------------------------------------


def clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """`x` no lower than `low`, then no higher than `high`; NaN stays NaN."""
    bounds = [b for b in (low, high) if b is not None]
    one_dtype("clip", Kind.NUMBER, x, *bounds)

    def element(value: Expr, *limits: Expr) -> Expr:
        rest = iter(limits)
        if low is not None:
            value = Max(value, next(rest))
        return value if high is None else Min(value, next(rest))

    return elementwise("clip", element, x, *bounds)


def where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`a` where `condition` holds, else `b`; of any type."""
    one_dtype("where", Kind.BOOL, condition)
    one_dtype("where", Kind.ANY, a, b)
    return elementwise("where", Select, condition, a, b)


OPERATORS: Final[tuple[Operator, ...]] = (
    *_UNARY,
    *_BINARY,
    *_VARIADIC,
    *operators(clip, where),
)
