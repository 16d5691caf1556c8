"""erf.

Of small a = |x| it is a + a P(a**2). Above 0.5 in f32 it is 1 - exp(a E(a - 2)), by the formula of
expm1; above 1 in f64, 1 - exp(-a**2) G(t), where t = (a - c) / (a + c) maps the range to a short
interval.
"""

from __future__ import annotations

from typing import Final

from tensorsmith.codegen.llvm.math.coefficients import ERF_CENTRE, ERF_EXPONENT_CENTRE
from tensorsmith.codegen.llvm.math.emitter import Emitter, Value
from tensorsmith.codegen.llvm.math.exponential import exp_in_range, half_expm1

SATURATED: Final = {"float": 4.0, "double": 6.0}
"""From here on erf is 1."""


def erf(m: Emitter, x: Value) -> Value:
    """The error function."""
    return _erf_f64(m, x) if m.is_double else _erf_f32(m, x)


def _erf_f32(m: Emitter, x: Value) -> Value:
    a = m.at_most(m.abs(x), SATURATED[m.element])
    small = m.multiply_add(a, m.polynomial("erf_small", a * a), a)
    half = half_expm1(m, a * m.polynomial("erf_exponent", a - ERF_EXPONENT_CENTRE))
    return m.copysign(m.select(a < 0.5, small, -(half + half)), x)


def _erf_f64(m: Emitter, x: Value) -> Value:
    a = m.abs(x)
    small = m.multiply_add(x, m.polynomial("erf_small", x * x), x)
    bounded = m.at_most(m.at_least(a, 1.0), SATURATED[m.element])
    t = (bounded - ERF_CENTRE) / (bounded + ERF_CENTRE)
    decay = exp_in_range(m, -(bounded * bounded))
    large = m.multiply_add(-decay, m.polynomial("erf_large", t), 1.0)
    return m.select(a < 1.0, small, m.copysign(large, x))
