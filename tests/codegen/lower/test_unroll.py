"""Unrolled loops."""

from __future__ import annotations

from tensorsmith import script as T
from tensorsmith.codegen.lower.unroll import unroll_loops


def body(program) -> str:
    return unroll_loops(program).script().split("):\n", 1)[1]


def test_iterations_stand_one_after_the_other() -> None:
    @T.program
    def f(A: T.Buffer((8,), "int32")):
        for i in T.unrolled(3):
            A[i] = 5

    assert body(f) == "    A[0] = 5\n    A[1] = 5\n    A[2] = 5\n"


def test_a_loop_of_too_many_iterations_stays() -> None:
    @T.program
    def f(A: T.Buffer((1000,), "int32")):
        for i in T.unrolled(1000):
            A[i] = 5

    assert body(f) == "    for i in range(1000):\n        A[i] = 5\n"


def test_an_annotation_unrolls_short_loops_inside() -> None:
    @T.program
    def f(A: T.Buffer((4, 2, 9), "int32")):
        for i in T.serial(4, attrs={"pragma_unroll_explicit": 4}):
            for j in range(2):
                for k in range(9):
                    A[i, j, k] = 5

    assert body(f) == (
        '    for i in T.serial(4, attrs={"pragma_unroll_explicit": 4}):\n'
        "        for k in range(9):\n"
        "            A[i, 0, k] = 5\n"
        "        for k in range(9):\n"
        "            A[i, 1, k] = 5\n"
    )
