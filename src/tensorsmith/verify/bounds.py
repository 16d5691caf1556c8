"""Bounds: every access is inside its buffer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tensorsmith.arith.accesses import guarded_loads
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import Const, Expr, const, free_vars
from tensorsmith.ir.stmt import ZERO
from tensorsmith.verify.buffers import range_text
from tensorsmith.verify.context import Context, is_index, stop_of
from tensorsmith.verify.errors import BoundsError

_ONE: Final = const(1)


def check_loads(context: Context, exprs: Iterable[Expr]) -> None:
    """Every load under `exprs` is inside its buffer, given the lazy operators around it."""
    if context.unreachable:
        return
    for load, guards in guarded_loads(tuple(exprs)):
        points = [(i, _ONE) for i in load.indices]
        if not guards:
            _check_access(context, load.buffer, points)
            continue
        with context.scope():
            for guard in guards:
                context.assume(guard)
            _check_access(context, load.buffer, points)


def check_point(context: Context, buffer: Buffer, indices: Iterable[Expr]) -> None:
    """The element at `indices` is inside of `buffer`."""
    _check_access(context, buffer, [(i, _ONE) for i in indices])


def check_region(context: Context, region: Region) -> None:
    """All of `region` is inside its buffer. An empty region is inside wherever it starts."""
    if all(is_index(e) for pair in region.ranges for e in pair):
        _check_access(context, region.buffer, region.ranges)


def _check_access(context: Context, buffer: Buffer, ranges: Iterable[tuple[Expr, Expr]]) -> None:
    for axis, (start, extent) in enumerate(ranges):
        if not context.unreachable:
            _check_axis(context, buffer, axis, start, extent)


def _check_axis(context: Context, buffer: Buffer, axis: int, start: Expr, extent: Expr) -> None:
    first = context.resolve(start)
    size = context.resolve(buffer.shape[axis])
    if extent is _ONE and context.ranges.get(first) == (ZERO, size):
        return
    stop = first + context.resolve(extent)
    above = first < size if extent is _ONE else stop <= size
    for inside, end in ((first >= 0, "below"), (above, "above")):
        answer = context.prove(inside)
        if answer is True or (answer is None and context.depends_on_data(stop)):
            continue
        if _is_never(context, first):
            return
        _report(context, buffer, axis, (start, extent, size), end, always=answer is False)
        return


def _is_never(context: Context, index: Expr) -> bool:
    """Whether the facts leave no value for a variable of `index`: then nothing is accessed.

    No two facts need contradict each other for all of them to do so.
    """
    for v in free_vars(index):
        bounds = context.analyzer.bounds(v)
        if bounds.low is not None and bounds.high is not None and bounds.low > bounds.high:
            return True
    return False


def _report(
    context: Context,
    buffer: Buffer,
    axis: int,
    ranges: tuple[Expr, Expr, Expr],
    end: str,
    *,
    always: bool,
) -> None:
    start, extent, size = ranges
    subject = f"index {axis} of {buffer.name!r}, {start!r}"
    if extent is not _ONE:
        stop = stop_of(start, extent)
        subject = f"the range of dimension {axis} of {buffer.name!r}, {start!r} to {stop!r}"
    limit = "0" if end == "below" else repr(size)
    position = {
        ("below", True): "is less than 0",
        ("below", False): "may be less than 0",
        ("above", True): f"is outside of its extent {limit}",
        ("above", False): f"may be outside of its extent {limit}",
    }[end, always]
    reach = start if extent is _ONE or end == "below" else start + extent
    context.report(
        BoundsError,
        f"{subject}, {position}",
        about=(buffer, axis, start, extent, end),
        given=None if isinstance(reach, Const) else range_text(context, reach),
        try_="a shorter loop, or a guard: T.where(...), T.select(condition, ..., 0), or an if",
    )
