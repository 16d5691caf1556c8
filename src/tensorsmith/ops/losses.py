"""Losses of classification: of scores or logarithms of probabilities, against class numbers."""

from __future__ import annotations

from typing import Final

from tensorsmith import te
from tensorsmith.errors import ShapeError
from tensorsmith.ir import Cast, Eq, Expr, Kind, Max, Min, Neg, Select, as_expr, const
from tensorsmith.ir.dtype import index
from tensorsmith.ir.expr import equal
from tensorsmith.ops.operands import check_rank, computed_in, converted, one_dtype, rounded
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.reduce import number_of, reduced
from tensorsmith.ops.requirements import require
from tensorsmith.ops.softmax import log_probabilities
from tensorsmith.te import Tensor

REDUCTIONS: Final = ("none", "sum", "mean")


def _check(name: str, x: Tensor, target: Tensor, weight: Tensor | None, reduction: str) -> None:
    one_dtype(name, Kind.FLOAT, *((x,) if weight is None else (x, weight)))
    one_dtype(name, Kind.INT | Kind.UINT, target)
    check_rank(name, x, 2)
    message = f"the operands of {name} do not fit"
    given = ", ".join(repr(t) for t in (x, target, weight) if t is not None)
    if target.rank != x.rank - 1 or (weight is not None and weight.rank != 1):
        raise ShapeError(
            message,
            given=given,
            because="there is a class number for each place but the classes (axis 1)",
        )
    pairs = list(zip(target.shape, (x.shape[0], *x.shape[2:]), strict=True))
    if weight is not None:
        pairs.append((weight.shape[0], x.shape[1]))
    for extent, wanted in pairs:
        require(equal(extent, wanted), message, given=given)
    if reduction not in REDUCTIONS:
        raise ShapeError(f"there is no reduction {reduction!r}", try_=f"one of {REDUCTIONS}")


def _loss(
    x: Tensor, target: Tensor, weight: Tensor | None, *, reduction: str, ignore_index: int | None
) -> Tensor:
    """The loss for logarithms of probabilities, in their type or a wider one."""
    inner = computed_in(x.dtype)
    zero, one = as_expr(0.0, inner), as_expr(1.0, inner)
    last = x.shape[1] - 1

    def class_of(i: tuple[Expr, ...]) -> Expr:
        """The class, brought within the classes: nothing outside of the tensor may be read."""
        return Max(Min(Cast(target[i], index), last), const(0))

    def unless_ignored(i: tuple[Expr, ...], value: Expr) -> Expr:
        if ignore_index is None:
            return value
        ignored = Eq(Cast(target[i], index), const(ignore_index))
        return Select(ignored, zero, value)

    def weight_of(*i: Expr) -> Expr:
        value = one if weight is None else converted(weight[class_of(i)], inner)
        return unless_ignored(i, value)

    def element(n: Expr, *i: Expr) -> Expr:
        at = (n, *i)
        value: Expr = Neg(converted(x[(n, class_of(at), *i)], inner))
        if weight is not None:
            value = value * converted(weight[class_of(at)], inner)
        return unless_ignored(at, value)

    losses = te.compute(target.shape, element, "losses")
    if reduction == "none":
        return losses
    axes = range(target.rank)
    total = reduced(te.sum, losses, axes, keep_dims=False, name="loss_sum")
    if reduction == "sum":
        return total
    if weight is None and ignore_index is None:
        count = converted(number_of(target, axes), inner)
        return te.compute((), lambda: total[()] / count, "loss")
    weights = te.compute(target.shape, weight_of, "weights")
    whole = reduced(te.sum, weights, axes, keep_dims=False, name="weight_sum")
    return te.compute((), lambda: total[()] / whole[()], "loss")


def negative_log_likelihood(
    log_probabilities: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int | None = None,
) -> Tensor:
    """The negative of the logarithm of the probability of each target class.

    log_probabilities: (n, classes, ...).  target: (n, ...), class numbers.  weight: one a class.
    reduction: 'none', 'sum', or 'mean', which is weighted. Targets that are `ignore_index` count
    nothing; others outside of the classes count as the nearest one.
    Raises ShapeError for operands that do not fit.
    """
    _check("negative_log_likelihood", log_probabilities, target, weight, reduction)
    loss = _loss(log_probabilities, target, weight, reduction=reduction, ignore_index=ignore_index)
    return rounded(loss, log_probabilities.dtype, "negative_log_likelihood")


def softmax_cross_entropy(
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int | None = None,
    with_log_probabilities: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """`negative_log_likelihood` of the log_softmax of the scores over the classes.

    with_log_probabilities: give those, too.
    """
    _check("softmax_cross_entropy", scores, target, weight, reduction)
    logs = log_probabilities(scores, 1)
    loss = _loss(logs, target, weight, reduction=reduction, ignore_index=ignore_index)
    result = rounded(loss, scores.dtype, "softmax_cross_entropy")
    if not with_log_probabilities:
        return result
    return result, rounded(logs, scores.dtype, "log_probabilities")


OPERATORS: Final[tuple[Operator, ...]] = operators(negative_log_likelihood, softmax_cross_entropy)
