"""References by name, pattern, path and relation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule.scripts import schedule_of
from strategies import programs
from tensorsmith.ir import IRModule
from tensorsmith.schedule import Schedule, ScheduleError

NESTED = """
@T.program
def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
    B = T.alloc((4, 8), "int32")
    for i in range(4):
        with T.block("left"):
            vi = T.remap("S", i)
            for j in range(8):
                with T.block("element"):
                    vj = T.remap("S", j)
                    B[vi, vj] = A[vi, vj]
    for i in range(4):
        with T.block("right"):
            vi = T.remap("S", i)
            for j in range(8):
                with T.block("element"):
                    vj = T.remap("S", j)
                    C[vi, vj] = B[vi, vj]
"""


def names(refs):
    return [r.name for r in refs]


def test_blocks_of_one_name_are_numbered():
    assert names(schedule_of(NESTED).find_blocks()) == ["left", "element", "right", "element_1"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*t", ["left", "element", "right"]),
        ("element*", ["element", "element_1"]),
        ("right/*", ["element_1"]),
        ("*/element*", ["element", "element_1"]),
        ("?eft", ["left"]),
        ("nothing", []),
        ("left/right", []),
    ],
)
def test_patterns_and_paths(pattern, found):
    s = schedule_of(NESTED)
    assert names(s.find_blocks(pattern)) == found
    if len(found) == 1:
        assert s.get_block(pattern).name == found[0]
    else:
        with pytest.raises(ScheduleError):
            s.get_block(pattern)


def test_a_function_chooses_blocks():
    s = schedule_of(NESTED)
    assert names(s.find_blocks(lambda b: len(b.name) == 5)) == ["right"]
    assert str(s.trace) == "b0 = s.get_block(name='right')"


def test_relations():
    s = schedule_of(NESTED)
    left, right = s.get_block("left"), s.get_block("right")
    assert s.get_consumers(left) == [right]
    assert s.get_producers(right) == [left]
    assert s.get_output_blocks() == [right]
    assert s.get_parent_block(s.get_block("element_1")) == right
    assert names(s.get_child_blocks(left)) == ["element"]
    assert names(s.get_child_blocks(s.get_loops(right)[0])) == ["right"]


def test_functions_are_worked_on_by_name():
    f = schedule_of(NESTED).program
    g = schedule_of(NESTED.replace("def f", "def g").replace('"left"', '"first"')).program
    s = Schedule(IRModule.of(f, g))
    s.work_on("g")
    assert s.get_block("first").program == "g"
    assert s.get_block("left", "f").program == "f"
    with pytest.raises(ScheduleError, match="the module has no function 'h'"):
        s.work_on("h")
    with pytest.raises(ScheduleError, match="the module has no function 'h'"):
        s.get_block("left", "h")


def test_what_is_no_reference_is_refused():
    s = schedule_of(NESTED)
    with pytest.raises(ScheduleError, match="get_loops takes a block for 'block', not 'left'"):
        s.get_loops("left")
    other = schedule_of(NESTED)
    with pytest.raises(ScheduleError, match="does not come from this schedule"):
        s.parallel(other.get_loops(other.get_block("left"))[0])


@given(st.data())
def test_relations_of_blocks_are_each_others_converse(data):
    """Producers and consumers, parents and children, loops and the blocks in them."""
    s = Schedule(data.draw(programs()))
    blocks = s.find_blocks()
    for block in blocks:
        assert all(block in s.get_consumers(p) for p in s.get_producers(block))
        assert all(block in s.get_producers(c) for c in s.get_consumers(block))
        assert all(s.get_parent_block(c) == block for c in s.get_child_blocks(block))
    top = [b for b in blocks if not any(b in s.get_child_blocks(p) for p in blocks)]
    assert all(b in top for b in s.get_output_blocks())
    for block in blocks:
        for loop in s.get_loops(block):
            around = s.get_child_blocks(loop)
            assert block in around
