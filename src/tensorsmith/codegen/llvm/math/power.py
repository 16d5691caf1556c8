"""pow, sqrt and rsqrt.

pow(x, y) = exp(y log x). An error of the logarithm is multiplied by up to 745, so in f64 it is
computed as a pair (see `extended.py`); for f32 the plain f64 logarithm is more than enough.
"""

from __future__ import annotations

import math

from tensorsmith.codegen.llvm.math import coefficients as c
from tensorsmith.codegen.llvm.math.emitter import Emitter, Value
from tensorsmith.codegen.llvm.math.exponential import (
    DOUBLE,
    exp_in_range,
    exp_of_reduced,
    reduce,
    scale,
)
from tensorsmith.codegen.llvm.math.extended import (
    Pair,
    fast_two_sum,
    pair_plus_pair,
    pair_times_pair,
    two_product,
    two_sum,
)
from tensorsmith.codegen.llvm.math.logarithm import natural, normalize, parts


def sqrt(m: Emitter, x: Value) -> Value:
    """The square root, rounded correctly."""
    return m.sqrt(x)


def rsqrt(m: Emitter, x: Value) -> Value:
    """1 / sqrt(x), by a square root and a division."""
    return 1.0 / m.sqrt(x)


def _log_pair(m: Emitter, x: Value) -> Pair:
    """log(x) of a positive finite x as a pair: as in `logarithm.py`, at twice the precision.

    log(1 + f) = 2 s (1 + z (1/3 + z T(z))), where z T(z) is small enough to be a plain float.
    """
    exponent, fraction = normalize(m, x)
    f, g = fraction - 1.0, two_sum(fraction, 1.0)
    quotient = f / g.high
    back = two_product(m, quotient, g.high)
    rest = ((f - back.high) - back.low) - quotient * g.low
    s = Pair(quotient, rest / g.high)
    z = pair_times_pair(m, s, s)
    bracket = two_sum(m.number(c.THIRD[0]), z.high * m.polynomial("log_pair", z.high))
    bracket = Pair(bracket.high, bracket.low + c.THIRD[1])
    product = pair_times_pair(m, z, bracket)
    series = fast_two_sum(m.number(1.0), product.high)
    series = Pair(series.high, series.low + product.low)
    log = pair_times_pair(m, Pair(s.high * 2.0, s.low * 2.0), series)
    high, low = c.LN2_F64
    return pair_plus_pair(two_sum(exponent * high, exponent * low), log)


def _power_of_positive(m: Emitter, x: Value, y: Value) -> Value:
    """x**y of a positive finite x and a finite y."""
    if m.grade == "single":
        log = natural(m, parts(m, *normalize(m, x)))
        return exp_in_range(m, m.at_most(m.at_least(y * log, -200.0), 200.0))
    log_pair = _log_pair(m, x)
    # Beyond this bound the result is 0, 1 or infinite whatever the rest of y; products stay finite.
    bounded = m.at_most(m.at_least(y, -(2.0**70)), 2.0**70)
    product = two_product(m, bounded, log_pair.high)
    exponent = fast_two_sum(product.high, m.multiply_add(bounded, log_pair.low, product.low))
    limit = DOUBLE
    high = m.at_most(m.at_least(exponent.high, limit.exp_low), limit.exp_high)
    r, k, biased = reduce(m, high, 2 * limit.bias)
    clamped = high.not_equal(exponent.high)
    r = r + m.select(clamped, 0.0, exponent.low)
    return scale(m, exp_of_reduced(m, r), k, biased)


def pow(m: Emitter, x: Value, y: Value) -> Value:
    """The power x**y, with the special cases of IEEE 754's pow."""
    a = m.abs(x)
    whole = m.intrinsic("trunc", y).equal(y)
    half = y * 0.5
    odd = whole & m.intrinsic("trunc", half).not_equal(half)
    result = _power_of_positive(m, a, y)
    # At 0 and infinity, and for infinite y, the result is 0 or infinite by the direction alone.
    grows = (a > 1.0) ^ (y < 0.0)
    extreme = a.equal(0.0) | a.equal(math.inf) | m.abs(y).equal(math.inf)
    result = m.select(extreme, m.select(grows, m.number(math.inf), 0.0), result)
    negative = m.sign_bit(x)
    result = m.select(negative & odd, -result, result)
    undefined = negative & ~whole & (a > 0.0) & (a < math.inf)
    result = m.select(undefined | x.is_nan() | y.is_nan(), math.nan, result)
    one = x.equal(1.0) | y.equal(0.0) | (a.equal(1.0) & m.abs(y).equal(math.inf))
    return m.select(one, 1.0, result)
