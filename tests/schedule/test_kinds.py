"""Which loops may run in any order, or at once."""

import pytest

from schedule.scripts import schedule_of
from tensorsmith.schedule import ScheduleError
from tensorsmith.schedule.independence import check_marked_loops
from tensorsmith.schedule.tree import sites

COPY = """
n = T.dim("n")
@T.program
def f(A: T.Buffer((n, 64), "float32"), B: T.Buffer((n, 64), "float32")):
    for {loops}:
        with T.block("B"):
            vi = T.spatial(n, {row})
            vj = T.spatial(64, {column})
            B[vi, vj] = A[vi, vj]
"""

THROUGH_A_ROW = """
n = T.dim("n")
@T.program
def f(A: T.Buffer((n, 16, 8), "float32"), C: T.Buffer((n, 16), "float32")):
    row = T.alloc((16,), "float32")
    for i in range(n):
        for k, j in T.grid(8, 16):
            with T.block("row"):
                vi, vj, vk = T.remap("SSR", i, j, k)
                with T.init():
                    row[vj] = 0.0
                row[vj] = row[vj] + A[vi, vj, vk]
        for j2 in range({read}):
            with T.block("C"):
                vi = T.spatial(n, i)
                vj = T.spatial({read}, j2)
                C[vi, vj] = row[{at}]
"""


def marked(text, block, at, kind="parallel"):
    s = schedule_of(text)
    getattr(s, kind)(s.get_loops(s.get_block(block))[at])
    return s


@pytest.mark.parametrize(
    ("loops", "row", "column", "at"),
    [
        ("i, j in T.grid(n, 64)", "i", "j", 0),
        ("i, j in T.grid(n, 64)", "i", "j", 1),
        ("i, j in T.grid(n, 64)", "n - 1 - i", "63 - j", 0),
        ("f, u in T.grid(n * 16, 4)", "f // 16", "f % 16 * 4 + u", 0),
        ("f, u in T.grid(n * 16, 4)", "f // 16", "f % 16 * 4 + u", 1),
        ("f, u in T.grid(n * 16, 4)", "f // 16", "u * 16 + f % 16", 0),
        ("f, u in T.grid(n * 16, 4)", "f // 16", "u * 16 + f % 16", 1),
        ("u, j, i in T.grid(4, 16, n)", "i", "j * 4 + u", 0),
    ],
)
def test_iterations_that_write_elements_of_their_own_may_run_at_once(loops, row, column, at):
    marked(COPY.format(loops=loops, row=row, column=column), "B", at)


@pytest.mark.parametrize(("read", "at"), [("16", "vj"), ("16", "15 - vj"), ("10", "vj + 3")])
def test_a_local_buffer_that_each_iteration_fills_does_not_tie_iterations(read, at):
    marked(THROUGH_A_ROW.format(read=read, at=at), "C", 0)


def test_a_local_buffer_of_which_an_earlier_iteration_fills_a_part_does():
    text = THROUGH_A_ROW.format(read="16", at="vj").replace("T.grid(8, 16)", "T.grid(8, 15)")
    text = text.replace(
        "vi, vj, vk = T.remap", "vj = T.spatial(15, j)\n                vi, vk = T.remap"
    )
    text = text.replace('("SSR", i, j, k)', '("SR", i, k)')
    with pytest.raises(ScheduleError, match="its iterations meet in 'row'"):
        marked(text, "C", 0)


def test_a_local_buffer_that_is_used_behind_the_loop_does():
    text = THROUGH_A_ROW.format(read="16", at="vj") + "    C[0, 0] = row[0]\n"
    with pytest.raises(ScheduleError, match="its iterations meet in 'row'"):
        marked(text, "C", 0)


def test_a_local_buffer_that_data_decide_to_fill_does():
    text = THROUGH_A_ROW.format(read="16", at="vj").replace(
        "row[vj] = row[vj] + A[vi, vj, vk]",
        "if A[vi, vj, vk] < 0.0:\n                    row[vj] = A[vi, vj, vk]",
    )
    init = "                with T.init():\n                    row[vj] = 0.0\n"
    text = text.replace(init, "").replace('"SSR"', '"SSS"')
    with pytest.raises(ScheduleError, match="its iterations meet in 'row'"):
        marked(text, "C", 0)


@pytest.mark.parametrize(
    ("index", "value"),
    [
        ("vi", "A[vi - 1] if 0 <= vi - 1 else 0"),
        ("vi", "A[vi + 1] if vi + 1 < n else 0"),
        ("vi // 2", "1"),
        ("T.min(vi, 3)", "1"),
        ("T.index(B[vi])", "1"),
        ("0", "1"),
    ],
)
def test_iterations_that_meet_in_a_parameter_may_not(index, value):
    text = f"""
n = T.dim("n", min=4)
@T.program
def f(A: T.Buffer((n,), "int32"), B: T.Buffer((n,), "int32")):
    for i in range(n):
        with T.block("A"):
            vi = T.remap("S", i)
            A[{index}] = {value}
"""
    with pytest.raises(ScheduleError, match="its iterations meet in 'A'"):
        marked(text, "A", 0)


@pytest.mark.parametrize(
    ("letter", "said"),
    [("R", "the reduce iterator 'vi' of block 'B' depends on it"), ("O", "meet in 'B'")],
)
def test_loops_of_other_iterators_may_not(letter, said):
    text = f"""
@T.program
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((1,), "int32")):
    B[0] = 0
    for i in range(8):
        with T.block("B"):
            vi = T.remap("{letter}", i)
            B[0] = B[0] + A[vi]
"""
    with pytest.raises(ScheduleError, match=said):
        marked(text, "B", 0)


def test_a_reduction_in_a_block_in_a_block_is_found():
    text = """
@T.program
def f(A: T.Buffer((4, 8), "int32"), B: T.Buffer((1,), "int32")):
    B[0] = 0
    for i in range(4):
        with T.block("outer"):
            vo = T.remap("S", i)
            for k in range(8):
                with T.block("inner"):
                    v = T.reduce(4, vo)
                    vk = T.remap("R", k)
                    B[0] = B[0] + A[v, vk]
"""
    with pytest.raises(ScheduleError, match="the reduce iterator 'v' of block 'inner' depends"):
        marked(text, "outer", 0)


def test_loops_without_blocks_may_run_at_once():
    text = """
n = T.dim("n")
@T.program
def f(A: T.Buffer((n,), "int32"), B: T.Buffer((n,), "int32")):
    for j in range(2):
        with T.block("any"):
            vj = T.remap("O", j)
            for i in range(n):
                B[i] = A[i]
"""
    s = schedule_of(text)
    loops = [x for x in sites(s.program) if getattr(x.node, "var", None) is not None]
    check_marked_loops(s.program, [x.node for x in loops])


def test_a_symbolic_extent_is_no_number_of_lanes():
    with pytest.raises(ScheduleError, match="its extent n is no constant"):
        marked(COPY.format(loops="j, i in T.grid(64, n)", row="i", column="j"), "B", 1, "vectorize")
