"""log, log2, log10 and log1p.

The argument is 2**e (1 + f) with 1 + f between the square roots of 1/2 and 2. With s = f / (2 + f),
log(1 + f) = log((1 + s) / (1 - s)) = 2 s + s z L(z), z = s**2. To keep the rounding error of s out
of the leading term, it is written f - (f**2 / 2 - s (f**2 / 2 + z L(z))), as in Sun's fdlibm.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from tensorsmith.codegen.llvm.math import coefficients as c
from tensorsmith.codegen.llvm.math.emitter import Emitter, Value
from tensorsmith.codegen.llvm.math.extended import two_sum

ROOT_OF_HALF_BITS: Final = {"float": 0x3F3504F3, "double": 0x3FE6A09E667F3BCD}


class Parts(NamedTuple):
    """The parts of the logarithm of 2**e (1 + f)."""

    exponent: Value
    """e, as a float."""
    f: Value
    half_square: Value
    """f**2 / 2."""
    correction: Value
    """log(1 + f) - f + f**2 / 2."""


def normalize(m: Emitter, x: Value) -> tuple[Value, Value]:
    """The e and 1 + f of a positive x, which may be denormal."""
    significand = 52 if m.is_double else 23
    tiny = x < (2.0**-1022 if m.is_double else 2.0**-126)
    lift = significand + 1
    lifted = m.select(tiny, x * 2.0**lift, x)
    exponent, fraction = split_normal(m, lifted)
    return exponent - m.select(tiny, m.number(lift), 0.0), fraction


def split_normal(m: Emitter, x: Value) -> tuple[Value, Value]:
    """The e and 1 + f of a positive normal x."""
    significand = 52 if m.is_double else 23
    root = ROOT_OF_HALF_BITS[m.element]
    shifted = x.bits() - root
    exponent = shifted.shift_signed(significand)
    fraction = ((shifted & ((1 << significand) - 1)) + root).as_float()
    narrow = exponent.convert("trunc", "i32") if m.is_double else exponent
    return narrow.convert("sitofp", m.element), fraction


def parts(m: Emitter, exponent: Value, fraction: Value) -> Parts:
    """The parts, of e and 1 + f."""
    f = fraction - 1.0
    s = f / (f + 2.0)
    z = s * s
    half_square = f * 0.5 * f
    return Parts(exponent, f, half_square, s * (half_square + z * m.polynomial("log", z)))


def natural(m: Emitter, p: Parts, extra: Value | None = None) -> Value:
    """The sum e ln 2 + log(1 + f), and a small `extra`."""
    high, low = c.LN2_F64 if m.is_double else c.LN2_F32
    small = p.correction if extra is None else p.correction + extra
    tail = m.multiply_add(p.exponent, low, small)
    return m.multiply_add(p.exponent, high, p.f - (p.half_square - tail))


def with_special_cases(m: Emitter, x: Value, result: Value) -> Value:
    """`result`, but -inf at 0, NaN below 0, and `x` where that is infinite or NaN."""
    result = m.select(x < math.inf, result, x)
    at_or_below_zero = m.select(x.equal(0.0), m.number(-math.inf), math.nan)
    return m.select(x <= 0.0, at_or_below_zero, result)


def log_of_positive(m: Emitter, x: Value, relative_error: Value | None = None) -> Value:
    """log(x) of a finite positive normal x; of x (1 + relative_error) if that is given."""
    return natural(m, parts(m, *split_normal(m, x)), relative_error)


def log(m: Emitter, x: Value) -> Value:
    """The natural logarithm."""
    return with_special_cases(m, x, natural(m, parts(m, *normalize(m, x))))


def log1p(m: Emitter, x: Value) -> Value:
    """log(1 + x): the logarithm of the rounded sum, and a correction for its rounding error."""
    total = two_sum(m.number(1.0), x)
    result = log_of_positive(m, total.high, total.low / total.high)
    result = m.copysign(result, x)
    result = m.select(x < math.inf, result, x)
    at_or_below = m.select(x.equal(-1.0), m.number(-math.inf), math.nan)
    return m.select(x <= -1.0, at_or_below, result)


def log2(m: Emitter, x: Value) -> Value:
    """The logarithm to base 2."""
    exponent, high, low = _scaled(m, x, c.LOG2E_F64 if m.is_double else c.LOG2E_F32)
    total = exponent + high
    rest = low + ((exponent - total) + high)
    return with_special_cases(m, x, total + rest)


def log10(m: Emitter, x: Value) -> Value:
    """The logarithm to base 10."""
    exponent, high, low = _scaled(m, x, c.LOG10E_F64 if m.is_double else c.LOG10E_F32)
    unit_high, unit_low = c.LOG10_2_F64 if m.is_double else c.LOG10_2_F32
    base = exponent * unit_high
    total = base + high
    rest = m.multiply_add(exponent, unit_low, low) + ((base - total) + high)
    return with_special_cases(m, x, total + rest)


def _scaled(m: Emitter, x: Value, factor: tuple[float, float]) -> tuple[Value, Value, Value]:
    """e, and log(1 + f) times `factor` in two parts, of which the high one is exact."""
    p = parts(m, *normalize(m, x))
    kept = -(1 << (32 if m.is_double else 12))
    high = ((p.f - p.half_square).bits() & kept).as_float()
    low = ((p.f - high) - p.half_square) + p.correction
    tail = m.multiply_add(low + high, factor[1], low * factor[0])
    return p.exponent, high * factor[0], tail
