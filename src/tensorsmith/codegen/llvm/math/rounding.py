"""What LLVM's own instructions compute: rounding to whole numbers, signs, classes of floats."""

from __future__ import annotations

import math

from tensorsmith.codegen.llvm.math.emitter import Emitter, Value


def floor(m: Emitter, x: Value) -> Value:
    """The greatest whole number not above x."""
    return m.intrinsic("floor", x)


def ceil(m: Emitter, x: Value) -> Value:
    """The least whole number not below x."""
    return m.intrinsic("ceil", x)


def trunc(m: Emitter, x: Value) -> Value:
    """The whole part."""
    return m.intrinsic("trunc", x)


def round_half_even(m: Emitter, x: Value) -> Value:
    """The nearest whole number, halves to even."""
    return m.intrinsic("roundeven", x)


def copysign(m: Emitter, x: Value, y: Value) -> Value:
    """The magnitude of x with the sign of y."""
    return m.copysign(x, y)


def absolute(m: Emitter, x: Value) -> Value:
    """The magnitude."""
    return m.abs(x)


def isnan(m: Emitter, x: Value) -> Value:
    """Whether x is NaN."""
    return x.is_nan()


def isinf(m: Emitter, x: Value) -> Value:
    """Whether x is infinite."""
    return m.abs(x).equal(math.inf)


def isfinite(m: Emitter, x: Value) -> Value:
    """Whether x is a finite number."""
    return m.abs(x) < math.inf
