"""Random applications of primitives, and what must hold after each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from strategies import arguments, copied
from tensorsmith.codegen import build
from tensorsmith.evaluate import interpret
from tensorsmith.ir import Block, TensorProgram
from tensorsmith.schedule import BlockRef, LoopRef, Schedule, ScheduleError
from tensorsmith.schedule.tree import sites
from tensorsmith.verify import verify

Draw = st.DrawFn
Application = Callable[[Draw, Schedule], None]
"""Applies some primitive at a random place; ScheduleError means that it was not legal there."""


def some_block(draw: Draw, s: Schedule) -> BlockRef:
    """Any block."""
    names = [x.node.name for x in sites(s.program) if isinstance(x.node, Block)]
    if not names:
        raise ScheduleError("no blocks")
    return s.get_block(draw(st.sampled_from(names)))


def loops_of_all(s: Schedule) -> list[LoopRef]:
    """The loops around any block."""
    blocks = [x.node.name for x in sites(s.program) if isinstance(x.node, Block)]
    found: dict[LoopRef, None] = {}
    for name in blocks:
        found.update(dict.fromkeys(s.get_loops(s.get_block(name))))
    return list(found)


def some_loop(draw: Draw, s: Schedule) -> LoopRef:
    """Any loop around a block."""
    found = loops_of_all(s)
    if not found:
        raise ScheduleError("no loops")
    return draw(st.sampled_from(found))


def split_some(draw: Draw, s: Schedule) -> None:
    """Split a loop by a small factor."""
    s.split(some_loop(draw, s), [None, draw(st.sampled_from((2, 3, 4)))])


def apply_some(draw: Draw, program: TensorProgram, kinds: list[Application], most: int) -> Schedule:
    """A schedule of `program` with up to `most` random applications."""
    s = Schedule(program)
    for _ in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from(kinds))
        try:
            kind(draw, s)
        except ScheduleError:
            continue
    return s


def check_same(draw: Draw, before: TensorProgram, s: Schedule, *, native: bool = False) -> None:
    """The scheduled program is well formed, and gives the same results, bit for bit."""
    after = s.program
    try:
        verify(after)
        given = draw(arguments(before))
        expected, found = copied(given), copied(given)
        interpret(before, *expected)
        interpret(after, *found)
        assert_equal(expected, found)
        if native:
            compiled = copied(given)
            build(after, threads=1)(*compiled)
            assert_equal(expected, compiled)
    except Exception as error:
        error.add_note(f"{before.script()}\n{s.trace}\n{after.script()}")
        raise


def assert_equal(expected: list[object], found: list[object]) -> None:
    """The arrays hold the same, NaN where NaN. Of -0 and +0 either may be the lesser one."""
    for a, b in zip(expected, found, strict=True):
        if isinstance(a, np.ndarray):
            assert isinstance(b, np.ndarray)
            if a.tobytes() != b.tobytes():
                np.testing.assert_array_equal(a, b)
