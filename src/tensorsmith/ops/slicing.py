"""Operators that cut pieces out of tensors, and tensors made of indices alone."""

from __future__ import annotations

from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ir import Cast, Const, Expr, ExprLike, Select, as_expr, as_exprs, equal
from tensorsmith.ir.dtype import dtype as as_dtype
from tensorsmith.ops.indexing import (
    as_index,
    from_end,
    ranges,
    read,
    zero,
)
from tensorsmith.ops.operands import as_axes, as_axis, check_rank
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor


def slice_range(
    start: ExprLike | None, stop: ExprLike | None, step: ExprLike, extent: ExprLike
) -> tuple[Expr, Expr]:
    """Where ``start:stop:step`` of an axis begins, and how many positions it has, as in Python.

    Negative positions count from the end; what lies outside is clamped. The sign of a `step` that
    is no constant is asked when the program runs. None for an end is the axis' own.
    Raises ShapeError for a step of 0.
    """
    facts = Analyzer()
    size, stride = as_expr(extent), facts.simplify(as_expr(step))
    if isinstance(stride, Const):
        if stride.value == 0:
            raise ShapeError("a slice of step 0")
        found = _slice(start, stop, stride, size, backwards=int(stride.value) < 0)
    else:
        ahead = _slice(start, stop, stride, size, backwards=False)
        back = _slice(start, stop, stride, size, backwards=True)
        found = tuple(T.select(stride > 0, a, b) for a, b in zip(ahead, back, strict=True))
    begin, count = (facts.simplify(e) for e in found)
    return begin, count


def _slice(
    start: ExprLike | None, stop: ExprLike | None, step: Expr, size: Expr, *, backwards: bool
) -> tuple[Expr, ...]:
    """The first position and the number of positions, for a step of known sign."""
    facts = Analyzer()
    low, high = (as_expr(-1), size - 1) if backwards else (as_expr(0), size)

    def limited(position: ExprLike | None, default: Expr) -> Expr:
        if position is None:
            return default
        wrapped = facts.simplify(from_end(position, size))
        return facts.simplify(T.max(T.min(wrapped, high), low))

    first = limited(start, high if backwards else low)
    last = limited(stop, low if backwards else high)
    span = first - last if backwards else last - first
    count = (span + (T.neg(step) if backwards else step) - 1) // (
        T.neg(step) if backwards else step
    )
    return first, T.max(count, 0)


def slice_(
    x: Tensor,
    *,
    starts: tuple[ExprLike, ...],
    extents: tuple[ExprLike, ...],
    steps: tuple[ExprLike, ...] = (),
    axes: tuple[int, ...] | None = None,
) -> Tensor:
    """``extents[k]`` positions from ``starts[k]`` on, each `steps` further, along ``axes[k]``.

    All positions lie within the axis: see `slice_range`. steps: 1 if not given; may be negative.
    axes: all dimensions if not given.
    """
    along = as_axes("slice", axes, x.rank)
    if not len(along) == len(starts) == len(extents) or len(steps) not in (0, len(along)):
        raise ShapeError(
            "slice takes a start, an extent and a step for each axis",
            given=f"axes {along}, starts {starts}, extents {extents}, steps {steps}",
        )
    facts = Analyzer()
    shape = list(x.shape)
    place: dict[int, tuple[Expr, Expr]] = {}
    for k, axis in enumerate(along):
        shape[axis] = facts.simplify(as_expr(extents[k]))
        place[axis] = (as_expr(starts[k]), as_expr(steps[k] if steps else 1))

    def element(*axes: Expr) -> Expr:
        at = list(axes)
        for axis, (start, step) in place.items():
            at[axis] = start + axes[axis] * step
        return read(x, at, ranges(axes, shape))

    return te.compute(shape, element, "slice")


def range_(start: Tensor, step: Tensor, *, count: ExprLike) -> Tensor:
    """``start + i * step`` for each i below `count`, in the type of the two scalars."""
    if start.dtype is not step.dtype:
        raise DTypeError("start and step of a range have one type", given=f"{start!r}, {step!r}")
    for scalar in (start, step):
        check_rank("range", scalar, 0, 0)
    return te.compute(
        (as_expr(count),), lambda i: start[()] + _numbered(i, start.dtype.name) * step[()], "range"
    )


def range_count(start: Tensor, stop: Tensor, step: Tensor) -> Tensor:
    """How many elements ``start, start + step, ...`` has before `stop`: an int64 scalar."""
    for scalar in (start, stop, step):
        check_rank("range", scalar, 0, 0)
        if scalar.dtype is not start.dtype:
            raise DTypeError("the ends of a range have one type", given=f"{start!r}, {scalar!r}")

    def count() -> Expr:
        a, b, d = start[()], stop[()], step[()]
        if start.dtype.is_float:
            wide = as_dtype("float64")
            number = T.cast(T.ceil((Cast(b, wide) - Cast(a, wide)) / Cast(d, wide)), "int64")
        else:
            a, b, d = as_index(a), as_index(b), as_index(d)
            number = T.cast(-((a - b) // d), "int64")
        return T.max(number, T.const(0, "int64"))

    return te.compute((), count, "range_count")


def _numbered(i: Expr, type_: str) -> Expr:
    """A position as an element of a type."""
    return Cast(i, as_dtype(type_))


def full(value: Tensor, *, shape: tuple[ExprLike, ...]) -> Tensor:
    """A tensor of this shape, each element of which is the only element of `value`."""
    at = (0,) * value.rank
    return te.compute(as_exprs(shape), lambda *i: value[at], "full")


def one_hot(positions: Tensor, values: Tensor, *, depth: ExprLike, axis: int = -1) -> Tensor:
    """``values[1]`` where the new axis, of extent `depth`, is at a position; else ``values[0]``.

    positions: numbers; negative ones count from the end of the axis, others outside are nowhere.
    """
    check_rank("the values of one_hot", values, 1, 1)
    along = as_axis("one_hot", axis, positions.rank + 1)
    extent = as_expr(depth)
    shape = (*positions.shape[:along], extent, *positions.shape[along:])

    def element(*i: Expr) -> Expr:
        wanted = positions[(*i[:along], *i[along + 1 :])]
        if not positions.dtype.is_integer:
            wanted = T.cast(wanted, "int64")
        return Select(equal(from_end(wanted, extent), i[along]), values[1], values[0])

    return te.compute(shape, element, "one_hot")


def eye(*, shape: tuple[ExprLike, ExprLike], dtype: str = "float32", diagonal: int = 0) -> Tensor:
    """A matrix of ones on a diagonal, `diagonal` columns right of the main one; else zeros."""
    type_ = as_dtype(dtype)
    one = Const(True if type_.is_bool else 1, type_)
    return te.compute(
        as_exprs(shape),
        lambda i, j: Select(equal(i + diagonal, j), one, zero(type_)),
        "eye",
    )


def center_crop_pad(
    x: Tensor, *, shape: tuple[ExprLike, ...], axes: tuple[int, ...] | None = None
) -> Tensor:
    """`x` with the extents `shape` along `axes`: cut or filled with zeros equally at both ends.

    Where the number is odd, one more is cut at the front's expense of the back, as ONNX has it.
    """
    along = as_axes("center_crop_pad", axes, x.rank)
    if len(along) != len(shape):
        raise ShapeError("center_crop_pad takes one extent an axis", given=f"{shape} for {along}")
    wanted = dict(zip(along, as_exprs(shape), strict=True))
    result = tuple(wanted.get(d, e) for d, e in enumerate(x.shape))

    def element(*axes: Expr) -> Expr:
        at = list(axes)
        for d, extent in wanted.items():
            cut, added = x.shape[d] - extent, extent - x.shape[d]
            at[d] = axes[d] + T.max(cut, 0) // 2 - T.max(added, 0) // 2
        return read(x, at, ranges(axes, result))

    return te.compute(result, element, "center_crop_pad")


OPERATORS: Final[tuple[Operator, ...]] = operators(
    slice_, range_, range_count, full, one_hot, eye, center_crop_pad
)
