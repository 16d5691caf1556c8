"""What an illegal move, copy or inlining is told: the whole text of each error."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tensorsmith.ir import TensorProgram
from tensorsmith.schedule import Schedule, ScheduleError
from tensorsmith.script import parse_program

HEADER = "from tensorsmith import script as T\n@T.program\n"


def program(text: str) -> TensorProgram:
    """A program without spans, so that the texts of errors do not depend on them."""
    return parse_program(HEADER + text)


CHAIN = """
def chain(A: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")):
    B = T.alloc((16,), "int32")
    C = T.alloc((16,), "int32")
    for i in range(16):
        with T.block("B"):
            vi = T.remap("S", i)
            B[vi] = A[vi] + 1
    for j in range(16):
        with T.block("C"):
            vj = T.remap("S", j)
            C[vj] = B[vj] * 2
    for k in range(16):
        with T.block("D"):
            vk = T.remap("S", k)
            D[vk] = C[vk] + B[vk]
"""

SUM = """
def total(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
    B = T.alloc((4,), "int32")
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.remap("SR", i, k)
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
    for i in range(4):
        with T.block("C"):
            vi = T.remap("S", i)
            C[vi] = T.max(B[vi], 0)
"""

CHANGED = """
def changed(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.remap("S", i)
            B[vi] = A[vi] + 1
    for i in range(8):
        with T.block("A"):
            vi = T.remap("S", i)
            A[vi] = 0
    for j in range(8):
        with T.block("C"):
            vj = T.remap("S", j)
            C[vj] = B[vj]
"""

SCAN = """
def scan(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc((9,), "int32")
    B[0] = 0
    for i in range(8):
        with T.block("B"):
            vi = T.remap("O", i)
            B[vi + 1] = B[vi] + A[vi]
    for j in range(8):
        with T.block("C"):
            vj = T.remap("S", j)
            C[vj] = B[vj]
"""

GUARDED = """
def guarded(A: T.Buffer((8,), "int32"), x: T.int32, C: T.Buffer((8,), "int32")):
    B = T.alloc((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.remap("S", i)
            B[vi] = A[vi] + 1
    if x > 0:
        for j in range(8):
            with T.block("C"):
                vj = T.remap("S", j)
                C[vj] = B[vj]
"""

WINDOW = """
def window(A: T.Buffer((8,), "int32"), C: T.Buffer((6,), "int32")):
    B = T.alloc((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.remap("S", i)
            B[vi] = A[vi] + 1
    for j in range(6):
        with T.block("C"):
            vj = T.remap("S", j)
            C[vj] = B[vj] + B[vj + 2]
"""


BACKWARDS = """
def backwards(A: T.Buffer((8,), "int32"), C: T.Buffer((1,), "int32")):
    B = T.alloc((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.remap("S", i)
            B[7 - vi] = A[vi]
    for k in range(8):
        with T.block("C"):
            vk = T.remap("R", k)
            with T.init():
                C[0] = 0
            C[0] = C[0] + B[vk]
"""

SHARED = """
def shared(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            vi = T.remap("S", i)
            B[vi] = A[vi] + 1
    for i in range(8):
        with T.block("A"):
            vi = T.remap("S", i)
            A[vi] = C[vi]
    for j in range(8):
        with T.block("C"):
            vj = T.remap("S", j)
            C[vj] = B[vj] + A[vj]
"""

PAIR = """
def pair(A: T.Buffer((8,), "int32"), C: T.Buffer((6,), "int32")):
    B = T.alloc((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.remap("S", i)
            B[vi] = A[vi] * 3
    for j in range(6):
        with T.block("C"):
            vj = T.remap("S", j)
            C[vj] = B[vj] + 1
"""

PART = """
def part(A: T.Buffer((4, 8), "int32"), C: T.Buffer((3,), "int32")):
    B = T.alloc((4,), "int32")
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.remap("SR", i, k)
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
    for i in range(3):
        with T.block("C"):
            vi = T.remap("S", i)
            C[vi] = B[vi] + 5
"""


def compute_at(block: str, of: str, at: int = 0) -> Callable[[Schedule], None]:
    return lambda s: s.compute_at(s.get_block(block), s.get_loops(s.get_block(of))[at])


def reverse_compute_at(block: str, of: str, at: int = 0) -> Callable[[Schedule], None]:
    return lambda s: s.reverse_compute_at(s.get_block(block), s.get_loops(s.get_block(of))[at])


def in_vector(s: Schedule) -> None:
    (loop,) = s.get_loops(s.get_block("C"))
    s.vectorize(loop)
    s.compute_at(s.get_block("B"), loop)


def apart_from_init(s: Schedule) -> None:
    block = s.get_block("B")
    s.decompose_reduction(block, s.get_loops(block)[1])
    s.compute_inline(block)


def on(method: str, block: str, *args: object) -> Callable[[Schedule], None]:
    return lambda s: getattr(s, method)(s.get_block(block), *args)


def fuse(reduction: str, epilogue: str) -> Callable[[Schedule], None]:
    return lambda s: s.fuse_reduction_epilogue(s.get_block(reduction), s.get_block(epilogue))


CASES: dict[str, tuple[str, Callable[[Schedule], None], str]] = {
    "compute_at: a parameter": (
        SHARED,
        compute_at("B", "C"),
        """\
compute_at: block 'B' cannot move under loop 'j': it writes the parameter 'B'
  because: the caller sees all of it, whatever the loop needs
  try: reverse_compute_at, to move it under the loops of what it reads""",
    ),
    "compute_at: a consumer outside": (
        CHAIN,
        compute_at("B", "C"),
        """\
compute_at: block 'B' cannot move under loop 'j': block 'D' outside of the loop reads what it writes
  because: all consumers must stand inside of the loop""",
    ),
    "compute_at: already there": (
        CHAIN,
        compute_at("B", "B"),
        """\
compute_at: block 'B' cannot move under loop 'i': it stands there already
  because: there is nothing to move""",
    ),
    "compute_at: before": (
        CHAIN,
        compute_at("C", "B"),
        """\
compute_at: block 'C' cannot move under loop 'i': it does not stand before the loop
  because: what is read must be written first""",
    ),
    "compute_at: inputs change": (
        CHANGED,
        compute_at("B", "C"),
        """\
compute_at: block 'B' cannot move under loop 'j': 'A', which it reads, is written in between
  because: it would read other values than it did""",
    ),
    "compute_at: opaque": (
        SCAN,
        compute_at("B", "C"),
        """\
compute_at: block 'B' is neither complete nor a reduction
  because: its iterator 'vi' is opaque""",
    ),
    "compute_at: condition": (
        GUARDED,
        compute_at("B", "C"),
        """\
compute_at: block 'B' cannot move under loop 'j': a condition stands between them
  because: the block would run where it did not, or not run where it did""",
    ),
    "compute_at: vector": (
        WINDOW,
        in_vector,
        """\
compute_at: block 'B' cannot move under loop 'j': the loop is vectorised
  because: the lanes of a vector have no loops of their own""",
    ),
    "reverse_compute_at: unfinished": (
        SUM,
        reverse_compute_at("C", "B", 1),
        """\
reverse_compute_at: block 'C' cannot move under loop 'k': the reduce iterator 'vk' of block 'B' \
depends on loops around
  because: an iteration leaves 'B' unfinished
  try: a loop outside of those that reduce""",
    ),
    "reverse_compute_at: window": (
        WINDOW,
        reverse_compute_at("C", "B"),
        """\
the loops around would not take each point of block 'C' exactly once
  given: vj = i - 2 + ax0""",
    ),
    "reverse_compute_at: backwards": (
        BACKWARDS,
        reverse_compute_at("C", "B"),
        """\
reverse_compute_at: block 'C' cannot move under loop 'i': its reduce iterator 'vk' would not take \
its values in order
  because: the first of them initialises the result""",
    ),
    "reverse_compute_at: nothing to wait for": (
        CHANGED,
        reverse_compute_at("C", "A"),
        """\
reverse_compute_at: block 'C' cannot move under loop 'i': nothing there writes what it reads
  because: it would wait for no one""",
    ),
    "reverse_compute_at: used in between": (
        SHARED,
        reverse_compute_at("C", "B"),
        """\
reverse_compute_at: block 'C' cannot move under loop 'i': 'C', which it writes, is used in between
  because: it would be written earlier than it was""",
    ),
    "compute_inline: a parameter": (
        CHAIN,
        on("compute_inline", "D"),
        """\
compute_inline: block 'D' writes the parameter 'D'
  because: the caller sees it""",
    ),
    "compute_inline: a reduction": (
        SUM,
        on("compute_inline", "B"),
        """\
compute_inline: block 'B' is a reduction
  because: an expression has no place for its loop
  try: compute_at""",
    ),
    "compute_inline: opaque": (
        SCAN,
        on("compute_inline", "B"),
        """\
compute_inline: block 'B' is neither complete nor a reduction
  because: its iterator 'vi' is opaque""",
    ),
    "compute_inline: decomposed": (
        SUM,
        apart_from_init,
        """\
compute_inline: block 'B' is neither complete nor a reduction
  because: it has reduce iterators and no init of 'B'""",
    ),
    "compute_inline: inputs change": (
        CHANGED,
        on("compute_inline", "B"),
        """\
compute_inline: 'A' is written between block 'B' and what reads it
  because: other values would be read""",
    ),
    "reverse_compute_inline: a reduction": (
        SUM,
        on("reverse_compute_inline", "C"),
        """\
reverse_compute_inline: block 'B' has iterators that are not spatial
  because: its values are not final when it writes them
  try: reverse_compute_at, or fuse_reduction_epilogue""",
    ),
    "reverse_compute_inline: several producers": (
        CHAIN,
        on("reverse_compute_inline", "D"),
        """\
reverse_compute_inline: block 'D' reads what 2 blocks make, not one
  try: compute_inline for the others, first""",
    ),
    "reverse_compute_inline: other readers": (
        CHAIN,
        on("reverse_compute_inline", "C"),
        """\
reverse_compute_inline: block 'C' is not the only one to read 'B'
  because: the values would no longer be there for others""",
    ),
    "reverse_compute_inline: several elements": (
        WINDOW,
        on("reverse_compute_inline", "C"),
        """\
reverse_compute_inline: block 'C' reads several elements of 'B' at a point
  because: they are made at different points""",
    ),
    "fuse_reduction_epilogue: another operation": (
        SUM,
        fuse("B", "C"),
        """\
fuse_reduction_epilogue: block 'C' does not combine the result with one more value by \
the reduction's own add
  because: nothing else can be done before the reduction instead of after it
  try: reverse_compute_at, to do it as soon as a part is reduced""",
    ),
    "fuse_reduction_epilogue: no reduction": (
        PAIR,
        fuse("B", "C"),
        """\
fuse_reduction_epilogue: block 'B' is no reduction of the form x = x op value
  because: the start value of another cannot take part in it""",
    ),
    "fuse_reduction_epilogue: a part": (
        PART,
        fuse("B", "C"),
        """\
fuse_reduction_epilogue: block 'C' does not use all that block 'B' computes
  because: every result starts from what is combined with it""",
    ),
    "cache_read: no such buffer": (
        CHAIN,
        on("cache_read", "C", "A", "local"),
        """\
block 'C' reads no buffer 'A'
  try: what it reads: 'B', by name or by position""",
    ),
    "cache_read: written in part": (
        SCAN,
        on("cache_read", "C", "B", "local"),
        """\
not all of 'B' that a copy would read is known to be written
  given: the copy would read B[0:8]
  because: reading what nothing has written is an error""",
    ),
    "cache_write: opaque": (
        SCAN,
        on("cache_write", "B", "B", "local"),
        """\
cache_write: block 'B' is neither complete nor a reduction
  because: its iterator 'vi' is opaque""",
    ),
    "cache_inplace: not in place": (
        CHAIN,
        on("cache_inplace", "C", "C", "local"),
        """\
cache_inplace: block 'C' does not read and write a buffer 'C'
  try: what it reads and writes: nothing, by name or by position""",
    ),
    "reindex: several elements": (
        WINDOW,
        on("reindex", "C", "B", "read"),
        """\
reindex: block 'C' does not read one element of 'B' at each of its points
  because: the copy has one element for each point""",
    ),
    "reindex_cache_read: several elements": (
        WINDOW,
        on("reindex_cache_read", "C", "B", "local", lambda j: (j,)),
        """\
reindex_cache_read: block 'C' does not read one element of 'B' at each of its points
  because: the copy has one element for each point""",
    ),
    "reindex_cache_write: opaque": (
        SCAN,
        on("reindex_cache_write", "B", "B", "local", lambda i: (i,)),
        """\
reindex_cache_write: block 'B' is neither complete nor a reduction
  because: its iterator 'vi' is opaque""",
    ),
    "reindex: no access": (
        WINDOW,
        on("reindex", "C", "B", "both"),
        """\
reindex: 'both' is no access
  try: 'read' or 'write'""",
    ),
    "reindex_cache_read: not injective": (
        CHAIN,
        on("reindex_cache_read", "C", "B", "local", lambda j: (j // 2,)),
        """\
the map is not proven to give each point a place of its own
  because: the digits of vj that the bindings use are not all of it, each once""",
    ),
    "reindex_cache_read: an iterator missing": (
        SUM,
        on("reindex_cache_read", "B", "A", "local", lambda i, k: (k,)),
        """\
the map does not use the iterator 'vi' of block 'B'
  because: different elements would have one place""",
    ),
    "reindex_cache_read: other rank": (
        CHAIN,
        on("reindex_cache_read", "C", "B", "local", lambda i, j: (i, j)),
        """\
the map must take the 1 iterators of block 'C'
  because: <lambda>() missing 1 required positional argument: 'j'""",
    ),
    "reindex_cache_write: a reduce iterator": (
        SUM,
        on("reindex_cache_write", "B", "B", "local", lambda i, k: (i, k)),
        """\
the map uses an iterator of block 'B' that is not spatial
  because: each of its values would have a place, and only the last is the result""",
    ),
    "set_scope: a parameter": (
        CHAIN,
        on("set_scope", "D", "D", "local"),
        """\
set_scope: 'D' is a parameter
  because: how it is stored is for the caller to say
  try: cache_write, for a local buffer""",
    ),
    "set_scope: no name": (
        CHAIN,
        on("set_scope", "B", "B", "my memory"),
        """\
set_scope: 'my memory' is not the name of a memory
  try: 'global', 'local', 'shared', or another name, with dots between its parts""",
    ),
    "storage_align: no stride": (
        CHAIN,
        on("storage_align", "B", "B", 0, 4, 4),
        """\
storage_align: a stride cannot be 4 modulo 4
  try: a positive factor, and an offset from 0 to below it""",
    ),
    "storage_align: no dimension": (
        CHAIN,
        on("storage_align", "B", "B", 1, 4),
        """\
storage_align: 'B' has no dimension 1""",
    ),
    "unsafe_set_dtype: no type": (
        CHAIN,
        on("unsafe_set_dtype", "B", "B", "int33"),
        """\
unsafe_set_dtype: 'int33' is not an element type""",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_text_of_an_error(name: str) -> None:
    text, action, expected = CASES[name]
    s = Schedule(program(text))
    before = s.module
    with pytest.raises(ScheduleError) as caught:
        action(s)
    caught.value.where = None
    assert str(caught.value) == expected
    if "decomposed" not in name and "vector" not in name:
        assert s.module is before
