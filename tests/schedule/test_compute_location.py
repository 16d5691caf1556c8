"""compute_at and reverse_compute_at: what they make, and that it computes the same."""

from __future__ import annotations

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
from strategies import programs
from tensorsmith.schedule import Schedule


def compute_at_some(draw: Draw, s: Schedule) -> None:
    s.compute_at(some_block(draw, s), some_loop(draw, s), preserve_unit_loops=draw(st.booleans()))


def reverse_compute_at_some(draw: Draw, s: Schedule) -> None:
    s.reverse_compute_at(
        some_block(draw, s), some_loop(draw, s), preserve_unit_loops=draw(st.booleans())
    )


MOVES = [compute_at_some, reverse_compute_at_some, split_some]


@given(st.data())
def test_random_moves_keep_the_results(data: st.DataObject) -> None:
    program = data.draw(programs())
    s = apply_some(data.draw, program, MOVES, 6)
    check_same(data.draw, program, s)


@pytest.mark.slow
@settings(max_examples=5000)
@given(st.data())
def test_many_random_moves_keep_the_results(data: st.DataObject) -> None:
    program = data.draw(programs())
    s = apply_some(data.draw, program, MOVES, 8)
    check_same(data.draw, program, s, native=True)
