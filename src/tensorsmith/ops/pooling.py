"""Pooling: one number from the elements of each window of an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.ir import INTRINSICS, DType, Expr, ExprLike, Kind, Var, as_expr, as_exprs, const
from tensorsmith.ops.indexing import check_extents, check_positions, product, zero
from tensorsmith.ops.movement import reshape
from tensorsmith.ops.operands import check_rank, computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.scatter import scatter_elements
from tensorsmith.ops.windows import Windows, windows, with_padding
from tensorsmith.te import Tensor

_pow: Final = INTRINSICS["pow"]

Amounts = tuple[ExprLike, ...]


def _image_of(x: Tensor, *, blocked: bool) -> tuple[Expr, ...]:
    """The extents of images whose channels are in blocks, or not."""
    return x.shape[2:-1] if blocked else x.shape[2:]


def lowest(type_: DType) -> Expr:
    """What every element of the type is at least."""
    return type_("-inf") if type_.is_float else const(type_.min_value, type_)


def max_pool(
    x: Tensor,
    *,
    kernel: Amounts,
    strides: Amounts = (),
    dilations: Amounts = (),
    pads: Amounts = (),
    ceil: bool = False,
    blocked: bool = False,
) -> Tensor:
    """The greatest element of each window of `x`: (n, c, *image). NaN is the greatest of all.

    pads: all begins, then all ends. ceil: windows that fit in part count, too. blocked: `x` and
    the result have their channels in blocks, (n, c / b, *image, b).
    """
    type_ = one_dtype("max_pool", Kind.NUMBER, x)
    check_rank("max_pool", x, 4 if blocked else 3)
    shape = windows(_image_of(x, blocked=blocked), kernel, strides, dilations, pads)
    counts = shape.counts(ceil=ceil)
    source = with_padding(x, shape, counts, lowest(type_), int(blocked))
    taps = shape.taps()

    def element(n: Expr, c: Expr, *rest: Expr) -> te.Reduce:
        place = [shape.position(d, rest[d], tap) for d, tap in enumerate(taps)]
        return te.max(source[(n, c, *place, *rest[len(taps) :])], axis=taps)

    return te.compute((*x.shape[:2], *counts, *_block_of(x, shape)), element, "max_pool")


def _block_of(x: Tensor, shape: Windows) -> tuple[Expr, ...]:
    """The extents of `x` after those of the image."""
    return x.shape[2 + len(shape.image) :]


def max_pool_with_indices(
    x: Tensor,
    *,
    kernel: Amounts,
    strides: Amounts = (),
    dilations: Amounts = (),
    pads: Amounts = (),
    ceil: bool = False,
    column_major: bool = False,
) -> tuple[Tensor, Tensor]:
    """`max_pool`, and where the elements stand in `x` as one row (int64); the first among equals.

    column_major: the last spatial dimension counts as the outermost of them.
    """
    one_dtype("max_pool_with_indices", Kind.NUMBER, x)
    check_rank("max_pool_with_indices", x, 3)
    shape = windows(x.shape[2:], kernel, strides, dilations, pads)
    counts = shape.counts(ceil=ceil)
    taps = shape.taps()

    def best(n: Expr, c: Expr, *at: Expr) -> te.ReduceMany:
        place = [shape.position(d, w, taps[d]) - shape.before[d] for d, w in enumerate(at)]
        return te.argmax(x[(n, c, *place)], axis=taps, where=_inside(place, shape.image))

    value, tap = te.compute((*x.shape[:2], *counts), best, "max_pool")

    def position(n: Expr, c: Expr, *at: Expr) -> Expr:
        left = T.cast(tap[(n, c, *at)], "index")
        place: list[Expr] = []
        for d in reversed(range(len(at))):
            place.insert(0, left % shape.kernel[d])
            left = left // shape.kernel[d]
        order = list(range(len(at)))
        flat = n * x.shape[1] + c
        for d in reversed(order) if column_major else order:
            spot = shape.position(d, at[d], place[d]) - shape.before[d]
            flat = flat * shape.image[d] + spot
        return T.cast(flat, "int64")

    return value, te.compute(tap.shape, position, "max_pool_indices")


def _inside(place: Sequence[Expr], image: Sequence[Expr]) -> Expr:
    where = as_expr(True)
    for position, extent in zip(place, image, strict=True):
        where = where & (position >= 0) & (position < extent)
    return where


def average_pool(
    x: Tensor,
    *,
    kernel: Amounts,
    strides: Amounts = (),
    dilations: Amounts = (),
    pads: Amounts = (),
    ceil: bool = False,
    count_pads: bool = False,
    blocked: bool = False,
) -> Tensor:
    """The mean of each window of `x`: (n, c, *image).

    count_pads: elements of the padding count as zeros (what reaches beyond it does not count);
    else they do not count. blocked: as for `max_pool`.
    """
    type_ = one_dtype("average_pool", Kind.FLOAT, x)
    check_rank("average_pool", x, 4 if blocked else 3)
    shape = windows(_image_of(x, blocked=blocked), kernel, strides, dilations, pads)
    counts = shape.counts(ceil=ceil)
    wide = computed_in(type_)
    total = _total(x, shape, counts, lambda v: v)

    def element(*i: Expr) -> Expr:
        number = product(
            _taps_inside(shape, d, i[2 + d], counts[d], count_pads=count_pads)
            for d in range(len(counts))
        )
        return converted(total[i] / T.cast(number, wide), type_)

    return te.compute(total.shape, element, "average_pool")


def _taps_inside(shape: Windows, d: int, window: Expr, count: Expr, *, count_pads: bool) -> Expr:
    """How many positions of a window along dimension `d` lie within the image (or its padding)."""
    facts = Analyzer()
    facts.bind(cast("Var", window), 0, count)
    begin = shape.position(d, window, 0) - shape.before[d]
    low = facts.simplify(-shape.before[d] if count_pads else as_expr(0))
    high = facts.simplify(shape.image[d] + (shape.after[d] if count_pads else 0))
    gap = shape.spread[d]
    first = T.max(0, (low - begin + gap - 1) // gap)
    last = T.min(shape.kernel[d], (high - begin + gap - 1) // gap)
    return facts.simplify(last - first)


def _total(
    x: Tensor, shape: Windows, counts: Sequence[Expr], function: Callable[[Expr], Expr]
) -> Tensor:
    """The sum over each window of a function of the elements, in the type to sum in."""
    wide = computed_in(x.dtype)
    block = _block_of(x, shape)
    source = with_padding(x, shape, counts, zero(x.dtype), len(block))
    taps = shape.taps()

    def element(n: Expr, c: Expr, *rest: Expr) -> te.Reduce:
        place = [shape.position(d, rest[d], tap) for d, tap in enumerate(taps)]
        value = source[(n, c, *place, *rest[len(taps) :])]
        return te.sum(function(converted(value, wide)), axis=taps)

    return te.compute((*x.shape[:2], *counts, *block), element, "window_sum")


def lp_pool(
    x: Tensor,
    *,
    kernel: Amounts,
    p: int = 2,
    strides: Amounts = (),
    dilations: Amounts = (),
    pads: Amounts = (),
    ceil: bool = False,
    blocked: bool = False,
) -> Tensor:
    """The p-norm of each window of `x`: (n, c, *image). blocked: as for `max_pool`."""
    type_ = one_dtype("lp_pool", Kind.FLOAT, x)
    if p < 1:
        raise ShapeError("a norm is of an order of at least 1", given=f"p={p}")
    check_rank("lp_pool", x, 4 if blocked else 3)
    shape = windows(_image_of(x, blocked=blocked), kernel, strides, dilations, pads)

    def power(v: Expr) -> Expr:
        if p == 1:
            return T.abs(v)
        return v * v if p == 2 else _pow(T.abs(v), float(p))

    def root(v: Expr) -> Expr:
        if p == 1:
            return v
        return T.sqrt(v) if p == 2 else _pow(v, 1.0 / p)

    total = _total(x, shape, shape.counts(ceil=ceil), power)
    return te.compute(total.shape, lambda *i: converted(root(total[i]), type_), "lp_pool")


def max_unpool(x: Tensor, indices: Tensor, *, shape: Amounts) -> Tensor:
    """Zeros of this shape, with the elements of `x` at `indices` (row-major, as of `max_pool`)."""
    one_dtype("max_unpool", Kind.NUMBER, x)
    one_dtype("max_unpool", Kind.INT, indices)
    check_rank("max_unpool", indices, x.rank, x.rank)
    extents, count = as_exprs(shape), Analyzer().simplify(product(x.shape))
    blank = te.compute((product(extents),), lambda i: zero(x.dtype), "blank")
    row, places = reshape(x, shape=(count,)), reshape(indices, shape=(count,))
    return reshape(scatter_elements(blank, places, row), shape=extents)


def max_roi_pool(
    x: Tensor, rois: Tensor, *, pooled: tuple[int, int], spatial_scale: float = 1.0
) -> Tensor:
    """The greatest element in each of ``pooled`` bins of regions of an image; 0 in empty bins.

    x: (n, c, h, w). rois: (count, 5), each (image, x1, y1, x2, y2), corners included.
    Returns (count, c, *pooled). Source: Girshick, Fast R-CNN, 2015.
    """
    type_ = one_dtype("max_roi_pool", Kind.FLOAT, x, rois)
    check_rank("max_roi_pool", x, 4, 4)
    check_rank("max_roi_pool", rois, 2, 2)
    check_extents(rois.shape[1], 5, "a region of interest has 5 numbers")
    check_positions(x.shape[0], rois.shape, "max_roi_pool")
    wide = computed_in(type_)
    image = x.shape[2:]

    def corner(r: Expr, k: int) -> Expr:
        scaled = converted(rois[r, k], wide) * spatial_scale
        return T.cast(T.floor(scaled + 0.5), "index")

    def bounds(r: Expr, bin_: Expr, d: int) -> tuple[Expr, Expr]:
        start = corner(r, 2 - d)
        extent = T.max(corner(r, 4 - d) - start + 1, 1)
        low = start + bin_ * extent // pooled[d]
        high = start + ((bin_ + 1) * extent + pooled[d] - 1) // pooled[d]
        return T.max(low, 0), T.min(high, image[d])

    rows, columns = (te.reduce_axis(e, n) for e, n in zip(image, "hw", strict=True))

    def best(r: Expr, c: Expr, i: Expr, j: Expr) -> te.Reduce:
        number = T.max(T.min(T.cast(rois[r, 0], "index"), x.shape[0] - 1), 0)
        top, bottom = bounds(r, i, 0)
        left, right = bounds(r, j, 1)
        where = (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
        return te.max(x[number, c, rows, columns], axis=(rows, columns), where=where)

    greatest = te.compute((rois.shape[0], x.shape[1], *pooled), best, "roi_max")

    def element(r: Expr, c: Expr, i: Expr, j: Expr) -> Expr:
        top, bottom = bounds(r, i, 0)
        left, right = bounds(r, j, 1)
        return T.select((top < bottom) & (left < right), greatest[r, c, i, j], zero(type_))

    return te.compute(greatest.shape, element, "max_roi_pool")


OPERATORS: Final[tuple[Operator, ...]] = operators(
    max_pool, max_pool_with_indices, average_pool, lp_pool, max_unpool, max_roi_pool
)
