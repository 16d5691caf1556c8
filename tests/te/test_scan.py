"""Recurrences against Python loops."""

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.evaluate import interpret
from tensorsmith.ir import Block, For, IterKind


def run(program, *args, outputs):
    got = [np.full(shape, 9, dtype) for shape, dtype in outputs]
    interpret(program, *args, *got)
    return got if len(got) > 1 else got[0]


def test_running_sum_is_one_block_with_an_opaque_iterator():
    n = T.dim("n")
    X = te.placeholder((n,), "int32", "X")
    zero = te.compute((), lambda: 0, "zero", dtype="int32")
    S = te.scan(n, lambda t, s: te.compute((), lambda: s + X[t]), zero, "S")
    program = te.program([X], S)
    loop = program.body.stmts[-1]
    assert isinstance(loop, For)
    assert isinstance(loop.body, Block)
    assert [i.kind for i in loop.body.iters] == [IterKind.OPAQUE]
    x = np.arange(5, dtype=np.int32)
    np.testing.assert_array_equal(run(program, x, outputs=[(5, "i4")]), np.cumsum(x))


def test_several_states():
    """Fibonacci numbers: (a, b) becomes (b, a + b)."""
    one = te.compute((), lambda: 1, "one", dtype="int64")

    def step(t, a, b):
        return te.compute((), lambda: (b + 0, a + b), "next")

    a, b = te.scan(10, step, (one, one), "fibonacci")
    got = run(te.program([], [a, b]), outputs=[(10, "i8"), (10, "i8")])
    expected = [1, 1]
    while len(expected) < 12:
        expected.append(expected[-1] + expected[-2])
    np.testing.assert_array_equal(got[0], expected[1:11])
    np.testing.assert_array_equal(got[1], expected[2:12])


def test_states_that_swap_do_not_see_each_others_new_value():
    A, B = te.placeholder((3,), "int32", "A"), te.placeholder((3,), "int32", "B")
    x, y = te.scan(4, lambda t, a, b: (b, a), (A, B), "swap")
    a, b = np.arange(3, dtype="i4"), np.arange(3, dtype="i4") + 10
    got = run(te.program([A, B], [x, y]), a, b, outputs=[((4, 3), "i4")] * 2)
    np.testing.assert_array_equal(got[0], [b, a, b, a])
    np.testing.assert_array_equal(got[1], [a, b, a, b])


@pytest.mark.parametrize("dtype", ["int64"])
def test_a_step_may_reduce_and_have_stages(dtype):
    """A recurrent cell: h becomes (W h + x[t]) % 7, with a stage for the product."""
    rng = np.random.default_rng(0)
    w, xs, h0 = rng.integers(-3, 4, (4, 4)), rng.integers(-3, 4, (6, 4)), rng.integers(0, 3, 4)
    W, X = te.placeholder((4, 4), dtype, "W"), te.placeholder((6, 4), dtype, "X")
    H0, k = te.placeholder((4,), dtype, "H0"), te.reduce_axis(4, "k")

    def step(t, h):
        product = te.compute((4,), lambda i: te.sum(W[i, k] * h[k], axis=k), "product")
        return te.compute((4,), lambda i: (product[i] + X[t, i]) % 7, "cell")

    H = te.scan(6, step, H0, "H")
    got = run(te.program([W, X, H0], H), w, xs, h0, outputs=[((6, 4), "i8")])
    h, expected = h0, []
    for x in xs:
        h = (w @ h + x) % 7
        expected.append(h)
    np.testing.assert_array_equal(got, expected)


def test_what_does_not_change_is_computed_once_before():
    X = te.placeholder((3,), "int32", "X")
    square = te.compute((3,), lambda i: X[i] * X[i], "square")

    def step(t, s):
        inner = te.compute((3,), lambda i: square[i] + 1, "inner")
        return te.compute((3,), lambda i: s[i] + inner[i], "step")

    program = te.program([X], te.scan(4, step, X, "S"))
    names = [s.buffer.name for s in program.body.stmts if not isinstance(s, For)]
    assert names == ["square", "inner"]
    x = np.arange(3, dtype="i4")
    np.testing.assert_array_equal(
        run(program, x, outputs=[((4, 3), "i4")]),
        [x + (t + 1) * (x * x + 1) for t in range(4)],
    )


def test_a_state_that_stays_what_it_is():
    X = te.placeholder((3,), "int32", "X")
    x = np.arange(3, dtype="i4")
    kept = te.program([X], te.scan(2, lambda t, s: s, X, "S"))
    np.testing.assert_array_equal(run(kept, x, outputs=[((2, 3), "i4")]), [x, x])
    Y = te.compute((3,), lambda i: X[i] * 2, "Y")
    outer = te.program([X], te.scan(2, lambda t, s: Y, X, "S"))
    np.testing.assert_array_equal(run(outer, x, outputs=[((2, 3), "i4")]), [2 * x, 2 * x])


def test_a_scan_within_a_scan():
    """Each outer step adds t to the state's running sums."""
    X = te.placeholder((3,), "int32", "X")
    zero = te.compute((), lambda: 0, "zero", dtype="int32")

    def step(t, s):
        sums = te.scan(
            3, lambda u, r: te.compute((), lambda: r + s[u] + T.cast(t, "int32")), zero, "sums"
        )
        return te.compute((3,), lambda i: sums[i], "copy")

    x = np.array([1, 2, 3], "i4")
    got = run(te.program([X], te.scan(3, step, X, "S")), x, outputs=[((3, 3), "i4")])
    state, expected = x, []
    for t in range(3):
        state = np.cumsum(state + t)
        expected.append(state)
    np.testing.assert_array_equal(got, expected)


def test_one_result_may_be_two_states():
    X = te.placeholder((2,), "int32", "X")

    def step(t, a, b):
        total = te.compute((2,), lambda i: a[i] + b[i], "total")
        return total, total

    a, b = te.scan(3, step, (X, X), "S")
    got = run(te.program([X], [a, b]), np.array([1, 2], "i4"), outputs=[((3, 2), "i4")] * 2)
    np.testing.assert_array_equal(got[0], [[2, 4], [4, 8], [8, 16]])
    np.testing.assert_array_equal(got[1], got[0])
