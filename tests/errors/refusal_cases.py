"""Programs of their own for conditions under which primitives on blocks are refused."""

from __future__ import annotations

from collections.abc import Callable

from errors.primitive_cases import ADD, ROW_SUMS, STEPS, of
from tensorsmith.schedule import BlockRef, LoopRef, Schedule

OwnCase = tuple[Callable[[], Schedule], Callable[[Schedule], object]]
"""What makes a program, and what is refused of it."""

VECTOR = """
L = T.alloc((8,), "float32")
for i in range(8):
    with T.block("L"):
        vi = T.remap("S", i)
        L[vi] = A[vi, 0] + 1.0
for j in range(8):
    with T.block("C"):
        vj = T.remap("S", j)
        C[vj] = L[vj] * 2.0
"""
BOTH = (
    VECTOR
    + """
for k in range(8):
    with T.block("B"):
        vk = T.remap("S", k)
        B[vk, 0] = L[vk]
"""
)
CHANGED = VECTOR.replace(
    "for j in",
    """for x in range(8):
    with T.block("A"):
        vx = T.remap("S", x)
        A[vx, 0] = 0.0
for j in""",
)
GUARDED = """
L = T.alloc((8,), "float32")
for i in range(8):
    with T.block("L"):
        vi = T.remap("S", i)
        L[vi] = A[vi, 0] + 1.0
if N[0] > 0.0:
    for j in range(8):
        with T.block("C"):
            vj = T.remap("S", j)
            C[vj] = L[vj]
"""
SUM = """
L = T.alloc((8,), "float32")
for i, k in T.grid(8, 8):
    with T.block("L"):
        vi, vk = T.remap("SR", i, k)
        with T.init():
            L[vi] = 0.0
        L[vi] = L[vi] + A[vi, vk]
for j in range(8):
    with T.block("C"):
        vj = T.remap("S", j)
        C[vj] = L[vj] + B[vj, 0]
"""
RUNNING = """
L = T.alloc((9,), "float32")
L[0] = 0.0
for i in range(8):
    with T.block("L"):
        vi = T.remap("O", i)
        L[vi + 1] = L[vi] + A[vi, 0]
for j in range(8):
    with T.block("C"):
        vj = T.remap("S", j)
        C[vj] = L[vj]
"""
ROLLING = """
L = T.alloc((8,), "float32")
for i in range(8):
    with T.block("L"):
        vi = T.remap("S", i)
        L[vi] = A[vi, 0] + 1.0
for j in range(6):
    with T.block("C"):
        vj = T.remap("S", j)
        C[vj] = L[vj] + L[vj + 2]
"""
UNFINISHED = """
L = T.alloc((8,), "float32")
for k in range(8):
    for i in range(8):
        with T.block("L"):
            vk, vi = T.remap("RS", k, i)
            with T.init():
                L[vi] = 0.0
            L[vi] = L[vi] + A[vi, vk]
    for j in range(8):
        with T.block("C"):
            vk, vj = T.remap("OS", k, j)
            C[vj] = L[vj]
"""
PRODUCTS = """
L = T.alloc((8,), "float32")
for i, k in T.grid(8, 8):
    with T.block("L"):
        vi, vk = T.remap("SR", i, k)
        with T.init():
            L[vi] = 0.0
        L[vi] = L[vi] + A[vi, vk] * B[vi, 0]
for j in range(8):
    with T.block("C"):
        vj = T.remap("S", j)
        C[vj] = L[vj]
"""
SHARED = """
for i in range(8):
    with T.block("B"):
        vi = T.remap("S", i)
        B[vi, 0] = A[vi, 0] + 1.0
for i in range(8):
    with T.block("A"):
        vi = T.remap("S", i)
        A[vi, 0] = C[vi]
for j in range(8):
    with T.block("C"):
        vj = T.remap("S", j)
        C[vj] = B[vj, 0] + A[vj, 0]
"""
TRIANGLE = """
for k in range(8):
    for i in T.serial(k + 1):
        with T.block("C"):
            vk = T.reduce(8, k)
            vi = T.spatial(8, i)
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
"""
OPAQUE_AROUND = """
for o, i, k in T.grid(2, 8, 8):
    with T.block("C"):
        vo, vi, vk = T.remap("OSR", o, i, k)
        with T.init():
            C[vi] = 0.0
        C[vi] = C[vi] + A[vi, vk]
"""


def program(body: str, old: str = "", new: str = "") -> Callable[[], Schedule]:
    """What makes the schedule of a body, with one place written otherwise."""
    assert old in body, (old, body)
    return lambda: of(body.replace(old, new) if old else body)


def loop(s: Schedule, block: str, at: int = 0) -> LoopRef:
    return s.get_loops(s.get_block(block))[at]


def on(method: str, block: str, *args: object, **kwargs: object) -> Callable[[Schedule], object]:
    """The call of a primitive on a block."""
    return lambda s: getattr(s, method)(s.get_block(block), *args, **kwargs)


def under(method: str, block: str, other: str, at: int = 0) -> Callable[[Schedule], object]:
    """The call of a primitive on a block and a loop around another."""
    return lambda s: getattr(s, method)(s.get_block(block), loop(s, other, at))


def in_loop(method: str, block: str, buffer: str) -> Callable[[Schedule], object]:
    """The call of a primitive on the first loop around a block, which is one of its arguments."""
    return lambda s: getattr(s, method)(loop(s, block), s.get_block(block), buffer, "local")


def factor(block: str, at: int, axis: int = 0) -> Callable[[Schedule], object]:
    return lambda s: s.rfactor(loop(s, block, at), axis)


def vectorised(s: Schedule) -> object:
    around = loop(s, "C")
    s.vectorize(around)
    return s.compute_at(s.get_block("L"), around)


def not_divided(s: Schedule) -> LoopRef:
    """A loop inside of which an iterator has its outer part."""
    outer, inner = s.split(loop(s, "B"), [2, 4])
    s.reorder(inner, outer)
    return outer


def of_removed(method: str) -> Callable[[Schedule], object]:
    def call(s: Schedule) -> object:
        block = s.get_block("L")
        s.compute_inline(block)
        return getattr(s, method)(block)

    return call


def of_blocks(method: str, *blocks: str) -> Callable[[Schedule], object]:
    return lambda s: getattr(s, method)(*map(s.get_block, blocks))


def read_by(block: str, buffer: str, *consumers: str) -> Callable[[Schedule], object]:
    def call(s: Schedule) -> BlockRef:
        chosen = [s.get_block(c) for c in consumers]
        return s.cache_read(s.get_block(block), buffer, "local", consumers=chosen)

    return call


OF_BLOCKS: dict[str, dict[str, OwnCase]] = {
    "get_block": {
        "no block is called so, or several fit": (program(ADD), lambda s: s.get_block("X")),
        "the error has the names there are. `find_blocks` gives all that fit": (
            program(ADD + ADD.replace('"B"', '"X"')),
            lambda s: s.get_block("Y"),
        ),
    },
    "get_loops": {"the block is no longer there": (program(VECTOR), of_removed("get_loops"))},
    "get_consumers": {
        "the block is no longer there": (program(VECTOR), of_removed("get_consumers"))
    },
    "get_producers": {
        "the block is no longer there": (program(VECTOR), of_removed("get_producers"))
    },
    "annotate_buffer_access": {
        "the block has no such access": (
            program(ADD),
            on("annotate_buffer_access", "B", "C", "read", lambda i, j: [i, i + 1]),
        ),
        "the map has other numbers of inputs or outputs": (
            program(ADD),
            on("annotate_buffer_access", "B", "B", "write", lambda i: [i, i + 1]),
        ),
        "the region does not cover what the accesses tell, or leaves the buffer": (
            program(ADD),
            on("annotate_buffer_access", "B", "A", "read", lambda i, j: [i, i, j, j + 1]),
        ),
    },
    "cache_inplace": {
        "the block does not read and write the buffer": (
            program(ADD),
            on("cache_inplace", "B", "B", "local"),
        ),
        "it is not known that all of the box it touches was written before": (
            program(
                STEPS,
                "L[vi, vj] = A[vi, vj] + 1.0",
                "L[vi, vj] = T.select(vj > 0, L[vi, vj - 1], 0.0) + A[vi, vj]",
            ),
            on("cache_inplace", "L", "L", "local"),
        ),
    },
    "cache_read": {
        "a consumer writes the buffer, or another does between the consumers": (
            program(SHARED),
            read_by("B", "A", "B", "C"),
        ),
        "it is not known that all of the box was written before": (
            program(RUNNING),
            on("cache_read", "C", "L", "local"),
        ),
    },
    "cache_write": {
        "the block is neither complete nor a reduction": (
            program(RUNNING),
            on("cache_write", "L", "L", "local"),
        ),
        "it does not write one element for each of its points": (
            program(ADD, "B[vi, vj] =", "B[vi, vj] = 0.0\n        B[vj, vi] ="),
            on("cache_write", "B", "B", "local"),
        ),
        "its values are not final at the place of the copy": (
            program(UNFINISHED),
            on("cache_write", "L", "L", "local"),
        ),
        "consumers are given and others write the buffer, too": (
            program(BOTH + "for q in range(8):\n    L[q] = 0.0\n"),
            lambda s: s.cache_write(s.get_block("L"), "L", "local", consumers=[s.get_block("C")]),
        ),
    },
    "read_at": {
        "Arguments and conditions as for `cache_read`, within the body of the loop": (
            program(ADD),
            in_loop("read_at", "B", "C"),
        ),
    },
    "write_at": {
        "Arguments and conditions as for `cache_write`, within the body of the loop": (
            program(UNFINISHED),
            in_loop("write_at", "L", "L"),
        ),
    },
    "reindex": {
        "the block does not access one element of the buffer at each of its points, under no"
        " condition and whatever the data": (program(ROLLING), on("reindex", "C", "L", "read")),
        "further as for `cache_read` and `cache_write`": (
            program(ADD),
            on("reindex", "B", "C", "read"),
        ),
    },
    "reindex_cache_read": {
        "the map is not proven to be injective, or does not use an iterator on which the place of"
        " the element in the buffer depends": (
            program(VECTOR),
            on("reindex_cache_read", "C", "L", "local", lambda j: (j // 2,)),
        ),
        "further as for `reindex`": (
            program(ROLLING),
            on("reindex_cache_read", "C", "L", "local", lambda j: (j,)),
        ),
    },
    "reindex_cache_write": {
        "the map is not proven to be injective, or does not use an iterator on which the place of"
        " the element in the buffer depends, or uses one that is not spatial": (
            program(ROW_SUMS),
            on("reindex_cache_write", "C", "C", "local", lambda i, k: (i, k)),
        ),
        "further as for `cache_write`": (
            program(RUNNING),
            on("reindex_cache_write", "L", "L", "local", lambda i: (i,)),
        ),
    },
    "compute_inline": {
        "the block is not complete, if its body is not a single store, or if it writes a parameter"
        " or a buffer that others write": (program(SUM), on("compute_inline", "L")),
        "the point that belongs to an element cannot be said (the map from iterators to elements"
        " must have a known inverse)": (
            program(VECTOR, "L[vi] = A[vi, 0] + 1.0", "L[vi * vi % 8] = A[vi, 0] + 1.0"),
            on("compute_inline", "L"),
        ),
        "what it reads is written before the last consumer": (
            program(CHANGED),
            on("compute_inline", "L"),
        ),
        "the result is passed to a call": (
            program(VECTOR + 'T.call("use", L[0:8])\n'),
            on("compute_inline", "L"),
        ),
    },
    "reverse_compute_inline": {
        "the block is not complete, or has other than spatial iterators": (
            program(VECTOR + ROW_SUMS.replace('"C"', '"X"').replace("A[vi, vk]", "L[vk]")),
            on("reverse_compute_inline", "X"),
        ),
        "the two bodies are not a single store each": (
            program(VECTOR, "C[vj] = L[vj] * 2.0", "C[vj] = L[vj] * 2.0\n        B[vj, 0] = 1.0"),
            on("reverse_compute_inline", "C"),
        ),
        "the buffer between is a parameter, is written by others or read by others": (
            program(BOTH),
            on("reverse_compute_inline", "C"),
        ),
        "the block reads several of its elements at one point, or the point that belongs to an"
        " element cannot be said": (program(ROLLING), on("reverse_compute_inline", "C")),
        "what it writes is used, or what it reads is written, in between": (
            program(CHANGED, "C[vj] = L[vj] * 2.0", "C[vj] = L[vj] * A[vj, 0]"),
            on("reverse_compute_inline", "C"),
        ),
        "the producer is a reduction": (program(SUM), on("reverse_compute_inline", "C")),
    },
}
