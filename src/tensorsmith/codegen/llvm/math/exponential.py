"""exp, exp2, expm1 and the logistic sigmoid.

The argument is x = k ln 2 + r with a whole k and abs(r) <= ln(2) / 2, so that exp(x) = 2**k exp(r);
exp(r) is a polynomial. k ln 2 is subtracted in two steps, the first of them exact (Cody and Waite,
Software Manual for the Elementary Functions, 1980).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tensorsmith.codegen.llvm.math import coefficients as c
from tensorsmith.codegen.llvm.math.emitter import Emitter, Value


class Limits(NamedTuple):
    """What depends on the format."""

    exp_low: float
    """Below it exp is 0."""
    exp_high: float
    """From it on exp is infinite."""
    exp2_low: float
    exp2_high: float
    expm1_low: float
    """Below it expm1 is -1."""
    significand: int
    """Stored bits of the significand."""
    bias: int
    """Of the exponent."""


FLOAT: Final = Limits(-104.0, 89.0, -151.0, 129.0, -18.0, 23, 127)
DOUBLE: Final = Limits(-746.0, 710.0, -1076.0, 1025.0, -38.0, 52, 1023)


def limits(m: Emitter) -> Limits:
    """Those of the type that `m` computes in."""
    return DOUBLE if m.is_double else FLOAT


def power_of_two(m: Emitter, biased: Value) -> Value:
    """The power of two whose biased exponent is in the low bits of `biased`."""
    return (biased << limits(m).significand).as_float()


def reduce(m: Emitter, x: Value, bias: int) -> tuple[Value, Value, Value]:
    """r, k as a float, and the bits of k + `bias`."""
    high, low = c.LN2_F64 if m.is_double else c.LN2_F32
    k, biased = m.scale_and_round(x, c.LOG2E, bias)
    r = m.multiply_add(k, -low, m.multiply_add(k, -high, x))
    return r, k, biased


def exp_of_reduced(m: Emitter, r: Value) -> Value:
    """exp(r)."""
    return m.multiply_add(m.multiply_add(m.polynomial("exp", r), r, 1.0), r, 1.0)


def scale(m: Emitter, p: Value, k: Value, biased: Value) -> Value:
    """The product p * 2**k, rounded once also where it is denormal.

    biased: bits of k plus twice the exponent's bias. 2**k itself may be out of range, so it is
    applied as two factors where no instruction scales; the first product is exact.
    """
    if m.has_scalef:
        return m.scaled(p, k)
    half = biased >> 1
    return p * power_of_two(m, half) * power_of_two(m, biased - half)


def exp(m: Emitter, x: Value) -> Value:
    """The power of e."""
    limit = limits(m)
    x = m.at_most(m.at_least(x, limit.exp_low), limit.exp_high)
    r, k, biased = reduce(m, x, 2 * limit.bias)
    return scale(m, exp_of_reduced(m, r), k, biased)


def exp2(m: Emitter, x: Value) -> Value:
    """2 to the power x."""
    limit = limits(m)
    x = m.at_most(m.at_least(x, limit.exp2_low), limit.exp2_high)
    k, biased = m.round_to_integer(x, 2 * limit.bias)
    return scale(m, exp_of_reduced(m, (x - k) * c.LN2), k, biased)


def half_expm1(m: Emitter, x: Value) -> Value:
    """The half of exp(x) - 1: 2**(k-1) (exp(r) - 1) + (2**(k-1) - 1/2), of moderate k.

    Half of it, because 2**k may overflow where the whole does not.
    """
    return _half_expm1(m, *reduce(m, x, limits(m).bias - 1))[0]


def _half_expm1(m: Emitter, r: Value, k: Value, biased: Value) -> tuple[Value, Value]:
    """That, and exp(r) - 1."""
    p = m.multiply_add(r * r, m.polynomial("exp", r), r)
    half = power_of_two(m, biased)
    return m.multiply_add(p, half, half - 0.5), p


def expm1(m: Emitter, x: Value) -> Value:
    """exp(x) - 1."""
    limit = limits(m)
    bounded = m.at_most(m.at_least(x, limit.expm1_low), limit.exp_high)
    r, k, biased = reduce(m, bounded, limit.bias - 1)
    half, p = _half_expm1(m, r, k, biased)
    return m.copysign(m.select(k.equal(0.0), p, half + half), x)


def exp_of_negative(m: Emitter, x: Value) -> Value:
    """exp(x) of x <= 0. One exact factor is enough, since 2**k cannot overflow."""
    limit = limits(m)
    lift = limit.bias // 2 + 1
    r, k, biased = reduce(m, m.at_least(x, limit.exp_low), limit.bias + lift)
    if m.has_scalef:
        return m.scaled(exp_of_reduced(m, r), k)
    return exp_of_reduced(m, r) * power_of_two(m, biased) * 2.0**-lift


def exp_in_range(m: Emitter, x: Value, factor: int = 0) -> Value:
    """exp(x) * 2**factor, where 2**(k + factor) is a normal number."""
    r, _, biased = reduce(m, x, limits(m).bias + factor)
    return exp_of_reduced(m, r) * power_of_two(m, biased)


def sigmoid(m: Emitter, x: Value) -> Value:
    """1 / (1 + exp(-x)): with e = exp(-|x|) and q = e / (1 + e), 1 - q, or e - e q below 0.

    The latter is q, with less rounding errors: they are only in the small term.
    """
    e = exp_of_negative(m, -m.abs(x))
    part = m.select(m.sign_bit(x), e, 1.0)
    return m.multiply_add(-part, e / (e + 1.0), part)
