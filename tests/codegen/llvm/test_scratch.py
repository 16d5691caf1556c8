"""Memory that each iteration of a loop uses anew: taken once, and given back."""

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith.codegen import build
from tensorsmith.codegen.llvm.module import print_llvm
from tensorsmith.ir import IRModule
from tensorsmith.target import Target

n, m = T.dim("n", min=0), T.dim("m", min=0)


@T.program
def serial(A: T.Buffer((n, m), "float32"), C: T.Buffer((n, m), "float32")):
    for i in T.serial(n):
        row = T.alloc((m,), "float32")
        for j in T.serial(m):
            row[j] = A[i, j] + 1.0
        for j in T.serial(m):
            C[i, j] = row[m - 1 - j]


@T.program
def parallel(A: T.Buffer((n, m), "float32"), C: T.Buffer((n, m), "float32")):
    for i in T.parallel(n):
        row = T.alloc((m,), "float32")
        for j in T.serial(m):
            row[j] = A[i, j] + 1.0
        for j in T.serial(m):
            C[i, j] = row[m - 1 - j]


@T.program
def growing(A: T.Buffer((n, m), "float32"), C: T.Buffer((n, m), "float32")):
    for i in T.serial(n):
        ones = T.alloc((i + 1,), "float32")
        for j in T.serial(i + 1):
            ones[j] = 1.0
        for j in T.serial(m):
            C[i, j] = A[i, m - 1 - j] + ones[i - T.min(i, j)]


def depth_of_take(program):
    """Loops that are begun, in the text of the function, before memory is taken."""
    text = print_llvm(IRModule.of(program), Target.named("x86-64-v3")).render()
    function = next(f for f in text.split("\ndefine ") if "call ptr @ts_take" in f)
    assert function.count("call ptr @ts_take") == 1
    return function[: function.index("call ptr @ts_take")].count(" phi ")


def test_memory_is_taken_before_the_loop():
    assert depth_of_take(serial) == 0
    assert depth_of_take(parallel) == 0


@pytest.mark.parametrize("program", [serial, parallel, growing])
@pytest.mark.parametrize("check_bounds", [False, True])
def test_results_are_those_of_memory_of_each_iteration(program, check_bounds):
    run = build(program, threads=2, check_bounds=check_bounds)
    for shape in ((0, 3), (3, 0), (1, 1), (37, 5), (3, 20000)):
        a = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        c = np.zeros_like(a)
        run(a, c)
        np.testing.assert_array_equal(c, a[:, ::-1] + 1)
