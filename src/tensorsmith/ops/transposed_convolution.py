"""Transposed convolutions: windows laid over an image, and added up where they overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.ir import Expr, ExprLike, Kind, as_expr, as_exprs
from tensorsmith.ops.channels import Channels, channels_of
from tensorsmith.ops.convolution import finished
from tensorsmith.ops.indexing import check_extents, is_one
from tensorsmith.ops.movement import reshape
from tensorsmith.ops.operands import check_rank, computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.windows import Windows, at_least_zero, windows
from tensorsmith.te import Tensor


def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    strides: tuple[ExprLike, ...] = (),
    dilations: tuple[ExprLike, ...] = (),
    pads: tuple[ExprLike, ...] = (),
    output_padding: tuple[ExprLike, ...] = (),
    groups: int = 1,
    block: int = 0,
) -> Tensor:
    """The transpose of `conv` with regard to the image. weight: (c, m / groups, *kernel).

    Each element of `x` adds its multiple of the kernel: a contraction over the channels alone, and
    then a sum of what overlaps. Returns (n, m, *extents) where an extent is
    ``(e - 1) * stride + (k - 1) * dilation + 1 + output_padding - pads``. If nothing overlaps, `x`
    may have its channels in blocks, and so may the result: in those of `block`, unless that is 0.
    """
    type_ = one_dtype("conv_transpose", Kind.FLOAT, *(t for t in (x, weight, bias) if t))
    check_rank("conv_transpose", weight, 3)
    rank = weight.rank - 2
    given = channels_of(x, rank)
    shape = windows(x.shape[2 : 2 + rank], weight.shape[2:], strides, dilations, pads)
    channels, each = weight.shape[:2]
    check_extents(given.extent, channels, "channels of a convolution and of its weight")
    check_extents(channels % groups, 0, "input channels that groups do not divide")
    extra = as_exprs(output_padding) or (as_expr(0),) * rank
    if len(extra) != rank:
        raise ShapeError("one output padding a dimension", given=f"{output_padding}")
    facts = Analyzer()
    image = tuple(
        at_least_zero(
            shape.padded_extent(d, e) + extra[d] - shape.before[d] - shape.after[d], facts
        )
        for d, e in enumerate(shape.image)
    )
    made = Channels(facts.simplify(each * groups), block)
    if not block and not given.block and not _lie_apart(shape, image, facts):
        total = overlap_added(_products(x, weight, groups), shape, image)
        return finished(reshape(total, shape=(x.shape[0], made.lead, *image)), bias, type_.name)
    if not _lie_apart(shape, image, facts):
        raise ShapeError("channels in blocks, of windows that overlap", given=repr(x))
    return finished(_side_by_side(x, weight, groups, made), bias, type_.name, made)


def _lie_apart(shape: Windows, image: Sequence[Expr], facts: Analyzer) -> bool:
    """Whether windows lie next to each other and make up the image."""
    return all(
        facts.equal(step, kernel) and facts.equal(before, 0) and facts.equal(whole, step * extent)
        for step, kernel, before, whole, extent in zip(
            shape.steps, shape.kernel, shape.before, image, shape.image, strict=True
        )
    )


def _side_by_side(x: Tensor, weight: Tensor, groups: int, made: Channels) -> Tensor:
    """What each element of the image adds to each tap of its window, which no other adds to."""
    rank, wide = weight.rank - 2, computed_in(x.dtype)
    given = channels_of(x, rank).part(groups)
    own, kernel, image = made.part(groups), weight.shape[2:], x.shape[2 : 2 + rank]
    axes = given.axes()
    inner = [a.var for a in axes]

    def product(n: Expr, g: Expr, m: Expr, *rest: Expr) -> te.Reduce:
        at, taps, trail = rest[: 2 * rank : 2], rest[1 : 2 * rank : 2], rest[2 * rank :]
        lead: Expr = inner[0]
        channel = given.number(lead, inner[1:])
        if groups > 1:
            lead, channel = g * given.lead + lead, g * given.extent + channel
        pixel = converted(x[(n, lead, *at, *inner[1:])], wide)
        return te.sum(
            pixel * converted(weight[(channel, own.number(m, trail), *taps)], wide), axis=axes
        )

    places = [e for pair in zip(image, kernel, strict=True) for e in pair]
    apart = te.compute((x.shape[0], groups, own.lead, *places, *own.trail), product, "side_by_side")
    whole = [Analyzer().simplify(e * k) for e, k in zip(image, kernel, strict=True)]
    return reshape(apart, shape=(x.shape[0], made.lead, *whole, *made.trail))


def _products(x: Tensor, weight: Tensor, groups: int) -> Tensor:
    """(n, g, m, *kernel, *image): what each element of the image adds to each tap of its window."""
    batch, channels, *image = x.shape
    kernel, wide = weight.shape[2:], computed_in(x.dtype)
    depth = Analyzer().simplify(channels // groups)
    channel = te.reduce_axis(depth, "c")
    rank = len(kernel)

    def product(n: Expr, g: Expr, m: Expr, *rest: Expr) -> te.Reduce:
        c = channel if groups == 1 else g * depth + channel
        pixel = converted(x[(n, c, *rest[rank:])], wide)
        return te.sum(pixel * converted(weight[(c, m, *rest[:rank])], wide), axis=channel)

    return te.compute((batch, groups, weight.shape[1], *kernel, *image), product, "products")


def overlap_added(spread: Tensor, shape: Windows, image: Sequence[Expr]) -> Tensor:
    """Windows laid over an image, added up where they overlap.

    spread: (*lead, *kernel, *windows); the windows are those of `shape.image` positions. Returns
    (*lead, *image), where position 0 is `shape.before` from the start of the first window.
    """
    rank = len(shape.kernel)
    lead = spread.rank - 2 * rank
    taps = shape.taps()

    def element(*axes: Expr) -> te.Reduce:
        conditions: list[Expr] = []
        at: list[Expr] = []
        for d, tap in enumerate(taps):
            offset = axes[lead + d] + shape.before[d] - tap * shape.spread[d]
            step = shape.steps[d]
            window = offset if is_one(step) else offset // step
            if not is_one(step):
                conditions.append(T.equal(offset % step, 0))
            conditions.extend((window >= 0, window < shape.image[d]))
            at.append(window)
        where = conditions[0]
        for condition in conditions[1:]:
            where = where & condition
        return te.sum(spread[(*axes[:lead], *taps, *at)], axis=taps, where=where)

    return te.compute((*spread.shape[:lead], *image), element, "overlap_add")


def col2im(
    x: Tensor,
    *,
    image: tuple[ExprLike, ...],
    block: tuple[ExprLike, ...],
    strides: tuple[ExprLike, ...] = (),
    dilations: tuple[ExprLike, ...] = (),
    pads: tuple[ExprLike, ...] = (),
) -> Tensor:
    """Columns back to an image: (n, c * block, windows) to (n, c, *image), overlaps added up."""
    type_ = one_dtype("col2im", Kind.NUMBER, x)
    check_rank("col2im", x, 3, 3)
    facts = Analyzer()
    shape = windows(as_exprs(image), block, strides, dilations, pads)
    counts = shape.counts()
    size = as_expr(1)
    for extent in shape.kernel:
        size = size * extent
    apart = reshape(
        x,
        shape=(x.shape[0], facts.simplify(x.shape[1] // size), *shape.kernel, *counts),
    )
    wide = te.compute(apart.shape, lambda *i: converted(apart[i], computed_in(type_)), "columns")
    laid = Windows(counts, shape.kernel, shape.steps, shape.spread, shape.before, shape.after)
    total = overlap_added(wide, laid, shape.image)
    return te.compute(total.shape, lambda *i: converted(total[i], type_), "col2im")


OPERATORS: Final[tuple[Operator, ...]] = operators(conv_transpose, col2im)
