"""Softmax and its kin, over one axis. Narrow floats are computed in float32."""

from __future__ import annotations

from typing import Final

from tensorsmith import te
from tensorsmith.ir import INTRINSICS, Eq, Expr, Kind, Select, Sub, as_expr
from tensorsmith.ops.operands import as_axis, check_rank, converted, one_dtype, rounded, widened
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.reduce import reduced
from tensorsmith.te import Tensor

_exp: Final = INTRINSICS["exp"]
_log: Final = INTRINSICS["log"]


def _prepared(name: str, x: Tensor, axis: int) -> int:
    one_dtype(name, Kind.FLOAT, x)
    check_rank(name, x, 1)
    return as_axis(name, axis, x.rank)


def _without(i: tuple[Expr, ...], axis: int) -> tuple[Expr, ...]:
    return (*i[:axis], *i[axis + 1 :])


def _largest(x: Tensor, axis: int) -> Tensor:
    return reduced(
        te.max, x, (axis,), keep_dims=False, function=lambda v, *_: widened(v), name="largest"
    )


def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """exp(x) over its sum along the axis, computed without overflow."""
    over = _prepared("softmax", x, axis)
    largest = _largest(x, over)
    power = te.compute(
        x.shape, lambda *i: _exp(widened(x[i]) - largest[_without(i, over)]), "power"
    )
    total = reduced(te.sum, power, (over,), keep_dims=False, name="total")
    one = as_expr(1.0, total.dtype)  # the total is at least 1: dividing once a row loses nothing
    scale = te.compute(total.shape, lambda *i: one / total[i], "scale")
    return te.compute(
        x.shape,
        lambda *i: converted(power[i] * scale[_without(i, over)], x.dtype),
        "softmax",
    )


def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """The logarithm of softmax, computed without overflow."""
    over = _prepared("log_softmax", x, axis)
    return rounded(log_probabilities(x, over), x.dtype, "log_softmax")


def log_probabilities(x: Tensor, axis: int) -> Tensor:
    """The logarithm of softmax along the axis, in the type to compute in."""
    largest = _largest(x, axis)
    total = reduced(
        te.sum,
        x,
        (axis,),
        keep_dims=False,
        function=lambda v, *i: _exp(Sub(widened(v), largest[i])),
        name="total",
    )

    def element(*i: Expr) -> Expr:
        at = _without(i, axis)
        return widened(x[i]) - largest[at] - _log(total[at])

    return te.compute(x.shape, element, "log_softmax")


def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """1 at the first of the greatest elements along the axis, 0 elsewhere."""
    over = _prepared("hardmax", x, axis)
    k = te.reduce_axis(x.shape[over], "k")
    _, place = te.compute(
        _without(x.shape, over),
        lambda *i: te.argmax(x[(*i[:over], k.var, *i[over:])], axis=k, dtype="int64"),
        "place",
    )
    zero, one = as_expr(0.0, x.dtype), as_expr(1.0, x.dtype)

    def element(*i: Expr) -> Expr:
        found = place[_without(i, over)]
        return Select(Eq(converted(i[over], found.dtype), found), one, zero)

    return te.compute(x.shape, element, "hardmax")


OPERATORS: Final[tuple[Operator, ...]] = operators(softmax, log_softmax, hardmax)
