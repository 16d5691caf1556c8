"""decompose_reduction and rfactor: what they make of small programs."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith import te
from tensorsmith.evaluate import equivalent, interpret
from tensorsmith.ir import TensorProgram
from tensorsmith.schedule import Schedule
from tensorsmith.script import parse_program
from tensorsmith.verify import verify


def check(before: TensorProgram, s: Schedule) -> None:
    verify(s.program)
    assert equivalent(before, s.program)


def matmul(n: int = 8, m: int = 6, depth: int = 12) -> TensorProgram:
    a, b = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis(depth, "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    return te.program([a, b], c, "matmul")


def test_the_init_keeps_the_kinds_of_its_loops():
    before = matmul()
    s = Schedule(before)
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    s.vectorize(j)
    s.reorder(i, k, j)
    s.decompose_reduction(block, k)
    assert str(s.program.body) == (
        "for i in range(8):\n"
        "    for j_init in T.vectorized(6):\n"
        '        with T.block("C_init"):\n'
        '            vi, vj = T.remap("SS", i, j_init)\n'
        "            C[vi, vj] = 0.0\n"
        "    for k in range(12):\n"
        "        for j in T.vectorized(6):\n"
        '            with T.block("C"):\n'
        '                vi, vj, vk = T.remap("SSR", i, j, k)\n'
        "                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"
    )
    check(before, s)


def test_the_init_keeps_the_guards_of_spatial_loops_alone():
    before = matmul(7, 5, 11)
    s = Schedule(before)
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    outer, inner = s.split(i, [None, 4])
    k_outer, k_inner = s.split(k, [None, 3])
    s.reorder(outer, k_outer, inner, j, k_inner)
    init = s.decompose_reduction(block, k_outer)
    assert "T.where(i_0 * 4 + i_1_init < 7)" in str(s.program.body)
    assert [x.var.name for x in s.get_loops(init)] == ["i_0", "i_1_init", "j_init"]
    check(before, s)


def test_blocks_and_loops_stay_known():
    s = Schedule(matmul())
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    init = s.decompose_reduction(block, k)
    assert [x.var for x in s.get_loops(block)] == [i.var, j.var, k.var]
    assert [x.var for x in s.get_loops(init)] == [i.var, j.var]


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_partial_results_get_their_dimension(axis):
    before = matmul()
    s = Schedule(before)
    _i, _j, k = s.get_loops(s.get_block("C"))
    outer, _inner = s.split(k, [4, 3])
    s.rfactor(outer, axis)
    shape = [8, 6]
    shape.insert(axis if axis >= 0 else axis + 3, 4)
    assert f"C_rf = T.alloc({tuple(shape)}, " in str(s.program.body)
    check(before, s)


def test_an_inner_loop_can_be_factored_too():
    before = matmul()
    s = Schedule(before)
    _i, _j, k = s.get_loops(s.get_block("C"))
    _outer, inner = s.split(k, [None, 5])
    partial = s.rfactor(inner, 2)
    s.vectorize(inner)
    assert partial.name == "C_rf"
    check(before, s)


@pytest.mark.parametrize("fold", [te.sum, te.prod, te.min, te.max], ids=lambda f: f.name)
def test_each_operation_starts_from_its_neutral_element(fold):
    a = te.placeholder((4, 10), "int32", "A")
    k = te.reduce_axis(10, "k")
    c = te.compute((4,), lambda i: fold(a[i, k], axis=k), "C")
    before = te.program([a], c, "fold")
    s = Schedule(before)
    _i, k = s.get_loops(s.get_block("C"))
    _outer, inner = s.split(k, [None, 4])
    s.rfactor(inner)
    verify(s.program)
    data = np.random.default_rng(0).integers(-9, 9, (4, 10), np.int32)
    left, right = np.zeros(4, np.int32), np.zeros(4, np.int32)
    interpret(before, data, left)
    interpret(s.program, data, right)
    assert left.tolist() == right.tolist()


def test_argmax_is_factored_with_both_results():
    a = te.placeholder((3, 9), name="A")
    k = te.reduce_axis(9, "k")
    value, place = te.compute((3,), lambda i: te.argmax(a[i, k], axis=k), "best")
    before = te.program([a], [value, place], "argmax")
    s = Schedule(before)
    _i, k = s.get_loops(s.get_block("best"))
    _outer, inner = s.split(k, [None, 4])
    s.rfactor(inner)
    verify(s.program)
    rng = np.random.default_rng(1)
    for _ in range(20):
        data = rng.integers(0, 3, (3, 9)).astype(np.float32)
        data[rng.random((3, 9)) < 0.1] = np.nan
        found = np.zeros(3, np.float32), np.zeros(3, np.int64)
        interpret(s.program, data, *found)
        assert found[1].tolist() == np.argmax(data, axis=1).tolist()
        np.testing.assert_array_equal(found[0], np.max(data, axis=1))


def test_a_product_of_complex_numbers_is_taken_apart_by_trying_its_laws():
    a = te.placeholder((3, 8), name="A")
    b = te.placeholder((3, 8), name="B")
    product = te.reducer(
        lambda x, y: (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]), (1.0, 0.0), "product"
    )
    k = te.reduce_axis(8, "k")
    real, imaginary = te.compute((3,), lambda i: product((a[i, k], b[i, k]), axis=k), "P")
    before = te.program([a, b], [real, imaginary], "product")
    s = Schedule(before)
    _i, k = s.get_loops(s.get_block("P"))
    outer, _inner = s.split(k, [None, 3])
    s.rfactor(outer)
    check(before, s)


def test_an_init_that_is_not_neutral_counts_once():
    before = parse_program(
        """
from tensorsmith import script as T

@T.program
def biased(A: T.Buffer((4, 6), "float32"), b: T.Buffer((4,), "float32"),
           C: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("C"):
            vi, vk = T.remap("SR", i, k)
            with T.init():
                C[vi] = b[vi]
            C[vi] = A[vi, vk] + C[vi]
"""
    )
    s = Schedule(before)
    _i, k = s.get_loops(s.get_block("C"))
    s.rfactor(k)
    check(before, s)
    assert "C_rf[vi, vk] = 0.0" not in str(s.program.body)
    assert "C_rf[vk, vi] = 0.0" in str(s.program.body)
