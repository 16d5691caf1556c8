"""Inlining into consumers and producers: what it makes, and that it computes the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule.applications import Draw, apply_some, check_same, some_block, split_some
from schedule.chains import chains
from schedule.test_compute_location import compute_at_some
from strategies import programs
from tensorsmith.schedule import Schedule


def inline_some(draw: Draw, s: Schedule) -> None:
    s.compute_inline(some_block(draw, s))


def reverse_inline_some(draw: Draw, s: Schedule) -> None:
    s.reverse_compute_inline(some_block(draw, s))


def fuse_some_epilogue(draw: Draw, s: Schedule) -> None:
    s.fuse_reduction_epilogue(some_block(draw, s), some_block(draw, s))


MOVES = [inline_some, reverse_inline_some, fuse_some_epilogue, split_some, compute_at_some]


@given(st.data())
def test_random_inlining_keeps_the_results(data: st.DataObject) -> None:
    program = data.draw(st.one_of(chains(), chains(), programs()))
    check_same(data.draw, program, apply_some(data.draw, program, MOVES, 6))


@pytest.mark.slow
@settings(max_examples=2500)
@given(st.data())
def test_many_random_inlinings_keep_the_results(data: st.DataObject) -> None:
    program = data.draw(st.one_of(chains(), chains(), programs()))
    check_same(data.draw, program, apply_some(data.draw, program, MOVES, 8), native=True)
