"""Sums of two floats: error-free transformations, and arithmetic at twice the precision.

A `Pair` stands for the exact sum of its parts, the second being below half a unit in the last
place of the first. Dekker 1971; Knuth, The Art of Computer Programming 2, 4.2.2.
"""

from __future__ import annotations

from typing import NamedTuple

from tensorsmith.codegen.llvm.math.emitter import Emitter, Operand, Value


class Pair(NamedTuple):
    """An unevaluated sum."""

    high: Value
    low: Value


def two_sum(a: Value, b: Operand) -> Pair:
    """The sum of `a` and `b` and its rounding error, exactly."""
    total = a + b
    part = total - a
    return Pair(total, (a - (total - part)) + (b - part))


def fast_two_sum(a: Value, b: Operand) -> Pair:
    """As `two_sum`, for operands of which `a` is the greater, or 0."""
    total = a + b
    return Pair(total, b - (total - a))


def split(m: Emitter, a: Value) -> Pair:
    """`a` as a sum of two numbers of at most half its bits each.

    By rounding its bits, not by Dekker's product, which overflows for large numbers.
    """
    dropped = 27 if m.is_double else 12
    half, mask = 1 << (dropped - 1), -(1 << dropped)
    high = ((a.bits() + half) & mask).as_float()
    return Pair(high, a - high)


def two_product(m: Emitter, a: Value, b: Value) -> Pair:
    """The product and its rounding error, exactly unless the error underflows."""
    product = a * b
    if m.has_fma:
        return Pair(product, m.intrinsic("fma", a, b, -product))
    x, y = split(m, a), split(m, b)
    crossed = (x.high * y.high - product) + x.high * y.low + x.low * y.high
    return Pair(product, crossed + x.low * y.low)


def pair_times_pair(m: Emitter, a: Pair, b: Pair) -> Pair:
    """The product of two pairs, to about twice the precision less three bits."""
    product = two_product(m, a.high, b.high)
    low = m.multiply_add(a.high, b.low, m.multiply_add(a.low, b.high, product.low))
    return fast_two_sum(product.high, low)


def pair_plus_pair(a: Pair, b: Pair) -> Pair:
    """The sum of two pairs of which neither cancels the other."""
    total = two_sum(a.high, b.high)
    return fast_two_sum(total.high, total.low + (a.low + b.low))


def pair_root(m: Emitter, a: Pair) -> Pair:
    """The square root of a positive pair."""
    root = m.sqrt(a.high)
    square = two_product(m, root, root)
    rest = ((a.high - square.high) - square.low) + a.low
    return Pair(root, rest / (root + root))
