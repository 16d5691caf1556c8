"""Intervals of integers, and the interval domain of scalar expressions.

An `Interval` holds every value that an integer expression can take; a side that is None is
unbounded. Fixed-width operations whose exact result could leave the type get the whole range of the
type, since they wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tensorsmith.ir import expr as ir
from tensorsmith.ir.dtype import DType
from tensorsmith.ir.expr import Expr


class Interval(NamedTuple):
    """``low <= x <= high``; None is unbounded on that side."""

    low: int | None
    high: int | None

    def contains(self, value: int) -> bool:
        """Whether `value` lies in it."""
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)

    def within(self, low: int, high: int) -> bool:
        """Whether all of it lies in ``low <= x <= high``."""
        return (
            self.low is not None and self.high is not None and low <= self.low <= self.high <= high
        )

    def intersect(self, other: Interval) -> Interval:
        """The values in both; contradicting intervals give an empty one (low > high)."""
        low = other.low if self.low is None else self.low
        high = other.high if self.high is None else self.high
        if self.low is not None and other.low is not None:
            low = max(self.low, other.low)
        if self.high is not None and other.high is not None:
            high = min(self.high, other.high)
        return Interval(low, high)

    def union(self, other: Interval) -> Interval:
        """The least interval around both."""
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return Interval(low, high)


EVERYTHING: Final = Interval(None, None)
_TRUTH: Final = Interval(0, 1)


def of_dtype(dtype: DType) -> Interval:
    """What a value of this type can be: the type's range; everything for ``index`` and floats."""
    if dtype.is_bits or dtype.is_bool:
        return Interval(dtype.min_value, dtype.max_value)
    return EVERYTHING


def add(a: Interval, b: Interval) -> Interval:
    """The sums of a value of `a` and one of `b`."""
    return Interval(
        None if a.low is None or b.low is None else a.low + b.low,
        None if a.high is None or b.high is None else a.high + b.high,
    )


def negate(a: Interval) -> Interval:
    """The negatives."""
    return Interval(None if a.high is None else -a.high, None if a.low is None else -a.low)


def scale(a: Interval, k: int) -> Interval:
    """The products with the constant `k`."""
    if k == 0:
        return Interval(0, 0)
    if k < 0:
        a, k = negate(a), -k
    return Interval(None if a.low is None else a.low * k, None if a.high is None else a.high * k)


def multiply(a: Interval, b: Interval) -> Interval:
    """The products of a value of `a` and one of `b`."""
    if a.low is not None and a.low == a.high:
        return scale(b, a.low)
    if b.low is not None and b.low == b.high:
        return scale(a, b.low)
    if None in a or None in b:
        return _multiply_unbounded(a, b)
    corners = [x * y for x in a for y in b if x is not None and y is not None]
    return Interval(min(corners), max(corners))


def _multiply_unbounded(a: Interval, b: Interval) -> Interval:
    """Products where a side is unbounded: only the signs tell something."""
    if any(x.low is not None and x.high is not None and x.low > x.high for x in (a, b)):
        return EVERYTHING  # there is no value: what holds here cannot be
    if a.high is not None and a.high <= 0:
        return negate(multiply(negate(a), b))
    if b.high is not None and b.high <= 0:
        return negate(multiply(a, negate(b)))
    if a.low is None or b.low is None or a.low < 0 or b.low < 0:
        return EVERYTHING
    high = None if a.high is None or b.high is None else a.high * b.high
    return Interval(a.low * b.low, high)


def floor_divide(a: Interval, b: Interval) -> Interval:
    """The floor quotients; the divisor is not 0."""
    if b.low is not None and b.low >= 0:
        least = max(b.low, 1)  # 0 is no divisor
        if b.high is not None and b.high < least:
            return EVERYTHING  # there is no divisor: what holds here cannot be
        low = None if a.low is None else _quotient(a.low, least, b.high, lower=True)
        high = None if a.high is None else _quotient(a.high, least, b.high, lower=False)
        return Interval(low, high)
    if b.high is not None and b.high < 0:
        return floor_divide(negate(a), negate(b))
    if a.low is None or a.high is None:
        return EVERYTHING
    most = max(abs(a.low), abs(a.high))
    return Interval(-most, most)


def _quotient(x: int, least: int, most: int | None, *, lower: bool) -> int:
    """The extreme of ``x // d`` over ``least <= d <= most`` (None: no end), least >= 1."""
    if (x >= 0) == lower:
        if most is None:
            return 0 if x >= 0 else -1
        return x // most
    return x // least


def floor_modulo(a: Interval, b: Interval) -> Interval:
    """The floor remainders; the divisor is not 0."""
    if b.low is not None and b.low >= 0:
        if b.high is not None and b.high < max(b.low, 1):
            return EVERYTHING  # as for the quotient
        if a.low is not None and a.low >= 0:
            if a.high is not None and a.high < max(b.low, 1):
                return a
            return Interval(0, _least(a.high, None if b.high is None else b.high - 1))
        return Interval(0, None if b.high is None else max(b.high - 1, 0))
    if b.high is not None and b.high < 0:
        return negate(floor_modulo(negate(a), negate(b)))
    if b.low is None or b.high is None:
        return EVERYTHING
    return Interval(min(b.low + 1, 0), max(b.high - 1, 0))


def _least(a: int | None, b: int | None) -> int | None:
    """The lesser bound, None standing for no bound."""
    if a is None or b is None:
        return a if b is None else b
    return min(a, b)


def minimum(a: Interval, b: Interval) -> Interval:
    """The lesser of a value of each."""
    low = None if a.low is None or b.low is None else min(a.low, b.low)
    return Interval(low, _least(a.high, b.high))


def maximum(a: Interval, b: Interval) -> Interval:
    """The greater of a value of each."""
    return negate(minimum(negate(a), negate(b)))


# --- The domain ------------------------------------------------------------------------------


def _fit(dtype: DType, value: Interval) -> Interval:
    """`value` as a result of this type: everything in the type if it may have wrapped."""
    if dtype.is_index:
        return value
    if not dtype.is_bits:
        return of_dtype(dtype)
    return value if value.within(dtype.min_value, dtype.max_value) else of_dtype(dtype)


def _arithmetic(f: Callable[..., Interval]) -> Callable[..., Interval]:
    def rule(e: Expr, *args: Interval) -> Interval:
        return _fit(e.dtype, f(*args)) if e.dtype.is_integer else EVERYTHING

    return rule


def _const(e: Expr) -> Interval:
    value = e.attr
    return Interval(int(value), int(value)) if isinstance(value, int) else EVERYTHING


def _anything(e: Expr, *_: Interval) -> Interval:
    return of_dtype(e.dtype)


def _truncate_divide(a: Interval, b: Interval) -> Interval:
    if a.low is not None and a.low >= 0 and b.low is not None and b.low >= 0:
        return floor_divide(a, b)
    if a.low is None or a.high is None:
        return EVERYTHING
    most = max(abs(a.low), abs(a.high))
    return Interval(-most, most)


def _truncate_modulo(a: Interval, b: Interval) -> Interval:
    if a.low is not None and a.low >= 0 and b.low is not None and b.low >= 0:
        return floor_modulo(a, b)
    low = 0 if a.low is not None and a.low >= 0 else a.low
    high = 0 if a.high is not None and a.high <= 0 else a.high
    return Interval(low, high)


def _comparison(e: Expr, a: Interval, b: Interval) -> Interval:
    if not e.args[0].dtype.is_integer:
        return _TRUTH
    kind = type(e)
    if kind is ir.Lt or kind is ir.Le:
        slack = 1 if kind is ir.Lt else 0
        if a.high is not None and b.low is not None and a.high + slack <= b.low:
            return Interval(1, 1)
        if a.low is not None and b.high is not None and a.low + slack > b.high:
            return Interval(0, 0)
        return _TRUTH
    apart = (a.high is not None and b.low is not None and a.high < b.low) or (
        a.low is not None and b.high is not None and a.low > b.high
    )
    if apart:
        return Interval(0, 0) if kind is ir.Eq else Interval(1, 1)
    if a == b and a.low is not None and a.low == a.high:
        return Interval(1, 1) if kind is ir.Eq else Interval(0, 0)
    return _TRUTH


def _select(e: Expr, condition: Interval, a: Interval, b: Interval) -> Interval:
    if condition == (1, 1):
        return a
    return b if condition == (0, 0) else a.union(b)


def _cast(e: Expr, a: Interval) -> Interval:
    source = e.args[0].dtype
    if source.is_integer or source.is_bool:
        if e.dtype.is_bool:
            return Interval(0, 0) if a == (0, 0) else _TRUTH
        return _fit(e.dtype, a)
    return of_dtype(e.dtype)


def _call(e: Expr, *args: Interval) -> Interval:
    name = getattr(e.attr, "name", "")
    if name == "abs" and e.dtype.is_integer:
        return _fit(e.dtype, maximum(args[0], negate(args[0])))
    if name in {"popcount", "clz", "ctz"}:
        return _fit(e.dtype, Interval(0, e.dtype.bits))  # 2 bits do not hold a count of 2
    return of_dtype(e.dtype)


def _bit_and(e: Expr, a: Interval, b: Interval) -> Interval:
    # The result has no bits that a non-negative operand lacks.
    bounds = [x.high for x in (a, b) if x.low is not None and x.low >= 0 and x.high is not None]
    return Interval(0, min(bounds)) if bounds else of_dtype(e.dtype)


TABLE: Final[dict[type[Expr], Callable[..., Any]]] = {
    ir.Const: _const,
    ir.Var: _anything,
    ir.Load: _anything,
    ir.Add: _arithmetic(add),
    ir.Sub: _arithmetic(lambda a, b: add(a, negate(b))),
    ir.Mul: _arithmetic(multiply),
    ir.Neg: _arithmetic(negate),
    ir.Div: _anything,
    ir.FloorDiv: _arithmetic(floor_divide),
    ir.FloorMod: _arithmetic(floor_modulo),
    ir.TruncDiv: _arithmetic(_truncate_divide),
    ir.TruncMod: _arithmetic(_truncate_modulo),
    ir.Min: _arithmetic(minimum),
    ir.Max: _arithmetic(maximum),
    ir.Eq: _comparison,
    ir.Ne: _comparison,
    ir.Lt: _comparison,
    ir.Le: _comparison,
    ir.And: lambda e, a, b: minimum(a, b),
    ir.Or: lambda e, a, b: maximum(a, b),
    ir.Not: lambda e, a: add(Interval(1, 1), negate(a)),
    ir.Select: _select,
    ir.Cast: _cast,
    ir.Reinterpret: _anything,
    ir.Call: _call,
    ir.BitAnd: _bit_and,
    ir.BitOr: _anything,
    ir.BitXor: _anything,
    ir.BitNot: _anything,
    ir.ShiftLeft: _anything,
    ir.ShiftRight: _anything,
}
"""The interval domain, for `tensorsmith.ir.fold`. Values of floats are `EVERYTHING`."""
