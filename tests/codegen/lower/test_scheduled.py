"""Which programs go without most of LLVM's middle end."""

from __future__ import annotations

import numpy as np

from codegen.lower.agreement import HOST, check_native
from tensorsmith import script as T
from tensorsmith.codegen import build
from tensorsmith.codegen.lower.pipeline import lower
from tensorsmith.codegen.lower.scheduled import SCHEDULED
from tensorsmith.ir import IRModule, TensorProgram


def is_scheduled(program: TensorProgram) -> bool:
    return bool(lower(program, {}, HOST).attrs.get(SCHEDULED))


@T.program
def in_registers(
    A: T.Buffer((8, 32), "float32"),
    B: T.Buffer((32, 16), "float32"),
    C: T.Buffer((8, 16), "float32"),
):
    for i in range(4):
        acc = T.alloc((2, 16), "float32", scope="local")
        for r in T.unrolled(2):
            for j in T.vectorized(16):
                acc[r, j] = 0.0
        for k in range(32):
            for r in T.unrolled(2):
                for j in T.vectorized(16):
                    acc[r, j] = acc[r, j] + A[2 * i + r, k] * B[k, j]
        for r in T.unrolled(2):
            for j in T.vectorized(16):
                C[2 * i + r, j] = acc[r, j]


@T.program
def in_memory(
    A: T.Buffer((8, 32), "float32"),
    B: T.Buffer((32, 16), "float32"),
    C: T.Buffer((8, 16), "float32"),
):
    for i, k in T.grid(8, 32):
        for j in T.vectorized(16):
            if A[i, k] > 0.0:
                C[i, j] = C[i, j] + A[i, k] * B[k, j]


@T.program
def scalar(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = A[i]


def test_sums_in_registers_and_explicit_vectors_are_enough() -> None:
    assert is_scheduled(in_registers)
    assert not is_scheduled(in_memory)
    assert not is_scheduled(scalar)


def test_a_quick_build_computes_the_same() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 4, s).astype(np.float32) for s in ((8, 32), (32, 16)))
    for program, expected in ((in_registers, a @ b), (in_memory, np.maximum(a, 0) @ b)):
        c = np.zeros((8, 16), np.float32)
        build(program, quick=True)(a, b, c)
        np.testing.assert_array_equal(c, expected)


def test_either_way_the_result_is_the_same() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 4, s).astype(np.float32) for s in ((8, 32), (32, 16)))
    for program in (in_registers, in_memory):
        args = [a, b, np.zeros((8, 16), np.float32)]
        check_native(IRModule.of(program), args, name=program.name)
        check_native(IRModule.of(program), args, name=program.name, check_bounds=True)
