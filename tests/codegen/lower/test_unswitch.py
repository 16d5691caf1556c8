"""Conditions that are the same in all iterations of a loop."""

from __future__ import annotations

from tensorsmith import script as T
from tensorsmith.codegen.lower.unswitch import unswitch_loops


def body(program) -> str:
    return unswitch_loops(program).script().split("):\n", 1)[1]


def test_a_condition_leaves_the_loops_that_it_does_not_depend_on() -> None:
    @T.program
    def f(A: T.Buffer((8, 4, 16), "int32"), n: T.index):
        for i in range(8):
            for j in T.unrolled(4):
                for k in T.vectorized(16):
                    if i < n:
                        A[i, j, k] = 5

    assert body(f) == (
        "    for i in range(8):\n"
        "        if i < n:\n"
        "            for j in T.unrolled(4):\n"
        "                for k in T.vectorized(16):\n"
        "                    A[i, j, k] = 5\n"
    )


def test_the_part_that_depends_on_a_loop_stays_inside() -> None:
    @T.program
    def f(A: T.Buffer((8, 16), "int32"), n: T.index, m: T.index):
        for i in range(8):
            for k in T.vectorized(16):
                if k < m and i < n:
                    A[i, k] = 5

    assert body(f) == (
        "    for i in range(8):\n"
        "        if i < n:\n"
        "            for k in T.vectorized(16):\n"
        "                if k < m:\n"
        "                    A[i, k] = 5\n"
    )


def test_neighbours_are_asked_once() -> None:
    @T.program
    def f(A: T.Buffer((8, 16), "int32"), B: T.Buffer((8, 16), "int32"), n: T.index):
        for i in range(8):
            for k in T.vectorized(16):
                if i < n:
                    A[i, k] = 5
            for k2 in T.vectorized(16):
                if i < n:
                    B[i, k2] = A[i, k2]

    assert body(f) == (
        "    for i in range(8):\n"
        "        if i < n:\n"
        "            for k in T.vectorized(16):\n"
        "                A[i, k] = 5\n"
        "            for k2 in T.vectorized(16):\n"
        "                B[i, k2] = A[i, k2]\n"
    )


def test_what_depends_on_memory_is_asked_each_time() -> None:
    @T.program
    def f(A: T.Buffer((8, 16), "int32")):
        for i in range(8):
            for k in range(16):
                if A[i, 0] < 3:
                    A[i, k] = 5

    assert unswitch_loops(f) is f


def test_a_division_that_may_be_by_zero_stays_where_it_is_asked() -> None:
    n = T.dim("n", min=0)
    m = T.dim("m")

    @T.program
    def f(A: T.Buffer((n, 16), "int32"), B: T.Buffer((m, 16), "int32")):
        for i in range(n):
            for k in T.vectorized(16):
                if i * 2 < 40 // n:
                    A[i, k] = 5
        for j in range(m):
            for k2 in T.vectorized(16):
                if j * 2 < 40 // m:
                    B[j, k2] = 5

    assert body(f) == (
        "    for i in range(n):\n"
        "        for k in T.vectorized(16):\n"
        "            if i * 2 < 40 // n:\n"
        "                A[i, k] = 5\n"
        "    for j in range(m):\n"
        "        if j * 2 < 40 // m:\n"
        "            for k2 in T.vectorized(16):\n"
        "                B[j, k2] = 5\n"
    )


def test_threads_are_not_handed_out_under_a_condition() -> None:
    @T.program
    def f(A: T.Buffer((8,), "int32"), n: T.index):
        for i in T.parallel(8):
            if n < 3:
                A[i] = 5

    assert unswitch_loops(f) is f
