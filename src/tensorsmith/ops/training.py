"""Steps of optimisers: a tensor and what is kept of its gradients, a step later.

Narrow floats are computed in float32. Source: ONNX, ai.onnx.preview.training.
"""

from __future__ import annotations

from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.errors import ShapeError
from tensorsmith.ir import INTRINSICS, DType, Expr, Kind, as_expr
from tensorsmith.ops.indexing import check_extents, check_integer
from tensorsmith.ops.operands import check_rank, computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor

_pow: Final = INTRINSICS["pow"]


def _checked(op: str, rate: Tensor, step: Tensor, tensors: tuple[Tensor, ...], count: int) -> DType:
    """The type to compute in. Raises ShapeError or DTypeError if the operands do not fit."""
    if len(tensors) != count:
        raise ShapeError(f"{op} takes {count} tensors", given=f"{len(tensors)}")
    one_dtype(op, Kind.FLOAT, rate)
    check_integer(step, f"the number of the step of {op}")
    for scalar in (rate, step):
        check_rank(f"{op}: the rate and the step", scalar, 0, 0)
    type_ = one_dtype(op, Kind.FLOAT, *tensors)
    for other in tensors[1:]:
        check_rank(op, other, tensors[0].rank, tensors[0].rank)
        for a, b in zip(tensors[0].shape, other.shape, strict=True):
            check_extents(a, b, f"{op} of tensors of different shapes")
    return computed_in(type_)


def _regular(x: Tensor, gradient: Tensor, i: tuple[Expr, ...], penalty: float) -> Expr:
    """The gradient of the loss with a penalty on squares."""
    wide = computed_in(x.dtype)
    value = converted(gradient[i], wide)
    return value + converted(x[i], wide) * penalty if penalty else value


def adagrad(
    rate: Tensor,
    step: Tensor,
    *tensors: Tensor,
    decay: float = 0.0,
    epsilon: float = 1e-6,
    penalty: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """A step of Adagrad. tensors: the parameter, its gradient, the sum of squares so far.

    decay: of the rate, over the steps. penalty: of squares of the parameter. Returns the parameter
    and the sum. Source: Duchi et al., Adaptive subgradient methods, 2011.
    """
    wide = _checked("adagrad", rate, step, tensors, 3)
    x, gradient, squares = tensors

    def element(*i: Expr) -> tuple[Expr, Expr]:
        slope = _regular(x, gradient, i, penalty)
        total = converted(squares[i], wide) + slope * slope
        pace = converted(rate[()], wide) / (T.cast(step[()], wide) * decay + 1.0)
        new = converted(x[i], wide) - pace * slope / (T.sqrt(total) + epsilon)
        return converted(new, x.dtype), converted(total, x.dtype)

    new, total = te.compute(x.shape, element, "adagrad")
    return new, total


def adam(
    rate: Tensor,
    step: Tensor,
    *tensors: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-8,
    penalty: float = 0.0,
    penalty_after: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """A step of Adam. tensors: the parameter, its gradient, the means of gradients and squares.

    alpha, beta: what remains of the means. penalty_after: the share that the new parameter loses.
    Returns the parameter and the means. Source: Kingma and Ba, Adam, 2015.
    """
    wide = _checked("adam", rate, step, tensors, 4)
    x, gradient, mean, squares = tensors

    def pace() -> Expr:
        number = T.cast(step[()], wide)
        start = 1.0 - _pow(as_expr(alpha, wide), number)
        scaled = T.sqrt(1.0 - _pow(as_expr(beta, wide), number)) / start
        value = converted(rate[()], wide)
        return T.select(number > 0.0, value * scaled, value)

    adjusted = te.compute((), pace, "adjusted_rate")

    def element(*i: Expr) -> tuple[Expr, Expr, Expr]:
        slope = _regular(x, gradient, i, penalty)
        first = converted(mean[i], wide) * alpha + slope * (1.0 - alpha)
        second = converted(squares[i], wide) * beta + slope * slope * (1.0 - beta)
        new = converted(x[i], wide) - adjusted[()] * first / (T.sqrt(second) + epsilon)
        kept = new * (1.0 - penalty_after)
        return converted(kept, x.dtype), converted(first, x.dtype), converted(second, x.dtype)

    new, first, second = te.compute(x.shape, element, "adam")
    return new, first, second


def momentum(
    rate: Tensor,
    step: Tensor,
    *tensors: Tensor,
    alpha: float,
    beta: float,
    penalty: float = 0.0,
    is_nesterov: bool = False,
) -> tuple[Tensor, Tensor]:
    """A step of gradient descent with momentum. tensors: the parameter, its gradient, the momentum.

    alpha: what remains of the momentum. beta: the share of the gradient, 1 in step 0. Returns the
    parameter and the momentum. Source: Sutskever et al., On the importance of momentum, 2013.
    """
    wide = _checked("momentum", rate, step, tensors, 3)
    x, gradient, speed = tensors

    def element(*i: Expr) -> tuple[Expr, Expr]:
        slope = _regular(x, gradient, i, penalty)
        share = T.select(step[()] > 0, as_expr(beta, wide), as_expr(1.0, wide))
        new_speed = converted(speed[i], wide) * alpha + share * slope
        move = slope + new_speed * alpha if is_nesterov else new_speed
        new = converted(x[i], wide) - converted(rate[()], wide) * move
        return converted(new, x.dtype), converted(new_speed, x.dtype)

    new, new_speed = te.compute(x.shape, element, "momentum")
    return new, new_speed


OPERATORS: Final[tuple[Operator, ...]] = operators(adagrad, adam, momentum)
