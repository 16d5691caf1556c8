"""Operators that move elements: the result holds the elements of the operands, elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ir import Expr, ExprLike, Select, as_expr, as_exprs
from tensorsmith.ir.expr import equal
from tensorsmith.ops.indexing import (
    as_index,
    check_extents,
    check_integer,
    is_one,
    product,
    ranges,
    read,
)
from tensorsmith.ops.operands import as_axes, as_axis, check_rank
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.requirements import require
from tensorsmith.te import Tensor


def copy(x: Tensor) -> Tensor:
    """The elements of `x` in memory of their own."""
    return te.compute(x.shape, lambda *i: x[i], "copy")


def reshape(x: Tensor, *, shape: tuple[ExprLike, ...]) -> Tensor:
    """The elements of `x` in row-major order, in another shape.

    Runs of dimensions with equal products are split or merged apart from the others.
    Raises ShapeError if the numbers of elements are known to differ.
    """
    facts = Analyzer()
    old = [facts.simplify(e) for e in x.shape]
    new = [facts.simplify(e) for e in as_exprs(shape)]
    kept = equal(product(old), product(new))
    given = f"{tuple(old)} to {tuple(new)}"
    require(kept, "a reshape keeps the number of elements", given=given)
    groups = _matching_groups(old, new, facts)

    def element(*axes: Expr) -> Expr:
        inside = ranges(axes, new)
        at: list[Expr] = [as_expr(0)] * len(old)
        for from_axes, to_axes in groups:
            _split(at, from_axes, old, _joined(axes, to_axes, new))
        return read(x, at, inside)

    return te.compute(new, element, "reshape")


Group = tuple[list[int], list[int]]
"""Axes of the old shape and of the new that hold the same elements in the same order."""


def _matching_groups(old: Sequence[Expr], new: Sequence[Expr], facts: Analyzer) -> list[Group]:
    """The axes (but those of extent 1) in runs of equal products, as many as are found."""
    a = [i for i, e in enumerate(old) if not is_one(e)]
    b = [j for j, e in enumerate(new) if not is_one(e)]
    front, a, b = _cut(old, new, a, b, facts)
    back, a, b = _cut(old, new, a[::-1], b[::-1], facts)
    middle = [(a[::-1], b[::-1])] if a or b else []
    return [*front, *middle, *((p[::-1], q[::-1]) for p, q in back)]


def _cut(
    old: Sequence[Expr], new: Sequence[Expr], a: list[int], b: list[int], facts: Analyzer
) -> tuple[list[Group], list[int], list[int]]:
    """Runs from the front of the axes `a` and `b` whose products are equal; and what is left."""
    ends: dict[Expr, int] = {}
    total = as_expr(1)
    for count, j in enumerate(b, 1):
        total = facts.simplify(total * new[j])
        ends.setdefault(total, count)
    groups = []
    total, begin, matched = as_expr(1), 0, 0
    for count, i in enumerate(a, 1):
        total = facts.simplify(total * old[i])
        end = ends.get(total, 0)
        if end > matched:
            groups.append((a[begin:count], b[matched:end]))
            begin, matched = count, end
    return groups, a[begin:], b[matched:]


def _joined(axes: Sequence[Expr], chosen: Sequence[int], extents: Sequence[Expr]) -> Expr:
    """The row-major position among the chosen axes."""
    position = as_expr(0)
    for number, axis in enumerate(chosen):
        position = position * extents[axis] + axes[axis] if number else axes[axis]
    return position


def _split(at: list[Expr], chosen: Sequence[int], extents: Sequence[Expr], position: Expr) -> None:
    """Set the chosen axes of `at` to those of a row-major position."""
    for axis in reversed(chosen[1:]):
        at[axis] = position % extents[axis]
        position = position // extents[axis]
    if chosen:
        at[chosen[0]] = position


def expand_dims(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """`x` with dimensions of extent 1 at `axes` of the result."""
    rank = x.rank + len(axes)
    added = set(as_axes("expand_dims", axes, rank))
    kept = [d for d in range(rank) if d not in added]
    extents = [as_expr(1)] * rank
    for axis, extent in zip(kept, x.shape, strict=True):
        extents[axis] = extent
    return te.compute(extents, lambda *i: x[tuple(i[d] for d in kept)], "expand_dims")


def squeeze(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """`x` without the dimensions `axes`. Raises ShapeError if one is known not to be 1."""
    gone = set(as_axes("squeeze", axes, x.rank))
    for axis in sorted(gone):
        check_extents(x.shape[axis], 1, f"squeeze of axis {axis}, whose extent is not 1")
    kept = [d for d in range(x.rank) if d not in gone]

    def element(*axes: Expr) -> Expr:
        at: list[Expr] = [as_expr(0)] * x.rank
        for axis, i in zip(kept, axes, strict=True):
            at[axis] = i
        return read(x, at, ranges(axes, [x.shape[d] for d in kept]))

    return te.compute([x.shape[d] for d in kept], element, "squeeze")


def transpose(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """Dimension d of the result is dimension ``axes[d]`` of `x`. Raises ShapeError if axes are
    missing or named twice."""
    order = as_axes("transpose", axes, x.rank)
    if len(order) != x.rank:
        raise ShapeError("transpose names all axes", given=f"axes {axes}, rank {x.rank}")
    place = {axis: d for d, axis in enumerate(order)}
    return te.compute(
        [x.shape[a] for a in order],
        lambda *i: x[tuple(i[place[d]] for d in range(x.rank))],
        "transpose",
    )


def flip(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """`x` in reverse along `axes`."""
    reverse = set(as_axes("flip", axes, x.rank))

    def element(*axes: Expr) -> Expr:
        at = [
            extent - 1 - i if axis in reverse else i
            for axis, (i, extent) in enumerate(zip(axes, x.shape, strict=True))
        ]
        return x[tuple(at)]

    return te.compute(x.shape, element, "flip")


def concat(*xs: Tensor, axis: int) -> Tensor:
    """The tensors one after the other along `axis`.

    Raises ShapeError or DTypeError if they differ in rank, in another extent, or in type.
    """
    if not xs:
        raise ShapeError("concat takes at least one tensor")
    first = xs[0]
    along = as_axis("concat", axis, first.rank)
    for x in xs[1:]:
        if x.dtype is not first.dtype:
            raise DTypeError("concat takes tensors of one type", given=f"{first!r}, {x!r}")
        check_rank("concat", x, first.rank, first.rank)
        for d in range(first.rank):
            if d != along:
                what = f"concat along axis {along} of extents that differ in dimension {d}"
                check_extents(first.shape[d], x.shape[d], what)
    parts = [x for x in xs if x.shape[along] is not as_expr(0)] or [first]
    facts = Analyzer()
    starts = [as_expr(0)]
    for x in parts:
        starts.append(facts.simplify(starts[-1] + x.shape[along]))
    shape = (*first.shape[:along], starts[-1], *first.shape[along + 1 :])

    def element(*i: Expr) -> Expr:
        inside = ranges(i, shape)
        chosen = _part(parts[-1], i, along, starts[-2], inside)
        for number in range(len(parts) - 2, -1, -1):
            here = _part(parts[number], i, along, starts[number], inside)
            chosen = Select(i[along] < starts[number + 1], here, chosen)
        return chosen

    return te.compute(shape, element, "concat")


def _part(x: Tensor, axes: Sequence[Expr], along: int, start: Expr, facts: Analyzer) -> Expr:
    """The element of one operand of a concat, known to hold this position of axis `along`."""
    at = [*axes[:along], facts.simplify(axes[along] - start), *axes[along + 1 :]]
    others = [d for d in range(x.rank) if d != along]
    if all(facts.prove(axes[d] < x.shape[d]) is True for d in others):
        return x[tuple(at)]
    return read(x, at, facts)


def stack(*xs: Tensor, axis: int) -> Tensor:
    """The tensors along a new axis, which is `axis` of the result."""
    if not xs:
        raise ShapeError("stack takes at least one tensor")
    return concat(*(expand_dims(x, axes=(axis,)) for x in xs), axis=axis)


def tile(x: Tensor, *, repeats: tuple[ExprLike, ...]) -> Tensor:
    """`x` repeated ``repeats[d]`` times along each dimension."""
    if len(repeats) != x.rank:
        raise ShapeError(
            "tile takes one number of repeats a dimension", given=f"{repeats} for {x!r}"
        )
    counts = as_exprs(repeats)
    shape = [e * r for e, r in zip(x.shape, counts, strict=True)]

    def element(*axes: Expr) -> Expr:
        at = [
            i if is_one(count) else i % extent
            for i, extent, count in zip(axes, x.shape, counts, strict=True)
        ]
        return read(x, at, ranges(axes, shape))

    return te.compute(shape, element, "tile")


def depth_to_space(x: Tensor, *, block: int, mode: str = "DCR") -> Tensor:
    """Channels to blocks of `block` by `block` pixels: (n, c, h, w) to (n, c/b/b, h*b, w*b).

    mode: which part of the channel is the block, as in ONNX: 'DCR' (the front) or 'CRD' (the back).
    """
    check_rank("depth_to_space", x, 4, 4)
    batch, channels, height, width = x.shape
    check_extents(channels % (block * block), 0, "channels that blocks do not divide")
    depth = channels // (block * block)
    shape = (batch, depth, height * block, width * block)

    def element(n: Expr, c: Expr, h: Expr, w: Expr) -> Expr:
        within = h % block * block + w % block
        channel = within * depth + c if mode == "DCR" else c * (block * block) + within
        return read(x, (n, channel, h // block, w // block), ranges((n, c, h, w), shape))

    return te.compute(shape, element, "depth_to_space")


def space_to_depth(x: Tensor, *, block: int, mode: str = "DCR") -> Tensor:
    """The inverse of `depth_to_space`: (n, c, h, w) to (n, c*b*b, h/b, w/b)."""
    check_rank("space_to_depth", x, 4, 4)
    batch, channels, height, width = x.shape
    for extent in (height, width):
        check_extents(extent % block, 0, "an image that blocks do not divide")
    shape = (batch, channels * (block * block), height // block, width // block)

    def element(n: Expr, c: Expr, h: Expr, w: Expr) -> Expr:
        front = mode == "DCR"
        within = c // channels if front else c % (block * block)
        channel = c % channels if front else c // (block * block)
        at = (n, channel, h * block + within // block, w * block + within % block)
        return read(x, at, ranges((n, c, h, w), shape))

    return te.compute(shape, element, "space_to_depth")


def reverse_sequence(
    x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """The first ``lengths[b]`` elements along `time_axis` in reverse, for each b of the batch."""
    check_integer(lengths, "the lengths of reverse_sequence")
    check_rank("the lengths of reverse_sequence", lengths, 1, 1)
    batch = as_axis("reverse_sequence", batch_axis, x.rank)
    time = as_axis("reverse_sequence", time_axis, x.rank)
    if batch == time:
        raise ShapeError("batch and time of reverse_sequence are one axis", given=f"axis {batch}")
    check_extents(lengths.shape[0], x.shape[batch], "one length a sequence")

    def element(*i: Expr) -> Expr:
        length = T.min(as_index(lengths[i[batch]]), x.shape[time])
        here = i[time]
        at = T.select(here < length, length - 1 - here, here)
        return x[(*i[:time], at, *i[time + 1 :])]

    return te.compute(x.shape, element, "reverse_sequence")


def flatten(x: Tensor, *, axis: int) -> Tensor:
    """`x` as a matrix: the dimensions before `axis` are the rows, the others the columns."""
    cut = axis if axis == x.rank else as_axis("flatten", axis, max(x.rank, 1))
    return reshape(x, shape=(product(x.shape[:cut]), product(x.shape[cut:])))


OPERATORS: Final[tuple[Operator, ...]] = operators(
    copy,
    reshape,
    expand_dims,
    squeeze,
    transpose,
    flip,
    concat,
    stack,
    tile,
    depth_to_space,
    space_to_depth,
    reverse_sequence,
    flatten,
)
