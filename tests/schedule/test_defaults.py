"""Default schedules keep what programs compute, for every machine they are made for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import ALL
from strategies import arguments, programs
from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.evaluate import interpret
from tensorsmith.ir import Block, For, LoopKind, TensorProgram
from tensorsmith.ir.rewrite import statements
from tensorsmith.ir.structural import structural_equal
from tensorsmith.schedule import Schedule, default, default_schedule
from tensorsmith.script import parse_program
from tensorsmith.target import Target
from tensorsmith.verify import verify

TARGETS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")


@pytest.mark.parametrize("kernel", ALL, ids=str)
def test_kernels_keep_their_results(kernel) -> None:
    program = default(kernel.te)
    verify(program)
    exe = build(program, threads=2)
    rng = np.random.default_rng(5)
    for _ in range(4):
        inputs = kernel.inputs(rng, kernel.draw_sizes(rng))
        expected = kernel.reference(*inputs)
        outputs = [
            np.full(e.value.shape, 99, dtype)
            for e, dtype in zip(expected, kernel.dtypes, strict=True)
        ]
        exe(*inputs, *outputs)
        for wanted, got in zip(expected, outputs, strict=True):
            if np.any(wanted.tolerance):
                assert np.all(np.abs(got - wanted.value) <= wanted.tolerance)
            else:
                np.testing.assert_array_equal(got, wanted.value)


def check_random(data: st.DataObject) -> None:
    """The scheduled program gives the same results; sums are of whole numbers, so exactly."""
    program = data.draw(programs())
    args = data.draw(arguments(program))
    args = list(args.values()) if isinstance(args, dict) else list(args)
    target = data.draw(st.sampled_from(TARGETS))
    scheduled = default(program, target)
    verify(scheduled)
    expected, got = ([np.copy(a) if isinstance(a, np.ndarray) else a for a in args] for _ in "ab")
    interpret(program, *expected)
    interpret(scheduled, *got)
    for a, b in zip(expected, got, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a.astype(np.float64), b.astype(np.float64))


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_random_programs_keep_their_results(data: st.DataObject) -> None:
    check_random(data)


@pytest.mark.slow
@settings(deadline=None, max_examples=5000)
@given(st.data())
def test_many_random_programs_keep_their_results(data: st.DataObject) -> None:
    check_random(data)


def matmul(m, n, k, *, transposed: bool = False) -> TensorProgram:
    """C = A B, in tensor expressions; extents may be symbolic."""
    a = te.placeholder((m, k), name="A")
    b = te.placeholder((n, k) if transposed else (k, n), name="B")
    r = te.reduce_axis(k, "k")
    body = (lambda i, j: a[i, r] * b[j, r]) if transposed else (lambda i, j: a[i, r] * b[r, j])
    c = te.compute((m, n), lambda i, j: te.sum(body(i, j), axis=r), "C")
    return te.program([a, b], c, "matmul", attrs={"contract": True})


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("m", [1, 7, 8, 9, 33, 100])
@pytest.mark.parametrize(("n", "k"), [(64, 64), (31, 17), (1, 5), (100, 130)])
def test_matrix_products_of_all_sizes(m: int, n: int, k: int, *, transposed: bool) -> None:
    program = default(matmul(m, n, k, transposed=transposed))
    verify(program)
    rng = np.random.default_rng(m * n + k)
    a = rng.integers(-8, 9, (m, k)).astype(np.float32)  # products and sums are exact
    b = rng.integers(-8, 9, (n, k) if transposed else (k, n)).astype(np.float32)
    c = np.full((m, n), np.nan, np.float32)
    build(program, threads=2)(a, b, c)
    np.testing.assert_array_equal(c, a @ (b.T if transposed else b))


@pytest.mark.parametrize("m", [5, 40])
def test_the_operands_may_stand_in_any_order(m: int) -> None:
    a, b = te.placeholder((30, m), name="A"), te.placeholder((30, 50), name="B")
    r = te.reduce_axis(30, "k")
    c = te.compute((m, 50), lambda i, j: te.sum(b[r, j] * a[r, i], axis=r), "C")
    program = default(te.program([a, b], c, "turned", attrs={"contract": True}))
    verify(program)
    rng = np.random.default_rng(m)
    x = rng.integers(-8, 9, (30, m)).astype(np.float32)
    y = rng.integers(-8, 9, (30, 50)).astype(np.float32)
    out = np.full((m, 50), np.nan, np.float32)
    build(program, threads=1)(x, y, out)
    np.testing.assert_array_equal(out, x.T @ y)


@pytest.mark.parametrize("rows", [1, 2, 13, 14, 15, 40, 129])
def test_one_program_for_all_row_counts(symbolic_matmul, rows: int) -> None:
    rng = np.random.default_rng(rows)
    a = rng.integers(-8, 9, (rows, 48)).astype(np.float32)
    b = rng.integers(-8, 9, (48, 80)).astype(np.float32)
    c = np.full((rows, 80), np.nan, np.float32)
    symbolic_matmul(a, b, c)
    np.testing.assert_array_equal(c, a @ b)


@pytest.fixture(scope="module")
def symbolic_matmul():
    from tensorsmith import script as T

    return build(default(matmul(T.dim("m"), 80, 48)), threads=1)


def test_a_large_product_is_packed_tiled_and_on_threads() -> None:
    target = Target.named("x86-64-v3")
    many = Target(target.triple, target.cpu, target.features, target.caches, cores=2)
    s = default_schedule(matmul(512, 512, 512), many)
    kinds = {x.kind for x in statements(s.program.body) if hasattr(x, "kind")}
    assert {LoopKind.PARALLEL, LoopKind.VECTORIZED, LoopKind.UNROLLED} <= kinds
    used = {i.primitive for i in s.trace.instructions}
    assert {"reindex", "transform_layout", "decompose_reduction"} <= used


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_rows_are_fetched_ahead_where_each_vector_takes_many_products(rows: int) -> None:
    text = str(default(matmul(rows, 1000, 2048), "x86-64-v4").body)
    assert ("prefetch" in text) == (rows > 2)


def test_the_trace_replays() -> None:
    program = matmul(64, 64, 64)
    s = default_schedule(program)
    again = Schedule(program)
    s.trace.apply(again)
    assert structural_equal(s.module, again.module)


def test_a_row_that_is_read_in_a_block_is_no_axis_of_it() -> None:
    """The fastest axis of what is read is a loop inside of the block, which cannot be split."""
    program = parse_program(
        """
from tensorsmith import script as T
n = T.dim("n")
@T.program
def columns(A: T.Buffer((n, 8), "float32"), B: T.Buffer((8, n), "float32")):
    for i in range(n):
        with T.block("columns"):
            vi = T.remap("S", i)
            for j in range(8):
                B[j, vi] = A[vi, j]
"""
    )
    a, b = np.arange(40, dtype=np.float32).reshape(5, 8), np.zeros((8, 5), np.float32)
    interpret(default(program), a, b)
    np.testing.assert_array_equal(b, a.T)


def pooled(channels: int, height: int, width: int, stride: int) -> TensorProgram:
    """The greatest of 3 by 3 windows of ``exp(x) / 2``, which costs too much to do nine times."""
    x = te.placeholder((channels, height, width), name="X")
    e = te.compute(x.shape, lambda c, i, j: T.exp(x[c, i, j]) / 2.0, "E")
    p, q = te.reduce_axis(3, "p"), te.reduce_axis(3, "q")
    shape = (channels, (height - 3) // stride + 1, (width - 3) // stride + 1)
    y = te.compute(
        shape, lambda c, i, j: te.max(e[c, i * stride + p, j * stride + q], axis=(p, q)), "Y"
    )
    return te.program([x], y, "pooled")


def _holds(loop: For, name: str) -> bool:
    """Whether a block stands in a loop."""
    return any(isinstance(x, Block) and x.name == name for x in statements(loop))


def _extents_around(program: TensorProgram, name: str) -> list[int]:
    """The extents of the loops around a block."""
    loops = [x for x in statements(program.body) if isinstance(x, For) and _holds(x, name)]
    return [int(x.extent.value) for x in loops]


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize(("height", "width"), [(3, 3), (7, 7), (20, 37), (13, 55)])
def test_what_windows_read_is_computed_once(height: int, width: int, stride: int) -> None:
    program = pooled(5, height, width, stride)
    scheduled = default(program)
    assert str(scheduled.body).count("T.exp") == 1
    made = math.prod(_extents_around(scheduled, "E"))
    assert made <= 5 * height * -(-width // 16) * 16, "each element once, but for whole vectors"
    x = np.random.default_rng(width).normal(size=(5, height, width)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(np.exp(x) / 2, (3, 3), (1, 2))
    expected = windows[:, ::stride, ::stride].max(axis=(3, 4))
    out = np.zeros(expected.shape, np.float32)
    build(scheduled, threads=1)(x, out)
    np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_windows_are_vectors() -> None:
    program = default(pooled(5, 40, 70, 2), "x86-64-v4")
    loops = [x for x in statements(program.body) if isinstance(x, For)]
    assert any(x.kind is LoopKind.VECTORIZED and _holds(x, "Y") for x in loops)


def test_a_sum_across_a_few_rows_is_vectors() -> None:
    """A window along an axis that is not the fastest one: the vectors run along the fastest."""
    x = te.placeholder((20, 70), name="X")
    k = te.reduce_axis(5, "k")
    y = te.compute((16, 70), lambda i, j: te.sum(x[i + k, j], axis=k), "Y")
    z = te.compute((16, 70), lambda i, j: T.sqrt(y[i, j] + 1.0), "Z")
    scheduled = default(te.program([x], z, "across"), "host")
    assert sum("T.vectorized" in line for line in str(scheduled.body).splitlines()) >= 2
    a = np.random.default_rng(3).random((20, 70)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(a, 5, axis=0)
    out = np.zeros((16, 70), np.float32)
    build(scheduled, threads=1)(a, out)
    np.testing.assert_allclose(out, np.sqrt(windows.sum(axis=2) + 1), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_vector_times_a_matrix_runs_along_the_rows_of_the_matrix(dtype) -> None:
    x = te.placeholder((300,), dtype, name="x")
    w = te.placeholder((300, 200), dtype, name="w")
    k = te.reduce_axis(300, "k")
    y = te.compute((200,), lambda j: te.sum(x[k] * w[k, j], axis=k), "y")
    scheduled = default(te.program([x, w], y, "product"), "host")
    text = str(scheduled.body)
    assert "T.vectorized" in text
    assert "y_rf" not in text  # no partial sums down a column, whose elements lie far apart
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((300,), (300, 200)))
    out = np.zeros(200, dtype)
    build(scheduled, threads=2)(a, b, out)
    np.testing.assert_array_equal(out, a @ b)
