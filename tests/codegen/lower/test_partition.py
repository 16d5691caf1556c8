"""Loops cut into ranges where conditions are decided."""

from __future__ import annotations

import numpy as np

from codegen.lower.agreement import check_native, check_passes
from codegen.lower.guarded import guarded_programs
from strategies import arguments, programs
from strategies.cases import fast_and_slow
from tensorsmith import script as T
from tensorsmith.codegen.lower.blocks import lower_blocks
from tensorsmith.codegen.lower.partition import MOST_STATEMENTS, partition_loops, weight
from tensorsmith.ir import IRModule, TensorProgram

n = T.dim("n", min=1)


def partitioned(program: TensorProgram) -> str:
    """The body after partitioning, without its head."""
    text = partition_loops(lower_blocks(program)).script()
    return text.split("):\n", 1)[1]


def guarded_nests_survive(data) -> None:
    program, size = data.draw(guarded_programs())
    rng = np.random.default_rng(3)
    args = [rng.integers(-9, 9, (size, 8), dtype=np.int32)]
    args.append(np.zeros([int(e.value) for e in program.buffers[1].shape], np.int32))
    module = IRModule.of(program)
    check_passes(module, args)
    check_native(module, args, check_bounds=bool(size % 2))


test_guarded_nests, test_guarded_nests_slow = fast_and_slow(guarded_nests_survive, fast=60)


def programs_survive(data) -> None:
    program = data.draw(programs(name="main"))
    check_passes(IRModule.of(program), data.draw(arguments(program)))


test_programs_survive, test_programs_survive_slow = fast_and_slow(programs_survive, fast=60)


def test_a_guard_of_a_split_leaves_all_but_the_last_iterations() -> None:
    @T.program
    def split(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for i in range((n + 3) // 4):
            for j in T.vectorized(4):
                if i * 4 + j < n:
                    B[i * 4 + j] = A[i * 4 + j]

    assert (
        partitioned(split)
        == """\
    for i in range(n // 4):
        for j in T.vectorized(4):
            B[i * 4 + j] = A[i * 4 + j]
    for i in T.serial((n + 3) // 4 - n // 4, start=n // 4):
        for j in T.vectorized(4):
            if i * 4 + j < n:
                B[i * 4 + j] = A[i * 4 + j]
"""
    )


def test_padding_is_checked_at_the_borders_only() -> None:
    @T.program
    def pad(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
        for i, j in T.grid(16, 16):
            inside = (i >= 1) & (j >= 1) & (j < 15)
            B[i, j] = T.select(inside, A[i - 1, j - 1] + A[i - 1, j + 1], 0.0)

    assert (
        partitioned(pad)
        == """\
    for j in range(16):
        B[0, j] = 0.0
    for i in T.serial(15, start=1):
        B[i, 0] = 0.0
        for j in T.serial(14, start=1):
            B[i, j] = A[i - 1, j - 1] + A[i - 1, j + 1]
        B[i, 15] = 0.0
"""
    )


def test_the_first_iteration_of_a_reduction_is_peeled() -> None:
    @T.program
    def total(A: T.Buffer((n, 16), "float32"), B: T.Buffer((n,), "float32")):
        for i, k in T.grid(n, 16):
            with T.block("B"):
                vi, vk = T.remap("SR", i, k)
                with T.init():
                    B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vk]

    assert (
        partitioned(total)
        == """\
    for i in range(n):
        B[i] = 0.0
        B[i] = B[i] + A[i, 0]
        for k in T.serial(15, start=1):
            B[i] = B[i] + A[i, k]
"""
    )


def test_a_parallel_loop_stays_one_loop() -> None:
    @T.program
    def split(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for i in T.parallel((n + 15) // 16):
            for j in T.vectorized(16):
                if i * 16 + j < n:
                    B[i * 16 + j] = A[i * 16 + j]

    assert (
        partitioned(split)
        == """\
    for i in T.parallel((n + 15) // 16):
        if i < n // 16:
            for j in T.vectorized(16):
                B[i * 16 + j] = A[i * 16 + j]
        else:
            for j in T.vectorized(16):
                if i * 16 + j < n:
                    B[i * 16 + j] = A[i * 16 + j]
"""
    )


def test_parts_of_a_concatenation_have_loops_of_their_own() -> None:
    @T.program
    def join(
        A: T.Buffer((10,), "float32"),
        B: T.Buffer((20,), "float32"),
        C: T.Buffer((30 + n,), "float32"),
        D: T.Buffer((n,), "float32"),
    ):
        for i in range(30 + n):
            C[i] = T.select(i < 10, A[i], T.select(i < 30, B[i - 10], D[i - 30]))

    assert (
        partitioned(join)
        == """\
    for i in range(10):
        C[i] = A[i]
    for i in T.serial(20, start=10):
        C[i] = B[i - 10]
    for i in T.serial(n, start=30):
        C[i] = D[i - 30]
"""
    )


def test_a_triangle_is_cut_in_its_inner_loop() -> None:
    @T.program
    def lower(A: T.Buffer((n, n), "float32"), B: T.Buffer((n, n), "float32")):
        for i, j in T.grid(n, n):
            B[i, j] = T.select(j <= i, A[i, j], 0.0)

    assert (
        partitioned(lower)
        == """\
    for i in range(n):
        for j in range(i + 1):
            B[i, j] = A[i, j]
        for j in T.serial(n - i - 1, start=i + 1):
            B[i, j] = 0.0
"""
    )


def test_a_middle_that_may_be_empty_says_nothing_about_its_bounds() -> None:
    """Where n is 1 no iteration is in the middle, and only the first of two may write."""

    @T.program
    def main(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for o, i in T.grid((n + 1) // 2, 2):
            if i + o * 2 < n:
                B[i + o * 2] = T.select(i + o * 2 >= 1, A[i + o * 2 - 1], 0.0)

    for size in (1, 2, 3, 4, 5):
        a = np.arange(1, size + 1, dtype=np.float32)
        check_passes(IRModule.of(main), [a, np.zeros_like(a)])
        check_native(IRModule.of(main), [a, np.zeros_like(a)], check_bounds=True)


def test_the_growth_is_bounded() -> None:
    @T.program
    def many(A: T.Buffer((64, 64, 64), "float32"), B: T.Buffer((64, 64, 64), "float32")):
        for i, j, k in T.grid(64, 64, 64):
            for _ in T.static(range(100)):
                B[i, j, k] = T.select(
                    (i > 0) & (j > 0) & (k > 0) & (i < 63) & (j < 63) & (k < 63),
                    A[i - 1, j - 1, k + 1],
                    B[i, j, k],
                )

    before = lower_blocks(many)
    assert weight(partition_loops(before).body) <= weight(before.body) + MOST_STATEMENTS
