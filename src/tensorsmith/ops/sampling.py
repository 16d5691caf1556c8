"""Images read between their pixels: at the points of a grid, or in regions of interest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.errors import ShapeError
from tensorsmith.ir import (
    INTRINSICS,
    Bind,
    Buffer,
    DType,
    Expr,
    ExprLike,
    Kind,
    Stmt,
    Var,
    as_expr,
    as_exprs,
    seq,
)
from tensorsmith.ops.indexing import check_extents, check_integer, check_positions, clamped
from tensorsmith.ops.operands import check_rank, computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.statements import nest, store
from tensorsmith.te import Tensor

MODES: Final = {"nearest": 1, "linear": 2, "cubic": 4}
"""How many pixels of each dimension count."""

PADDINGS: Final = ("zeros", "border", "reflection")
"""What stands outside of an image."""


_fmod: Final = INTRINSICS["fmod"]


def _reflected(x: Expr, low: Expr, high: Expr) -> Expr:
    """A position thrown back at the borders until it is within them."""
    span = T.max(high - low, 1e-6)
    below = x < low
    distance = T.select(below, low - x, x - high)
    turns = T.trunc(distance / span)
    rest = distance - turns * span
    is_even = T.equal(_fmod(turns, 2.0), 0.0)
    back = T.select(
        T.equal(T.cast(below, "int32"), T.cast(is_even, "int32")), low + rest, high - rest
    )
    return T.select(below | (x > high), back, x)


@dataclass(frozen=True, slots=True)
class _Grid:
    """How positions of a grid become pixels."""

    mode: str
    padding: str
    align: bool

    def borders(self, extent: Expr, type_: DType) -> tuple[Expr, Expr]:
        """The ends of the image along a dimension."""
        size = T.cast(extent, type_)
        if self.align:
            return as_expr(0.0, type_), size - 1.0
        return as_expr(-0.5, type_), size - 0.5

    def position(self, value: Expr, extent: Expr) -> Expr:
        """From -1 to 1 over the image to pixels."""
        size = T.cast(extent, value.dtype)
        if self.align:
            x = (value + 1.0) / 2.0 * (size - 1.0)
        else:
            x = ((value + 1.0) * size - 1.0) / 2.0
        if self.mode == "nearest":
            x = T.round(x)
        low, high = self.borders(extent, value.dtype)
        if self.padding == "border":
            inside = T.max(T.min(x, size - 1.0), 0.0)
            return T.select((x < low) | (x > high), inside, x)
        return _reflected(x, low, high) if self.padding == "reflection" else x

    def weight(self, tap: Expr, part: Expr) -> Expr:
        """The weight of a tap, `part` of a pixel beyond that below."""
        if self.mode == "nearest":
            return as_expr(1.0, part.dtype)
        if self.mode == "linear":
            return T.select(T.equal(tap, 0), 1.0 - part, part)
        x = T.abs(T.cast(tap - 1, part.dtype) - part)
        a = -0.75
        near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
        far = ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
        return T.select(x <= 1.0, near, far)

    def pixel(self, position: Expr, extent: Expr, type_: DType) -> tuple[Expr, Expr | None]:
        """The index of a pixel, and whether it is in the image if that matters."""
        if self.padding == "zeros":
            return position, (position >= 0) & (position < extent)
        if self.padding == "reflection":
            low, high = self.borders(extent, type_)
            position = T.cast(_reflected(T.cast(position, type_), low, high), "index")
        return clamped(position, extent), None


def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    mode: str = "linear",
    padding: str = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """The image `x` (n, c, *image) at the points of `grid` (n, *out, rank): (n, c, *out).

    The last dimension of the grid names the last dimension of the image first; -1 and 1 are the
    ends of the image, by its pixels' centres with `align_corners`. mode, padding: of `MODES` and
    `PADDINGS`. Source: Jaderberg et al., Spatial transformer networks, 2015.
    """
    type_ = one_dtype("grid_sample", Kind.NUMBER, x)
    one_dtype("grid_sample", Kind.FLOAT, grid)
    if mode not in MODES or padding not in PADDINGS:
        raise ShapeError(
            "grid_sample has no such mode",
            given=f"{mode!r} and {padding!r}",
            try_=f"one of {', '.join(MODES)} and one of {', '.join(PADDINGS)}",
        )
    check_rank("grid_sample", x, 3)
    check_rank("grid_sample", grid, x.rank, x.rank)
    rank = x.rank - 2
    check_extents(grid.shape[-1], rank, "grid_sample takes a coordinate a dimension")
    check_extents(grid.shape[0], x.shape[0], "batches of grid_sample")
    for extent in x.shape[2:]:
        check_positions(extent, grid.shape, "grid_sample")
    way, wide = _Grid(mode, padding, align_corners), computed_in(grid.dtype)
    inner = computed_in(type_) if type_.is_float else wide

    def coordinate(*i: Expr) -> tuple[Expr, ...]:
        return tuple(
            way.position(converted(grid[(*i, as_expr(rank - 1 - d))], wide), x.shape[2 + d])
            for d in range(rank)
        )

    points = te.compute(grid.shape[:-1], coordinate, "points")
    taps = tuple(te.reduce_axis(MODES[mode], f"k{d}") for d in range(rank))

    def element(n: Expr, c: Expr, *i: Expr) -> te.Reduce:
        at, inside, weight = [], as_expr(True), as_expr(1.0, inner)
        for d, tap in enumerate(taps):
            place = points[d][(n, *i)]
            base = T.floor(place)
            first = T.cast(base, "index") - (1 if mode == "cubic" else 0)
            index, within = way.pixel(first + tap, x.shape[2 + d], wide)
            at.append(index)
            inside = inside if within is None else inside & within
            weight = weight * converted(way.weight(tap.var, place - base), inner)
        value = weight * converted(x[(n, c, *at)], inner)
        if padding == "zeros":
            value = T.select(inside, value, 0.0)
        return te.sum(value, axis=taps)

    total = te.compute((*x.shape[:2], *grid.shape[1:-1]), element, "sampled")
    return te.compute(total.shape, lambda *i: converted(total[i], type_), "grid_sample")


def affine_grid(
    theta: Tensor, *, image: tuple[ExprLike, ...], align_corners: bool = False
) -> Tensor:
    """The grid by which `grid_sample` maps an image affinely: (n, *image, rank).

    theta: (n, rank, rank + 1), applied to (..., y, x, 1) read from the end: x first.
    """
    type_ = one_dtype("affine_grid", Kind.FLOAT, theta)
    check_rank("affine_grid", theta, 3, 3)
    extents = as_exprs(image)
    rank = len(extents)
    check_extents(theta.shape[1], rank, "affine_grid takes a row a dimension")
    check_extents(theta.shape[2], rank + 1, "affine_grid takes a column a dimension and one more")
    wide = computed_in(type_)

    def along(i: Expr, extent: Expr) -> Expr:
        here, size = T.cast(i, wide), T.cast(extent, wide)
        if align_corners:
            return T.select(T.equal(extent, 1), 0.0, here * 2.0 / T.max(size - 1.0, 1.0) - 1.0)
        return (here * 2.0 + 1.0) / size - 1.0

    def element(n: Expr, *rest: Expr) -> Expr:
        *at, k = rest
        total = converted(theta[n, k, rank], wide)
        for j in range(rank):
            d = rank - 1 - j
            total = total + converted(theta[n, k, j], wide) * along(at[d], extents[d])
        return converted(total, type_)

    return te.compute((theta.shape[0], *extents, rank), element, "affine_grid")


@dataclass(frozen=True, slots=True)
class _Regions:
    """Regions of interest of an image, cut into bins."""

    x: Tensor | Buffer
    rois: Tensor | Buffer
    images: Tensor | Buffer
    pooled: tuple[int, int]
    sampling: int
    scale: float
    half_pixel: bool
    wide: DType

    def bin(self, r: Expr, d: int) -> tuple[Expr, Expr, Expr]:
        """Where a region begins along a dimension, the extent of a bin, its number of samples."""
        shift = 0.5 if self.half_pixel else 0.0
        begin, end = (
            converted(self.rois[r, as_expr(k)], self.wide) * self.scale - shift
            for k in (1 - d, 3 - d)
        )
        extent = end - begin if self.half_pixel else T.max(end - begin, 1.0)
        size = extent / float(self.pooled[d])
        if self.sampling > 0:
            return begin, size, as_expr(self.sampling)
        return begin, size, T.max(T.cast(T.ceil(size), "index"), 0)

    def terms(self, at: Sequence[Expr], sample: Sequence[Expr]) -> list[Expr]:
        """The four pixels around a sample of a bin, times their weights."""
        r, c, *bins = at
        image = clamped(self.images[r,], self.x.shape[0])
        sides = []
        for d in range(2):
            begin, size, count = self.bin(r, d)
            step = size / T.cast(count, self.wide)
            half = T.cast(sample[d], self.wide) + 0.5
            place = begin + T.cast(bins[d], self.wide) * size + half * step
            sides.append(self._side(place, self.x.shape[2 + d]))
        found = []
        for y, y_weight, y_inside in sides[0]:
            for x, x_weight, x_inside in sides[1]:
                pixel = converted(self.x[image, c, y, x], self.wide)
                found.append(T.select(y_inside & x_inside, y_weight * x_weight * pixel, 0.0))
        return found

    def _side(self, place: Expr, extent: Expr) -> list[tuple[Expr, Expr, Expr]]:
        """The two pixels on both sides of a place, their weights, and whether they count."""
        size = T.cast(extent, self.wide)
        inside = (place >= -1.0) & (place <= size)
        held = T.max(place, 0.0)
        low = T.cast(held, "index")
        is_last = low >= extent - 1
        part = T.select(is_last, 0.0, held - T.cast(low, self.wide))
        return [
            (clamped(low, extent), 1.0 - part, inside),
            (clamped(low + 1, extent), part, inside),
        ]


def roi_align(
    x: Tensor,
    rois: Tensor,
    images: Tensor,
    *,
    pooled: tuple[int, int],
    sampling: int = 0,
    scale: float = 1.0,
    mode: str = "avg",
    half_pixel: bool = True,
) -> Tensor:
    """The mean (or with mode 'max' the greatest) of samples of each bin of regions of an image.

    x: (n, c, h, w). rois: (count, 4), each (x1, y1, x2, y2), in pixels once scaled. images: the
    image of each. sampling: samples of a bin along each dimension; 0 for one a pixel.
    Returns (count, c, *pooled). Source: He et al., Mask R-CNN, 2017.
    """
    type_ = one_dtype("roi_align", Kind.FLOAT, x, rois)
    check_integer(images, "the images of roi_align")
    check_rank("roi_align", x, 4, 4)
    check_rank("roi_align", rois, 2, 2)
    check_rank("roi_align", images, 1, 1)
    check_extents(rois.shape[1], 4, "a region of interest has 4 numbers")
    for extent in (x.shape[0], *x.shape[2:]):
        check_positions(extent, rois.shape, "roi_align")
    check_extents(rois.shape[0], images.shape[0], "roi_align takes an image a region")
    if mode not in ("avg", "max"):
        raise ShapeError(f"roi_align has no mode {mode!r}", try_="'avg' or 'max'")
    wide = computed_in(type_)
    settings = (pooled, sampling, scale, half_pixel, wide)
    shape = (rois.shape[0], x.shape[1], *map(as_expr, pooled))
    combine: Callable[[Expr, Expr], Expr] = T.max if mode == "max" else (lambda a, b: a + b)

    def merged(terms: list[Expr]) -> Expr:
        total = terms[0]
        for term in terms[1:]:
            total = combine(total, term)
        return total

    regions = _Regions(x, rois, images, *settings)
    if sampling > 0:
        samples = [te.reduce_axis(sampling, n) for n in ("sy", "sx")]
        reducer = te.max if mode == "max" else te.sum
        total = te.compute(
            shape,
            lambda *i: reducer(merged(regions.terms(i, [s.var for s in samples])), axis=samples),
            "roi_samples",
        )
    else:

        def body(image: Buffer, boxes: Buffer, numbers: Buffer, out: Buffer) -> Stmt:
            return _adaptive(_Regions(image, boxes, numbers, *settings), out, merged, combine)

        total = te.extern(body, [x, rois, images], (shape, wide), "roi_samples")

    def element(*i: Expr) -> Expr:
        value = total[i]
        if mode == "avg":
            counts = [regions.bin(i[0], d)[2] for d in range(2)]
            value = value / T.cast(T.max(counts[0] * counts[1], 1), wide)
        return converted(value, type_)

    return te.compute(shape, element, "roi_align")


def _adaptive(
    regions: _Regions,
    out: Buffer,
    merged: Callable[[list[Expr]], Expr],
    combine: Callable[[Expr, Expr], Expr],
) -> Stmt:
    """Samples as many as a bin has pixels, combined."""

    def bins(*i: Expr) -> Stmt:
        counts = [Var(f"count{d}") for d in range(2)]
        binds = [Bind(v, regions.bin(i[0], d)[2]) for d, v in enumerate(counts)]

        def sample(*s: Expr) -> Stmt:
            value = merged(regions.terms(i, s))
            begins = T.equal(s[0], 0) & T.equal(s[1], 0)
            return store(out, i, T.select(begins, value, combine(out[i], value)))

        return seq(*binds, store(out, i, 0.0), nest(counts, sample, "s"))

    return nest(out.shape, bins, "r")


OPERATORS: Final[tuple[Operator, ...]] = operators(grid_sample, affine_grid, roi_align)
