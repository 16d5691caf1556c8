"""pad_einsum, decompose_padding and rolling_buffer: what they make of small programs."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.evaluate import equivalent, interpret
from tensorsmith.ir import TensorProgram
from tensorsmith.schedule import Schedule
from tensorsmith.verify import verify


def check(before: TensorProgram, s: Schedule) -> None:
    verify(s.program)
    assert equivalent(before, s.program)


def matmul(n=7, m=5, depth=9) -> TensorProgram:
    a, b = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis(depth, "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    return te.program([a, b], c, "matmul")


def test_a_product_is_padded_with_zeros_and_its_loops_stay():
    before = matmul()
    s = Schedule(before)
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    pads, backs = s.pad_einsum(block, [4, 8, 2])
    assert [b.name for b in (*pads, *backs)] == ["A_pad", "B_pad", "C_unpad"]
    assert [x.var for x in s.get_loops(block)] == [i.var, j.var, k.var]
    text = str(s.program.body)
    assert "for i, j, k in T.grid(8, 8, 10):" in text
    assert "T.select(v_i < 7 and v_k < 9, A[v_i, v_k], 0.0)" in text
    check(before, s)


def test_only_what_needs_it_is_padded():
    before = matmul(8, 5, 9)
    s = Schedule(before)
    pads, backs = s.pad_einsum(s.get_block("C"), [4, 4, 3])
    assert [b.name for b in (*pads, *backs)] == ["B_pad", "C_unpad"]
    check(before, s)
    s = Schedule(before)
    assert s.pad_einsum(s.get_block("C"), [4, 5, 3]) == ([], [])
    assert s.program is s.module["matmul"]
    assert s.program.script() == before.script()


def test_symbolic_extents_are_rounded_up():
    n = T.dim("n")
    before = matmul(n, 5, 9)
    s = Schedule(before)
    s.pad_einsum(s.get_block("C"), [16, 1, 1])
    assert "A_pad = T.alloc(((n + 15) // 16 * 16, 9)" in str(s.program.body)
    check(before, s)


@pytest.mark.parametrize(
    ("fold", "pad"), [(te.max, 'T.float32("-inf")'), (te.min, 'T.float32("inf")'), (te.prod, "1.0")]
)
def test_the_padding_is_what_the_reduction_ignores(fold, pad):
    a = te.placeholder((3, 5), name="A")
    k = te.reduce_axis(5, "k")
    c = te.compute((3,), lambda i: fold(a[i, k], axis=k), "C")
    before = te.program([a], c, "fold")
    s = Schedule(before)
    s.pad_einsum(s.get_block("C"), [1, 4])
    assert f"A[v_i, v_k], {pad})" in str(s.program.body)
    verify(s.program)
    data = np.random.default_rng(0).standard_normal((3, 5), np.float32)
    left, right = np.zeros(3, np.float32), np.zeros(3, np.float32)
    interpret(before, data, left)
    interpret(s.program, data, right)
    assert left.tobytes() == right.tobytes()


def test_a_condition_keeps_padding_out_where_no_value_is_ignored():
    a = te.placeholder((3, 5), name="A")
    b = te.placeholder((3,), name="B")
    k = te.reduce_axis(5, "k")
    c = te.compute((3,), lambda i: te.sum(a[i, k] + b[i], axis=k), "C")
    before = te.program([a, b], c, "sums")
    s = Schedule(before)
    s.pad_einsum(s.get_block("C"), [1, 4])
    assert "T.select(vk < 5, A_pad[vi, vk] + B[vi], 0.0)" in str(s.program.body)
    check(before, s)


def padded(n=6) -> TensorProgram:
    a = te.placeholder((n, n), name="A")

    def value(i, j):
        inside = (i >= 1) & (i < n + 1) & (j >= 2) & (j - 2 < n)
        return T.select(inside, a[i - 1, j - 2], 0.0)

    return te.program([a], te.compute((n + 2, n + 3), value, "P"), "pad")


def test_padding_and_values_are_stored_apart():
    before = padded()
    s = Schedule(before)
    block = s.get_block("P")
    _i, j = s.get_loops(block)
    fill = s.decompose_padding(block, j)
    assert str(s.program.body) == (
        "for i in range(8):\n"
        "    for j_pad in range(9):\n"
        '        with T.block("P_pad"):\n'
        '            vi, vj = T.remap("SS", i, j_pad)\n'
        "            P[vi, vj] = 0.0\n"
        "    for j in range(6):\n"
        '        with T.block("P"):\n'
        "            vi = T.spatial(8, i)\n"
        "            vj = T.spatial(6, j + 2, start=2)\n"
        "            if 1 <= vi and vi < 7:\n"
        "                P[vi, vj] = A[vi - 1, vj - 2]"
    )
    assert fill.name == "P_pad"
    check(before, s)


def test_what_is_split_is_asked_at_each_point():
    before = padded()
    s = Schedule(before)
    block = s.get_block("P")
    i, j = s.get_loops(block)
    _outer, _inner = s.split(j, [3, 3])
    s.decompose_padding(block, i)
    assert "for i, j_0, j_1 in T.grid(6, 3, 3):" in str(s.program.body)
    check(before, s)


def blur(step=1, width=3) -> TensorProgram:
    a = te.placeholder((26, 4), name="A")
    b = te.compute((26, 4), lambda i, j: a[i, j] * 2.0, "B")

    def window(i, j):
        total = b[i * step, j]
        for d in range(1, width):
            total = total + b[i * step + d, j]
        return total

    c = te.compute(((26 - width) // step + 1, 4), window, "C")
    return te.program([a], c, "blur")


@pytest.mark.parametrize(("step", "width"), [(1, 3), (2, 3), (2, 5), (1, 2), (3, 4)])
def test_a_window_rolls(step, width):
    before = blur(step, width)
    s = Schedule(before)
    i, _j = s.get_loops(s.get_block("C"))
    s.compute_at(s.get_block("B"), i)
    s.rolling_buffer(s.get_block("B"), "B")
    text = str(s.program.body)
    assert f"B = T.alloc(({width}, 4)" in text
    assert f"if vi == 0 or {width - step} <= vi_1:" in text
    check(before, s)


def test_a_window_over_a_reduction_rolls_with_its_init():
    a = te.placeholder((10, 5), "int32", "A")
    k = te.reduce_axis(5, "k")
    b = te.compute((10,), lambda i: te.sum(a[i, k], axis=k), "B")
    c = te.compute((8,), lambda i: b[i] + b[i + 2], "C")
    before = te.program([a], c, "sums")
    s = Schedule(before)
    (i,) = s.get_loops(s.get_block("C"))
    s.compute_at(s.get_block("B"), i)
    s.rolling_buffer(s.get_block("B"))
    assert "B = T.alloc((3,)" in str(s.program.body)
    check(before, s)
