"""The whole text of the errors of what looks for blocks and loops, and copies inside of loops."""

from __future__ import annotations

import pytest

from errors.primitive_cases import ADD, SCAN, STEPS, Texts, of
from tensorsmith.schedule import BlockRef, Schedule

TEXTS = Texts(__file__)
case = TEXTS.case


def gone(body: str = STEPS, block: str = "L") -> tuple[Schedule, BlockRef]:
    """A schedule, and a block that is no longer there."""
    s = of(body)
    ref = s.get_block(block)
    s.compute_inline(ref)
    return s, ref


@case
def block_of_no_name():
    of(STEPS).get_block("X")


@case
def function_of_no_name():
    of(STEPS).work_on("X")


@case
def loops_of_no_block():
    s, ref = gone()
    s.get_loops(ref)


@case
def producers_of_no_block():
    s, ref = gone()
    s.get_producers(ref)


@case
def consumers_of_no_block():
    s, ref = gone()
    s.get_consumers(ref)


@case
def children_of_no_block():
    s, ref = gone()
    s.get_child_blocks(ref)


@case
def children_of_no_loop():
    s = of(ADD)
    (i, j) = s.get_loops(s.get_block("B"))
    s.fuse(i, j)
    s.get_child_blocks(j)


@case
def parent_of_an_outermost_block():
    s = of(ADD)
    s.get_parent_block(s.get_block("B"))


@case
def output_blocks_of_no_function():
    of(ADD).get_output_blocks("X")


@case
def place_that_is_none():
    s = of(STEPS)
    s.sample_compute_location(s.get_block("L"), decision=7)


@case
def read_at_a_loop_that_is_not_around():
    s = of(STEPS)
    s.read_at(s.get_loops(s.get_block("L"))[0], s.get_block("B"), "L", "local")


@case
def read_at_of_a_buffer_that_is_written():
    s = of(SCAN)
    s.read_at(s.get_loops(s.get_block("B"))[0], s.get_block("B"), "B", "local")


@case
def write_at_of_an_opaque_block():
    s = of(SCAN)
    s.write_at(s.get_loops(s.get_block("B"))[0], s.get_block("B"), "B", "local")


@case
def annotation_of_no_value():
    s = of(ADD)
    s.annotate(s.get_block("B"), "note", {1: 2})


@pytest.mark.parametrize("name", TEXTS.cases)
def test_text(name):
    assert TEXTS.found(name) == TEXTS.expected()[name]


def test_every_text_has_its_case():
    assert list(TEXTS.expected()) == list(TEXTS.cases)


if __name__ == "__main__":
    TEXTS.write()
