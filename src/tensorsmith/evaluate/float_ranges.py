"""Ranges of floats, and the rules for operations on them. For integers see
`tensorsmith.arith.interval`.

The arithmetic operations are monotone in each operand, and so is rounding: their extremes are at
ends of the operands' ranges, computed in the type itself. Elementary functions may be off by some
units in the last place, which is added at both ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np

from tensorsmith.arith.interval import Interval
from tensorsmith.evaluate.operations import numpy_operations
from tensorsmith.evaluate.rounding import Value, carrier, constant
from tensorsmith.ir import expr as ir
from tensorsmith.ir.dtype import DType
from tensorsmith.ir.expr import Expr

_CONCRETE: Final = numpy_operations(lambda bad: bool(np.any(bad)))
_SLACK: Final = 4
"""Units in the last place that an elementary function may be off."""


class FloatRange(NamedTuple):
    """Numbers ``low <= x <= high``, which may be infinite, and NaN if `nan`. low > high: none."""

    low: float
    high: float
    nan: bool = False

    def contains(self, value: float) -> bool:
        """Whether `value` lies in it."""
        return self.nan if math.isnan(value) else self.low <= value <= self.high

    def union(self, other: FloatRange) -> FloatRange:
        """The least range around both."""
        return FloatRange(
            min(self.low, other.low), max(self.high, other.high), self.nan or other.nan
        )

    def intersect(self, other: FloatRange) -> FloatRange:
        """What is in both."""
        return FloatRange(
            max(self.low, other.low), min(self.high, other.high), self.nan and other.nan
        )

    @property
    def has_infinity(self) -> bool:
        """Whether an infinity is in it."""
        return self.low == -math.inf or self.high == math.inf


NUMBERS: Final = FloatRange(-math.inf, math.inf)
ANY_FLOAT: Final = FloatRange(-math.inf, math.inf, nan=True)
Range = Interval | FloatRange


def _ends(x: Range, dtype: DType) -> tuple[Value, ...]:
    """The ends of a range as values of `dtype`, without an end if it is unbounded."""
    low, high = x.low, x.high
    if isinstance(x, Interval):
        low = dtype.min_value if low is None else low
        high = dtype.max_value if high is None else high
    assert low is not None
    assert high is not None
    return constant(low, dtype), constant(high, dtype)


def _around(values: Iterable[Value], nan: bool) -> FloatRange:
    numbers = [float(v) for v in values]
    known = [v for v in numbers if not math.isnan(v)]
    return FloatRange(
        min(known, default=math.inf),
        max(known, default=-math.inf),
        nan or len(known) < len(numbers),
    )


def _nan(args: Iterable[Range]) -> bool:
    return any(isinstance(a, FloatRange) and a.nan for a in args)


def _at_ends(e: Expr, *args: Range) -> FloatRange:
    """An operation that is monotone in each operand."""
    operation = _CONCRETE[type(e)]
    ends = [_ends(x, a.dtype) for x, a in zip(args, e.args, strict=True)]
    with np.errstate(all="ignore"):
        return _around([operation(e, *corner) for corner in product(*ends)], _nan(args))


def _product(e: Expr, *args: FloatRange) -> FloatRange:
    found = _at_ends(e, *args)
    a, b = args[:2]
    if (a.has_infinity and b.contains(0.0)) or (b.has_infinity and a.contains(0.0)):
        return found._replace(nan=True).union(FloatRange(0.0, 0.0))
    return found


def _quotient(e: Expr, a: FloatRange, b: FloatRange) -> FloatRange:
    if b.contains(0.0):
        nan = a.nan or b.nan or a.contains(0.0) or (a.has_infinity and b.has_infinity)
        return NUMBERS._replace(nan=nan)
    found = _at_ends(e, a, b)
    return found.union(FloatRange(0.0, 0.0)) if b.has_infinity else found


def _less(e: Expr, a: FloatRange, b: FloatRange) -> Interval:
    strict = type(e) is ir.Lt
    if not _nan((a, b)) and (a.high < b.low or (not strict and a.high <= b.low)):
        return Interval(1, 1)
    never = a.low >= b.high if strict else a.low > b.high
    return Interval(0, 0) if never else Interval(0, 1)


def _equal(e: Expr, a: FloatRange, b: FloatRange) -> Interval:
    same = int(type(e) is ir.Eq)
    if a.high < b.low or b.high < a.low:
        return Interval(1 - same, 1 - same)
    if a.low == a.high == b.low == b.high and not _nan((a, b)):
        return Interval(same, same)
    return Interval(0, 1)


# --- Intrinsics ------------------------------------------------------------------------------

_PI: Final = math.pi
_UNIT: Final = FloatRange(-1.0, 1.0)
_POSITIVE: Final = FloatRange(0.0, math.inf)
_EXACT: Final = frozenset({"floor", "ceil", "trunc", "round", "sqrt"})

# Name: where it is defined (elsewhere it is NaN), and what it can give.
_MONOTONE: Final[dict[str, tuple[FloatRange, FloatRange]]] = {
    "exp": (NUMBERS, _POSITIVE),
    "exp2": (NUMBERS, _POSITIVE),
    "expm1": (NUMBERS, FloatRange(-1.0, math.inf)),
    "log": (_POSITIVE, NUMBERS),
    "log2": (_POSITIVE, NUMBERS),
    "log10": (_POSITIVE, NUMBERS),
    "log1p": (FloatRange(-1.0, math.inf), NUMBERS),
    "sqrt": (_POSITIVE, _POSITIVE),
    "asin": (_UNIT, NUMBERS),
    "acos": (_UNIT, _POSITIVE),
    "atan": (NUMBERS, NUMBERS),
    "sinh": (NUMBERS, NUMBERS),
    "tanh": (NUMBERS, _UNIT),
    "asinh": (NUMBERS, NUMBERS),
    "acosh": (FloatRange(1.0, math.inf), _POSITIVE),
    "atanh": (_UNIT, NUMBERS),
    "erf": (NUMBERS, _UNIT),
    "sigmoid": (NUMBERS, FloatRange(0.0, 1.0)),
    "floor": (NUMBERS, NUMBERS),
    "ceil": (NUMBERS, NUMBERS),
    "trunc": (NUMBERS, NUMBERS),
    "round": (NUMBERS, NUMBERS),
}
_OTHERWISE: Final[dict[str, FloatRange]] = {
    "sin": _UNIT._replace(nan=True),
    "cos": _UNIT._replace(nan=True),
    "cosh": FloatRange(1.0, math.inf, nan=True),
    "rsqrt": ANY_FLOAT,  # of -0 it is -inf
    "atan2": FloatRange(-4.0, 4.0, nan=True),
}
"""What other functions can give, whatever they are given."""


def _call(e: ir.Call, *args: Any) -> Range:
    name = e.intrinsic.name
    a = args[0]
    if name in _MONOTONE:
        return _monotone(e, a)
    if name == "abs":
        ends = _around(map(abs, a[:2]), a.nan)
        return ends.union(FloatRange(0.0, 0.0)) if a.contains(0.0) else ends
    if name == "fma":
        found = _product(e, *args)
        return found._replace(nan=found.nan or _sum_may_be_nan(*args))
    if e.dtype.is_bool:
        return Interval(0, 1)
    return _OTHERWISE.get(name, ANY_FLOAT)


def _sum_may_be_nan(*args: FloatRange) -> bool:
    """Whether a * b + c may be the sum of two infinities; that a * b overflows counts too."""
    return args[2].has_infinity


def _monotone(e: ir.Call, a: FloatRange) -> FloatRange:
    domain, image = _MONOTONE[e.intrinsic.name]
    inside = a.intersect(domain)._replace(nan=a.nan or a.low < domain.low or a.high > domain.high)
    if inside.low > inside.high:
        return FloatRange(math.inf, -math.inf, nan=True)
    found = _at_ends(e, inside)
    if e.intrinsic.name not in _EXACT:
        found = _widened(found, e.dtype)
        found = found.intersect(image._replace(nan=True))
    return found


def _widened(x: FloatRange, dtype: DType) -> FloatRange:
    """`x` with some units in the last place more at both ends."""
    type_: Any = carrier(dtype).type
    low, high = type_(x.low), type_(x.high)
    for _ in range(_SLACK):
        low = np.nextafter(low, type_(-math.inf))
        high = np.nextafter(high, type_(math.inf))
    return FloatRange(float(low), float(high), x.nan)


# --- Conversions -----------------------------------------------------------------------------


def _cast(e: Expr, a: Range) -> Range:
    if e.dtype.is_bool:
        return Interval(0, 1) if a.contains(0) else Interval(1, 1)
    with np.errstate(all="ignore"):
        ends = [_CONCRETE[ir.Cast](e, end) for end in _ends(a, e.args[0].dtype)]
    if not e.dtype.is_integer:
        return _around(ends, _nan((a,)))
    zero = [0] if _nan((a,)) else []
    whole = [int(end) for end in ends if a.low is not None and not math.isnan(float(end))]
    return Interval(min(whole + zero), max(whole + zero))


def _anything(e: Expr, *_: Range) -> Range:
    return ANY_FLOAT


def _const(e: ir.Const) -> FloatRange:
    value = float(e.value)
    return FloatRange(math.inf, -math.inf, nan=True) if value != value else FloatRange(value, value)


FLOAT_TABLE: Final[dict[type[Expr], Callable[..., Range]]] = {
    ir.Const: _const,
    ir.Add: _at_ends,
    ir.Sub: _at_ends,
    ir.Mul: _product,
    ir.Div: _quotient,
    ir.Neg: _at_ends,
    ir.Min: _at_ends,
    ir.Max: _at_ends,
    ir.Lt: _less,
    ir.Le: _less,
    ir.Eq: _equal,
    ir.Ne: _equal,
    ir.Cast: _cast,
    ir.Reinterpret: _anything,
    ir.Call: _call,
}
"""The rules for nodes with a float among their operands or as their result."""
