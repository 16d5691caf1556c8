"""Products whose result has few rows: the larger operand is read once, in the order it lies.

Each row of the larger operand takes part in every row of the result, so nothing is gained by
packing it. The result's sums stay in registers where they fit; else they stay in the first-level
cache, and several rows of the operand are read side by side, so that a sum is loaded and stored
once for all of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tensorsmith.ir import Block, Const, Store, Var, free_vars
from tensorsmith.schedule.defaults.analysis import SYMBOLIC_EXTENT, Contraction
from tensorsmith.schedule.defaults.canonical import block_of
from tensorsmith.schedule.defaults.users import with_producer, with_users
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.target import Target

PARALLEL_FLOPS = 4_000_000.0
"""Operations below which threads do not pay."""
SPARE_REGISTERS = 4
"""Vector registers that hold no sums."""
FEW_ROWS = 2
"""Rows of the result up to which loads alone fill the time, and are all in flight as it is."""
PREFETCH_VECTORS = 4
"""Vectors of each row side by side that are fetched ahead, where a vector takes many products."""


@dataclass(frozen=True, slots=True)
class Strips:
    """The decisions for a streamed product.

    vectors: of columns that are computed at a time. in_registers: whether their sums are.
    side_by_side: rows of the larger operand that are read together, where they are not.
    """

    vectors: int
    in_registers: bool
    side_by_side: int


def choose_strips(rows: int, columns: int, depth: int, element: int, target: Target) -> Strips:
    """Strips for a product of so many rows and columns, of elements of so many bytes."""
    lanes = target.lanes(element)
    whole = max(1, -(-columns // lanes))
    room = max(1, (target.vector_registers - SPARE_REGISTERS) // rows)
    fits = columns * depth * element <= target.caches.l2 // 2
    threads = target.cores if 2.0 * rows * columns * depth >= PARALLEL_FLOPS else 1
    if whole <= room * threads or fits:
        return Strips(
            _even(whole, max(threads, -(-whole // room))), in_registers=True, side_by_side=1
        )
    strip = max(1, target.caches.l1 // 2 // (element * lanes * rows))
    parts = max(threads, -(-whole // strip))
    return Strips(
        _even(whole, parts), in_registers=False, side_by_side=8 if rows <= FEW_ROWS else 4
    )


def _even(whole: int, parts: int) -> int:
    return -(-whole // min(parts, whole))


def schedule_streamed(
    s: Schedule, ref: BlockRef, what: Contraction, target: Target, free: Collection[str]
) -> None:
    """Schedule a contraction with one `m`, one `n` and one `k`, whose right operand lies along `n`.

    Rows whose number only the call tells are computed one by one.

    free: the blocks that may become part of it. Raises ScheduleError where a step is not legal.
    """
    for producer in s.get_producers(ref):
        store = block_of(s, producer).body
        if isinstance(store, Store) and store.buffer is what.right.buffer:
            with_producer(s, producer, free)
    block = block_of(s, ref)
    by_row = not isinstance(block.iters[what.m[0]].extent, Const)
    rows, columns, depth = (_extent(block, at[0]) for at in (what.m, what.n, what.k))
    rows = 1 if by_row else rows
    element = what.output.dtype.bytes
    strips = choose_strips(rows, columns, depth, element, target)
    lanes = target.lanes(element)
    m, n, k = (_loop(s, ref, block.iters[at[0]].var) for at in (what.m, what.n, what.k))
    copy = s.cache_write(ref, 0, "local")
    outer, vector, lane = s.split(n, [None, strips.vectors, lanes])
    around = [outer]
    if by_row:
        row, m = s.split(m, [None, 1])
        around = [row, outer]
    if strips.in_registers:
        s.reorder(*around, k, m, vector, lane)
        s.unroll(vector)
        steps = k
    else:
        steps, step = s.split(k, [None, strips.side_by_side])
        s.reorder(*around, steps, vector, step, m, lane)
        s.unroll(step)
        if rows > FEW_ROWS:
            s.annotate(vector, "prefetch", PREFETCH_VECTORS)
    copy = with_users(s, copy, (), free)
    s.reverse_compute_at(copy, outer)
    s.vectorize(lane)
    s.unroll(m)
    first = s.decompose_reduction(ref, steps)
    for made, last in ((first, s.get_loops(first)[-1]), (copy, s.get_loops(copy)[-1])):
        inner = last if made is first else s.split(last, [None, lanes])[1]
        s.vectorize(inner)
        if strips.in_registers:
            for loop in s.get_loops(made)[len(around) : -1]:
                s.unroll(loop)
    if target.cores > 1 and 2.0 * rows * columns * depth >= PARALLEL_FLOPS:
        s.parallel(outer)


def _extent(block: Block, at: int) -> int:
    extent = block.iters[at].extent
    return int(extent.value) if isinstance(extent, Const) else int(SYMBOLIC_EXTENT)


def _loop(s: Schedule, ref: BlockRef, var: Var) -> LoopRef:
    """The loop of an iterator that is bound to a loop of its own."""
    binding = next(it.binding for it in block_of(s, ref).iters if it.var is var)
    used = set(free_vars(binding))
    return next(x for x in s.get_loops(ref) if x.var in used)
