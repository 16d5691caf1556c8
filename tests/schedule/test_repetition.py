"""Loops that repeat a block, which opaque iterators tell: what may change places with them, be
fused with them, or be moved out of them."""

from __future__ import annotations

import numpy as np
import pytest

from schedule.scripts import schedule_of
from tensorsmith.codegen import build
from tensorsmith.evaluate import interpret
from tensorsmith.schedule import Schedule, ScheduleError
from tensorsmith.verify import verify

STEPS = """
@T.program
def steps(X: T.Buffer((2, 9), "int32")):
    for t, i in T.grid(5, 8):
        with T.block("X"):
            vt, vi = T.remap("OS", t, i)
            X[(vt + 1) % 2, vi] = X[vt % 2, vi] + X[vt % 2, vi + 1]
"""

HALVES = """
@T.program
def halves(X: T.Buffer((8,), "int32")):
    for t, i in T.grid(5, 8):
        with T.block("X"):
            vt, vi = T.remap("OS", t, i)
            X[vi] = X[vi] * 2 + T.int32(vt)
"""

TOTALS = """
@T.program
def totals(X: T.Buffer((4, 8), "int32"), Y: T.Buffer((4,), "int32")):
    S = T.alloc((4,), "int32")
    for {loops}:
        with T.block("S"):
            vt = T.opaque(3, t)
            vi, vk = T.remap("SR", i, k)
            with T.init():
                S[vi] = 0
            S[vi] = S[vi] + X[vi, vk]
    for j in range(4):
        with T.block("Y"):
            vj = T.remap("S", j)
            Y[vj] = S[vj] + X[vj, 0]
"""
OUTSIDE, BETWEEN = "t, i, k in T.grid(3, 4, 8)", "i, t, k in T.grid(4, 3, 8)"
INSIDE = "i, k, t in T.grid(4, 8, 3)"
PLACES = {"outside": OUTSIDE, "between": BETWEEN, "inside": INSIDE}


def loops_of(s: Schedule, block: str) -> dict[str, object]:
    return {loop.var.name: loop for loop in s.get_loops(s.get_block(block))}


def assert_same(before, after) -> None:
    """Both give the same in the interpreter, and natively."""
    verify(after)
    rng = np.random.default_rng(3)
    given = [rng.integers(-9, 9, [int(e.value) for e in p.shape], np.int32) for p in before.params]
    expected, found, native = ([x.copy() for x in given] for _ in range(3))
    interpret(before, *expected)
    interpret(after, *found)
    build(after, threads=1)(*native)
    for a, b, c in zip(expected, found, native, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


def test_steps_that_use_neighbours_stay_outside() -> None:
    s = schedule_of(STEPS)
    x = loops_of(s, "X")
    with pytest.raises(ScheduleError, match="iterations of 'i' meet in 'X'"):
        s.reorder(x["i"], x["t"])


def test_steps_of_one_element_may_be_taken_at_once() -> None:
    s = schedule_of(HALVES)
    before = s.program
    x = loops_of(s, "X")
    s.reorder(x["i"], x["t"])
    assert_same(before, s.program)


def test_a_call_for_each_step_keeps_its_place() -> None:
    text = HALVES.replace("X[vi] = X[vi] * 2 + T.int32(vt)", "T.call('log', X[vi : vi + 1])")
    s = schedule_of(text)
    x = loops_of(s, "X")
    with pytest.raises(ScheduleError, match="does more than to write its buffers"):
        s.reorder(x["i"], x["t"])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("order", ["tik", "tki", "itk", "ikt", "kit", "kti"])
def test_a_repeated_reduction_keeps_its_result(place, order) -> None:
    """It starts anew each time, unless a loop of the reduction stands around the repeating one."""
    s = schedule_of(TOTALS.format(loops=PLACES[place]))
    before = s.program
    x = loops_of(s, "S")
    stays = (order.index("t") < order.index("k")) is (place != "inside")
    if stays:
        s.reorder(*(x[v] for v in order))
        assert_same(before, s.program)
    else:
        with pytest.raises(ScheduleError, match="iterations of 'k' meet in 'S'"):
            s.reorder(*(x[v] for v in order))


@pytest.mark.parametrize("place", PLACES)
def test_only_what_is_reduced_anew_is_computed_elsewhere(place) -> None:
    s = schedule_of(TOTALS.format(loops=PLACES[place]))
    before = s.program
    target = loops_of(s, "Y")["j"]
    if place == "inside":
        with pytest.raises(ScheduleError, match="is not reduced anew"):
            s.compute_at(s.get_block("S"), target)
    else:
        s.compute_at(s.get_block("S"), target)
        assert_same(before, s.program)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("loop", ["t", "i", "k"])
def test_a_block_of_repetitions_has_one_init_for_each(place, loop) -> None:
    s = schedule_of(TOTALS.format(loops=PLACES[place]))
    before = s.program
    if (place, loop) == ("inside", "t"):
        with pytest.raises(ScheduleError, match="runs in each iteration of loop 't'"):
            s.blockize(loops_of(s, "S")[loop])
    else:
        s.blockize(loops_of(s, "S")[loop])
        assert_same(before, s.program)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("factor", [5, 24])
def test_a_repetition_may_be_fused_with_what_it_repeats(place, count, factor) -> None:
    s = schedule_of(TOTALS.format(loops=PLACES[place]))
    before = s.program
    names = PLACES[place].split(" in ")[0].split(", ")
    x = loops_of(s, "S")
    fused = s.fuse(*(x[v] for v in names[:count]))
    assert_same(before, s.program)
    s.split(fused, [None, factor])
    assert_same(before, s.program)


def test_a_repetition_that_skips_values_is_not_fused() -> None:
    apart = "vt = T.opaque(17, t * t)\n            vi = T.spatial(8, i)"
    s = schedule_of(HALVES.replace('vt, vi = T.remap("OS", t, i)', apart))
    x = loops_of(s, "X")
    with pytest.raises(ScheduleError, match="takes each point once"):
        s.fuse(x["t"], x["i"])
