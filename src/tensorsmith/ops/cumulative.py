"""Running sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorsmith import te
from tensorsmith.ir import Add, Binary, Eq, Expr, Kind, Mul, Select, as_expr, const
from tensorsmith.ops.operands import as_axis, check_rank, computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor


def _running(
    name: str,
    op: type[Binary],
    start: int,
    x: Tensor,
    *,
    axis: int,
    exclusive: bool,
    reverse: bool,
) -> Tensor:
    type_ = one_dtype(name, Kind.BITS | Kind.FLOAT, x)
    check_rank(name, x, 1)
    at = as_axis(name, axis, x.rank)
    extent = x.shape[at]
    inner = computed_in(type_)
    rest = (*x.shape[:at], *x.shape[at + 1 :])
    identity = as_expr(start, inner)

    def position(t: Expr) -> Expr:
        return extent - 1 - t if reverse else t

    def step(t: Expr, state: Tensor) -> Tensor:
        def element(*i: Expr) -> Expr:
            value = x[(*i[:at], position(t), *i[at:])]
            return op(state[i], converted(value, inner))

        return te.compute(rest, element, f"{name}_step")

    before = te.compute(rest, _constant(identity), f"{name}_start")
    states = te.scan(extent, step, before, f"{name}_states")

    if at == 0 and not exclusive and not reverse and inner is type_:
        return states

    def result(*i: Expr) -> Expr:
        t, others = position(i[at]), (*i[:at], *i[at + 1 :])
        if not exclusive:
            return converted(states[(t, *others)], type_)
        return converted(
            Select(Eq(t, const(0)), identity, states[(t - 1, *others)]),
            type_,
        )

    return te.compute(x.shape, result, name)


def _constant(value: Expr) -> Callable[..., Expr]:
    return lambda *_: value


def cumsum(x: Tensor, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """The sum of the elements up to each one along the axis.

    exclusive: without that one.  reverse: from the end on. Narrow floats are summed in float32.
    """
    return _running("cumsum", Add, 0, x, axis=axis, exclusive=exclusive, reverse=reverse)


def cumprod(x: Tensor, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """The product of the elements up to each one along the axis; otherwise as `cumsum`."""
    return _running("cumprod", Mul, 1, x, axis=axis, exclusive=exclusive, reverse=reverse)


OPERATORS: Final[tuple[Operator, ...]] = operators(cumsum, cumprod)
