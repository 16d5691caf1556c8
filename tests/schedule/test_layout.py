"""Layouts of buffers and of blocks: what the primitives make of small programs."""

from __future__ import annotations

import numpy as np
import pytest

from schedule.scripts import schedule_of
from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.evaluate import equivalent, interpret
from tensorsmith.ir import IndexMap, TensorProgram
from tensorsmith.schedule import Schedule, ScheduleError, Trace
from tensorsmith.verify import verify
from tensorsmith.verify.errors import BoundsError


def check(before: TensorProgram, s: Schedule) -> None:
    verify(s.program)
    assert equivalent(before, s.program)
    again = Schedule(before)
    Trace.from_json(s.trace.to_json()).apply(again)
    assert again.program.script() == s.program.script()


def two_steps(n: int = 10) -> TensorProgram:
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: a[i, j] + 1.0, "B")
    c = te.compute((n, n), lambda i, j: b[i, j] * b[j, i], "C")
    return te.program([a], c, "two_steps")


def test_all_accesses_follow_a_layout_and_the_writer_runs_over_it():
    before = two_steps(8)
    s = Schedule(before)
    s.transform_layout(s.get_block("B"), (0, "write"), lambda i, j: (i // 4, j, i % 4))
    assert str(s.program.body) == (
        'B = T.alloc((2, 8, 4), "float32")\n'
        "for ax0, ax1, ax2 in T.grid(2, 8, 4):\n"
        '    with T.block("B"):\n'
        '        v_ax0, v_ax1, v_ax2 = T.remap("SSS", ax0, ax1, ax2)\n'
        "        B[v_ax0, v_ax1, v_ax2] = A[v_ax0 * 4 + v_ax2, v_ax1] + 1.0\n"
        "for i, j in T.grid(8, 8):\n"
        '    with T.block("C"):\n'
        '        vi, vj = T.remap("SS", i, j)\n'
        "        C[vi, vj] = B[vi // 4, vj, vi % 4] * B[vj // 4, vi, vj % 4]"
    )
    check(before, s)


def test_padding_is_left_alone_or_filled_by_the_writer():
    before = two_steps()
    for pad, text in ((None, "if v_ax0 * 4 + v_ax2 < 10:"), (7.0, "T.select(10 <= ")):
        s = Schedule(before)
        s.transform_layout(
            s.get_block("C"), (0, "read"), lambda i, j: (i // 4, j, i % 4), pad_value=pad
        )
        assert text in str(s.program.body)
        check(before, s)


def test_padding_is_filled_by_a_block_of_its_own_where_the_writer_is_scheduled():
    before = two_steps()
    s = Schedule(before)
    _i, j = s.get_loops(s.get_block("B"))
    s.split(j, [2, 5])
    s.transform_layout(s.get_block("B"), "B", lambda i, j: (i // 4, j, i % 4), pad_value=0.0)
    text = str(s.program.body)
    assert 'with T.block("B_pad"):' in text
    assert text.index("B_pad") < text.index('T.block("B")')
    check(before, s)


def test_a_parameter_keeps_its_shape_and_gets_a_layout():
    before = two_steps(8)
    s = Schedule(before)
    s.transform_layout(s.get_block("B"), "A", lambda i, j: (j, i), change_parameter=True)
    assert s.program.params[0].layout is not None
    verify(s.program)
    data = np.random.default_rng(0).random((8, 8), np.float32)
    left, right = np.zeros_like(data), np.zeros_like(data)
    interpret(before, data, left)
    build(s.program)(np.ascontiguousarray(data.T), right)
    assert left.tobytes() == right.tobytes()


def test_iterators_of_a_reduction_are_laid_out_anew():
    a = te.placeholder((6, 8), "int32", "A")
    k = te.reduce_axis(8, "k")
    c = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), "C")
    before = te.program([a], c, "rows")
    s = Schedule(before)
    loops = s.transform_block_layout(s.get_block("C"), lambda i, k: (k // 4, i // 2, k % 4, i % 2))
    assert [x.var.name for x in loops] == ["ax0", "ax1", "ax2", "ax3"]
    assert 'T.remap("RSRS", ax0, ax1, ax2, ax3)' in str(s.program.body)
    check(before, s)


def test_the_order_of_iterators_changes_nothing_but_itself():
    before = two_steps()
    s = Schedule(before)
    s.reorder_block_iter_var(s.get_block("C"), [1, 0])
    assert 'vj, vi = T.remap("SS", j, i)' in str(s.program.body)
    check(before, s)


def test_groups_of_axes_are_the_dimensions_of_memory():
    before = two_steps()
    s = Schedule(before)
    s.set_axis_separator(s.get_block("B"), "B", [1])
    assert "layout=lambda i0, i1: (i0, i1)" in str(s.program.body)
    s = Schedule(before)
    s.set_axis_separator(s.get_block("B"), "B", [])
    assert "layout=lambda i0, i1: (i0 * 10 + i1,)" in str(s.program.body)
    check(before, s)


def test_a_layout_whose_bounds_are_not_seen_is_refused(monkeypatch):
    n = T.dim("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, "B")
    before = te.program([a], te.compute((n,), lambda i: b[i] * 2.0, "C"), "steps")
    s = Schedule(before)
    monkeypatch.setattr("tensorsmith.schedule.layout.problems", lambda _: [BoundsError("far out")])
    with pytest.raises(ScheduleError) as caught:
        s.transform_layout(s.get_block("B"), "B", lambda i: (i // 4, i % 4))
    assert str(caught.value) == (
        "transform_layout('B', 'B'): with this layout the program cannot be shown to be right\n"
        "  because: far out\n"
        "  try: tiles that divide what dimensions are multiples of, or constant extents"
    )
    assert s.program.script() == before.script()


def test_a_buffer_that_lives_in_loops_is_padded_in_each_iteration():
    s = schedule_of(
        """
@T.program
def f(A: T.Buffer((6,), "int32"), C: T.Buffer((6, 4), "int32")):
    for i in range(6):
        L = T.alloc((4,), "int32")
        for j in range(4):
            with T.block("L"):
                vi, vj = T.remap("SS", i, j)
                L[vj] = A[vi] + T.int32(vj)
        for k in range(4):
            with T.block("C"):
                vi, vk = T.remap("SS", i, k)
                C[vi, vk] = L[vk]
"""
    )
    before = s.program
    s.transform_layout(s.get_block("C"), "L", lambda j: (j // 3, j % 3), pad_value=7)
    verify(s.program)
    assert s.get_loops(s.get_block("L_pad"))[0] == s.get_loops(s.get_block("C"))[0]
    given = np.arange(6, dtype=np.int32)
    results = [np.zeros((6, 4), np.int32) for _ in range(2)]
    for program, result in zip((before, s.program), results, strict=True):
        interpret(program, given.copy(), result)
    np.testing.assert_array_equal(*results)


def test_booleans_are_padded_with_booleans() -> None:
    flags = te.placeholder((6,), "bool", "flags")
    kept = te.compute((6,), lambda i: flags[i], "kept")
    program = te.program([flags], te.compute((6,), lambda i: kept[i], "out"))
    s = Schedule(program)
    split = IndexMap.of(lambda i: (i // 4, i % 4), 1)
    s.transform_layout(s.get_block("kept"), "kept", split, pad_value=False)
    found, given = np.zeros(6, bool), np.array([True, False, True, True, False, True])
    interpret(s.program, given, found)
    np.testing.assert_array_equal(found, given)
