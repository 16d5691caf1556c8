"""compute_at and reverse_compute_at: what they make, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule.applications import (
    Draw,
    apply_some,
    check_same,
    some_block,
    some_loop,
    split_some,
)
from schedule.chains import chains
from strategies import programs
from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.ir import Block, TensorProgram
from tensorsmith.schedule import BlockRef, LoopRef, Schedule
from tensorsmith.schedule.dependence import consumers, producers
from tensorsmith.schedule.tree import sites
from tensorsmith.verify import verify


def some_pair(
    draw: Draw, s: Schedule, related: Callable[[TensorProgram, str], list[Block]]
) -> tuple[BlockRef, LoopRef]:
    """A block and a loop around one that is related to it; now and then, any two."""
    names = [x.node.name for x in sites(s.program) if isinstance(x.node, Block)]
    pairs = [
        (s.get_block(name), loop)
        for name in names
        for other in related(s.program, name)
        for loop in s.get_loops(s.get_block(other.name))
    ]
    apart = [(block, loop) for block, loop in pairs if loop not in s.get_loops(block)]
    if not apart or draw(st.integers(0, 7)) == 0:
        return some_block(draw, s), some_loop(draw, s)
    return draw(st.sampled_from(apart))


def compute_at_some(draw: Draw, s: Schedule) -> None:
    block, loop = some_pair(draw, s, consumers)
    s.compute_at(block, loop, preserve_unit_loops=draw(st.booleans()))


def reverse_compute_at_some(draw: Draw, s: Schedule) -> None:
    block, loop = some_pair(draw, s, producers)
    s.reverse_compute_at(block, loop, preserve_unit_loops=draw(st.booleans()))


MOVES = [compute_at_some, reverse_compute_at_some, split_some]


@given(st.data())
def test_random_moves_keep_the_results(data: st.DataObject) -> None:
    program = data.draw(st.one_of(chains(), chains(), programs()))
    s = apply_some(data.draw, program, MOVES, 6)
    check_same(data.draw, program, s)


@pytest.mark.slow
@settings(max_examples=5000)
@given(st.data())
def test_many_random_moves_keep_the_results(data: st.DataObject) -> None:
    program = data.draw(st.one_of(chains(), chains(), programs()))
    s = apply_some(data.draw, program, MOVES, 8)
    check_same(data.draw, program, s, native=True)


def windows(extent: int) -> Schedule:
    A = te.placeholder((extent + 2,), "int32", "A")
    B = te.compute((extent + 2,), lambda i: A[i] * 2, "B")
    C = te.compute((extent,), lambda i: B[i] + B[i + 2], "C")
    return Schedule(te.program([A], C, "windows"))


def test_what_neighbours_share_is_computed_again() -> None:
    s = windows(64)
    outer, _ = s.split(s.get_loops(s.get_block("C"))[0], [None, 24])
    s.compute_at(s.get_block("B"), outer)
    tile = s.program.body.stmts[1].body.stmts[0]
    assert (
        repr(tile)
        == """\
for ax0 in range(26):
    with T.block("B"):
        vi_0 = T.opaque(3, i_0)
        vi = T.spatial(26, ax0)
        if vi + vi_0 * 24 < 66:
            B[vi_0 * 24 + vi] = A[vi_0 * 24 + vi] * 2"""
    )


@pytest.mark.parametrize("parallel_first", [True, False])
def test_each_thread_computes_its_own_share(parallel_first: bool) -> None:
    s = windows(64)
    outer, _ = s.split(s.get_loops(s.get_block("C"))[0], [None, 24])
    if parallel_first:
        s.parallel(outer)
    s.compute_at(s.get_block("B"), outer)
    if not parallel_first:
        s.parallel(outer)
    verify(s.program)
    a, c = np.arange(66, dtype=np.int32), np.zeros(64, np.int32)
    build(s.program, threads=2)(a, c)
    np.testing.assert_array_equal(c, 2 * a[:64] + 2 * a[2:])


def test_a_buffer_of_symbolic_size_for_each_thread() -> None:
    n = T.dim("n")
    A = te.placeholder((n,), "int32", "A")
    B = te.compute((n,), lambda i: A[i] * 2, "B")
    C = te.compute((8, n), lambda i, j: B[n - 1 - j] * 3, "C")
    s = Schedule(te.program([A], C, "rows"))
    rows, _ = s.get_loops(s.get_block("C"))
    s.parallel(rows)
    s.compute_at(s.get_block("B"), rows)
    verify(s.program)
    a, c = np.arange(1000, dtype=np.int32), np.zeros((8, 1000), np.int32)
    build(s.program, threads=2)(a, c)
    np.testing.assert_array_equal(c, np.broadcast_to(6 * a[::-1], (8, 1000)))


def test_a_packed_matrix_product() -> None:
    A = te.placeholder((40, 50), "int32", "A")
    B = te.placeholder((50, 70), "int32", "B")
    k = te.reduce_axis(50, "k")
    C = te.compute((40, 70), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")
    s = Schedule(te.program([A, B], C, "product"))
    block = s.get_block("C")
    result = s.cache_write(block, "C", "local")
    i, j, k_ = s.get_loops(block)
    i0, i1, i2 = s.split(i, [None, 2, 6])
    j0, j1 = s.split(j, [None, 16])
    s.reorder(j0, i0, i1, k_, i2, j1)
    s.reverse_compute_at(result, i1)
    s.compute_at(s.cache_read(block, "B", "global"), j0)
    s.compute_at(s.cache_read(block, "A", "global"), i0)
    s.parallel(j0)
    verify(s.program)
    a = np.arange(2000, dtype=np.int32).reshape(40, 50) % 7
    b = np.arange(3500, dtype=np.int32).reshape(50, 70) % 5
    c = np.zeros((40, 70), np.int32)
    build(s.program, threads=2)(a, b, c)
    np.testing.assert_array_equal(c, a @ b)
