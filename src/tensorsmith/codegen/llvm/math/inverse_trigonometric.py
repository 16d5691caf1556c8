"""asin, acos, atan and atan2."""

from __future__ import annotations

import math

from tensorsmith.codegen.llvm.math import coefficients as c
from tensorsmith.codegen.llvm.math.emitter import Emitter, Value

TAN_OF_EIGHTH_TURN = math.sqrt(2) - 1
"""tan(pi / 8)."""


def _first_octant(m: Emitter, least: Value, greatest: Value) -> Value:
    """atan(least / greatest) of 0 <= least <= greatest.

    Above pi / 8 it is pi / 4 plus the arc tangent of (least - greatest) / (least + greatest). One
    division serves both.
    """
    above = least > greatest * TAN_OF_EIGHTH_TURN
    numerator = m.select(above, least - greatest, least)
    t = numerator / m.select(above, least + greatest, greatest)
    z = t * t
    eighth_high, eighth_low = (part / 2 for part in c.HALF_PI)
    tail = m.multiply_add(t * z, m.polynomial("atan", z), m.select(above, t.like(eighth_low), 0.0))
    return m.select(above, t.like(eighth_high), 0.0) + (t + tail)


def _right_angle_minus(m: Emitter, angle: Value) -> Value:
    return (c.HALF_PI[0] - angle) + c.HALF_PI[1]


def atan(m: Emitter, x: Value) -> Value:
    """The inverse tangent."""
    a = m.abs(x)
    steep = a > 1.0
    least, greatest = m.select(steep, 1.0, a), m.select(steep, a, 1.0)
    angle = _first_octant(m, least, m.at_most(greatest, 2.0**1000))
    return m.copysign(m.select(steep, _right_angle_minus(m, angle), angle), x)


def atan2(m: Emitter, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), also of the points at 0 and at infinity."""
    across, along = m.abs(y), m.abs(x)
    steep = across > along
    least, greatest = m.select(steep, along, across), m.select(steep, across, along)
    huge = greatest > 2.0**1000  # halve twice, lest the sum overflows
    least = m.select(huge, least * 0.25, least)
    greatest = m.select(huge, greatest * 0.25, greatest)
    both_infinite = least.equal(math.inf) & greatest.equal(math.inf)
    least = m.select(both_infinite, 1.0, least)
    greatest = m.select(both_infinite | greatest.equal(0.0), 1.0, greatest)
    angle = _first_octant(m, least, greatest)
    angle = m.select(steep, _right_angle_minus(m, angle), angle)
    behind = (c.PI[0] - angle) + c.PI[1]
    return m.copysign(m.select(m.sign_bit(x), behind, angle), y)


def _acos_parts(m: Emitter, a: Value) -> tuple[Value, Value]:
    """acos(a) = 2 asin(sqrt((1 - a) / 2)) as a large and a small part, of a >= 0.5; NaN above 1."""
    z = (1.0 - a) * 0.5
    root = m.sqrt(z)
    twice = root + root
    return twice, twice * z * m.polynomial("asin", z)


def asin(m: Emitter, x: Value) -> Value:
    """The inverse sine: pi / 2 - acos(a) of a = |x| > 1/2."""
    a = m.abs(x)
    root, tail = _acos_parts(m, a)
    large = m.copysign((c.HALF_PI[0] - root) - (tail - c.HALF_PI[1]), x)
    return m.select(a < 0.5, m.odd_polynomial("asin", x), large)


def acos(m: Emitter, x: Value) -> Value:
    """The inverse cosine."""
    a = m.abs(x)
    root, tail = _acos_parts(m, a)
    behind = (c.PI[0] - root) - (tail - c.PI[1])
    large = m.select(m.sign_bit(x), behind, root + tail)
    small = c.HALF_PI[0] - (m.odd_polynomial("asin", x) - c.HALF_PI[1])
    return m.select(a < 0.5, small, large)
