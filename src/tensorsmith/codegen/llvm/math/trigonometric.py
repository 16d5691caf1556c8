"""sin, cos and tan.

The argument is x = k pi / 2 + r with a whole k and abs(r) <= pi / 4 (for sin and cos in f32: with
pi and pi / 2). k times pi / 2 is subtracted in parts whose products are exact (Cody and Waite). If
a vector holds a number too large for that, a branch goes to the reduction of Payne and Hanek.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tensorsmith.codegen.llvm.math import coefficients as c
from tensorsmith.codegen.llvm.math.emitter import Emitter, Value
from tensorsmith.codegen.llvm.math.extended import Pair, fast_two_sum, two_product, two_sum
from tensorsmith.codegen.llvm.math.reduction import begin_large, end_large, exact_reduction

LARGE: Final = 2.0**20
"""Up to here k has 20 bits: its product with a part of pi / 2 of 33 bits is exact."""
LARGE_SINGLE: Final = 2.0**23
"""Up to here k has 22 bits, or 23 with a half: its product with 30 bits of pi is exact."""


class Reduced(NamedTuple):
    """x modulo pi / 2."""

    quadrant: Value
    """k, of which the low two bits matter."""
    r: Pair


def reduce(m: Emitter, x: Value) -> Reduced:
    """The remainder modulo pi / 2."""
    fork = begin_large(m, m.abs(x) > LARGE)
    k, quadrant = m.scale_and_round(x, c.TWO_OVER_PI)
    first, second, third = c.HALF_PI_CHOPPED
    total = two_sum(x - k * first, -(k * second))
    r = fast_two_sum(total.high, total.low - k * third)
    fork.otherwise()
    exact = exact_reduction(m, x)
    chosen = end_large(fork, (quadrant, *r), exact)
    return Reduced(chosen[0], Pair(chosen[1], chosen[2]))


def _sine(m: Emitter, r: Pair) -> Pair:
    """sin(r) of abs(r) <= pi / 4."""
    x, z = r.high, r.high * r.high
    return Pair(x, m.multiply_add(x * z, m.polynomial("sin", z), r.low))


def _cosine(m: Emitter, r: Pair) -> Pair:
    """cos(r) of abs(r) <= pi / 4; the rounding error of 1 - r**2 / 2 is added back."""
    z = r.high * r.high
    half = z * 0.5
    leading = 1.0 - half
    tail = m.multiply_add(z * z, m.polynomial("cos", z), -(r.high * r.low))
    return Pair(leading, ((1.0 - leading) - half) + tail)


def _negate_if(m: Emitter, x: Value, odd: Value) -> Value:
    """x, negated where the integer is odd."""
    return (x.bits() ^ (odd << (63 if m.is_double else 31))).as_float()


def _is_odd(integer: Value) -> Value:
    return (integer & 1).not_equal(0)


def _sin_or_cos(m: Emitter, x: Value, quarter_turns: int) -> Value:
    """sin(x + quarter_turns pi / 2)."""
    quadrant, r = reduce(m, x)
    turned = quadrant + quarter_turns
    sine, cosine = _sine(m, r), _cosine(m, r)
    result = m.select(_is_odd(turned), cosine.high + cosine.low, sine.high + sine.low)
    return _negate_if(m, result, turned >> 1)


def _single(m: Emitter, x: Value, quarter_turns: int) -> Value:
    """As `_sin_or_cos`, to the precision of f32: x + quarter_turns pi / 2 = k pi + r."""
    fork = begin_large(m, m.abs(x) > LARGE_SINGLE)
    shift = 0.5 * quarter_turns
    k, turns = m.round_to_integer(m.multiply_add(x, c.ONE_OVER_PI, shift))
    k = k - shift
    high, low = c.PI_CHOPPED
    r = m.multiply_add(k, -low, m.multiply_add(k, -high, x))
    fork.otherwise()
    quadrant, exact, _ = exact_reduction(m, x)
    turned = quadrant + quarter_turns
    towards = m.copysign(m.number(c.HALF_PI[0]), exact)
    up = m.select(m.sign_bit(exact), turned.like(0), 1)  # an odd quadrant goes to the nearer side
    odd = _is_odd(turned)
    half = m.select(odd, exact - towards, exact)
    chosen = end_large(fork, (turns, r), (m.select(odd, turned + up, turned) >> 1, half))
    return _negate_if(m, m.odd_polynomial("sin_half_turn", chosen[1]), chosen[0])


def sin(m: Emitter, x: Value) -> Value:
    """The sine of radians."""
    if m.grade == "single":
        return _single(m, x, 0)
    return m.select(x.equal(0.0), x, _sin_or_cos(m, x, 0))


def cos(m: Emitter, x: Value) -> Value:
    """The cosine of radians."""
    return (_single if m.grade == "single" else _sin_or_cos)(m, x, 1)


def tan(m: Emitter, x: Value) -> Value:
    """The tangent of radians: sin(r) / cos(r), or -cos(r) / sin(r) in an odd quadrant."""
    quadrant, r = reduce(m, x)
    odd = _is_odd(quadrant)
    sine, cosine = fast_two_sum(*_sine(m, r)), fast_two_sum(*_cosine(m, r))
    over = Pair(*(m.select(odd, -c, s) for s, c in zip(sine, cosine, strict=True)))
    under = Pair(*(m.select(odd, s, c) for s, c in zip(sine, cosine, strict=True)))
    return m.select(x.equal(0.0), x, _quotient(m, over, under))


def _quotient(m: Emitter, a: Pair, b: Pair) -> Value:
    """a / b, the rounding errors of whose parts are made up for in f64."""
    quotient = a.high / b.high
    if m.grade == "single":
        return quotient
    back = two_product(m, quotient, b.high)
    rest = ((a.high - back.high) - back.low) + (a.low - quotient * b.low)
    return quotient + rest / b.high
