"""Loads and stores that leave a loop."""

from __future__ import annotations

import numpy as np

from codegen.lower.agreement import check_native, check_passes
from tensorsmith import script as T
from tensorsmith.codegen.lower.blocks import lower_blocks
from tensorsmith.codegen.lower.hoist import hoist_loads
from tensorsmith.codegen.lower.partition import partition_loops
from tensorsmith.ir import IRModule, TensorProgram

n = T.dim("n", min=1)


def hoisted(program: TensorProgram) -> str:
    """The body after hoisting, without its head."""
    text = hoist_loads(partition_loops(lower_blocks(program))).script()
    return text.split("):\n", 1)[1]


@T.program
def total(A: T.Buffer((n, 16), "int32"), B: T.Buffer((n,), "int32")):
    for i in range(n):
        B[i] = 0
        for k in range(16):
            B[i] = B[i] + A[i, k]


def test_a_sum_is_kept_in_a_register() -> None:
    assert (
        hoisted(total)
        == """\
    for i in range(n):
        B[i] = 0
        b_held = T.alloc((1,), "int32", scope="local")
        b_held[0] = B[i]
        for k in range(16):
            b_held[0] = b_held[0] + A[i, k]
        B[i] = b_held[0]
""".replace("b_held", "B_held")
    )


@T.program
def tile(
    A: T.Buffer((4, n), "int32"), B: T.Buffer((n, 16), "int32"), C: T.Buffer((4, 16), "int32")
):
    for k in range(n):
        for i in T.unrolled(4):
            for j in T.vectorized(16):
                C[i, j] = C[i, j] + A[i, k] * B[k, j]


def test_a_tile_is_kept_in_registers() -> None:
    assert (
        hoisted(tile)
        == """\
    C_held = T.alloc((4, 16), "int32", scope="local")
    for i in T.unrolled(4):
        for j in T.vectorized(16):
            C_held[i, j] = C[i, j]
    for k in range(n):
        for i in T.unrolled(4):
            for j in T.vectorized(16):
                C_held[i, j] = C_held[i, j] + A[i, k] * B[k, j]
    for i in T.unrolled(4):
        for j in T.vectorized(16):
            C[i, j] = C_held[i, j]
"""
    )


@T.program
def scaled(
    A: T.Buffer((n, 16), "int32"), S: T.Buffer((n,), "int32"), B: T.Buffer((n, 16), "int32")
):
    for i in range(n):
        for j in range(16):
            B[i, j] = A[i, j] * S[i]


def test_a_load_that_stays_is_done_before_the_loop() -> None:
    assert (
        hoisted(scaled)
        == """\
    for i in range(n):
        s = S[i]
        for j in range(16):
            B[i, j] = A[i, j] * s
"""
    )


@T.program
def guarded(A: T.Buffer((n, 16), "int32"), S: T.Buffer((n,), "int32"), B: T.Buffer((n,), "int32")):
    for i in range(n):
        for j in range(16):
            if A[i, j] > 0:
                B[i] = B[i] + T.select(A[i, j] < 3, S[i], 1)


def test_what_may_not_happen_stays() -> None:
    assert hoist_loads(guarded) is guarded


@T.program
def in_lanes(A: T.Buffer((n, 8), "int32"), B: T.Buffer((n,), "int32")):
    for i in T.vectorized(n):
        B[i] = 1
        for k in range(8):
            B[i] = B[i] + A[i, k]


def test_the_results_stay_the_same() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 5, 20):

        def draw(*shape: int) -> np.ndarray:
            return rng.integers(-5, 5, shape, np.int32)

        for program, args in (
            (total, [draw(size, 16), draw(size)]),
            (tile, [draw(4, size), draw(size, 16), draw(4, 16)]),
            (scaled, [draw(size, 16), draw(size), draw(size, 16)]),
            (guarded, [draw(size, 16), draw(size), draw(size)]),
            (in_lanes, [draw(size, 8), draw(size)]),
        ):
            module = IRModule.of(program)
            check_passes(module, args, name=program.name)
            check_native(module, args, name=program.name)
            check_native(module, args, name=program.name, check_bounds=True)
