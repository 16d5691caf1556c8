"""Blocks inside of blocks, in their bodies and inits, and buffers that live in a loop: what else
uses a buffer is seen wherever it stands."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from schedule.applications import assert_equal
from schedule.scripts import schedule_of
from tensorsmith.codegen import build
from tensorsmith.evaluate import interpret
from tensorsmith.schedule import Schedule, ScheduleError
from tensorsmith.verify import verify

WRITTEN_TWICE = """
@T.program
def written_twice(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    with T.block("O"):
        B = T.alloc((8,), "int32")
        for k in range(8):
            with T.block("first"):
                vk = T.remap("S", k)
                B[vk] = A[vk] + 1
        for l in range(8):
            with T.block("second"):
                vl = T.remap("S", l)
                B[vl] = A[vl] * 10
        for i in range(8):
            with T.block("C"):
                vi = T.remap("S", i)
                C[vi] = B[vi] + A[vi]
"""

READ_TWICE = """
@T.program
def read_twice(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    with T.block("O"):
        B = T.alloc((8,), "int32")
        for k in range(8):
            with T.block("B"):
                vk = T.remap("S", k)
                B[vk] = A[vk] + 1
        for i in range(8):
            with T.block("C"):
                vi = T.remap("S", i)
                C[vi] = B[vi] + A[vi]
        for j in range(8):
            with T.block("D"):
                vj = T.remap("S", j)
                D[vj] = B[7 - vj]
"""

IN_INIT = """
@T.program
def in_init(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc((8,), "int32")
    for o, k in T.grid(2, 3):
        with T.block("O"):
            vo, vk = T.remap("SR", o, k)
            with T.init():
                for i in range(4):
                    with T.block("I"):
                        vi = T.remap("S", i)
                        B[vo * 4 + vi] = A[vi]
            for l in range(4):
                with T.block("U"):
                    vl = T.remap("S", l)
                    B[vo * 4 + vl] = B[vo * 4 + vl] + A[vo * 4 + vl] * T.int32(vk)
    for j in range(8):
        with T.block("C"):
            vj = T.remap("S", j)
            C[vj] = B[vj] + A[vj]
"""

IN_LOOP = """
@T.program
def in_loop(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc((8,), "int32")
    for o in range(2):
        D = T.alloc((4,), "int32")
        for k in range(4):
            with T.block("D"):
                vo, vk = T.remap("SS", o, k)
                D[vk] = A[vo * 4 + vk] + T.int32(vo)
        for i in range(4):
            with T.block("B"):
                vo, vi = T.remap("SS", o, i)
                B[vo * 4 + vi] = D[vi]
        for j in range(4):
            with T.block("C"):
                vo, vj = T.remap("OO", o, j)
                C[vo * 4 + vj] = B[vj] + A[vj]
"""

ON_BLOCKS = {
    "cache_read": lambda s, b: s.cache_read(b, 0, "local"),
    "cache_write": lambda s, b: s.cache_write(b, 0, "local"),
    "cache_index": lambda s, b: s.cache_index(b),
    "cache_inplace": lambda s, b: s.cache_inplace(b, 0, "local"),
    "compute_inline": lambda s, b: s.compute_inline(b),
    "reverse_compute_inline": lambda s, b: s.reverse_compute_inline(b),
    "transform_block_layout": lambda s, b: s.transform_block_layout(b, lambda i: (i // 2, i % 2)),
    "transform_layout": lambda s, b: s.transform_layout(b, "B", lambda i: (i // 2, i % 2)),
    "reindex of what it reads": lambda s, b: s.reindex(b, "A", "read"),
    "reindex of what it writes": lambda s, b: s.reindex(b, "B", "write"),
    "set_scope": lambda s, b: s.set_scope(b, "B", "local"),
    "storage_align": lambda s, b: s.storage_align(b, "B", 0, 16),
    "blockize": lambda s, b: s.blockize(s.get_loops(b)[-1]),
    "read_at": lambda s, b: s.read_at(s.get_loops(b)[0], b, 0, "local"),
    "write_at": lambda s, b: s.write_at(s.get_loops(b)[0], b, 0, "local"),
    "add_unit_loop": lambda s, b: s.add_unit_loop(b),
    "parallel": lambda s, b: s.parallel(s.get_loops(b)[0]),
    "split": lambda s, b: s.split(s.get_loops(b)[0], [None, 3]),
    "fuse": lambda s, b: s.fuse(*s.get_loops(b)),
}
ON_TWO = {
    "compute_at": lambda s, a, b: s.compute_at(a, s.get_loops(b)[-1]),
    "reverse_compute_at": lambda s, a, b: s.reverse_compute_at(b, s.get_loops(a)[-1]),
    "merge": lambda s, a, b: s.merge(s.get_loops(a)[-1], s.get_loops(b)[-1]),
    "cache_write for a consumer": lambda s, a, b: s.cache_write(a, 0, "local", consumers=[b]),
    "cache_read for two": lambda s, a, b: s.cache_read(a, 0, "local", consumers=[a, b]),
    "fuse_reduction_epilogue": lambda s, a, b: s.fuse_reduction_epilogue(a, b),
}
PROGRAMS = {"twice": WRITTEN_TWICE, "read": READ_TWICE, "init": IN_INIT, "loop": IN_LOOP}


def check(text: str, change) -> str | None:
    """The changed program does the same; or why it was not changed."""
    s = schedule_of(text)
    before = s.program
    try:
        change(s)
    except ScheduleError as error:
        return str(error)
    verify(s.program)
    rng = np.random.default_rng(3)
    given = [rng.integers(-9, 9, 8, np.int32) for _ in before.params]
    expected, found, native = ([x.copy() for x in given] for _ in range(3))
    interpret(before, *expected)
    interpret(s.program, *found)
    assert_equal(expected, found)
    build(s.program, threads=2)(*native)
    assert_equal(expected, native)
    return None


def names_of(text: str) -> list[str]:
    """The blocks that stand in loops."""
    s = schedule_of(text)
    return [b.name for b in s.find_blocks() if s.get_loops(b)]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("change", ON_BLOCKS)
def test_a_change_of_any_block_keeps_the_meaning(program, change) -> None:
    for name in names_of(PROGRAMS[program]):
        check(PROGRAMS[program], lambda s, name=name: ON_BLOCKS[change](s, s.get_block(name)))


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("change", ON_TWO)
def test_a_change_of_any_two_blocks_keeps_the_meaning(program, change) -> None:
    for a, b in permutations(names_of(PROGRAMS[program]), 2):
        check(
            PROGRAMS[program],
            lambda s, a=a, b=b: ON_TWO[change](s, s.get_block(a), s.get_block(b)),
        )


@pytest.mark.parametrize("change", ["compute_inline", "compute_at"])
@pytest.mark.parametrize("name", ["first", "second"])
def test_other_writers_inside_of_a_block_are_seen(change, name) -> None:
    def apply(s: Schedule) -> None:
        block = s.get_block(name)
        if change == "compute_inline":
            s.compute_inline(block)
        else:
            s.compute_at(block, s.get_loops(s.get_block("C"))[0])

    assert "is not the only one to write 'B'" in (check(WRITTEN_TWICE, apply) or "")


def test_other_readers_inside_of_a_block_are_seen() -> None:
    found = check(
        READ_TWICE, lambda s: s.compute_at(s.get_block("B"), s.get_loops(s.get_block("C"))[0])
    )
    assert "block 'D' outside of the loop reads what it writes" in (found or "")


def test_what_stands_in_an_init_is_copied_there() -> None:
    assert check(IN_INIT, lambda s: s.cache_write(s.get_block("I"), 0, "local")) is None


def test_a_buffer_in_a_loop_changes_with_each_iteration() -> None:
    found = check(IN_LOOP, lambda s: s.compute_inline(s.get_block("B")))
    assert "in an earlier iteration" in (found or "")


TILES = """
n = T.dim("n")

@T.program
def tiles(A: T.Buffer((n, 2), "int32"), C: T.Buffer((), "int32")):
    B = T.alloc((n * 2,), "int32")
    for o in range(n):
        with T.block("tile"):
            vo = T.remap("S", o)
            for i in range(2):
                with T.block("B"):
                    vi = T.spatial(n * 2, vo * 2 + i)
                    B[vi] = A[vi // 2, vi % 2]
    for k in range(n):
        with T.block("C"):
            vk = T.remap("R", k)
            with T.init():
                C[()] = 0
            C[()] = C[()] + B[vk]
"""


def test_a_part_of_a_block_does_not_take_all_points_of_those_inside() -> None:
    s = schedule_of(TILES)
    with pytest.raises(ScheduleError, match="is not seen that it takes each point once"):
        s.compute_at(s.get_block("tile"), s.get_loops(s.get_block("C"))[0])
