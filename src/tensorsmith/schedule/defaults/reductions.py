"""Reductions in vectors: along the fastest axis, or across it."""

from __future__ import annotations

from collections.abc import Collection

from tensorsmith.arith import Analyzer
from tensorsmith.ir import Block, Buffer, For, IterKind, Load, Store, free_vars, postorder
from tensorsmith.ir.rewrite import expressions, statements
from tensorsmith.schedule.defaults.loops import (
    element_bytes,
    even_width,
    is_reduced,
    known_extent,
    loop_of,
    size,
)
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import find_block, find_loop
from tensorsmith.target import Target

VECTORS = 4
"""Vectors of a row that are reduced at a time, so that latencies overlap."""
VECTORS_OF_UNKNOWN = 1
"""The same for a row whose extent only the call tells, unless it is known to leave nothing over:
what is left over costs as much as what is whole, and rows may be short."""
LAST_LANES = 4
"""Partial results of a reduction that are combined one by one."""
SIDE_BY_SIDE = 8
"""Rows that are reduced together, where results are in cache: each is loaded and stored once."""
COLUMN_VECTORS = 16
"""Vectors of accumulators of a reduction across the fastest axis: half of the registers, and whole
lines of memory in every row."""
FEW_VECTORS = 2
"""Vectors of results up to which rows are reduced in several parts, so that latencies overlap."""
PARTS = 4
"""How many parts that are."""
MANY_PARTS = (4, 5, 7, 6, 3)
"""Parts of rows of which there is a multiple, what is best first."""


def reduce_columns(s: Schedule, ref: BlockRef, loop: LoopRef, target: Target) -> None:
    """A reduction across the fastest axis, which `loop` runs along: a strip of results stays in
    registers, or, of a long axis, in the first-level cache, and several rows are reduced side by
    side. Raises ScheduleError where a step is not legal."""
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    bytes_ = element_bytes(block)
    lanes = target.lanes(bytes_)
    reduced = [x for x in s.get_loops(ref) if is_reduced(s, ref, x)]
    if not reduced:
        raise ScheduleError(f"block {ref.name!r} has no loop to reduce over")
    extent = known_extent(s, loop) or 0
    stored = {x.buffer for x in statements(block.body) if isinstance(x, Store)}
    if len(stored) > 1:
        if not _reads_along(block, loop, stored):
            raise ScheduleError(f"block {ref.name!r} reads no rows")
        _together(s, ref, loop, even_width(extent or None, lanes, lanes))
        return
    if 0 < extent <= lanes * FEW_VECTORS and size(s, reduced[-1]) >= 4 * PARTS:
        _in_parts(s, ref, loop, reduced[-1])
        return
    copy = s.cache_write(ref, 0, "local")
    reduced = [x for x in s.get_loops(ref) if is_reduced(s, ref, x)]
    is_long = extent > lanes * COLUMN_VECTORS and len(reduced) == 1
    if is_long and size(s, reduced[0]) <= SIDE_BY_SIDE:
        is_long = False
    if is_long:
        whole = -(-extent // lanes)
        parts = -(-whole // max(1, target.caches.l1 // 2 // (bytes_ * lanes)))
        parts = max(parts, min(target.cores, whole // COLUMN_VECTORS))
        outer, vector, lane = s.split(loop, [None, -(-whole // parts), lanes])
        steps, step = s.split(reduced[0], [None, SIDE_BY_SIDE])
        s.reorder(outer, steps, vector, step, lane)
        s.unroll(step)
        reduced = [steps]
    else:
        width = even_width(extent or None, lanes * COLUMN_VECTORS, lanes)
        outer, lane = s.split(loop, [None, width])
        s.reorder(outer, *reduced, lane)
    s.reverse_compute_at(copy, outer)
    s.vectorize(lane)
    first = s.decompose_reduction(ref, reduced[0])
    s.vectorize(s.get_loops(first)[-1])
    last = s.get_loops(copy)[-1]
    s.vectorize(s.split(last, [None, lanes])[1] if is_long else last)


def _reads_along(block: Block, loop: LoopRef, stored: Collection[Buffer]) -> bool:
    """Whether all that a block reads lies along a loop around it, besides what it stores."""
    axes = {it.var for it in block.iters if loop.var in free_vars(it.binding)}
    loads = [
        e
        for x in statements(block.body)
        for e in postorder(*expressions(x))
        if isinstance(e, Load) and e.buffer not in stored and e.indices
    ]
    return all(e.indices[-1] in axes for e in loads)


def _together(s: Schedule, ref: BlockRef, loop: LoopRef, width: int) -> None:
    """A reduction to several results, such as the greatest element and its place."""
    outer, lane = s.split(loop, [None, width])
    reduced = [x for x in s.get_loops(ref) if is_reduced(s, ref, x)]
    s.reorder(outer, *reduced, lane)
    s.vectorize(lane)
    s.vectorize(s.get_loops(s.decompose_reduction(ref, reduced[0]))[-1])


def _in_parts(s: Schedule, ref: BlockRef, loop: LoopRef, reduced: LoopRef) -> None:
    """A reduction of rows of few vectors: some rows side by side, combined at the end."""
    extent = known_extent(s, reduced)
    fitting = [n for n in MANY_PARTS if extent is not None and extent % n == 0]
    _, part = s.split(reduced, [None, (*fitting, PARTS)[0]])
    s.reorder(*[x for x in s.get_loops(ref) if is_reduced(s, ref, x)], loop)
    partial = s.rfactor(part, _output_rank(s, ref) - 1)
    s.set_scope(partial, 0, "local")
    *_, side, lane = s.get_loops(partial)
    s.unroll(side)
    s.vectorize(lane)
    first = s.decompose_reduction(partial, _first_reduced(s, partial))
    *_, side, lane = s.get_loops(first)
    s.unroll(side)
    s.vectorize(lane)
    lane, side = s.get_loops(ref)[-2:]
    s.reorder(side, lane)
    s.vectorize(lane)
    s.unroll(side)
    s.vectorize(s.get_loops(s.decompose_reduction(ref, side))[-1])


def _first_reduced(s: Schedule, ref: BlockRef) -> LoopRef:
    found = next((x for x in s.get_loops(ref) if is_reduced(s, ref, x)), None)
    if found is None:  # what is left of the sum may move with a loop of the parts
        raise ScheduleError(f"no loop around block {ref.name!r} is over its sum alone")
    return found


def reduce_rows(s: Schedule, ref: BlockRef, loop: LoopRef, lanes: int) -> None:
    """A reduction along the fastest axis, which `loop` runs along: one partial result a lane,
    combined at the end. Raises ScheduleError where a step is not legal."""
    extent = known_extent(s, loop)
    width = lanes * VECTORS
    if extent is None and not _is_whole(s, loop, width):
        width = lanes * VECTORS_OF_UNKNOWN
    if extent is not None:
        while width > lanes and extent % width:
            width //= 2
        if extent < 2 * width:
            return
    _, inner = s.split(loop, [None, width])
    rank = _output_rank(s, ref)  # the lanes come last, so that they lie side by side
    _lanes_inside(s, s.rfactor(inner, rank))
    for fewer in (lanes, LAST_LANES):
        again = _loop_of_reduction(s, ref)
        if fewer < width and again is not None:
            pieces, lane = s.split(again, [None, fewer])
            partial = s.rfactor(lane, rank)
            _lanes_inside(s, partial)
            s.unroll(pieces)
            width = fewer
    last = _loop_of_reduction(s, ref)
    if last is not None and known_extent(s, last) == LAST_LANES:
        s.unroll(last)


def _is_whole(s: Schedule, loop: LoopRef, width: int) -> bool:
    """Whether a loop whose extent only the call tells surely has several times `width` iterations,
    and leaves nothing over."""
    node = find_loop(s.program, loop.var).node
    assert isinstance(node, For)
    facts = Analyzer()
    at_least = facts.prove(node.extent >= 2 * width) is True
    return at_least and facts.equal(node.extent % width, 0)


def _output_rank(s: Schedule, ref: BlockRef) -> int:
    block = find_block(s.program, ref.name).node
    return next(x.buffer.rank for x in statements(block) if isinstance(x, Store))


def _loop_of_reduction(s: Schedule, ref: BlockRef) -> LoopRef | None:
    loops = [x for x in s.get_loops(ref) if is_reduced(s, ref, x)]
    return loops[-1] if loops else None


def _lanes_inside(s: Schedule, partial: BlockRef) -> None:
    """Keep the partial results of a factored reduction in the lanes of registers."""
    block = find_block(s.program, partial.name).node
    assert isinstance(block, Block)
    loops = s.get_loops(partial)
    reduced = [x for x in loops if is_reduced(s, partial, x)]
    factored = [it.var for it in block.iters if it.kind is IterKind.SPATIAL][-1]
    lane = loop_of(s, partial, factored)
    if lane is None or not reduced:
        return
    s.reorder(*reduced, lane)
    s.vectorize(lane)
    first = s.decompose_reduction(partial, reduced[0])
    s.vectorize(s.get_loops(first)[-1])
