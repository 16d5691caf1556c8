"""Moves, copies and inlining together with all other primitives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule.applications import apply_some
from schedule.chains import chains
from schedule.harness import RULES, check_schedule
from schedule.test_cache import MOVES as COPIES
from schedule.test_compute_location import MOVES as PLACES
from schedule.test_inline import MOVES as INLINES
from strategies import programs

OWN = list(dict.fromkeys([*COPIES, *PLACES, *INLINES]))
MOVES = [*OWN, *OWN, *RULES.values()]


@given(st.data())
def test_moves_among_others_keep_the_results(data: st.DataObject) -> None:
    program = data.draw(st.one_of(chains(), chains(), programs()))
    check_schedule(data.draw, program, apply_some(data.draw, program, MOVES, 8))


@pytest.mark.slow
@settings(max_examples=2500)
@given(st.data())
def test_many_moves_among_others_keep_the_results(data: st.DataObject) -> None:
    program = data.draw(st.one_of(chains(), chains(), programs()))
    check_schedule(data.draw, program, apply_some(data.draw, program, MOVES, 10))
