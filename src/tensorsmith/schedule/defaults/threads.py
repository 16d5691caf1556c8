"""Which loops run on threads."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tensorsmith.errors import TensorsmithError
from tensorsmith.ir import LoopKind
from tensorsmith.schedule.defaults.attempt import attempt
from tensorsmith.schedule.defaults.loops import known_extent, loop_node
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.target import Target

PARALLEL_WORK = 2_000_000.0
"""Additions' time of work below which threads do not pay: a fork and join costs microseconds."""
EVEN = 4
"""Iterations for each thread from which on it does not matter that they do not divide evenly."""
MOST_JOINS = 8
"""Iterations of an outer loop for each of which threads may be started."""


def on_threads(
    s: Schedule, loops: Sequence[LoopRef], target: Target, total: float
) -> TensorsmithError | None:
    """Run the outermost of some nested loops, or one that leaves no thread idle, on threads; why
    not, if that is not legal. total: the work in them, in the time of additions; little of it stays
    on one thread."""
    if target.cores == 1 or total < PARALLEL_WORK or not loops:
        return None
    chosen, outside = loops[0], 1
    for at, loop in enumerate(loops):
        extent = known_extent(s, loop)
        if extent is None and attempt(s, functools.partial(_with_next, s, loops[at:])) is None:
            return None
        if extent is None or extent >= EVEN * target.cores or extent % target.cores == 0:
            chosen = loop
            break
        outside *= extent
        if outside > MOST_JOINS or total / outside < PARALLEL_WORK:
            break
    return attempt(s, functools.partial(s.parallel, chosen))


def _with_next(s: Schedule, loops: Sequence[LoopRef]) -> None:
    """Run a loop of which the call alone tells how long it is, as over the one image that there may
    be, and the loop in it as one. Raises ScheduleError where that is not legal."""
    if len(loops) < 2 or loop_node(s, loops[1]).kind is not LoopKind.SERIAL:
        raise ScheduleError("there is no loop to share among threads")
    s.parallel(s.fuse(*loops[:2]))
