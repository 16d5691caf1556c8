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
    Const,
    For,
    IterKind,
    Load,
    LoopKind,
    Seq,
    Stmt,
    Store,
    Var,
    free_vars,
    postorder,
)
from tensorsmith.ir.rewrite import statements
from tensorsmith.schedule.defaults.analysis import (
    SYMBOLIC_EXTENT,
    fastest_axis,
    is_reduction,
    other_axis,
    points,
    work,
)
from tensorsmith.schedule.defaults.attempt import Fallback, attempt
from tensorsmith.schedule.defaults.canonical import block_of
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import blocks_in, find_block, find_loop
from tensorsmith.target import Target

INLINE_WORK = 8.0
"""A block whose points cost at most so much is computed again where it is used."""
PARALLEL_WORK = 2_000_000.0
"""Additions' time of work below which threads do not pay: a fork and join costs microseconds."""
VECTORS = 4
"""Vectors that the fastest loop computes at a time, so that latencies overlap."""
REPEATED = 1.0
"""Work that may be done again for each point of a block, to have it in the loop of its users."""
VECTORS_OF_UNKNOWN = 1
"""The same for a loop whose extent only the call tells: what is left over costs as much as what is
whole, and rows may be short."""
NEAR_TILES = 16
"""Tiles of a transposition that are read one below the other, so that few pages are in use."""
LAST_LANES = 4
"""Partial results of a reduction that are combined one by one."""
SIDE_BY_SIDE = 8
"""Rows that are reduced together, where results are in cache: each is loaded and stored once."""
COLUMN_VECTORS = 16
"""Vectors of accumulators of a reduction across the fastest axis: half of the registers, and whole
lines of memory in every row."""


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
    runs = prod(_size(find_loop(s.program, x.var).node) for x in s.get_loops(ref))
    if (runs - least) * work(block) > REPEATED * least:
        raise ScheduleError(f"block {ref.name!r} would be computed again for its neighbours")


def _size(loop: Stmt) -> float:
    assert isinstance(loop, For)
    extent = loop.extent
    return float(extent.value) if isinstance(extent, Const) else SYMBOLIC_EXTENT


def _parallelise(s: Schedule, nest: For, target: Target) -> TensorsmithError | None:
    """Run the outer loop on threads if there is work for them; why not, if that is not legal."""
    total = sum(points(b) * work(b) for b in blocks_in(nest))
    if target.cores == 1 or total < PARALLEL_WORK:
        return None
    return attempt(s, lambda: s.parallel(s.get_loops(s.get_block(blocks_in(nest)[0].name))[0]))


def vectorise(s: Schedule, ref: BlockRef, target: Target) -> TensorsmithError | None:
    """Make the fastest axis of a block vectors; why not, if that is not legal."""
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    axis = fastest_axis(block)
    loop = None if axis is None else _loop_of(s, ref, axis)
    if loop is None:
        return None
    node = find_loop(s.program, loop.var).node
    assert isinstance(node, For)
    if node.kind is not LoopKind.SERIAL or len(blocks_in(node.body)) != 1:
        return None
    kind = next(it.kind for it in block.iters if it.var is axis)
    lanes = target.lanes(_element_bytes(block))
    if kind is IterKind.SPATIAL:
        return attempt(s, lambda: _vectorise_spatial(s, ref, loop, node, target))
    if kind is IterKind.REDUCE:
        return attempt(s, lambda: _vectorise_reduction(s, ref, loop, node, lanes))
    return None


def _element_bytes(block: Block) -> int:
    sizes = [x.buffer.dtype.bytes for x in statements(block.body) if isinstance(x, Store)]
    return max(min(sizes, default=4), 1)


def _loop_of(s: Schedule, ref: BlockRef, axis: Var) -> LoopRef | None:
    """The loop whose variable is the last part of the iterator's binding; None where `axis` is no
    iterator, but a loop inside of the block."""
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    used = set(free_vars(*(it.binding for it in block.iters if it.var is axis)))
    inner = [x for x in s.get_loops(ref) if x.var in used]
    return inner[-1] if inner else None


def _vectorise_spatial(
    s: Schedule, ref: BlockRef, loop: LoopRef, node: For, target: Target
) -> None:
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    lanes = target.lanes(_element_bytes(block))
    if is_reduction(block):
        _vectorise_columns(s, ref, loop, node, target)
        return
    axis = next(it.var for it in block.iters if loop.var in free_vars(it.binding))
    across = other_axis(block, axis)
    if across is not None and _transpose(s, ref, loop, across, lanes):
        return
    most = VECTORS if isinstance(node.extent, Const) else VECTORS_OF_UNKNOWN
    vectors = most if work(block) > INLINE_WORK else 1  # cheap ones wait for memory alone
    width = _width(node, lanes * vectors, lanes)
    if width < 2:
        return
    _move_inside(s, s.get_loops(ref), loop)
    s.vectorize(_inner(s, loop, node, width))


def _width(node: For, width: int, lanes: int) -> int:
    """Elements to compute at a time: `width`, less where the loop is short or would not divide."""
    if not isinstance(node.extent, Const):
        return width
    extent = int(node.extent.value)
    while width > lanes and (extent < width or extent % width):
        width //= 2
    return min(width, extent)


def _inner(s: Schedule, loop: LoopRef, node: For, width: int) -> LoopRef:
    """The inner part of `loop`, `width` iterations long."""
    if isinstance(node.extent, Const) and int(node.extent.value) == width:
        return loop
    return s.split(loop, [None, width])[1]


def _move_inside(s: Schedule, loops: list[LoopRef], loop: LoopRef) -> None:
    at = next(k for k, x in enumerate(loops) if x.var is loop.var)
    if at + 1 < len(loops):
        s.reorder(*loops[at + 1 :], loop)


def _transpose(s: Schedule, ref: BlockRef, loop: LoopRef, across: Var, lanes: int) -> bool:
    """Go through square tiles: each is read row by row into a small buffer, and written from it."""
    other = _loop_of(s, ref, across)
    loops = s.get_loops(ref)
    if other is None or other.var is loop.var or len(loops) < 2:
        return False
    nodes = [find_loop(s.program, x.var).node for x in (other, loop)]
    if any(not isinstance(n, For) or n.kind is not LoopKind.SERIAL for n in nodes):
        return False
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    source = next(
        e.buffer
        for x in statements(block.body)
        if isinstance(x, Store)
        for e in postorder(x.value)
        if isinstance(e, Load) and e.indices and e.indices[-1] is across
    )
    rows, r = s.split(other, [None, lanes])
    near, columns, c = s.split(loop, [None, NEAR_TILES, lanes])
    s.reorder(near, rows, columns, r, c)
    tile = s.cache_read(ref, source.name, "local")
    s.compute_at(tile, columns)
    *_, outer, inner = s.get_loops(tile)
    s.unroll(outer)
    s.vectorize(inner)
    s.unroll(r)
    s.vectorize(c)
    return True


def _vectorise_columns(
    s: Schedule, ref: BlockRef, loop: LoopRef, node: For, target: Target
) -> None:
    """A reduction across the fastest axis: a strip of results stays in registers, or, of a long
    axis, in the first-level cache, and several rows are reduced side by side."""
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    size = _element_bytes(block)
    lanes = target.lanes(size)
    if not any(_is_reduced(s, ref, x) for x in s.get_loops(ref)):
        raise ScheduleError(f"block {ref.name!r} has no loop to reduce over")
    copy = s.cache_write(ref, 0, "local")
    reduced = [x for x in s.get_loops(ref) if _is_reduced(s, ref, x)]
    extent = int(node.extent.value) if isinstance(node.extent, Const) else 0
    is_long = extent > lanes * COLUMN_VECTORS and len(reduced) == 1
    if is_long and _size(find_loop(s.program, reduced[0].var).node) <= SIDE_BY_SIDE:
        is_long = False
    if is_long:
        whole = -(-extent // lanes)
        parts = -(-whole // max(1, target.caches.l1 // 2 // (size * lanes)))
        outer, vector, lane = s.split(loop, [None, -(-whole // parts), lanes])
        steps, step = s.split(reduced[0], [None, SIDE_BY_SIDE])
        s.reorder(outer, steps, vector, step, lane)
        s.unroll(step)
        reduced = [steps]
    else:
        outer, lane = s.split(loop, [None, _width(node, lanes * COLUMN_VECTORS, lanes)])
        s.reorder(outer, *reduced, lane)
    s.reverse_compute_at(copy, outer)
    s.vectorize(lane)
    first = s.decompose_reduction(ref, reduced[0])
    s.vectorize(s.get_loops(first)[-1])
    last = s.get_loops(copy)[-1]
    s.vectorize(s.split(last, [None, lanes])[1] if is_long else last)


def _is_reduced(s: Schedule, ref: BlockRef, loop: LoopRef) -> bool:
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    return any(
        it.kind is IterKind.REDUCE and loop.var in free_vars(it.binding) for it in block.iters
    )


def _vectorise_reduction(s: Schedule, ref: BlockRef, loop: LoopRef, node: For, lanes: int) -> None:
    """A reduction along the fastest axis: one partial result a lane, combined at the end."""
    known = isinstance(node.extent, Const)
    width = lanes * (VECTORS if known else VECTORS_OF_UNKNOWN)
    if isinstance(node.extent, Const):
        while width > lanes and int(node.extent.value) % width:
            width //= 2
        if int(node.extent.value) < 2 * width:
            return
    _, inner = s.split(loop, [None, width])
    rank = _output_rank(s, ref)  # the lanes come last, so that they lie side by side
    _lanes_inside(s, s.rfactor(inner, rank))
    for fewer in (lanes, LAST_LANES):
        again = _loop_of_reduction(s, ref)
        if fewer < width and again is not None:
            _, lane = s.split(again, [None, fewer])
            _lanes_inside(s, s.rfactor(lane, rank))
            width = fewer


def _output_rank(s: Schedule, ref: BlockRef) -> int:
    block = find_block(s.program, ref.name).node
    return next(x.buffer.rank for x in statements(block) if isinstance(x, Store))


def _loop_of_reduction(s: Schedule, ref: BlockRef) -> LoopRef | None:
    loops = [x for x in s.get_loops(ref) if _is_reduced(s, ref, x)]
    return loops[-1] if loops else None


def _lanes_inside(s: Schedule, partial: BlockRef) -> None:
    """Keep the partial results of a factored reduction in the lanes of registers."""
    block = find_block(s.program, partial.name).node
    assert isinstance(block, Block)
    loops = s.get_loops(partial)
    reduced = [x for x in loops if _is_reduced(s, partial, x)]
    factored = [it.var for it in block.iters if it.kind is IterKind.SPATIAL][-1]
    lane = _loop_of(s, partial, factored)
    if lane is None or not reduced:
        return
    s.reorder(*reduced, lane)
    s.vectorize(lane)
    first = s.decompose_reduction(partial, reduced[0])
    s.vectorize(s.get_loops(first)[-1])
