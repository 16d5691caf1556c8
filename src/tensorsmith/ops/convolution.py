"""Convolutions: sums of products over channels and the positions of windows.

Padding is a tensor of its own, so that what remains is a contraction. Narrow floats are multiplied
and summed in float32, and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.ir import Expr, ExprLike, Kind, as_expr
from tensorsmith.ops.channels import Channels, channels_of
from tensorsmith.ops.indexing import check_extents, is_one, zero
from tensorsmith.ops.movement import reshape
from tensorsmith.ops.operands import check_rank, computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.windows import Windows, windows, with_padding
from tensorsmith.te import ReduceAxis, Tensor


def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    strides: tuple[ExprLike, ...] = (),
    dilations: tuple[ExprLike, ...] = (),
    pads: tuple[ExprLike, ...] = (),
    groups: int = 1,
) -> Tensor:
    """Cross-correlation. x: (n, c, *image), weight: (m, c / groups, *kernel), bias: (m,).

    Returns (n, m, *windows). pads: all begins, then all ends. Output channels are in `groups` runs,
    each of which sees a run of the input channels.
    """
    type_ = one_dtype("conv", Kind.FLOAT | Kind.INT, *(t for t in (x, weight, bias) if t))
    shape = _windows_of(x, weight, strides, dilations, pads)
    counts = shape.counts()
    source = with_padding(x, shape, counts, zero(type_))
    total = contracted(source, weight, shape, counts, groups)
    return finished(total, bias, type_.name)


def blocked_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    block: int,
    strides: tuple[ExprLike, ...] = (),
    dilations: tuple[ExprLike, ...] = (),
    pads: tuple[ExprLike, ...] = (),
    groups: int = 1,
) -> Tensor:
    """`conv` whose result has its channels in blocks: (n, m / block, *windows, block).

    x: plain (n, c, *image) or blocked (n, c / b, *image, b): see `tensorsmith.ops.channels`.
    block: 0 for a plain result. The weight and the bias are those of `conv`. Groups consist of
    whole blocks, or of one channel.
    """
    type_ = one_dtype("blocked_conv", Kind.FLOAT | Kind.INT, *(t for t in (x, weight, bias) if t))
    check_rank("blocked_conv", weight, 3)
    rank = weight.rank - 2
    given, made = channels_of(x, rank), Channels(weight.shape[0], block)
    shape = windows(x.shape[2 : 2 + rank], weight.shape[2:], strides, dilations, pads)
    counts = shape.counts()
    source = with_padding(x, shape, counts, zero(type_), len(given.trail))
    total = contracted(source, weight, shape, counts, groups, made)
    return finished(total, bias, type_.name, made)


def _windows_of(
    x: Tensor,
    weight: Tensor,
    strides: Sequence[ExprLike],
    dilations: Sequence[ExprLike],
    pads: Sequence[ExprLike],
) -> Windows:
    check_rank("conv", x, 3)
    check_rank("conv", weight, x.rank, x.rank)
    return windows(x.shape[2:], weight.shape[2:], strides, dilations, pads)


def contracted(
    source: Tensor,
    weight: Tensor,
    shape: Windows,
    counts: Sequence[Expr],
    groups: int,
    made: Channels | None = None,
) -> Tensor:
    """The sum of products of a padded image, in the type to sum in: (n, m, *counts).

    made: how the channels of the result lie; plain, if None.
    """
    made = made or Channels(weight.shape[0])
    given, rank, depth = channels_of(source, len(counts)), len(counts), weight.shape[1]
    check_extents(given.extent, depth * groups, "channels of a convolution and of its weight")
    check_extents(made.extent % groups, 0, "output channels that groups do not divide")
    batch, taps, wide = source.shape[0], shape.taps(), computed_in(source.dtype)
    whole = (batch, made.lead, *counts, *made.trail)

    def term(n: Expr, c: Sequence[Expr], at: Sequence[Expr], weighed: Sequence[Expr]) -> Expr:
        place = [shape.position(d, w, taps[d]) for d, w in enumerate(at)]
        pixel = converted(source[(n, c[0], *place, *c[1:])], wide)
        return pixel * converted(weight[(*weighed, *taps)], wide)

    if groups > 1 and is_one(depth) and Analyzer().equal(made.extent, groups):
        if given.block != made.block:
            raise ShapeError("a channel alone stays in its block", given=f"{given} to {made}")

        def each(n: Expr, m: Expr, *rest: Expr) -> te.Reduce:
            at, trail = rest[:rank], rest[rank:]
            number = made.number(m, trail)
            return te.sum(term(n, (m, *trail), at, (number, as_expr(0))), axis=taps)

        return te.compute(whole, each, "depthwise_conv")
    mine, own = given.part(groups), made.part(groups)
    axes = mine.axes()
    inner = [a.var for a in axes]

    def of_group(n: Expr, g: Expr | None, m: Expr, rest: Sequence[Expr]) -> te.Reduce:
        at, number = rest[:rank], own.number(m, rest[rank:])
        lead: Expr = inner[0]
        if g is not None:
            number, lead = g * own.extent + number, g * mine.lead + lead
        weighed = (number, mine.number(inner[0], inner[1:]))
        return te.sum(term(n, (lead, *inner[1:]), at, weighed), axis=(*axes, *taps))

    if groups == 1:
        return te.compute(whole, lambda n, m, *rest: of_group(n, None, m, rest), "conv")
    apart = te.compute(
        (batch, groups, own.lead, *counts, *own.trail),
        lambda n, g, m, *rest: of_group(n, g, m, rest),
        "grouped_conv",
    )
    return reshape(apart, shape=whole)


def finished(
    total: Tensor, bias: Tensor | None, dtype: str, made: Channels | None = None
) -> Tensor:
    """`total`, with the bias of each channel, in the type of the operands."""
    if bias is None and total.dtype.name == dtype:
        return total
    if bias is None:
        return te.compute(total.shape, lambda *i: T.cast(total[i], dtype), "conv_out")
    channels = made or Channels(total.shape[1])
    check_rank("the bias of a convolution", bias, 1, 1)
    check_extents(bias.shape[0], channels.extent, "one bias an output channel")
    added, type_, last = bias, bias.dtype, total.rank - len(channels.trail)

    def element(*i: Expr) -> Expr:
        number = channels.number(i[1], i[last:])
        return converted(total[i] + converted(added[number], total.dtype), type_)

    return te.compute(total.shape, element, "conv_bias")


def conv_integer(
    x: Tensor,
    weight: Tensor,
    x_zero: Tensor | None = None,
    weight_zero: Tensor | None = None,
    *,
    strides: tuple[ExprLike, ...] = (),
    dilations: tuple[ExprLike, ...] = (),
    pads: tuple[ExprLike, ...] = (),
    groups: int = 1,
) -> Tensor:
    """`conv` of 8-bit integers less their zero points, exact in int32.

    x_zero: a scalar. weight_zero: a scalar, or one an output channel.
    """
    one_dtype("conv_integer", Kind.INT | Kind.UINT, x)
    one_dtype("conv_integer", Kind.INT | Kind.UINT, weight)
    shape = _windows_of(x, weight, strides, dilations, pads)
    counts = shape.counts()
    centred = with_padding(_centred(x, x_zero), shape, counts, T.const(0, "int32"))
    return contracted(centred, _centred(weight, weight_zero), shape, counts, groups)


def _centred(x: Tensor, zero_point: Tensor | None) -> Tensor:
    """`x` less its zero point (one for all, or one a position of the first axis), as int32."""
    if zero_point is None:
        return te.compute(x.shape, lambda *i: T.cast(x[i], "int32"), "centred")
    point = zero_point
    is_shared = point.rank == 0 or is_one(point.shape[0])
    if not is_shared:
        check_extents(point.shape[0], x.shape[0], "one zero point an output channel")

    def element(*i: Expr) -> Expr:
        at = (0,) * point.rank if is_shared else (i[0],)
        return T.cast(x[i], "int32") - T.cast(point[at], "int32")

    return te.compute(x.shape, element, "centred")


def deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    strides: tuple[ExprLike, ...] = (),
    dilations: tuple[ExprLike, ...] = (),
    pads: tuple[ExprLike, ...] = (),
    groups: int = 1,
    offset_groups: int = 1,
) -> Tensor:
    """`conv` whose taps are moved, each by its own (y, x) in `offset`, and read between pixels.

    offset: (n, offset_groups * kernel * 2, *windows); mask: the same without the 2, a factor.
    Two dimensions. Source: Dai et al., Deformable Convolutional Networks, 2017.
    """
    given = tuple(t for t in (x, weight, offset, bias, mask) if t)
    type_ = one_dtype("deform_conv", Kind.FLOAT, *given)
    check_rank("deform_conv", x, 4, 4)
    shape = _windows_of(x, weight, strides, dilations, pads)
    counts = shape.counts()
    lead: tuple[ExprLike, ...] = (x.shape[0], as_expr(offset_groups), *shape.kernel)
    moved = reshape(offset, shape=(*lead, 2, *counts))
    factor = None if mask is None else reshape(mask, shape=(*lead, *counts))
    each = Analyzer().simplify(x.shape[1] // offset_groups)
    wide = computed_in(type_)

    def sample(n: Expr, c: Expr, *rest: Expr) -> Expr:
        taps, at = rest[:2], rest[2:]
        where = [
            T.cast(shape.position(d, at[d], taps[d]) - shape.before[d], wide)
            + converted(moved[n, c // each, *taps, d, *at], wide)
            for d in range(2)
        ]
        value = _between(x, (n, c), where)
        if factor is not None:
            value = value * converted(factor[n, c // each, *taps, *at], wide)
        return value

    samples = te.compute((*x.shape[:2], *shape.kernel, *counts), sample, "samples")
    total = _of_samples(samples, weight, groups)
    return finished(total, bias, type_.name)


def _between(x: Tensor, lead: Sequence[Expr], where: Sequence[Expr]) -> Expr:
    """The value of an image between pixels, bilinearly; zero outside."""
    floors = [T.floor(w) for w in where]
    total: Expr | None = None
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        at, weight, inside = [], as_expr(1.0, where[0].dtype), as_expr(True)
        for d, up in enumerate(corner):
            part = where[d] - floors[d]
            weight = weight * (part if up else 1.0 - part)
            place = floors[d] + float(up)
            inside = inside & (place >= 0.0) & (place < T.cast(x.shape[2 + d], where[0].dtype))
            at.append(T.cast(place, "index"))
        pixel = converted(x[(*lead, *at)], where[0].dtype)
        term = T.select(inside, weight * pixel, 0.0)
        total = term if total is None else total + term
    assert total is not None
    return total


def _of_samples(samples: Tensor, weight: Tensor, groups: int) -> Tensor:
    """The contraction of samples (n, c, kernel, windows) and a weight (m, c / groups, kernel)."""
    batch, channels, *kernel = samples.shape[:4]
    made, depth = weight.shape[:2]
    check_extents(channels, depth * groups, "channels of a convolution and of its weight")
    check_extents(made % groups, 0, "output channels that groups do not divide")
    each = Analyzer().simplify(made // groups)
    channel = te.reduce_axis(depth, "c")
    taps: tuple[ReduceAxis, ...] = tuple(te.reduce_axis(k, f"k{d}") for d, k in enumerate(kernel))

    def element(n: Expr, g: Expr, m: Expr, *at: Expr) -> te.Reduce:
        pixel = samples[(n, g * depth + channel, *taps, *at)]
        factor = converted(weight[(g * each + m, channel, *taps)], samples.dtype)
        return te.sum(pixel * factor, axis=(channel, *taps))

    counts = samples.shape[4:]
    total = te.compute((batch, groups, each, *counts), element, "deform_conv")
    return reshape(total, shape=(batch, made, *counts))


OPERATORS: Final[tuple[Operator, ...]] = operators(conv, blocked_conv, conv_integer, deform_conv)
