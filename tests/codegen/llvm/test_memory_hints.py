"""Prefetch, stores past the caches, and alignment, in LLVM's text and in what comes out."""

from __future__ import annotations

import numpy as np

from codegen.lower.agreement import check_native
from tensorsmith import script as T
from tensorsmith.codegen import build
from tensorsmith.codegen.llvm.module import print_llvm
from tensorsmith.ir import IRModule, TensorProgram
from tensorsmith.target import Target

n = T.dim("n", min=1)
V3 = Target.named("x86-64-v3")


def text_of(program: TensorProgram, name: str) -> list[str]:
    lines = print_llvm(IRModule.of(program), V3).render().split("\n")
    return [line.strip() for line in lines if name in line]


@T.program
def fetching(A: T.Buffer((n, 32), "float32"), C: T.Buffer((n, 32), "float32")):
    for i in T.serial(n, attrs={"prefetch": 8}):
        for j in T.vectorized(32):
            C[i, j] = A[i, j] + 1.0


def test_a_vector_of_two_lines_is_fetched_by_two() -> None:
    calls = [line for line in text_of(fetching, "@llvm.prefetch") if line.startswith("call")]
    assert len(calls) == 2
    a = np.arange(96, dtype=np.float32).reshape(3, 32)
    check_native(IRModule.of(fetching), [a, np.zeros_like(a)], name="fetching")


@T.program
def summing(
    A: T.Buffer((8, 64), "float32"),
    B: T.Buffer((64, 16), "float32"),
    C: T.Buffer((8, 16), "float32"),
):
    for k in T.serial(64, attrs={"prefetch": 8}):
        for r in T.unrolled(8):
            for x in T.vectorized(16):
                C[r, x] = C[r, x] + A[r, k] * B[k, x]


def test_what_moves_by_less_than_a_line_is_left_to_hardware() -> None:
    calls = [line for line in text_of(summing, "@llvm.prefetch") if line.startswith("call")]
    assert len(calls) == 1, "of B alone"
    assert "!noalias" in calls[0], "sums in registers need not be stored before it"
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((8, 64), (64, 16)))
    check_native(IRModule.of(summing), [a, b, np.zeros((8, 16), np.float32)], name="summing")


@T.program
def using_again(
    W: T.Buffer((4, 256, 16), "float32"),
    A: T.Buffer((16, 256), "float32"),
    C: T.Buffer((4, 16, 16), "float32"),
):
    for i in T.serial(4, attrs={"prefetch_next": True}):
        for r in range(16):
            for x in T.vectorized(16):
                C[i, r, x] = 0.0
            for k in range(256):
                for x in T.vectorized(16):
                    C[i, r, x] = C[i, r, x] + A[r, k] * W[i, k, x]


def test_what_the_next_iteration_uses_again_and_again_comes_in_shares() -> None:
    calls = [line for line in text_of(using_again, "@llvm.prefetch") if line.startswith("call")]
    assert len(calls) == 256 // 16, "the rows share the lines of one matrix, and fetch nothing else"
    rng = np.random.default_rng(0)
    w, a = (rng.integers(-4, 5, s).astype(np.float32) for s in ((4, 256, 16), (16, 256)))
    check_native(
        IRModule.of(using_again), [w, a, np.zeros((4, 16, 16), np.float32)], name="using_again"
    )


@T.program
def passing(A: T.Buffer((n, 32), "float32"), C: T.Buffer((n, 32), "float32", align=64)):
    for i in T.parallel(n, attrs={"nontemporal": True}):
        for j in T.vectorized(32):
            C[i, j] = A[i, j] * 2.0


def test_aligned_stores_go_past_the_caches() -> None:
    assert len([x for x in text_of(passing, "!nontemporal !0") if "align 64" in x]) == 1
    fences = [x for x in text_of(passing, "sfence") if x.startswith("call")]
    assert len(fences) == 1
    raw = np.zeros(8 * 32 + 16, np.float32)
    start = (-raw.ctypes.data % 64) // 4
    c = raw[start : start + 256].reshape(8, 32)
    a = np.arange(256, dtype=np.float32).reshape(8, 32)
    build(passing, threads=2)(a, c)
    np.testing.assert_array_equal(c, a * 2)


@T.program
def unaligned(A: T.Buffer((n, 32), "float32"), C: T.Buffer((n, 32), "float32")):
    for i in T.serial(n, attrs={"nontemporal": True}):
        for j in T.vectorized(32):
            C[i, j] = A[i, j] * 2.0


def test_stores_that_may_be_unaligned_stay_in_the_caches() -> None:
    assert not text_of(unaligned, "!nontemporal !0")


@T.program
def in_block(A: T.Buffer((n, 32), "float32"), C: T.Buffer((n, 32), "float32", align=64)):
    for i in range(n):
        for j in T.vectorized(32):
            with T.block("C"):
                vi, vj = T.remap("SS", i, j)
                T.block_attrs({"nontemporal": True})
                C[vi, vj] = A[vi, vj] * 2.0


def test_a_block_may_ask_for_it() -> None:
    assert text_of(in_block, "!nontemporal !0")


@T.program
def aligned(A: T.Buffer((n, 24), "float32", align=64), C: T.Buffer((n, 24), "float32")):
    held = T.alloc((8, 16), "float32")
    for i in range(n):
        for j in T.vectorized(8):
            held[j % 8, 0] = 1.0
        for j in T.vectorized(8):
            held[i % 8, j + 8] = A[i, j + 8]
        for j in T.vectorized(8):
            C[i, j] = held[i % 8, j + 8] + A[i, j + 2]


def test_alignment_follows_from_indices() -> None:
    loads = text_of(aligned, "load <8 x float>")
    aligns = sorted(int(x.partition("align ")[2].partition(",")[0]) for x in loads)
    assert aligns == [8, 32, 32]
    stores = text_of(aligned, "store <8 x float>")
    assert sorted(int(x.partition("align ")[2].partition(",")[0]) for x in stores) == [4, 32]


@T.program
def turning(A: T.Buffer((3, 5), "int32"), C: T.Buffer((3, 5), "int32"), N: T.Buffer((1,), "int32")):
    for t in range(3):
        for i in T.parallel(5, attrs={"to_and_fro": True}):
            C[t, i] = N[0]
            N[0] = N[0] + A[t, i]


def test_every_other_run_of_a_loop_is_backwards() -> None:
    c = np.zeros((3, 5), np.int32)
    program = build(IRModule.of(turning), threads=1)
    program(np.ones((3, 5), np.int32), c, np.zeros(1, np.int32))
    np.testing.assert_array_equal(c, [[0, 1, 2, 3, 4], [9, 8, 7, 6, 5], [10, 11, 12, 13, 14]])
