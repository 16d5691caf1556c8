"""Resizing: tensors sampled anew along their dimensions, one dimension after the other.

Where a dimension is sampled, and by which weights, follows from the position in the result alone:
so both are small tensors of their own, computed in float64. Source: ONNX, Resize.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.ir import INTRINSICS, Add, Const, Expr, ExprLike, Kind, as_expr, as_exprs
from tensorsmith.ir.dtype import float64
from tensorsmith.ops.indexing import check_positions, clamped
from tensorsmith.ops.operands import as_axes, computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.quantize import saturated
from tensorsmith.te import Tensor

MODES: Final = ("nearest", "linear", "cubic")
TRANSFORMS: Final = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
_floor: Final = INTRINSICS["floor"]
_ceil: Final = INTRINSICS["ceil"]

NEAREST: Final[dict[str, Callable[[Expr], Expr]]] = {
    "round_prefer_floor": lambda x: _ceil(x - 0.5),
    "round_prefer_ceil": lambda x: _floor(x + 0.5),
    "floor": _floor,
    "ceil": _ceil,
}


MOST_SPELT_OUT: Final = 4
"""Taps that are added up as one expression, instead of by a reduction."""

_ONE: Final = as_expr(1)
_SAME: Final = as_expr(1.0, float64)


@dataclass(frozen=True, slots=True)
class _Way:
    """How to sample a dimension.

    extent, count: before and after. scale: their ratio, as the model has it, in float64.
    factor: the scale if it is a known number. roi: the ends of what is looked at, from 0 to 1.
    """

    mode: str
    transform: str
    nearest: str
    cubic: float
    exclude_outside: bool
    extrapolation: float
    antialias: bool
    extent: Expr = _ONE
    count: Expr = _ONE
    scale: Expr = _SAME
    factor: float | None = None
    roi: tuple[Expr, Expr] | None = None

    def source(self, o: Expr) -> Expr:
        """Where the position `o` of the result lies in the tensor, in float64."""
        x, extent = T.cast(o, float64), T.cast(self.extent, float64)
        width = self.scale * extent
        if self.transform == "asymmetric":
            return x / self.scale
        if self.transform == "align_corners":
            return T.select(T.equal(width, 1.0), 0.0, x * (extent - 1.0) / (width - 1.0))
        half = (x + 0.5) / self.scale - 0.5
        if self.transform == "pytorch_half_pixel":
            return T.select(T.equal(width, 1.0), -0.5, half)
        if self.transform == "half_pixel_symmetric":
            return extent / 2.0 * (1.0 - T.cast(self.count, float64) / width) + half
        if self.roi is None:
            return half
        begin, end = self.roi
        span = (end - begin) * (extent - 1.0)
        inside = T.select(T.equal(width, 1.0), span / 2.0, x * span / (width - 1.0))
        return inside + begin * (extent - 1.0)

    def nearest_position(self, o: Expr) -> Expr:
        """The position whose element is the result's."""
        return clamped(T.cast(NEAREST[self.nearest](self.source(o)), "index"), self.extent)

    def or_outside(self, o: Expr, value: Expr) -> Expr:
        """`value`, or that of extrapolation where a position is outside of a crop."""
        if self.transform != "tf_crop_and_resize":
            return value
        x = self.source(o)
        outside = (x < 0.0) | (x > T.cast(self.extent, float64) - 1.0)
        constant = T.cast(as_expr(self.extrapolation, float64), value.dtype)
        return T.select(outside, constant, value)

    def first(self) -> Expr:
        """The first tap, counted from the position below."""
        reach = 1 if self.mode == "linear" else 2
        if not self.antialias:
            return as_expr(1 - reach)
        if self.factor is not None:
            return as_expr(math.floor(-reach / min(self.factor, 1.0)) + 1)
        ratio = (-reach * self.extent) // T.max(self.count, 1)
        return Analyzer().simplify(T.min(ratio, -reach) + 1)

    def taps(self) -> Expr:
        """How many positions count."""
        return Analyzer().simplify(2 - 2 * self.first())

    def weight(self, distance: Expr) -> Expr:
        """The weight of a position at this distance (in taps), before they are made to sum to 1."""
        scale = T.min(self.scale, 1.0) if self.antialias else as_expr(1.0, float64)
        x = T.abs(distance * scale)
        if self.mode == "linear":
            return T.max(1.0 - x, 0.0)
        a = self.cubic
        near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
        far = ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
        return T.select(x <= 1.0, near, T.select(x < 2.0, far, 0.0))


def resize(  # noqa: PLR0913 - these are independent of each other
    x: Tensor,
    scales: Tensor | None = None,
    roi: Tensor | None = None,
    *,
    shape: tuple[ExprLike, ...],
    axes: tuple[int, ...] | None = None,
    factors: tuple[float, ...] | None = None,
    mode: str = "nearest",
    transform: str = "half_pixel",
    nearest: str = "round_prefer_floor",
    cubic: float = -0.75,
    exclude_outside: bool = False,
    extrapolation: float = 0.0,
    antialias: bool = False,
) -> Tensor:
    """`x` with the extents `shape` along `axes` (all, if None), its elements interpolated.

    factors: the scales, where the model gives these rather than the shape; scales: the same as a
    tensor, where they are not known. roi: begins, then ends, from 0 to 1 (tf_crop_and_resize).
    mode, transform, nearest: of `MODES`, `TRANSFORMS`, `NEAREST`. cubic: the coefficient of Keys.
    exclude_outside: positions outside do not count, else they are as the nearest one inside.
    antialias: where a dimension shrinks, all that it covers counts.
    """
    kinds = Kind.NUMBER if mode != "nearest" else Kind.ANY
    one_dtype("resize", kinds, x)
    for what, value, known in (
        ("mode", mode, MODES),
        ("transform", transform, TRANSFORMS),
        ("nearest", nearest, NEAREST),
    ):
        if value not in known:
            raise ShapeError(f"resize has no {what} {value!r}", try_=f"one of {', '.join(known)}")
    along = as_axes("resize", axes, x.rank)
    if len(shape) != len(along) or (factors is not None and len(factors) != len(along)):
        raise ShapeError("resize takes an extent and a scale for each axis")
    if antialias and scales is not None and mode != "nearest":
        raise ShapeError("resize with antialiasing takes scales that are known")
    way = _Way(mode, transform, nearest, cubic, exclude_outside, extrapolation, antialias)
    given = (factors, scales, roi if transform == "tf_crop_and_resize" else None)
    ways: dict[int, _Way] = {}
    for k, (axis, count) in enumerate(zip(along, as_exprs(shape), strict=True)):
        found = _scaled(replace(way, extent=x.shape[axis], count=count), k, len(along), given)
        is_plain = found.factor == 1.0 or (factors is None and scales is None)
        check_positions(x.shape[axis], (count,), "resize")
        if not (is_plain and found.roi is None and Analyzer().equal(x.shape[axis], count)):
            ways[axis] = found
    return _nearest(x, ways) if mode == "nearest" else _interpolated(x, ways)


def _scaled(
    way: _Way,
    k: int,
    rank: int,
    given: tuple[tuple[float, ...] | None, Tensor | None, Tensor | None],
) -> _Way:
    """The way with the scale and the region of axis `k` of `rank`."""
    factors, scales, roi = given
    if roi is not None:
        ends = (T.cast(roi[k], float64), T.cast(roi[k + rank], float64))
        way = replace(way, roi=ends)
    if factors is not None:
        return replace(way, factor=factors[k], scale=as_expr(factors[k], float64))
    if scales is not None:
        return replace(way, scale=T.cast(scales[k], float64))
    return replace(way, scale=T.cast(way.count, float64) / T.cast(way.extent, float64))


def _nearest(x: Tensor, ways: dict[int, _Way]) -> Tensor:
    """Each element that of the nearest position, along all dimensions at once."""
    shape = [ways[d].count if d in ways else e for d, e in enumerate(x.shape)]
    tables = {d: _table(way, way.nearest_position) for d, way in ways.items()}

    def element(*i: Expr) -> Expr:
        at = [clamped(tables[d][a], x.shape[d]) if d in tables else a for d, a in enumerate(i)]
        value = x[tuple(at)]
        for d, way in ways.items():
            value = way.or_outside(i[d], value)
        return value

    return te.compute(shape, element, "resize")


def _table(way: _Way, function: Callable[[Expr], Expr]) -> Tensor:
    """A function of the positions of the result."""
    return te.compute((way.count,), lambda o: T.cast(function(o), "int64"), "places")


def _interpolated(x: Tensor, ways: dict[int, _Way]) -> Tensor:
    """Weighted sums, one dimension after the other."""
    type_, wide = x.dtype, computed_in(x.dtype if x.dtype.is_float else float64)
    current = x
    for axis, way in ways.items():
        current = _along(current, axis, way, wide.name)
    if current is x:
        return te.compute(x.shape, lambda *i: x[i], "resize")
    found = current
    if type_.is_float:
        return te.compute(found.shape, lambda *i: converted(found[i], type_), "resize")
    return te.compute(found.shape, lambda *i: saturated(found[i], None, type_), "resize")


def _along(x: Tensor, axis: int, way: _Way, wide: str) -> Tensor:
    """`x` sampled along one dimension, in the type to compute in."""
    place = _table(way, lambda o: T.cast(T.floor(way.source(o)), "index"))
    first, taps = way.first(), way.taps()
    shares = _shares(way, place, wide)
    shape = (*x.shape[:axis], way.count, *x.shape[axis + 1 :])

    def term(i: Sequence[Expr], k: Expr) -> Expr:
        at = clamped(T.cast(place[i[axis]], "index") + first + k, way.extent)
        return shares[i[axis], k] * T.cast(x[(*i[:axis], at, *i[axis + 1 :])], wide)

    def sampled(*i: Expr) -> Expr | te.Reduce:
        if isinstance(taps, Const) and int(taps.value) <= MOST_SPELT_OUT:
            terms = [term(i, as_expr(k)) for k in range(int(taps.value))]
            return way.or_outside(i[axis], reduce(Add, terms))
        k = te.reduce_axis(taps, "k")
        return te.sum(term(i, k.var), axis=k)

    found = te.compute(shape, sampled, "sampled")
    is_whole = isinstance(taps, Const) and int(taps.value) <= MOST_SPELT_OUT
    if is_whole or way.transform != "tf_crop_and_resize":
        return found
    return te.compute(shape, lambda *i: way.or_outside(i[axis], found[i]), "cropped")


def _shares(way: _Way, place: Tensor, wide: str) -> Tensor:
    """(count, taps): the weight of each tap, all of which sum to 1."""
    first, shape = way.first(), (way.count, way.taps())

    def raw(o: Expr, k: Expr) -> Expr:
        weight = way.weight(T.cast(first + k, float64) - (way.source(o) - T.floor(way.source(o))))
        if not way.exclude_outside:
            return weight
        at = T.cast(place[o], "index") + first + k
        return T.select((at >= 0) & (at < way.extent), weight, 0.0)

    if not (way.antialias or way.exclude_outside):
        return te.compute(shape, lambda o, k: T.cast(raw(o, k), wide), "shares")
    weights = te.compute(shape, raw, "weights")
    k = te.reduce_axis(shape[1], "k")
    total = te.compute((way.count,), lambda o: te.sum(weights[o, k], axis=k), "total")

    def share(o: Expr, j: Expr) -> Expr:
        return T.cast(weights[o, j] / T.select(T.equal(total[o], 0.0), 1.0, total[o]), wide)

    return te.compute(shape, share, "shares")


OPERATORS: Final[tuple[Operator, ...]] = operators(resize)
