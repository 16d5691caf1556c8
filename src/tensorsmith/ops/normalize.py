"""Normalisations: elements less their mean, over their deviation, by groups of some sort.

Variances take two passes, so that they do not cancel. Narrow floats are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tensorsmith import te
from tensorsmith.errors import ShapeError
from tensorsmith.ir import INTRINSICS, Const, DType, Eq, Expr, Kind, Or, Select, as_expr, const
from tensorsmith.ir.dtype import float32
from tensorsmith.ir.expr import equal
from tensorsmith.ops.broadcast import broadcast_element, check_broadcasts
from tensorsmith.ops.operands import (
    as_axes,
    as_axis,
    check_rank,
    computed_in,
    converted,
    one_dtype,
    widened,
)
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.reduce import number_of, reduced
from tensorsmith.ops.requirements import require
from tensorsmith.te import Tensor

_sqrt: Final = INTRINSICS["sqrt"]
_abs: Final = INTRINSICS["abs"]
_pow: Final = INTRINSICS["pow"]
Index = tuple[Expr, ...]


def _outer(i: Index, axes: Sequence[int]) -> Index:
    return tuple(e for d, e in enumerate(i) if d not in axes)


def _averaged(name: str, x: Tensor, axes: Sequence[int], function: Callable[..., Expr]) -> Tensor:
    """The mean over the axes of ``function(element, *outer indices)``, in a wide type."""
    total = reduced(
        te.sum,
        x,
        axes,
        keep_dims=False,
        function=lambda v, *i: function(widened(v), *i),
        name=f"{name}_sum",
    )
    count = converted(number_of(x, axes), total.dtype)
    return te.compute(total.shape, lambda *i: total[i] / count, name)


def _moments(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Mean and variance over the axes."""
    mean = _averaged("mean", x, axes, lambda v, *_: v)

    def squared(v: Expr, *i: Expr) -> Expr:
        difference = v - mean[i]
        return difference * difference

    return mean, _averaged("variance", x, axes, squared)


def _inverse_deviation(variance: Tensor, epsilon: float) -> Tensor:
    def element(*i: Expr) -> Expr:
        return 1.0 / _sqrt(variance[i] + epsilon)

    return te.compute(variance.shape, element, "inverse_deviation")


def _fitting(name: str, x: Tensor, **factors: Tensor | None) -> None:
    """Have each factor broadcast to the shape of `x`. Raises ShapeError if it cannot."""
    for what, factor in factors.items():
        if factor is not None:
            message = f"the {what} of {name} does not broadcast to the shape of the data"
            check_broadcasts(factor, x, message)


def _factor(factor: Tensor, x: Tensor, i: Index, type_: DType) -> Expr:
    return converted(broadcast_element(factor, x.shape, i), type_)


def layer_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    with_statistics: bool = False,
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """Normalised over the axes from `axis` on, times `scale`, plus `bias`.

    with_statistics: give the means and inverse deviations too, as float32, with extents of 1 for
    those axes.
    """
    type_ = one_dtype("layer_norm", Kind.FLOAT, x)
    _fitting("layer_norm", x, scale=scale, bias=bias)
    axes = range(as_axis("layer_norm", axis, x.rank), x.rank)
    mean, variance = _moments(x, axes)
    factor = _inverse_deviation(variance, epsilon)

    def element(*i: Expr) -> Expr:
        at = _outer(i, axes)
        value = (widened(x[i]) - mean[at]) * factor[at] * _factor(scale, x, i, mean.dtype)
        if bias is not None:
            value = value + _factor(bias, x, i, mean.dtype)
        return converted(value, type_)

    result = te.compute(x.shape, element, "layer_norm")
    if not with_statistics:
        return result
    shape = [const(1) if d in axes else e for d, e in enumerate(x.shape)]
    means, factors = (
        te.compute(shape, lambda *i, t=t: converted(t[_outer(i, axes)], float32), f"{t.name}_kept")
        for t in (mean, factor)
    )
    return result, means, factors


def rms_norm(x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5) -> Tensor:
    """Over the root of the mean of squares over the axes from `axis` on, times `scale`.

    The result has the type of `scale`.
    """
    one_dtype("rms_norm", Kind.FLOAT, x)
    one_dtype("rms_norm", Kind.FLOAT, scale)
    _fitting("rms_norm", x, scale=scale)
    axes = range(as_axis("rms_norm", axis, x.rank), x.rank)
    squares = _averaged("mean_square", x, axes, lambda v, *_: v * v)
    factor = _inverse_deviation(squares, epsilon)

    def element(*i: Expr) -> Expr:
        value = widened(x[i]) * factor[_outer(i, axes)]
        return converted(value * _factor(scale, x, i, factor.dtype), scale.dtype)

    return te.compute(x.shape, element, "rms_norm")


# --- By channels (axis 1) --------------------------------------------------------------------


def group_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    groups: int,
    epsilon: float = 1e-5,
) -> Tensor:
    """Normalised over groups of channels and all axes after them, times `scale`, plus `bias`.

    x: (n, c, ...).  scale, bias: one a channel, or one a group.
    Raises ShapeError if the channels do not divide into the groups.
    """
    type_ = one_dtype("group_norm", Kind.FLOAT, x)
    check_rank("group_norm", x, 2)
    for p in (scale, bias):
        check_rank("group_norm", p, 1, 1)
        least = Or(equal(p.shape[0], x.shape[1]), equal(p.shape[0], groups))
        require(least, "group_norm takes one number a channel, or one a group", given=repr(p))
    channels = x.shape[1]
    divides = f"{channels!r} channels do not divide into {groups} groups"
    if groups < 1:
        raise ShapeError(divides, given=repr(x))
    require(equal(channels % groups, 0), divides, given=repr(x))
    size = channels // groups
    if isinstance(channels, Const):
        size = const(int(channels.value) // groups)
    mean, variance = _group_moments(x, groups, size)
    factor = _inverse_deviation(variance, epsilon)

    def parameter(p: Tensor, c: Expr, g: Expr) -> Expr:
        is_per_group = isinstance(p.shape[0], Const) and p.shape[0].value == groups
        return converted(p[g if is_per_group else c], mean.dtype)

    def element(n: Expr, c: Expr, *i: Expr) -> Expr:
        g = c // size
        value = (widened(x[(n, c, *i)]) - mean[n, g]) * factor[n, g]
        return converted(value * parameter(scale, c, g) + parameter(bias, c, g), type_)

    return te.compute(x.shape, element, "group_norm")


def _group_moments(x: Tensor, groups: int, size: Expr) -> tuple[Tensor, Tensor]:
    """Mean and variance of each group of `size` channels."""
    shape = (x.shape[0], const(groups))
    count = converted(size * number_of(x, range(2, x.rank)), computed_in(x.dtype))

    def averaged(name: str, function: Callable[[Expr, Expr, Expr], Expr]) -> Tensor:
        over = [te.reduce_axis(e, f"k{d}") for d, e in enumerate((size, *x.shape[2:]))]
        inner = [axis.var for axis in over[1:]]

        def element(n: Expr, g: Expr) -> te.Reduce:
            value = widened(x[(n, g * size + over[0].var, *inner)])
            return te.sum(function(value, n, g), axis=over)

        total = te.compute(shape, element, f"{name}_sum")
        return te.compute(shape, lambda n, g: total[n, g] / count, name)

    mean = averaged("mean", lambda v, n, g: v)
    return mean, averaged("variance", lambda v, n, g: (v - mean[n, g]) * (v - mean[n, g]))


def instance_norm(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """Normalised over all axes after the channels, times `scale`, plus `bias`.

    x: (n, c, ...).  scale, bias: (c,).
    """
    type_ = one_dtype("instance_norm", Kind.FLOAT, x, scale, bias)
    check_rank("instance_norm", x, 3)
    _per_channel("instance_norm", x, scale, bias)
    mean, variance = _moments(x, range(2, x.rank))
    factor = _inverse_deviation(variance, epsilon)

    def element(n: Expr, c: Expr, *i: Expr) -> Expr:
        value = (widened(x[(n, c, *i)]) - mean[n, c]) * factor[n, c]
        return converted(value * widened(scale[c]) + widened(bias[c]), type_)

    return te.compute(x.shape, element, "instance_norm")


def _per_channel(name: str, x: Tensor, *parameters: Tensor) -> None:
    """Have each parameter hold one element a channel of `x`. Raises ShapeError if it cannot."""
    channels = x.shape[1] if x.rank > 1 else const(1)
    for p in parameters:
        message = f"{name} takes one number a channel, of which there are {channels!r}"
        if p.rank != 1:
            raise ShapeError(message, given=f"{x!r} and {p!r}")
        require(equal(p.shape[0], channels), message, given=f"{x!r} and {p!r}")


def _channel(x: Tensor, parameter: Tensor, i: Index) -> Expr:
    """The element of a parameter of batch_norm for an element of the data."""
    if parameter.rank == 1:
        return parameter[i[1] if x.rank > 1 else const(0)]
    return parameter[i[1:]]


def _normalised(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, factor: Tensor) -> Tensor:
    """(x - mean) * factor * scale + bias by channels."""
    inner = factor.dtype

    def element(*i: Expr) -> Expr:
        s, b, m, f = (converted(_channel(x, p, i), inner) for p in (scale, bias, mean, factor))
        return converted((converted(x[i], inner) - m) * (f * s) + b, x.dtype)

    return te.compute(x.shape, element, "batch_norm")


def batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, *, epsilon: float = 1e-5
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias by channels, for given statistics.

    x: (n, c, ...), or (n,) of one channel.  Others: (c,), or one for all but the first axis.
    """
    one_dtype("batch_norm", Kind.FLOAT, x)
    parameters = (scale, bias, mean, variance)
    for p in parameters:
        one_dtype("batch_norm", Kind.FLOAT, p)
    if all(p.rank == 1 for p in parameters):
        _per_channel("batch_norm", x, *parameters)
    else:
        message = "the operands of batch_norm do not fit"
        given = ", ".join(map(repr, (x, *parameters)))
        for p in parameters:
            if p.rank != x.rank - 1:
                raise ShapeError(message, given=given)
            for extent, wanted in zip(p.shape, x.shape[1:], strict=True):
                require(equal(extent, wanted), message, given=given)
    inner = computed_in(x.dtype)
    wide = te.compute(variance.shape, lambda *i: converted(variance[i], inner), "variance")
    return _normalised(x, scale, bias, mean, _inverse_deviation(wide, epsilon))


def batch_norm_training(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
) -> tuple[Tensor, ...]:
    """Normalised by channels over all other axes; then new running means and variances, those of
    this batch.

    The running ones are ``running * momentum + batch * (1 - momentum)``.
    """
    one_dtype("batch_norm_training", Kind.FLOAT, x)
    _per_channel("batch_norm_training", x, scale, bias, mean, variance)
    check_rank("batch_norm_training", x, 2)
    axes = [d for d in range(x.rank) if d != 1]
    own_mean, own_variance = _moments(x, axes)
    result = _normalised(x, scale, bias, own_mean, _inverse_deviation(own_variance, epsilon))

    def running(old: Tensor, new: Tensor) -> Tensor:
        def element(c: Expr) -> Expr:
            value = converted(old[c], new.dtype) * momentum + new[c] * (1 - momentum)
            return converted(value, old.dtype)

        return te.compute(new.shape, element, f"running_{new.name}")

    def batch(new: Tensor, type_: DType) -> Tensor:
        return te.compute(new.shape, lambda c: converted(new[c], type_), f"batch_{new.name}")

    statistics = ((mean, own_mean), (variance, own_variance))
    olds = (running(old, new) for old, new in statistics)
    return result, *olds, *(batch(new, old.dtype) for old, new in statistics)


# --- Others ----------------------------------------------------------------------------------


def lp_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Over the sum of magnitudes (p = 1) or the root of the sum of squares (p = 2) along an axis;
    0 where that is 0. Raises ShapeError for another p.
    """
    type_ = one_dtype("lp_norm", Kind.FLOAT, x)
    over = as_axis("lp_norm", axis, x.rank)
    if p not in (1, 2):
        raise ShapeError(f"lp_norm takes the order 1 or 2, not {p}")
    total = reduced(
        te.sum,
        x,
        (over,),
        keep_dims=False,
        function=lambda v, *_: _abs(widened(v)) if p == 1 else widened(v) * widened(v),
        name="total",
    )

    def element(*i: Expr) -> Expr:
        whole = total[_outer(i, (over,))]
        norm = whole if p == 1 else _sqrt(whole)
        zero = as_expr(0.0, norm.dtype)
        return converted(Select(Eq(norm, zero), zero, widened(x[i]) / norm), type_)

    return te.compute(x.shape, element, "lp_norm")


def _to_power(base: Expr, exponent: float) -> Expr:
    """A power; of quarters, as 0.75 is, by square roots, which take a fraction of the time."""
    root = _sqrt(base)
    if exponent == 0.5:
        return root
    if exponent in (0.25, 0.75):
        fourth = _sqrt(root)
        return fourth if exponent == 0.25 else root * fourth
    return _pow(base, as_expr(float(exponent), base.dtype))


def lrn(
    x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """Over a power of the sum of squares in a window of `size` channels around each one."""
    type_ = one_dtype("lrn", Kind.FLOAT, x)
    check_rank("lrn", x, 2)
    channels = x.shape[1]
    k = te.reduce_axis(size, "k")
    before = (size - 1) // 2

    def square_sum(n: Expr, c: Expr, *i: Expr) -> te.Reduce:
        at = c + k.var - before
        value = widened(x[(n, at, *i)])
        return te.sum(value * value, axis=k, where=(at >= 0) & (at < channels))

    squares = te.compute(x.shape, square_sum, "square_sum")

    def element(*i: Expr) -> Expr:
        base = squares[i] * (alpha / size) + bias
        return converted(widened(x[i]) / _to_power(base, beta), type_)

    return te.compute(x.shape, element, "lrn")


def mean_variance_norm(
    x: Tensor, *, axes: Sequence[int] = (0, 2, 3), epsilon: float = 1e-9
) -> Tensor:
    """(x - mean) / (deviation + epsilon) over the axes."""
    type_ = one_dtype("mean_variance_norm", Kind.FLOAT, x)
    over = sorted(as_axes("mean_variance_norm", axes, x.rank))
    mean, variance = _moments(x, over)

    def element(*i: Expr) -> Expr:
        at = _outer(i, over)
        return converted((widened(x[i]) - mean[at]) / (_sqrt(variance[at]) + epsilon), type_)

    return te.compute(x.shape, element, "mean_variance_norm")


OPERATORS: Final[tuple[Operator, ...]] = operators(
    *(layer_norm, rms_norm, group_norm, instance_norm, batch_norm, batch_norm_training),
    *(lp_norm, lrn, mean_variance_norm),
)
