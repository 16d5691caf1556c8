"""blockize, tensorize and the intrinsics that are shipped."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.evaluate import equivalent, interpret
from tensorsmith.ir import Cast, TensorProgram, dtype
from tensorsmith.schedule import Schedule, ScheduleError, Trace
from tensorsmith.schedule.intrinsic import (
    TensorIntrinsic,
    get_intrinsic,
    intrinsic_names,
    register_intrinsic,
)
from tensorsmith.schedule.intrinsics import SHIPPED
from tensorsmith.script import parse_program
from tensorsmith.verify import verify


def check(before: TensorProgram, s: Schedule) -> None:
    verify(s.program)
    assert equivalent(before, s.program)


def matmul(n=32, m=32, depth=32, *, transposed=(False, False)) -> TensorProgram:
    shapes = [(n, depth), (depth, m)]
    a, b = (
        te.placeholder(shape[::-1] if flip else shape, name=name)
        for shape, flip, name in zip(shapes, transposed, "AB", strict=True)
    )
    k = te.reduce_axis(depth, "k")

    def element(i, j):
        x = a[k, i] if transposed[0] else a[i, k]
        y = b[j, k] if transposed[1] else b[k, j]
        return te.sum(x * y, axis=k)

    return te.program([a, b], te.compute((n, m), element, "C"), "matmul")


def tiled(before: TensorProgram, rows: int, columns: int, depth: int):
    """The schedule with the loops of tiles innermost and the init moved out; the tile's loops."""
    s = Schedule(before)
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    i0, i1 = s.split(i, [None, rows])
    j0, j1 = s.split(j, [None, columns])
    k0, k1 = s.split(k, [None, depth])
    s.reorder(i0, j0, k0, i1, j1, k1)
    s.decompose_reduction(block, k0)
    return s, i1


# --- Blocks of blocks ---


def test_the_init_of_a_reduction_moves_to_the_outer_block():
    before = matmul(8, 8, 8)
    s = Schedule(before)
    i, j, k = s.get_loops(s.get_block("C"))
    k0, k1 = s.split(k, [2, 4])
    s.reorder(i, k0, j, k1)
    outer = s.blockize(j)
    assert str(s.program.body) == (
        "for i, k_0 in T.grid(8, 2):\n"
        '    with T.block("C_o"):\n'
        '        vi_o, vk_o = T.remap("SR", i, k_0)\n'
        "        with T.init():\n"
        "            for j_init in range(8):\n"
        '                with T.block("C_init"):\n'
        "                    vi = T.spatial(8, vi_o)\n"
        "                    vj = T.spatial(8, j_init)\n"
        "                    C[vi, vj] = 0.0\n"
        "        for j, k_1 in T.grid(8, 4):\n"
        '            with T.block("C"):\n'
        "                vi = T.spatial(8, vi_o)\n"
        "                vj = T.spatial(8, j)\n"
        "                vk = T.reduce(8, k_1 + vk_o * 4)\n"
        "                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"
    )
    check(before, s)
    assert s.get_child_blocks(outer) == [s.get_block("C")]


def test_tails_stay_in_the_inner_block():
    before = matmul(8, 8, 10)
    s = Schedule(before)
    i, j, k = s.get_loops(s.get_block("C"))
    k0, k1 = s.split(k, [None, 4])
    s.reorder(k0, i, j, k1)
    s.blockize(i)
    assert "T.where(vk_o * 4 + k_1 < 10)" in str(s.program.body)
    check(before, s)


def test_several_blocks_become_one():
    a = te.placeholder((8, 4), name="A")
    b = te.compute((8, 4), lambda i, j: a[i, j] + 1.0, "B")
    c = te.compute((8, 4), lambda i, j: b[i, j] * 2.0, "C")
    before = te.program([a], c, "steps")
    s = Schedule(before)
    i, _j = s.get_loops(s.get_block("C"))
    s.compute_at(s.get_block("B"), i)
    outer = s.blockize([s.get_block("B"), s.get_block("C")])
    assert [b.name for b in s.get_child_blocks(outer)] == ["B", "C"]
    assert "for i in range(8):" in str(s.program.body)
    check(before, s)


def test_blocks_in_blocks_divide_over_the_iterators_around():
    before = matmul(8, 8, 8)
    s = Schedule(before)
    i, j, _k = s.get_loops(s.get_block("C"))
    _, i1 = s.split(i, [2, 4])
    s.blockize(i1)
    s.blockize([s.get_block("C")])
    check(before, s)
    s.blockize(j)
    check(before, s)


# --- Intrinsics ---


@pytest.mark.parametrize("intrinsic", SHIPPED.values(), ids=SHIPPED.keys())
def test_shipped_intrinsics_do_what_they_say(intrinsic):
    verify(intrinsic.description)
    verify(intrinsic.implementation)
    if intrinsic.features:
        assert equivalent(intrinsic.description, intrinsic.implementation, trials=2)


@pytest.mark.parametrize("transposed", [(False, False), (True, False)])
@pytest.mark.parametrize("name", [n for n in SHIPPED if "fma" in n])
def test_register_tiles_fit_any_lhs(name, transposed):
    rows, columns = map(int, name.rsplit("_", 1)[1].split("x"))
    before = matmul(rows * 2, columns, 12, transposed=transposed)
    s, tile = tiled(before, rows, columns, 6)
    s.tensorize(tile, name)
    check(before, s)
    data = np.random.default_rng(0)
    arrays = [
        data.integers(-3, 4, [int(e.value) for e in b.shape]).astype(np.float32)
        for b in before.buffers
    ]
    expected = [x.copy() for x in arrays]
    interpret(before, *expected)
    build(s.program)(*arrays)
    np.testing.assert_array_equal(arrays[2], expected[2])


def test_rows_of_the_rhs_must_be_contiguous():
    s, tile = tiled(matmul(12, 16, 12, transposed=(False, True)), 6, 16, 6)
    with pytest.raises(ScheduleError) as caught:
        s.tensorize(tile, "avx2_fma_f32_6x16")
    assert caught.value.because == "'B' has the stride 1 in dimension 1, and finds 12"


BYTES = [n for n in SHIPPED if "dot" in n]


@pytest.mark.parametrize("name", BYTES)
def test_dot_products_of_bytes_are_exact(name):
    intrinsic = SHIPPED[name]
    sums, data, weights = (b.dtype for b in intrinsic.description.buffers)
    lanes, width = (int(e.value) for e in intrinsic.description.buffers[2].shape)
    a = te.placeholder((3, 4 * width), data, "A")
    b = te.placeholder((2, 4, lanes, width), weights, "B")
    k = te.reduce_axis(4 * width, "k")

    def element(i, j):
        weight = b[j // lanes, k // width, j % lanes, k % width]
        return te.sum(Cast(a[i, k], sums) * Cast(weight, sums), axis=k)

    before = te.program([a, b], te.compute((3, 2 * lanes), element, "C"), "product")
    s, tile = tiled(before, 1, lanes, width)
    s.tensorize(tile, name)
    verify(s.program)
    rng = np.random.default_rng(0)
    for extreme in (True, False):
        arrays = [
            _bytes(rng, p.numpy, shape, extreme)
            for p, shape in ((data, (3, 4 * width)), (weights, (2, 4, lanes, width)))
        ]
        found, native, expected = (np.zeros((3, 2 * lanes), sums.numpy) for _ in range(3))
        interpret(before, *arrays, expected)
        interpret(s.program, *arrays, found)
        build(s.program)(*arrays, native)
        assert expected.tolist() == found.tolist() == native.tolist()


def _bytes(rng, kind, shape, extreme):
    info = np.iinfo(kind)
    if extreme:
        return rng.choice([info.min, info.max], shape).astype(kind)
    return rng.integers(info.min, info.max + 1, shape).astype(kind)


def multiply(c, a, b):
    """What the fake accelerator does."""
    c += a @ b


def test_the_fake_accelerator_runs_in_the_interpreter():
    before = matmul()
    s, tile = tiled(before, 16, 16, 16)
    s.tensorize(tile, "fake_accelerator_16x16x16")
    verify(s.program)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (32, 32)).astype(np.float32) for _ in range(2))
    c = np.zeros((32, 32), np.float32)
    interpret(s.program, a, b, c, externs={"fake_accelerator_gemm": multiply})
    np.testing.assert_array_equal(c, a @ b)


def test_a_trace_with_an_intrinsic_replays():
    before = matmul()
    s, tile = tiled(before, 16, 16, 16)
    s.tensorize(tile, "fake_accelerator_16x16x16")
    again = Schedule(before)
    Trace.from_json(s.trace.to_json()).apply(again)
    assert again.program.script() == s.program.script()


def copy_intrinsic(name: str) -> TensorIntrinsic:
    header = """
from tensorsmith import script as T

s, d = T.dims("s d", min=None)

@T.program
def copy(S: T.Buffer((4,), "float32", strides=(s,)), D: T.Buffer((4,), "float32", strides=(d,))):
"""
    described = "    for i in range(4): D[i] = S[i]\n"
    implemented = "    for i in T.vectorized(4): D[i] = S[i]\n"
    return TensorIntrinsic(name, *(parse_program(header + b) for b in (described, implemented)))


def test_an_intrinsic_of_ones_own_is_found_by_name():
    register_intrinsic(copy_intrinsic("test_copy_4"), override=True)
    assert "test_copy_4" in intrinsic_names()
    assert get_intrinsic("test_copy_4").features == ()
    assert "test_copy_4" in intrinsic_names(features=[])
    assert "avx2_fma_f32_6x16" not in intrinsic_names(features=["avx2"])
    assert "avx2_fma_f32_6x16" in intrinsic_names(features=["avx2", "fma"])
    a = te.placeholder((3, 4), name="A")
    before = te.program([a], te.compute((4, 3), lambda i, j: a[j, i], "B"), "transpose")
    s = Schedule(before)
    i, j = s.get_loops(s.get_block("B"))
    s.reorder(j, i)
    s.tensorize(i, "test_copy_4")
    assert "B[i, vj_o] = A[vj_o, i]" in str(s.program.body)
    check(before, s)


def test_operands_of_a_commutative_operation_may_change_places():
    before = parse_program(
        """
from tensorsmith import script as T

@T.program
def product(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"),
            C: T.Buffer((16, 16), "float32")):
    with T.block("all"):
        T.block_attrs({"accumulate": True})
        for j, k, i in T.grid(16, 16, 16):
            C[i, j] = B[k, j] * A[i, k] + C[i, j]
"""
    )
    s = Schedule(before)
    s.tensorize(s.get_block("all"), "fake_accelerator_16x16x16")
    assert 'T.call("fake_accelerator_gemm", C, A, B)' in str(s.program.body)


def test_what_is_written_is_in_a_buffer_of_its_own():
    register_intrinsic(copy_intrinsic("test_copy_4"), override=True)
    before = parse_program(
        """
from tensorsmith import script as T

@T.program
def shift(A: T.Buffer((8,), "float32")):
    with T.block("all"):
        for i in range(4):
            A[i] = A[i + 4]
"""
    )
    s = Schedule(before)
    with pytest.raises(ScheduleError) as caught:
        s.tensorize(s.get_block("all"), "test_copy_4")
    assert caught.value.because == "'D', which is written, and 'S' both lie in 'A'"
    assert dtype("float32") is before.buffers[0].dtype
