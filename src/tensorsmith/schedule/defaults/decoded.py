"""Products with a constant matrix of few bits, which are decoded where they are used.

The constants (words of several elements, scales, zero points) are laid out in the order in which
the columns of the result are computed. Where the result has few rows, elements are decoded in
registers, so that no more is read than the constants, and scales are applied once for each block
of the depth. Where it has many, strips of the matrix are decoded as they are packed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from math import inf, prod

from tensorsmith.ir import (
    Buffer,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    IndexMap,
    IterKind,
    Load,
    Store,
    Var,
    free_vars,
    postorder,
)
from tensorsmith.schedule.defaults.analysis import Contraction, is_reduction
from tensorsmith.schedule.defaults.canonical import block_of
from tensorsmith.schedule.defaults.constants import CONSTANTS
from tensorsmith.schedule.defaults.users import with_users
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.target import Target

LEAST_SAVED = 2.0
"""How many times smaller than the matrix the constants must be."""
VECTORS = 4
"""Vectors of columns that are computed side by side, at most."""
STEPS = 8
"""Steps of the depth without a loop, where nothing tells."""
PREFETCH_BYTES = 8192
"""How far ahead of their use constants are fetched, over the ends of blocks."""
BLOCK = 64
"""Steps of the depth that scales are applied after, where they do not change."""
PARALLEL_FLOPS = 1_000_000.0
"""Operations below which threads do not pay."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """How the right operand of a product is computed from constants.

    block: by which. constants: those that vary with the column, and the dimension in which they do.
    columns: whose constants lie together. steps: into which the depth is taken apart, outermost
    first; the first of them are blocks.
    """

    block: BlockRef
    constants: tuple[tuple[Buffer, int], ...]
    columns: int
    steps: tuple[int, ...]


def decoded_operand(
    s: Schedule, ref: BlockRef, what: Contraction, target: Target, free: Collection[str]
) -> Decoded | None:
    """How the right operand is decoded, if it is worth that."""
    producer = _producer(s, ref, what.right.buffer, free)
    n, k = (block_of(s, ref).iters[at[0]] for at in (what.n, what.k))
    if producer is None or set(what.right.indices) != {n.var, k.var}:
        return None
    if not isinstance(n.extent, Const) or not isinstance(k.extent, Const):
        return None
    block = block_of(s, producer)
    store = block.body
    assert isinstance(store, Store)
    if {it.var for it in block.iters} != set(store.indices) or len(block.iters) != 2:
        return None
    vn, vk = (store.indices[what.right.indices.index(v)] for v in (n.var, k.var))
    loads = [e for e in postorder(store.value) if isinstance(e, Load)]
    if not _saves(s, {e.buffer for e in loads}, what.right.buffer, target):
        return None
    lanes = target.lanes(what.output.dtype.bytes)
    sizes = (v * lanes for v in (VECTORS, 2, 1))
    columns = next((size for size in sizes if int(n.extent.value) % size == 0), 0)
    steps = _steps(store.value, vk, int(k.extent.value))
    places = _places(loads, vn)
    if not columns or not steps or places is None:
        return None
    return Decoded(producer, tuple(places.items()), columns, steps)


def _producer(s: Schedule, ref: BlockRef, matrix: Buffer, free: Collection[str]) -> BlockRef | None:
    """The block that computes the operand element by element, for this product alone."""
    for producer in s.get_producers(ref):
        block = block_of(s, producer)
        if isinstance(block.body, Store) and block.body.buffer is matrix:
            alone = producer.name in free and len(s.get_consumers(producer)) == 1
            return producer if alone and not is_reduction(block) else None
    return None


def _places(loads: Collection[Load], n: Expr) -> dict[Buffer, int] | None:
    """The dimension of each buffer that is the column alone; None where one is more than that."""
    places: dict[Buffer, int] = {}
    for load in loads:
        at = [d for d, e in enumerate(load.indices) if n in free_vars(e)]
        if len(at) > 1 or (at and load.indices[at[0]] is not n):
            return None
        if at and places.setdefault(load.buffer, at[0]) != at[0]:
            return None
    return places


def _saves(s: Schedule, read: Collection[Buffer], matrix: Buffer, target: Target) -> bool:
    """Whether the matrix is large, and made of much smaller constants."""
    constants = s.program.attrs.get(CONSTANTS, ())
    if not isinstance(constants, tuple) or any(b.name not in constants for b in read):
        return False
    sizes = list(map(_bytes, read))
    whole = _bytes(matrix)
    return whole >= target.caches.l2 and sum(sizes) * LEAST_SAVED <= whole


def _bytes(buffer: Buffer) -> float:
    extents = [float(e.value) if isinstance(e, Const) else inf for e in buffer.shape]
    return prod(extents) * buffer.dtype.bytes


def _steps(value: Expr, k: Expr, depth: int) -> tuple[int, ...]:
    """Into what the depth is taken apart, by the numbers that the places and shifts of an element
    are divided by; none if these do not divide each other."""
    found = {
        int(e.args[1].value)
        for e in postorder(value)
        if isinstance(e, (FloorDiv, FloorMod)) and k in free_vars(e.args[0])
        if isinstance(e.args[1], Const)
    }
    if len(found) < 2:
        found |= {STEPS} if found else {STEPS, BLOCK}
    order = sorted(found, reverse=True)
    if any(a % b for a, b in pairwise([depth, *order])):
        return ()
    return (*(a // b for a, b in pairwise([depth, *order])), order[-1])


def lay_out(s: Schedule, how: Decoded) -> None:
    """Lay out the constants so that those of neighbouring columns lie side by side."""
    for buffer, at in how.constants:
        copy = s.cache_read(how.block, buffer.name, "global")
        store = block_of(s, copy).body
        assert isinstance(store, Store)
        inputs = tuple(Var(f"i{d}") for d in range(buffer.rank))
        others = [x for d, x in enumerate(inputs) if d != at]
        n = inputs[at]
        tiled = IndexMap(inputs, (n // how.columns, *others, n % how.columns))
        s.transform_layout(copy, store.buffer.name, tiled)


def schedule_decoded(
    s: Schedule,
    ref: BlockRef,
    what: Contraction,
    how: Decoded,
    target: Target,
    free: Collection[str],
) -> None:
    """Schedule a product whose result has few rows. Raises ScheduleError where a step is not legal.

    Rows whose number only the call tells are computed one by one.
    """
    lay_out(s, how)
    s.compute_inline(how.block)
    block = block_of(s, ref)
    lanes = target.lanes(what.output.dtype.bytes)
    m, n, k = (_loop(s, ref, block.iters[at[0]].var) for at in (what.m, what.n, what.k))
    blocks, *inner = s.split(k, [None, *how.steps[1:]])
    s.reorder(blocks, *inner, m, n)
    partial = s.rfactor(blocks, 0)
    s.factor_out(partial)
    s.set_scope(partial, 0, "local")
    copy = s.cache_write(ref, 0, "local")
    m, n, blocks = s.get_loops(ref)
    outer, vector, lane = s.split(n, [None, how.columns // lanes, lanes])
    rows = [m] if isinstance(block.iters[what.m[0]].extent, Const) else []
    s.reorder(*([] if rows else [m]), outer, blocks, *rows, vector, lane)
    s.compute_at(partial, blocks)
    copy = with_users(s, copy, (), free)
    s.reverse_compute_at(copy, outer)
    step_bytes = how.columns * max(b.dtype.bytes for b, _ in how.constants)
    _order_partial(s, partial, blocks, lanes, step_bytes)
    depth = len(s.get_loops(ref)) - len(rows) - 2
    _in_vectors(s, ref, depth)
    _in_vectors(s, s.decompose_reduction(ref, blocks), depth - 1)
    s.split(s.get_loops(copy)[-1], [None, lanes])
    _in_vectors(s, copy, depth - 1)
    work = prod(float(e.value) for it in block.iters if isinstance(e := it.extent, Const))
    if target.cores > 1 and 2.0 * work >= PARALLEL_FLOPS:
        s.parallel(outer)


def _order_partial(
    s: Schedule, partial: BlockRef, blocks: LoopRef, lanes: int, step_bytes: int
) -> None:
    """The sums of one block of the depth: steps outside, rows and columns in registers. What a step
    reads, so many bytes, is fetched some steps ahead."""
    loops = s.get_loops(partial)
    at = [x.var for x in loops].index(blocks.var) + 1
    spatial = [it.binding for it in block_of(s, partial).iters if it.kind is IterKind.SPATIAL]
    used = set(free_vars(*spatial))
    *rows, columns = [x for x in loops[at:] if x.var in used]
    *steps, last = [x for x in loops[at:] if x.var not in used]
    vector, lane = s.split(columns, [None, lanes])
    s.reorder(*steps, last, *rows, vector, lane)
    for loop in (last, *rows, vector):
        s.unroll(loop)
    s.vectorize(lane)
    _in_vectors(s, s.decompose_reduction(partial, (*steps, last)[0]), at)
    for step in steps[-1:]:
        s.annotate(step, "prefetch", max(1, PREFETCH_BYTES // step_bytes))


def _in_vectors(s: Schedule, ref: BlockRef, depth: int) -> None:
    """The loops of a block from `depth` on without loops, the innermost in vectors."""
    *outer, lane = s.get_loops(ref)[depth:]
    for loop in outer:
        s.unroll(loop)
    s.vectorize(lane)


def _loop(s: Schedule, ref: BlockRef, var: Var) -> LoopRef:
    """The loop of an iterator that is bound to a loop of its own."""
    binding = next(it.binding for it in block_of(s, ref).iters if it.var is var)
    used = set(free_vars(binding))
    return next(x for x in s.get_loops(ref) if x.var in used)
