"""Elementwise, injective and row-wise programs: fused by rows, vectorised, on threads.

Blocks that share their outer axes are computed row by row, so that what one makes is still in cache
when the next one reads it; cheap ones are inlined. In each row the fastest axis becomes vectors; a
reduction along it becomes one partial result a lane.
"""

from __future__ import annotations

import functools
from math import prod

from tensorsmith.errors import TensorsmithError
from tensorsmith.ir import (
    Block,
    For,
    IterKind,
    Load,
    LoopKind,
    Seq,
    Store,
    free_vars,
    postorder,
)
from tensorsmith.ir.rewrite import statements
from tensorsmith.schedule.defaults.analysis import (
    fastest_axis,
    is_reduction,
    other_axis,
    points,
    work,
)
from tensorsmith.schedule.defaults.attempt import Fallback, attempt
from tensorsmith.schedule.defaults.canonical import block_of
from tensorsmith.schedule.defaults.loops import (
    element_bytes,
    even_width,
    known_extent,
    loop_node,
    loop_of,
    size,
)
from tensorsmith.schedule.defaults.reductions import reduce_columns, reduce_rows
from tensorsmith.schedule.defaults.threads import on_threads
from tensorsmith.schedule.defaults.transposition import transpose
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import blocks_in, find_block
from tensorsmith.target import Target

INLINE_WORK = 8.0
"""A block whose points cost at most so much is computed again where it is used."""
VECTORS = 4
"""Vectors that the fastest loop computes at a time, so that latencies overlap."""
REPEATED = 1.0
"""Work that may be done again for each point of a block, to have it in the loop of its users."""
VECTORS_OF_UNKNOWN = 1
"""The same for a loop whose extent only the call tells: what is left over costs as much as what is
whole, and rows may be short."""


def schedule_rows(s: Schedule, target: Target, done: set[str], fallbacks: list[Fallback]) -> None:
    """Schedule every nest of the program that holds no block of `done`.

    fallbacks: takes notes of what could not be vectors, or not run on threads.
    """
    _inline(s, done)
    _gather(s, done)
    for block in _blocks(s):
        if block.name not in done:
            error = vectorise(s, s.get_block(block.name), target)
            if error is not None:
                fallbacks.append(Fallback("vectors", block.name, error))
    for nest in _nests(s):
        if done.isdisjoint(b.name for b in blocks_in(nest)):
            error = _parallelise(s, nest, target)
            if error is not None:
                fallbacks.append(Fallback("threads", blocks_in(nest)[0].name, error))


def _blocks(s: Schedule) -> list[Block]:
    return blocks_in(s.program.body)


def _nests(s: Schedule) -> list[For]:
    """The outermost loops of the program, in order."""
    body = s.program.body
    parts = body.stmts if isinstance(body, Seq) else (body,)
    return [p for p in parts if isinstance(p, For)]


def _inline(s: Schedule, done: set[str]) -> None:
    """Compute cheap elementwise blocks where they are used, unless that is more often than once for
    each of their elements."""
    for block in _blocks(s):
        if block.name in done or is_reduction(block) or work(block) > INLINE_WORK:
            continue
        ref = s.get_block(block.name)
        users = [find_block(s.program, u.name).node for u in s.get_consumers(ref)]
        if _loads(block) and any(isinstance(u, Block) and blocks_in(u.body) for u in users):
            continue  # computed once, not in each step of a recurrence
        uses = sum(points(u) for u in users if isinstance(u, Block))
        if uses <= points(block) or work(block) <= 1.0:
            attempt(s, functools.partial(s.compute_inline, ref))


def _loads(block: Block) -> bool:
    stores = (x for x in statements(block.body) if isinstance(x, Store))
    return any(isinstance(e, Load) for x in stores for e in postorder(x.value))


def _gather(s: Schedule, done: set[str]) -> None:
    """Compute each block in the outer loop of the one that uses it, where that is possible."""
    for block in reversed(_blocks(s)[:-1]):
        if block.name in done:
            continue
        ref = s.get_block(block.name)
        users = s.get_consumers(ref)
        if not users or any(u.name in done for u in users):
            continue
        loops = [s.get_loops(u) for u in users]
        shared = _common_loops(loops)
        for row in _row_loops(block, shared, min(len(x) for x in loops)):
            if attempt(s, functools.partial(_compute_in, s, ref, row)) is None:
                break


def _common_loops(loops: list[list[LoopRef]]) -> list[LoopRef]:
    shared: list[LoopRef] = []
    for level in zip(*loops, strict=False):
        if any(x.var is not level[0].var for x in level):
            break
        shared.append(level[0])
    return shared


def _row_loops(block: Block, shared: list[LoopRef], depth_of_users: int) -> list[LoopRef]:
    """The shared loops that leave the block an axis of its own to run along, innermost first: as
    many as the block has spatial iterators, less one unless it reduces along its fastest axis or
    gives one value a row."""
    spatial = [it.var for it in block.iters if it.kind is IterKind.SPATIAL]
    along = is_reduction(block) and fastest_axis(block) not in spatial
    whole = along or len(spatial) < depth_of_users
    depth = min(len(spatial) if whole else len(spatial) - 1, len(shared))
    return shared[:depth][::-1]


def _compute_in(s: Schedule, ref: BlockRef, row: LoopRef) -> None:
    """Compute a block in a loop of its users. Raises ScheduleError where that is not legal, or
    where neighbouring iterations would compute much of the same: windows overlap."""
    block = block_of(s, ref)
    least = points(block)
    s.compute_at(ref, row)
    runs = prod(size(s, x) for x in s.get_loops(ref))
    if (runs - least) * work(block) > REPEATED * least:
        raise ScheduleError(f"block {ref.name!r} would be computed again for its neighbours")


def _parallelise(s: Schedule, nest: For, target: Target) -> TensorsmithError | None:
    """Run an outer loop on threads if there is work for them; why not, if that is not legal."""
    inside = blocks_in(nest)
    total = sum(points(b) * work(b) for b in inside)
    shared = _common_loops([s.get_loops(s.get_block(b.name)) for b in inside])
    return on_threads(s, shared, target, total)


def vectorise(s: Schedule, ref: BlockRef, target: Target) -> TensorsmithError | None:
    """Make the fastest axis of a block vectors; why not, if that is not legal."""
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    axis = fastest_axis(block)
    loop = None if axis is None else loop_of(s, ref, axis)
    if loop is None:
        return None
    node = loop_node(s, loop)
    if node.kind is not LoopKind.SERIAL or len(blocks_in(node.body)) != 1:
        return None
    kind = next(it.kind for it in block.iters if it.var is axis)
    if kind is IterKind.SPATIAL:
        return attempt(s, lambda: _vectorise_spatial(s, ref, loop, target))
    if kind is IterKind.REDUCE:
        lanes = target.lanes(element_bytes(block))
        return attempt(s, lambda: reduce_rows(s, ref, loop, lanes))
    return None


def _vectorise_spatial(s: Schedule, ref: BlockRef, loop: LoopRef, target: Target) -> None:
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    lanes = target.lanes(element_bytes(block))
    if is_reduction(block):
        reduce_columns(s, ref, loop, target)
        return
    axis = next(it.var for it in block.iters if loop.var in free_vars(it.binding))
    across = other_axis(block, axis)
    if across is not None and transpose(s, ref, loop, across, lanes):
        return
    extent = known_extent(s, loop)
    most = VECTORS_OF_UNKNOWN if extent is None else VECTORS
    vectors = most if work(block) > INLINE_WORK else 1  # cheap ones wait for memory alone
    width = even_width(extent, lanes * vectors, lanes)
    if width < 2:
        return
    _move_inside(s, s.get_loops(ref), loop)
    s.vectorize(loop if extent == width else s.split(loop, [None, width])[1])


def _move_inside(s: Schedule, loops: list[LoopRef], loop: LoopRef) -> None:
    at = next(k for k, x in enumerate(loops) if x.var is loop.var)
    if at + 1 < len(loops):
        s.reorder(*loops[at + 1 :], loop)
