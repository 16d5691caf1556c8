"""split, fuse, reorder, loop_partition, merge, add_unit_loop."""

import pytest

from schedule.harness import check_schedule
from schedule.scripts import schedule_of
from strategies.cases import fast_and_slow
from tensorsmith.ir import Var
from tensorsmith.schedule import ScheduleError

COPY = """
n = T.dim("n")
@T.program
def f(A: T.Buffer((n, 30), "float32"), B: T.Buffer((n, 30), "float32")):
    for i, j in T.grid(n, 30):
        with T.block("B"):
            vi, vj = T.remap("SS", i, j)
            B[vi, vj] = A[vi, vj]
"""

SUM = """
@T.program
def f(A: T.Buffer((4, 30), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 30):
        with T.block("B"):
            vi, vk = T.remap("SR", i, k)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
"""

TWO = """
@T.program
def f(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
    B = T.alloc((8, 6), "float32")
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.remap("SS", i, j)
            B[vi, vj] = A[vi, vj]
    for k, l in T.grid(8, 6):
        with T.block("C"):
            vk, vl = T.remap("SS", k, l)
            C[vk, vl] = {value}
"""


def loops_of(s, block):
    return s.get_loops(s.get_block(block))


def keeps_its_meaning(text, change):
    """A test that `change` to the schedule of `text` leaves what it computes."""

    def check(data):
        s = schedule_of(text)
        before = s.program
        change(s)
        check_schedule(data.draw, before, s)

    return fast_and_slow(check, fast=3, slow=50)


def split_by_n(s):
    s.split(loops_of(s, "B")[1], [None, s.dim("n")])


def split_thrice(s):
    a, _, c = s.split(loops_of(s, "B")[1], [2, None, 4])
    s.reorder(c, a)


def fuse_all(s):
    s.split(s.fuse(*loops_of(s, "B")), [None, 8])


def partition_spatial(s):
    first, second = s.loop_partition(loops_of(s, "B")[1], [16])
    s.split(first, [None, 8])
    s.split(second, [None, 8])


def partition_reduction(s):
    s.loop_partition(loops_of(s, "B")[1], [8, 16])


def merge_both(s):
    s.merge(loops_of(s, "B")[1], loops_of(s, "C")[1])


test_split_by_a_dimension, test_split_by_a_dimension_slow = keeps_its_meaning(COPY, split_by_n)
test_split_thrice, test_split_thrice_slow = keeps_its_meaning(COPY, split_thrice)
test_fuse_and_split, test_fuse_and_split_slow = keeps_its_meaning(COPY, fuse_all)
test_partition, test_partition_slow = keeps_its_meaning(COPY, partition_spatial)
test_partition_of_a_reduction, test_partition_of_a_reduction_slow = keeps_its_meaning(
    SUM, partition_reduction
)
test_merge, test_merge_slow = keeps_its_meaning(TWO.format(value="B[vk, vl]"), merge_both)


MAY_BE_EMPTY = """
n = T.dim("n", min=0)
k = T.dim("k", min=0)
@T.program
def f(A: T.Buffer((n, k), "int32"), B: T.Buffer((n, k), "int32")):
    for i, j in T.grid(n, k):
        with T.block("B"):
            vi, vj = T.remap("SS", i, j)
            B[vi, vj] = A[vi, vj] + 1
"""


def fuse_and_halve(s):
    s.split(s.fuse(*loops_of(s, "B")), [None, 8])


test_fuse_of_loops_that_may_be_empty, test_fuse_of_loops_that_may_be_empty_slow = keeps_its_meaning(
    MAY_BE_EMPTY, fuse_and_halve
)


def test_factors_that_may_be_0_are_refused():
    s = schedule_of(MAY_BE_EMPTY)
    with pytest.raises(ScheduleError, match="is not known to be positive"):
        s.split(loops_of(s, "B")[0], [None, s.dim("k")])


def test_a_piece_in_which_a_predicate_never_holds_is_refused():
    s = schedule_of(COPY)
    (unit,) = s.split(s.add_unit_loop(loops_of(s, "B")[0]), [2, None], preserve_unit_loops=False)
    before = s.module
    with pytest.raises(ScheduleError, match="takes each point once"):
        s.loop_partition(unit, [1])
    assert s.module is before


def test_only_the_first_piece_of_a_reduction_has_an_init():
    s = schedule_of(SUM)
    partition_reduction(s)
    assert s.program.script().count("T.init()") == 1


def test_a_split_that_covers_needs_no_predicate():
    s = schedule_of(COPY)
    s.split(loops_of(s, "B")[1], [None, 15])
    s.split(loops_of(s, "B")[0], [None, s.dim("n")])
    assert "T.where" not in s.program.script()


def test_unit_loops_can_be_left_out():
    s = schedule_of(COPY)
    assert len(s.split(loops_of(s, "B")[1], [1, None, 1], preserve_unit_loops=False)) == 1


def test_references_stay_valid_where_the_loop_does():
    s = schedule_of(COPY)
    i, j = loops_of(s, "B")
    s.split(i, [None, 4])
    s.reorder(j)
    s.parallel(j)
    with pytest.raises(ScheduleError, match="has no loop 'i'"):
        s.parallel(i)


@pytest.mark.parametrize("value", ["B[vk, 5 - vl]", "B[7 - vk, vl]", "B[vk, T.min(vl + 1, 5)]"])
def test_nests_that_meet_in_other_iterations_are_not_merged(value):
    s = schedule_of(TWO.format(value=value))
    before = s.module
    with pytest.raises(ScheduleError, match="meet in 'B'"):
        merge_both(s)
    assert s.module is before


def test_only_the_outer_loops_can_be_merged():
    s = schedule_of(TWO.format(value="B[vk, 5 - vl]"))
    s.merge(loops_of(s, "B")[0], loops_of(s, "C")[0])
    assert len(s.get_child_blocks(loops_of(s, "B")[0])) == 2


def test_guards_leave_allocations_and_bindings_where_they_are():
    s = schedule_of("""
@T.program
def f(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
    for i in range(10):
        x = T.alloc((1,), "float32")
        with T.block("x"):
            vi = T.remap("S", i)
            x[0] = A[vi]
        with T.block("B"):
            vi = T.remap("S", i)
            B[vi] = x[0]
""")
    before = s.program
    s.split(loops_of(s, "B")[0], [None, 4])
    text = s.program.script()
    assert text.count("T.where") == 2
    assert "if " not in text
    assert before is not s.program


def test_dimensions_of_another_program_are_no_factors():
    s = schedule_of(COPY)
    with pytest.raises(ScheduleError, match="is not known to be positive"):
        s.split(loops_of(s, "B")[0], [None, Var("q")])
