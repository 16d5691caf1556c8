"""Float operations and intrinsics on NumPy scalars and arrays.

The arithmetic operators round once in their own type. Elementary functions are computed in
float64 and then rounded to the type, so that for narrower types they are correctly rounded but
for rare ties.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np

from tensorsmith.evaluate.rounding import Value, narrow, widen
from tensorsmith.ir.expr import Expr


def add(e: Expr, a: Value, b: Value) -> Value:
    """Sum."""
    return a + b


def sub(e: Expr, a: Value, b: Value) -> Value:
    """Difference."""
    return a - b


def mul(e: Expr, a: Value, b: Value) -> Value:
    """Product."""
    return a * b


def div(e: Expr, a: Value, b: Value) -> Value:
    """Quotient; of a number and 0, an infinity."""
    return a / b


def neg(e: Expr, a: Value) -> Value:
    """Negation, also of zeros."""
    return -a


def minimum(e: Expr, a: Value, b: Value) -> Value:
    """The lesser, or NaN."""
    return np.where(np.isnan(a), a, np.where(np.isnan(b) | (b < a), b, a))[()]


def maximum(e: Expr, a: Value, b: Value) -> Value:
    """The greater, or NaN."""
    return np.where(np.isnan(a), a, np.where(np.isnan(b) | (a < b), b, a))[()]


def absolute(e: Expr, a: Value) -> Value:
    """Magnitude."""
    return np.abs(a)


def _rsqrt(a: Value) -> Value:
    return 1.0 / np.sqrt(a)


def _sigmoid(a: Value) -> Value:
    return 1.0 / (1.0 + np.exp(-a))


def _elementwise(function: Callable[..., float], arity: int) -> Callable[..., Value]:
    """A function of Python floats as one of arrays."""
    ufunc = np.frompyfunc(function, arity, 1)

    def apply(*args: Value) -> Value:
        return np.asarray(ufunc(*args)).astype(np.float64)[()]

    return apply


def _exact_fma(a: float, b: float, c: float) -> float:
    """The value of a * b + c, rounded once to float64."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c if math.isfinite(c) else c + (0.0 if _finite(a, b) else a * b)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # which zero it is, is right in floats: no rounding happens
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _finite(a: float, b: float) -> bool:
    return math.isfinite(a) and math.isfinite(b)


_fma_float64: Final = _elementwise(_exact_fma, 3)


def _fma(a: Value, b: Value, c: Value) -> Value:
    return _fma_float64(a, b, c)


FUNCTIONS: Final[dict[str, Callable[..., Value]]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _elementwise(math.erf, 1),
    "sigmoid": _sigmoid,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "pow": np.power,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "copysign": np.copysign,
}
"""Intrinsics of floats as functions of float64."""

PREDICATES: Final[dict[str, Callable[..., Value]]] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}
"""Intrinsics that ask something of a float."""


def call_float64(function: Callable[..., Value], e: Expr, *args: Value) -> Value:
    """`function`, of float64, on floats of `e`'s operands' type, rounded to that type."""
    wide = [np.ascontiguousarray(widen(a)) if np.ndim(a) else widen(a) for a in args]
    return narrow(np.asarray(function(*wide))[()], e.dtype)


def fma(e: Expr, a: Value, b: Value, c: Value) -> Value:
    """The value of a * b + c, rounded once to the type of `e`."""
    if e.dtype.bits == 64:
        return _fma(a, b, c)
    product = widen(a) * widen(b)  # exact: two factors of at most 24 bits
    addend = widen(c)
    return narrow(_sum_to_odd(product, addend), e.dtype)


def _sum_to_odd(a: Value, b: Value) -> Value:
    """Sum in float64, rounded to odd: rounding it again to a narrow type is as rounding once."""
    total = np.asarray(a + b)
    part = total - a
    error = (a - (total - part)) + (b - part)  # exact: Knuth's two-sum
    inexact = np.isfinite(total) & (error != 0)
    bits = total.view(np.uint64)
    towards_zero = (error < 0) != (total < 0)
    truncated = np.where(towards_zero, bits - np.uint64(1), bits)
    return np.where(inexact, truncated | np.uint64(1), bits).view(np.float64)[()]
