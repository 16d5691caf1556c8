"""sinh, cosh, tanh and their inverses.

Near 0 an odd function is x + x z P(z), z = x**2, since the formulas with exp or log cancel there.
"""

from __future__ import annotations

import math
from typing import Final

from tensorsmith.codegen.llvm.math import coefficients as c
from tensorsmith.codegen.llvm.math.emitter import Emitter, Value
from tensorsmith.codegen.llvm.math.exponential import exp_in_range, half_expm1
from tensorsmith.codegen.llvm.math.extended import (
    Pair,
    fast_two_sum,
    pair_root,
    two_product,
    two_sum,
)
from tensorsmith.codegen.llvm.math.logarithm import log_of_positive

OVERFLOW: Final = 711.0
"""From here on sinh and cosh are infinite."""
HUGE: Final = 2.0**28
"""From here on x**2 + 1 and x**2 - 1 are x**2."""


def _half_exponentials(m: Emitter, a: Value) -> tuple[Value, Value]:
    """exp(a) / 2 and exp(-a) / 2 of a >= 0. The first overflows only where its sum with a does."""
    half = exp_in_range(m, m.at_most(a, OVERFLOW), -2) * 2.0
    return half, 0.25 / half


def sinh(m: Emitter, x: Value) -> Value:
    """The hyperbolic sine."""
    a = m.abs(x)
    grown, decayed = _half_exponentials(m, a)
    large = m.copysign(grown - decayed, x)
    return m.select(a < 1.0, m.odd_polynomial("sinh", x), large)


def cosh(m: Emitter, x: Value) -> Value:
    """The hyperbolic cosine."""
    grown, decayed = _half_exponentials(m, m.abs(x))
    return grown + decayed


def tanh(m: Emitter, x: Value) -> Value:
    """The hyperbolic tangent.

    Apart from small numbers: f32: h / (h + 1), h = (exp(2 a) - 1) / 2.
    f64: 1 - 2 / (exp(2 a) + 1).
    """
    a = m.abs(x)
    if not m.is_double:
        half = half_expm1(m, m.at_most(a + a, 40.0))
        z = a * a
        small = m.multiply_add(a * z, m.polynomial("tanh", z), a)
        return m.copysign(m.select(a < 0.5, small, half / (half + 1.0)), x)
    e = exp_in_range(m, m.at_most(a + a, 40.0))
    large = 1.0 - m.number(2.0) / (e + 1.0)
    return m.select(a < 0.6, m.odd_polynomial("tanh", x), m.copysign(large, x))


def _log_of_pair(m: Emitter, pair: Pair, huge: Value, a: Value) -> Value:
    """log(pair), and log(2 a) where `huge`."""
    argument = m.select(huge, a, pair.high)
    correction = m.select(huge, 0.0, pair.low / pair.high)
    result = log_of_positive(m, argument, correction)
    return m.select(huge, result + c.LN2, result)


def asinh(m: Emitter, x: Value) -> Value:
    """The inverse hyperbolic sine: log(x + sqrt(x**2 + 1))."""
    a = m.abs(x)
    square = two_product(m, a, a)
    under = two_sum(square.high, 1.0)
    root = pair_root(m, Pair(under.high, under.low + square.low))
    total = two_sum(a, root.high)
    large = _log_of_pair(m, Pair(total.high, total.low + root.low), a > HUGE, a)
    large = m.copysign(m.select(a < math.inf, large, a), x)
    return m.select(a < 0.5, m.odd_polynomial("asinh", x), large)


def acosh(m: Emitter, x: Value) -> Value:
    """The inverse hyperbolic cosine: log(1 + u + sqrt(u (u + 2))), u = x - 1."""
    u = x - 1.0
    square = two_product(m, u, u)
    twice = u + u
    under = two_sum(square.high, twice)
    root = pair_root(m, Pair(under.high, under.low + square.low))
    step = two_sum(u, root.high)
    total = two_sum(m.number(1.0), step.high)
    rest = total.low + (step.low + root.low)
    result = _log_of_pair(m, fast_two_sum(total.high, rest), x > HUGE, x)
    result = m.select(x.equal(1.0), 0.0, result)
    return m.select(x < 1.0, math.nan, m.select(x < math.inf, result, x))


def atanh(m: Emitter, x: Value) -> Value:
    """The inverse hyperbolic tangent: log(1 + 2 a / (1 - a)) / 2 of a = |x|."""
    a = m.abs(x)
    total = two_sum(m.number(1.0), (a + a) / (1.0 - a))
    large = log_of_positive(m, total.high, total.low / total.high) * 0.5
    large = m.select(a < 1.0, large, m.select(a.equal(1.0), m.number(math.inf), math.nan))
    return m.select(a < 0.5, m.odd_polynomial("atanh", x), m.copysign(large, x))
