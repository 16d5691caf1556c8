"""Activation functions of neural networks. Narrow floats are computed in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tensorsmith import te
from tensorsmith.ir import INTRINSICS, Expr, Kind, Lt, Max, Min, Select, as_expr
from tensorsmith.ir.dtype import float64
from tensorsmith.ir.expr import select
from tensorsmith.ops.broadcast import broadcast_element, check_broadcasts, elementwise
from tensorsmith.ops.operands import converted, one_dtype, widened
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor

_abs: Final = INTRINSICS["abs"]
_erf: Final = INTRINSICS["erf"]
_exp: Final = INTRINSICS["exp"]
_expm1: Final = INTRINSICS["expm1"]
_log1p: Final = INTRINSICS["log1p"]
_sigmoid: Final = INTRINSICS["sigmoid"]
_tanh: Final = INTRINSICS["tanh"]
_SIGNED: Final = Kind.INT | Kind.FLOAT
_SQRT_HALF: Final = math.sqrt(0.5)
_SQRT_2_OVER_PI: Final = math.sqrt(2 / math.pi)
_SELU_ALPHA: Final = 1.67326319217681884765625
_SELU_GAMMA: Final = 1.05070102214813232421875


def _map(name: str, function: Callable[..., Expr], *xs: Tensor) -> Tensor:
    """`function` of each element of floats, computed in a wider type."""
    type_ = one_dtype(name, Kind.FLOAT, *xs)
    return elementwise(name, lambda *e: converted(function(*map(widened, e)), type_), *xs)


def _max(x: Expr, low: float) -> Expr:
    return Max(x, as_expr(low, x.dtype))


def _min(x: Expr, high: float) -> Expr:
    return Min(x, as_expr(high, x.dtype))


# --- Piecewise linear ------------------------------------------------------------------------


def relu(x: Tensor) -> Tensor:
    """max(x, 0), of integers too."""
    one_dtype("relu", _SIGNED, x)
    return elementwise("relu", lambda v: Max(v, as_expr(0, v.dtype)), x)


def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """`x`, times `alpha` below 0."""
    return _map("leaky_relu", lambda v: select(v < 0.0, v * alpha, v), x)


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """`x`, times `slope` below 0. Raises ShapeError if `slope` does not broadcast to `x`."""
    type_ = one_dtype("prelu", Kind.BITS | Kind.FLOAT, x, slope)
    message = "the slope of prelu does not broadcast to the shape of the data"
    check_broadcasts(slope, x, message)

    def element(*i: Expr) -> Expr:
        value, factor = widened(x[i]), widened(broadcast_element(slope, x.shape, i))
        is_negative = Lt(value, as_expr(0, value.dtype))
        return converted(Select(is_negative, value * factor, value), type_)

    return te.compute(x.shape, element, "prelu")


def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """`x` above `alpha`, else 0."""
    return _map("thresholded_relu", lambda v: select(v > alpha, v, 0.0), x)


def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """alpha * x + beta, between 0 and 1."""
    return _map("hard_sigmoid", lambda v: _max(_min(v * alpha + beta, 1.0), 0.0), x)


def hard_swish(x: Tensor) -> Tensor:
    """x * hard_sigmoid(x) with a slope of 1/6."""
    return _map("hard_swish", lambda v: v * _max(_min(v * (1 / 6) + 0.5, 1.0), 0.0), x)


def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """`x` moved by `bias` towards 0 where its magnitude is above `lambd`, else 0.

    Integers are computed in float64 and rounded towards zero.
    """
    type_ = one_dtype("shrink", Kind.NUMBER, x)

    def element(v: Expr) -> Expr:
        value = widened(v) if type_.is_float else converted(v, float64)
        upper = select(value > lambd, value - bias, 0.0)
        return converted(select(value < -lambd, value + bias, upper), type_)

    return elementwise("shrink", element, x)


# --- With exponentials -----------------------------------------------------------------------


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return _map("sigmoid", _sigmoid, x)


def _softplus(v: Expr) -> Expr:
    """log(1 + exp(v)), without overflow."""
    return _max(v, 0.0) + _log1p(_exp(-_abs(v)))


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return _map("softplus", _softplus, x)


def log_sigmoid(x: Tensor) -> Tensor:
    """The logarithm of the sigmoid."""
    return _map("log_sigmoid", lambda v: -_softplus(-v), x)


def softsign(x: Tensor) -> Tensor:
    """x / (1 + abs(x))."""
    return _map("softsign", lambda v: v / (1.0 + _abs(v)), x)


def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """`x`, and alpha * (exp(x) - 1) below 0."""
    return _map("elu", lambda v: select(v > 0.0, v, alpha * _expm1(v)), x)


def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return _map("celu", lambda v: _max(v, 0.0) + _min(alpha * _expm1(v / alpha), 0.0), x)


def selu(x: Tensor, *, alpha: float = _SELU_ALPHA, gamma: float = _SELU_GAMMA) -> Tensor:
    """gamma * elu(x)."""
    return _map("selu", lambda v: gamma * select(v > 0.0, v, alpha * _expm1(v)), x)


def mish(x: Tensor) -> Tensor:
    """x * tanh(softplus(x))."""

    def element(v: Expr) -> Expr:
        # With e = exp(v), tanh(log(1 + e)) is n / (n + 2) for n = e (e + 2), which is 1 from 20 on.
        power = _exp(_min(v, 20.0))
        number = power * (power + 2.0)
        return v * (number / (number + 2.0))

    return _map("mish", element, x)


def _gated(v: Expr, alpha: float) -> Expr:
    return v * _sigmoid(v if alpha == 1 else v * alpha)


def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x * sigmoid(alpha * x); with alpha = 1 also known as silu."""
    return _map("swish", lambda v: _gated(v, alpha), x)


def swiglu(gate: Tensor, value: Tensor, *, alpha: float = 1.0) -> Tensor:
    """swish(gate) * value."""
    return _map("swiglu", lambda g, v: _gated(g, alpha) * v, gate, value)


def gelu(x: Tensor, *, is_tanh: bool = False) -> Tensor:
    """`x` times the normal distribution function of `x`, or an approximation of it by tanh."""

    def by_erf(v: Expr) -> Expr:
        return 0.5 * v * (1.0 + _erf(v * _SQRT_HALF))

    def by_tanh(v: Expr) -> Expr:
        return 0.5 * v * (1.0 + _tanh(_SQRT_2_OVER_PI * (v + 0.044715 * (v * v * v))))

    return _map("gelu", by_tanh if is_tanh else by_erf, x)


OPERATORS: Final[tuple[Operator, ...]] = operators(
    *(relu, leaky_relu, prelu, thresholded_relu, hard_sigmoid, hard_swish, shrink),
    *(sigmoid, softplus, log_sigmoid, softsign, elu, celu, selu, mish, swish, swiglu, gelu),
)
