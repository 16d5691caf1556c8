"""Calls of other programs of the module, written in and called."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from codegen.lower.agreement import check_native, check_passes
from strategies import arguments, modules
from strategies.cases import fast_and_slow
from tensorsmith import script as T
from tensorsmith.codegen import build
from tensorsmith.codegen.lower.calls import inline_calls, prepare_calls
from tensorsmith.errors import EvaluationError
from tensorsmith.ir import Invoke, IRModule
from tensorsmith.ir.rewrite import statements


def modules_survive_the_pipeline(data) -> None:
    module = data.draw(modules())
    check_passes(module, data.draw(arguments(module["main"])))


test_modules_survive, test_modules_survive_slow = fast_and_slow(
    modules_survive_the_pipeline, fast=60
)


def modules_agree_natively(data) -> None:
    module = data.draw(modules())
    args = data.draw(arguments(module["main"]))
    check_native(module, args, check_bounds=data.draw(st.booleans()))


test_modules_agree, test_modules_agree_slow = fast_and_slow(modules_agree_natively, fast=25)

n = T.dim("n", min=1)
r = T.dim("r", min=1)
c = T.dim("c", min=1)
s0 = T.dim("s0", min=0)


@T.module
class Rows:
    @T.program
    def main(A: T.Buffer((n, 8), "float32"), B: T.Buffer((n, 8), "float32")):
        for i in range(n):
            T.call("double", A[i : i + 1, 0:8], B[i : i + 1, 0:8])

    @T.program
    def double(X: T.Buffer((r, c), "float32"), Y: T.Buffer((r, c), "float32")):
        for i, j in T.grid(r, c):
            Y[i, j] = X[i, j] * 2.0


def test_small_callees_are_written_in() -> None:
    inlined = inline_calls(Rows["main"], functions=Rows.functions)
    assert not any(isinstance(s, Invoke) for s in statements(inlined.body))
    a = np.arange(24, dtype=np.float32).reshape(3, 8)
    check_native(Rows, [a, np.zeros_like(a)])
    check_native(Rows, [a, np.zeros_like(a)], check_bounds=True)


@T.module
class Columns:
    @T.program
    def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        for j in range(4):
            T.call("copy", A[0:4, 2 * j : 2 * j + 2], B[0:4, 2 * j : 2 * j + 2])

    @T.program
    def copy(X: T.Buffer((r, c), "float32"), Y: T.Buffer((r, c), "float32", align=64)):
        for i, j in T.grid(r, c):
            Y[i, j] = X[i, j] + 1.0


def test_regions_with_gaps_are_copied() -> None:
    prepared = prepare_calls(Columns["main"], functions=Columns.functions)
    assert prepared.script().count("T.alloc") == 2
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    args = [a, np.zeros_like(a)]
    check_native(Columns, args, check_bounds=True)


@T.module
class Strided:
    @T.program
    def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        for j in range(8):
            T.call("copy", A[0:4, j : j + 1], B[0:4, j : j + 1])

    @T.program
    def copy(
        X: T.Buffer((r, 1), "float32", strides=(s0, 1)),
        Y: T.Buffer((r, 1), "float32", strides=(8, 1)),
    ):
        for i in range(r):
            Y[i, 0] = X[i, 0] - 1.0


def test_symbolic_strides_are_bound() -> None:
    prepared = prepare_calls(Strided["main"], functions=Strided.functions)
    assert "T.alloc" not in prepared.script()
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    check_native(Strided, [a, np.zeros_like(a)], check_bounds=True)
    check_native(Strided, [a, np.zeros_like(a)])


m = T.dim("m", min=1)


@T.module
class Partial:
    @T.program
    def main(A: T.Buffer((n, m), "int32"), B: T.Buffer((m, n), "int32")):
        T.call("add", A[0:n, 0:m], B[0:m, 0:n])

    @T.program
    def add(X: T.Buffer((r, r), "int32"), Y: T.Buffer((r, r), "int32")):
        for i, j in T.grid(r, r):
            Y[i, j] = X[j, i]


@pytest.mark.parametrize("check_bounds", [False, True])
def test_extents_are_checked_when_it_runs(check_bounds) -> None:
    exe = build(Partial, threads=1, check_bounds=check_bounds)
    a = np.arange(9, dtype=np.int32).reshape(3, 3)
    b = np.zeros_like(a)
    exe["main"](a, b)
    np.testing.assert_array_equal(b, a.T)
    with pytest.raises(EvaluationError, match="must have extent r"):
        exe["main"](np.zeros((2, 3), np.int32), np.zeros((3, 2), np.int32))


def test_callees_of_callees() -> None:
    @T.module
    class Chain:
        @T.program
        def main(A: T.Buffer((4, 4), "float32")):
            T.call("rows", A[0:4, 0:4])

        @T.program
        def rows(X: T.Buffer((4, 4), "float32")):
            for i in range(4):
                T.call("row", X[i : i + 1, 0:4])

        @T.program
        def row(Y: T.Buffer((1, 4), "float32")):
            for j in range(4):
                Y[0, j] = Y[0, j] + T.float32(j)

    module: IRModule = Chain
    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    check_native(module, [a])
    check_native(module, [a], check_bounds=True)
    check_passes(module, [a])
