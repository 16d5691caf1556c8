"""Vectorised loops of any extent, and what is private to a lane."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from codegen.lower.agreement import check_native, check_passes
from tensorsmith import script as T
from tensorsmith.codegen.lower.blocks import lower_blocks
from tensorsmith.codegen.lower.vectors import strip_vectors
from tensorsmith.ir import IRModule, TensorProgram

n = T.dim("n", min=1)


def stripped(program: TensorProgram) -> str:
    """The body after stripping for vectors of 32 bytes, without its head."""
    text = strip_vectors(lower_blocks(program), vector_bytes=32).script()
    return text.split("):\n", 1)[1]


@T.program
def symbolic(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    for i in T.vectorized(n):
        B[i] = A[i] * 2.0


def test_a_symbolic_loop_is_full_vectors_and_a_masked_one() -> None:
    assert (
        stripped(symbolic)
        == """\
    for i in range(n // 8):
        for i_lane in T.vectorized(8):
            B[i * 8 + i_lane] = A[i * 8 + i_lane] * 2.0
    if 0 < n % 8:
        for i_rest in T.vectorized(8):
            if i_rest < n % 8:
                B[i_rest + n // 8 * 8] = A[i_rest + n // 8 * 8] * 2.0
"""
    )


@T.program
def long(A: T.Buffer((1003,), "float32"), B: T.Buffer((1003,), "float64")):
    for i in T.vectorized(1003):
        B[i] = T.float64(A[i])


def test_a_long_loop_ends_with_a_shorter_vector() -> None:
    assert (
        stripped(long)
        == """\
    for i in range(250):
        for i_lane in T.vectorized(4):
            B[i * 4 + i_lane] = T.float64(A[i * 4 + i_lane])
    for i_rest in T.vectorized(3):
        B[i_rest + 1000] = T.float64(A[i_rest + 1000])
"""
    )


@T.program
def private(A: T.Buffer((n, 8), "float32"), B: T.Buffer((n, 8), "float32")):
    for i in range(n):
        for j in T.vectorized(8):
            held = T.alloc((2,), "float32", scope="local")
            held[0] = A[i, j]
            held[1] = held[0] * held[0]
            B[i, j] = held[1] - held[0]


def test_buffers_in_lanes_get_a_dimension_for_them() -> None:
    assert (
        stripped(private)
        == """\
    for i in range(n):
        held = T.alloc((2, 8), "float32", scope="local")
        for j in T.vectorized(8):
            held[0, j] = A[i, j]
            held[1, j] = held[0, j] * held[0, j]
            B[i, j] = held[1, j] - held[0, j]
"""
    )


@T.program
def one_place(A: T.Buffer((16,), "int32"), B: T.Buffer((1,), "int32")):
    for i in T.vectorized(16):
        B[0] = B[0] + A[i]


def test_lanes_that_write_one_element_become_a_serial_loop() -> None:
    assert "for i in range(16)" in stripped(one_place)


@T.program
def strides(
    A: T.Buffer((n, 64), "float32"),
    X: T.Buffer((64,), "int8"),
    B: T.Buffer((n, 32), "float32"),
    C: T.Buffer((32, 16), "float32"),
):
    for i in range(n):
        for j in T.vectorized(32):
            B[i, j] = A[i, 2 * j] + A[i, 63 - j] * A[i, 0] + T.float32(X[T.index(X[j]) % 64])
    for j in T.vectorized(32):
        C[31 - j, 3] = A[0, j]


@T.program
def nested(
    A: T.Buffer((n, 5), "float32"), B: T.Buffer((n,), "float32"), C: T.Buffer((n,), "float32")
):
    for i in T.vectorized(n):
        B[i] = 0.0
        for k in range(5):
            if A[i, k] > 0.0:
                B[i] = B[i] + A[i, k]
        if i % 3 == 1:
            C[i] = B[i]
        else:
            C[i] = T.sqrt(T.abs(B[i]))


@pytest.mark.parametrize("size", [1, 2, 5, 7, 8, 9, 16, 31, 33, 100])
@pytest.mark.parametrize("check_bounds", [False, True])
def test_any_size_natively(size, check_bounds) -> None:
    rng = np.random.default_rng(size)
    whole = partial(rng.integers, -8, 8)

    def f32(*shape: int) -> np.ndarray:
        return whole(shape).astype(np.float32)

    cases = (
        (symbolic, [f32(size), f32(size)]),
        (private, [f32(size, 8), f32(size, 8)]),
        (strides, [f32(size, 64), whole(64).astype(np.int8), f32(size, 32), f32(32, 16)]),
        (nested, [f32(size, 5), f32(size), f32(size)]),
    )
    for program, args in cases:
        module = IRModule.of(program)
        check_native(module, args, name=program.name, check_bounds=check_bounds)
        check_passes(module, args, name=program.name)


@T.program
def lone_lane(A: T.Buffer((5,), "float32"), B: T.Buffer((5,), "float32")):
    for i in T.unrolled(2):
        for j in T.vectorized(4):
            if i * 4 + j < 5:
                B[i * 4 + j] = A[i * 4 + j] * 2.0


def test_a_mask_may_leave_one_lane() -> None:
    a = np.arange(5, dtype=np.float32)
    check_native(IRModule.of(lone_lane), [a, np.zeros(5, np.float32)], name="lone_lane")
