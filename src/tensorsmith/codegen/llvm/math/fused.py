"""fma where the target has no such instruction."""

from __future__ import annotations

import math
from typing import NamedTuple

from tensorsmith.codegen.llvm.math.emitter import Emitter, Value
from tensorsmith.codegen.llvm.math.extended import two_sum


class Wide(NamedTuple):
    """A number as sign, whole significand (i128) and exponent (i64): significand * 2**exponent."""

    negative: Value
    significand: Value
    exponent: Value


def fma(m: Emitter, a: Value, b: Value, c: Value) -> Value:
    """The value of a * b + c, rounded once."""
    if m.has_fma:
        return m.intrinsic("fma", a, b, c)
    return _fma_f64(m, a, b, c) if m.is_double else _fma_f32(m, a, b, c)


def round_to_odd(m: Emitter, total: Value, error: Value) -> Value:
    """The f64 `total` + `error`, rounded to odd: rounding it to f32 is as rounding the sum."""
    bits = total.bits()
    inexact = (error < 0.0) | (error > 0.0)
    towards_zero = (error < 0.0) ^ (total < 0.0)
    cut = m.select(towards_zero, bits - 1, bits) | 1
    return m.select(inexact, cut, bits).as_float()


def _fma_f32(m: Emitter, a: Value, b: Value, c: Value) -> Value:
    wide = m.widened("single")
    x, y, z = (m.widen(v, wide) for v in (a, b, c))
    total = two_sum(x * y, z)  # the product of two numbers of 24 bits is exact
    return m.narrow(round_to_odd(wide, total.high, total.low))


def _decode(m: Emitter, x: Value) -> Wide:
    bits = x.bits()
    field = (bits >> 52) & 0x7FF
    denormal = field.equal(0)
    fraction = bits & ((1 << 52) - 1)
    significand = m.select(denormal, fraction, fraction | (1 << 52))
    exponent = m.select(denormal, field + 1, field) - 1075
    return Wide(bits < 0, significand.convert("zext", "i128"), exponent)


def _normalized(m: Emitter, x: Wide) -> Wide:
    """With the highest bit of the significand at 125; the exponent of 0 is far below all others."""
    shift = m.intrinsic("ctlz", x.significand, flag=False) - 2
    exponent = x.exponent - shift.convert("trunc", "i64")
    zero = x.significand.equal(0)
    shift = m.select(zero, 0, shift)
    return Wide(x.negative, x.significand << shift, m.select(zero, -(1 << 20), exponent))


def _shifted_right(m: Emitter, x: Value, count: Value) -> Value:
    """The quotient x >> count, 0 <= count; its last bit is set, too, if a lost one was."""
    bounded = m.select(count > 127, 127, count).convert("zext", "i128")
    kept = x >> bounded
    lost = (kept << bounded).not_equal(x)
    return kept | lost.convert("zext", "i128")


def _sum(m: Emitter, p: Wide, c: Wide) -> Wide:
    """The sum of two normalized numbers. Its last bit may stand for all below it."""
    exponent = m.select(p.exponent > c.exponent, p.exponent, c.exponent)
    x = _shifted_right(m, p.significand, exponent - p.exponent)
    y = _shifted_right(m, c.significand, exponent - c.exponent)
    total = m.select(p.negative, -x, x) + m.select(c.negative, -y, y)
    negative = total < 0
    return Wide(negative, m.select(negative, -total, total), exponent)


def _encode(m: Emitter, x: Wide) -> Value:
    """The nearest f64, halves to even, of a number that is not 0."""
    leading = m.intrinsic("ctlz", x.significand, flag=False)
    normal = x.significand << leading
    normal = (normal >> 1) | (normal & 1)  # the highest bit is at 126 now, so that sums fit
    biased = x.exponent - leading.convert("trunc", "i64") + (127 + 1023)
    denormal = biased < 1
    shift = m.select(denormal, 75 - biased, 74)  # 53 bits stay of a normal number
    cut = _shifted_right(m, normal, shift - 2)
    last = (cut >> 2) & 1
    rounded = ((cut + last + 1) >> 2).convert("trunc", "i64")
    base = m.select(denormal, 0, (biased - 1) << 52)
    bits = m.select(biased > 2046, 0x7FF << 52, base + rounded)
    return (bits | (x.negative.convert("zext", "i64") << 63)).as_float()


def _fma_f64(m: Emitter, a: Value, b: Value, c: Value) -> Value:
    """By integer arithmetic of 128 bits: the exact product and `c`, aligned, added, and rounded."""
    x, y, z = (_decode(m, v) for v in (a, b, c))
    product = Wide(x.negative ^ y.negative, x.significand * y.significand, x.exponent + y.exponent)
    total = _sum(m, _normalized(m, product), _normalized(m, z))
    plain = a * b + c
    exact_zero = total.significand.equal(0)  # the plain formula is exact, and knows which zero
    finite_factors = (m.abs(a) < math.inf) & (m.abs(b) < math.inf)
    finite_addend = m.abs(c) < math.inf
    result = m.select(exact_zero, plain, _encode(m, total))
    result = m.select(finite_addend, result, c)
    return m.select(finite_factors, result, plain)
