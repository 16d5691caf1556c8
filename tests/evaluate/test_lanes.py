"""Independent iterations run side by side, with the same bits as one by one."""

from __future__ import annotations

import time

import numpy as np
import pytest

from evaluate.runs import i, j, matmul, n, p, program, same_either_way
from tensorsmith.evaluate import Memory, NumPyDomain, Walker, interpret
from tensorsmith.ir import (
    Alloc,
    Bind,
    Buffer,
    Cast,
    Eq,
    For,
    If,
    LoopKind,
    Min,
    Store,
    TensorProgram,
    Var,
    While,
    const,
    dtype,
    seq,
)

ZERO = const(0)


class Spy(NumPyDomain):
    """Notes with how many lanes each store runs."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes: set[tuple[int, ...]] = set()

    def store(self, stmt, memory, indices, value):
        self.lanes.add(tuple(self.lane_sizes))
        super().store(stmt, memory, indices, value)


def lanes_of(f: TensorProgram, *args: object) -> set[tuple[int, ...]]:
    """The lanes of the stores of a run."""
    spy = Spy()
    given = [Memory(a) if isinstance(a, np.ndarray) else a for a in args]
    Walker(spy, {f.name: f}).call(f, given)
    return spy.lanes


def test_matmul_is_fast_and_in_order():
    random = np.random.default_rng(0)
    a, b = (random.random((64, 64), np.float32) for _ in range(2))
    c = np.empty((64, 64), np.float32)
    times = []
    for _ in range(3):
        start = time.process_time()
        interpret(matmul(), a, b, c)
        times.append(time.process_time() - start)
    assert min(times) < 0.1
    expected = np.zeros((64, 64), np.float32)
    for step in range(64):  # the order of the program: one product after the other
        expected = expected + a[:, step : step + 1] * b[step : step + 1]
    assert c.tobytes() == expected.tobytes()


@pytest.mark.parametrize("type_", ["float16", "bfloat16", "float64", "int8", "uint4", "int32"])
def test_matmul_in_other_types(type_):
    random = np.random.default_rng(1)
    numpy_type = dtype(type_).numpy
    a, b = (random.integers(0, 3, (5, 5)).astype(numpy_type) for _ in range(2))
    _, _, c = same_either_way(matmul(type_), a, b, np.zeros((5, 5), numpy_type))
    exact = a.astype(np.int64) @ b.astype(np.int64)
    wrapped = exact % 16 if type_ == "uint4" else exact
    assert (c.astype(np.int64) == wrapped).all()


A, B = Buffer("a", (n,), "int64"), Buffer("b", (n,), "int64")
SQUARE = Buffer("s", (n, n), "int64")
TARGETS = Buffer("at", (n,), "int32")
LOCAL = Buffer("t", (), "int64")
v = Var("v")

# Body of a loop over i, and whether its iterations are independent of each other.
LOOPS = {
    "map": (Store(B, (i,), A[i] * 2), True),
    "update": (Store(B, (i,), B[i] + A[i]), True),
    "reverse": (Store(B, (n - 1 - i,), A[i]), True),
    "permutation": (Store(B, (i * 5 % n,), A[i]), True),
    "collision": (Store(B, (i // 2,), A[i]), False),
    "prefix sum": (If(const(1) <= i, Store(B, (i,), B[i - 1] + A[i])), False),
    "shift in place": (If(i < n - 1, Store(B, (i,), B[i + 1])), False),
    "scatter": (Store(B, (Cast(TARGETS[i], dtype("index")),), A[i]), False),
    "gather": (Store(B, (i,), A[Cast(TARGETS[i], dtype("index"))]), True),
    "gather from itself": (Store(B, (i,), B[Cast(TARGETS[i], dtype("index"))]), False),
    "reduction": (Store(B, (ZERO,), B[0] + A[i]), False),
    "row": (For(j, n, Store(SQUARE, (i, j), A[j] + A[i])), True),
    "diagonal in place": (Store(SQUARE, (i, i), SQUARE[i, i] + A[i]), True),
    "transposed in place": (For(j, n, Store(SQUARE, (i, j), SQUARE[j, i])), False),
    "tile": (For(j, const(2), Store(B, (Min(i // 2 * 2 + j, n - 1),), A[i])), False),
    "local": (seq(Alloc(LOCAL), Store(LOCAL, (), A[i]), Store(B, (i,), LOCAL[()] + 1)), True),
    "bound": (seq(Bind(v, i + 0), Store(B, (v,), A[v])), True),
    "triangle": (For(j, i, Store(SQUARE, (i, j), A[j])), False),
    "while": (While(B[i] < A[i], Store(B, (i,), B[i] + 1)), False),
}


def arrays(size: int = 9) -> list[np.ndarray]:
    random = np.random.default_rng(2)
    return [
        random.integers(0, 20, size),
        random.integers(0, 20, size),
        random.integers(0, 20, (size, size)),
        random.integers(0, size, size).astype(np.int32),
    ]


@pytest.mark.parametrize("name", LOOPS)
def test_side_by_side_gives_the_same_bits(name):
    body, _ = LOOPS[name]
    same_either_way(program(For(i, n, body), A, B, SQUARE, TARGETS), *arrays())


@pytest.mark.parametrize("name", [name for name, (_, good) in LOOPS.items() if good])
def test_independent_iterations_run_side_by_side(name):
    body, _ = LOOPS[name]
    lanes = lanes_of(program(For(i, n, body), A, B, SQUARE, TARGETS), *arrays())
    assert lanes
    assert all(sizes[:1] == (9,) for sizes in lanes)


@pytest.mark.parametrize("name", [name for name, (_, good) in LOOPS.items() if not good])
def test_dependent_iterations_run_in_order(name):
    body, _ = LOOPS[name]
    marker = Var("marker")
    f = program(For(i, n, seq(Bind(marker, i), body)), A, B, SQUARE, TARGETS)

    class Order(NumPyDomain):
        def store(self, stmt, memory, indices, value):
            seen.append(walker.values[marker])
            super().store(stmt, memory, indices, value)

    seen: list[object] = []
    walker = Walker(Order(), {"f": f})
    walker.call(f, [Memory(a) for a in arrays()])
    assert all(type(value) is int for value in seen)
    assert seen == sorted(seen)


def test_lanes_of_lanes_share_sequential_loops():
    """Tiles: the loops over tiles and inside of them are lanes, that over k between them is not."""
    size, tile = 8, const(4)
    a, b, c = (Buffer(name, (size, size)) for name in "abc")
    io, jo, ii, ji, kk = (Var(name) for name in ("io", "jo", "ii", "ji", "kk"))
    row, column = io * 4 + ii, jo * 4 + ji
    store = Store(c, (row, column), c[row, column] + a[row, kk] * b[kk, column])
    tiles = const(2)
    inner = For(kk, const(size), For(ii, tile, For(ji, tile, store)))
    f = program(For(io, tiles, For(jo, tiles, inner)), a, b, c)
    random = np.random.default_rng(3)
    x, y = (random.random((size, size), np.float32) for _ in range(2))
    z = np.zeros((size, size), np.float32)
    assert lanes_of(f, x, y, z) == {(4, 4)}
    _, _, z = same_either_way(f, x, y, np.zeros((size, size), np.float32))
    np.testing.assert_allclose(z, x @ y, rtol=1e-5)


def test_sizes_that_depend_on_inner_loops_are_not_taken_from_an_earlier_run():
    """In the second round of the outer loop the innermost one still has its last, least extent."""
    b, t, inner = Buffer("b", (n * 2 + 2,), "int64"), Var("t"), Var("inner")
    at = i * 2 + inner
    store = Store(b, (at,), b[at] * 3 + Cast(i + p, dtype("int64")))
    steps = For(p, const(3), For(inner, 3 - p, store))
    f = program(For(t, const(2), For(i, n, steps)), b, Buffer("a", (n,), "int64"))
    same_either_way(f, np.arange(20), np.zeros(9, np.int64))


def test_local_buffers_are_each_lanes_own():
    a, out = Buffer("a", (n, 4)), Buffer("out", (n,))
    best = Buffer("best", ())
    body = seq(
        Alloc(best),
        Store(best, (), a[i, 0]),
        For(j, const(4), If(best[()] < a[i, j], Store(best, (), a[i, j]))),
        Store(out, (i,), best[()]),
    )
    x = np.random.default_rng(4).random((10, 4), np.float32)
    _, y = same_either_way(program(For(i, n, body), a, out), x, np.zeros(10, np.float32))
    assert (y == x.max(axis=1)).all()


def test_masked_stores_keep_what_is_there():
    a = Buffer("a", (n,), "int32")
    f = program(For(i, n, If(Eq(i % 3, ZERO), Store(a, (i,), -a[i]), Store(a, (i,), a[i] + 1))), a)
    (x,) = same_either_way(f, np.arange(10, dtype=np.int32))
    assert x.tolist() == [0, 2, 3, -3, 5, 6, -6, 8, 9, -9]


@pytest.mark.parametrize("kind", [*LoopKind])
def test_every_kind_of_loop_runs(kind):
    a = Buffer("a", (8,), "int32")
    thread = "threadIdx.x" if kind is LoopKind.THREAD else None
    x = np.zeros(8, np.int32)
    f = program(For(i, const(8), Store(a, (i,), const(1, "int32")), kind=kind, thread=thread), a)
    interpret(f, x)
    assert (x == 1).all()


def test_loops_start_where_they_say():
    a = Buffer("a", (8,), "index")
    x = np.zeros(8, np.int64)
    interpret(program(For(i, const(5), Store(a, (i,), i), start=const(3)), a), x)
    assert x.tolist() == [0, 0, 0, 3, 4, 5, 6, 7]
