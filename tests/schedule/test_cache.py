"""cache_read and cache_write: what they make, and that it computes the same."""

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
from schedule.chains import chains
from strategies import programs
from tensorsmith.schedule import Schedule


def cache_read_some(draw: Draw, s: Schedule) -> None:
    copy = s.cache_read(some_block(draw, s), draw(st.integers(0, 1)), draw(SCOPES))
    if draw(st.booleans()):
        s.compute_at(copy, some_loop(draw, s))


def cache_write_some(draw: Draw, s: Schedule) -> None:
    copy = s.cache_write(some_block(draw, s), 0, draw(SCOPES))
    if draw(st.booleans()):
        s.reverse_compute_at(copy, some_loop(draw, s))


SCOPES = st.sampled_from(("global", "local"))
MOVES = [cache_read_some, cache_write_some, split_some]


@given(st.data())
def test_random_caches_keep_the_results(data: st.DataObject) -> None:
    program = data.draw(st.one_of(chains(), programs()))
    check_same(data.draw, program, apply_some(data.draw, program, MOVES, 6))


@pytest.mark.slow
@settings(max_examples=2500)
@given(st.data())
def test_many_random_caches_keep_the_results(data: st.DataObject) -> None:
    program = data.draw(st.one_of(chains(), programs()))
    check_same(data.draw, program, apply_some(data.draw, program, MOVES, 8), native=True)
