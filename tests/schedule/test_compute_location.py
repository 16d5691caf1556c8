"""compute_at and reverse_compute_at: what they make, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule.applications import (
    Draw,
    apply_some,
    check_same,
    some_block,
    some_loop,
    split_some,
)
from schedule.chains import chains
from strategies import programs
from tensorsmith.ir import Block, TensorProgram
from tensorsmith.schedule import BlockRef, LoopRef, Schedule
from tensorsmith.schedule.dependence import consumers, producers
from tensorsmith.schedule.tree import sites


def some_pair(
    draw: Draw, s: Schedule, related: Callable[[TensorProgram, str], list[Block]]
) -> tuple[BlockRef, LoopRef]:
    """A block and a loop around one that is related to it; now and then, any two."""
    names = [x.node.name for x in sites(s.program) if isinstance(x.node, Block)]
    pairs = [
        (s.get_block(name), loop)
        for name in names
        for other in related(s.program, name)
        for loop in s.get_loops(s.get_block(other.name))
    ]
    apart = [(block, loop) for block, loop in pairs if loop not in s.get_loops(block)]
    if not apart or draw(st.integers(0, 7)) == 0:
        return some_block(draw, s), some_loop(draw, s)
    return draw(st.sampled_from(apart))


def compute_at_some(draw: Draw, s: Schedule) -> None:
    block, loop = some_pair(draw, s, consumers)
    s.compute_at(block, loop, preserve_unit_loops=draw(st.booleans()))


def reverse_compute_at_some(draw: Draw, s: Schedule) -> None:
    block, loop = some_pair(draw, s, producers)
    s.reverse_compute_at(block, loop, preserve_unit_loops=draw(st.booleans()))


MOVES = [compute_at_some, reverse_compute_at_some, split_some]


@given(st.data())
def test_random_moves_keep_the_results(data: st.DataObject) -> None:
    program = data.draw(st.one_of(chains(), chains(), programs()))
    s = apply_some(data.draw, program, MOVES, 6)
    check_same(data.draw, program, s)


@pytest.mark.slow
@settings(max_examples=5000)
@given(st.data())
def test_many_random_moves_keep_the_results(data: st.DataObject) -> None:
    program = data.draw(st.one_of(chains(), chains(), programs()))
    s = apply_some(data.draw, program, MOVES, 8)
    check_same(data.draw, program, s, native=True)
