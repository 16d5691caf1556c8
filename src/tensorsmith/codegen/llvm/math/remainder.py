"""fmod: the exact remainder of a division.

In each step a multiple of |y| 2**j is taken off, with the least j that keeps the quotient so small
that the step is exact. The loop ends when no lane has anything left to do, which is after one step
if quotients are moderate. That of f32 computes in f64.
"""

from __future__ import annotations

import math
from typing import Final

from tensorsmith.codegen.llvm.math.emitter import Emitter, Value
from tensorsmith.codegen.llvm.math.extended import two_product

STEP_BITS: Final = {"f64": 50, "single": 27}
"""Bits of the quotient that one step takes off. With 27, its product with an f32 has 53 bits."""


def _exponent(m: Emitter, x: Value) -> Value:
    """The binary exponent of a positive number, biased by that of f64; also of denormals."""
    lifted = m.select(x < 2.0**-1022, x * 2.0**54, x)
    field = lifted.bits() >> 52
    return m.select(x < 2.0**-1022, field - 54, field)


def _times_power(m: Emitter, x: Value, power: Value) -> Value:
    """The product x * 2**power of 0 <= power <= 2046, in two exact steps."""
    half = power >> 1
    rest = power - half
    return x * ((half + 1023) << 52).as_float() * ((rest + 1023) << 52).as_float()


def _difference(m: Emitter, rest: Value, quotient: Value, scaled: Value) -> Value:
    """The exact rest - quotient * scaled."""
    if m.has_fma or m.grade == "single":
        return m.multiply_add(-quotient, scaled, rest)
    factor = m.select(scaled > 2.0**900, scaled.like(2.0**-60), 1.0)  # partial products overflow
    product = two_product(m, quotient, scaled * factor)
    difference = ((rest * factor - product.high) - product.low) / factor
    return m.select(rest < scaled, rest, difference)


def _step(m: Emitter, rest: Value, divisor: Value, divisor_exponent: Value) -> Value:
    """`rest` less a multiple of the divisor, still not negative."""
    distance = _exponent(m, rest) - divisor_exponent - STEP_BITS[m.grade]
    distance = m.select(distance > 2046, 2046, distance)  # at the ends of f64's range, 2047
    scaled = _times_power(m, divisor, m.select(distance > 0, distance, 0))
    quotient = m.intrinsic("trunc", rest / scaled)
    smaller = _difference(m, rest, quotient, scaled)
    return m.select(smaller < 0.0, smaller + scaled, smaller)


def fmod(m: Emitter, x: Value, y: Value) -> Value:
    """The remainder of x / y with the sign of x."""
    b = m.builder
    a, d = m.abs(x), m.abs(y)
    defined = (a < math.inf) & (d > 0.0)
    start = m.select(defined, a, 0.0)
    divisor = m.select(defined, d, 1.0)
    exponent = _exponent(m, divisor)
    name = f"fmod.{b.name()}"
    b.branch(f"{name}.entry")
    b.label(f"{name}.entry")
    b.branch(f"{name}.loop")
    b.label(f"{name}.loop")
    rest, place = Value(m, start.element, f"%{b.name()}"), len(b.lines)
    smaller = _step(m, rest, divisor, exponent)
    left = smaller >= divisor
    go_on = left.name
    if m.lanes > 1:
        go_on = b.intrinsic("vector.reduce.or", "i1", m.lanes, left.name)
    incoming = f"[ {start.name}, %{name}.entry ], [ {smaller.name}, %{name}.loop ]"
    b.lines.insert(place, f"  {rest.name} = phi {rest.type} {incoming}")
    b.branch_if(go_on, f"{name}.loop", f"{name}.done")
    b.label(f"{name}.done")
    result = m.select(defined, smaller, math.nan)
    result = m.select(d.equal(math.inf) & defined, a, result)
    return m.copysign(result, x)
