"""The steps of a recurrence: the blocks inside of a block whose iterator runs in order.

What a step computes is short, and its operands are in cache from the step before. So its products
stream what they read, and whatever else it computes becomes vectors along the fastest axis.
A weight that is larger than a cache is read to and fro, so that each step finds there what the one
before read last; threads share the columns, and each keeps reading the same ones.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from math import prod

from tensorsmith.errors import TensorsmithError
from tensorsmith.ir import Block, Const, Expr, IndexMap, IterKind, Var, free_vars
from tensorsmith.schedule.defaults.analysis import Contraction
from tensorsmith.schedule.defaults.attempt import Fallback, attempt
from tensorsmith.schedule.defaults.canonical import block_of
from tensorsmith.schedule.defaults.contraction import is_streamed, product, schedule_contraction
from tensorsmith.schedule.defaults.direct_image import likely_extent, store_of
from tensorsmith.schedule.defaults.loops import known_extent
from tensorsmith.schedule.defaults.packed import PREFETCH_BYTES, schedule_packed
from tensorsmith.schedule.defaults.rows import vectorise
from tensorsmith.schedule.defaults.tiles import Tiles
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import blocks_in
from tensorsmith.target import Target

ROWS, VECTORS = 4, 4
"""Of the tile of a product: few rows, as most batches are small."""
SHARED_BYTES = 2**20
"""Bytes of a weight from which on a step's product runs on threads, and to and fro: the time that
reading them takes is many times that of a fork and join, and they fill much of a cache."""


def schedule_steps(s: Schedule, target: Target, fallbacks: list[Fallback]) -> None:
    """Schedule the blocks inside of the recurrences of a program.

    fallbacks: takes notes of what could not be vectors.
    """
    for block in blocks_in(s.program.body):
        if not any(it.kind is IterKind.OPAQUE for it in block.iters):
            continue
        for inner in blocks_in(block.body):
            error = _step(s, inner, target)
            if error is not None:
                fallbacks.append(Fallback("vectors", inner.name, error))


def _step(s: Schedule, given: Block, target: Target) -> TensorsmithError | None:
    """Schedule a block of a step; why not, where that is not legal."""
    ref = s.get_block(given.name)
    block = block_of(s, ref)
    what = product(block)
    if what is None:
        return vectorise(s, ref, target)
    alone = replace(target, cores=1)  # threads are taken below
    if is_streamed(block, what):
        action = functools.partial(_streamed, s, ref, what, alone)
    else:
        action = functools.partial(_tiled, s, ref, what, alone)
    if attempt(s, action) is not None:
        return vectorise(s, ref, target)
    weight = what.right.buffer
    if prod(likely_extent(e) for e in weight.shape) * weight.dtype.bytes >= SHARED_BYTES:
        return attempt(s, functools.partial(_share, s, ref, target))
    return None


def _streamed(s: Schedule, ref: BlockRef, what: Contraction, target: Target) -> None:
    """A product of a step of few sequences: the weight lies in the order in which it is read."""
    columns = likely_extent(block_of(s, ref).iters[what.n[0]].extent)
    schedule_contraction(s, ref, target)
    strips = known_extent(s, _strip(s, ref))
    if strips is None or strips < 2 or columns % strips:
        return
    width = columns // strips
    _in_strips(s, ref, what, width)
    ahead = PREFETCH_BYTES // (width * what.right.dtype.bytes)
    s.annotate(_summed(s, ref), "prefetch", max(1, ahead))


def _share(s: Schedule, ref: BlockRef, target: Target) -> None:
    """Run the strips of columns to and fro, and parts of them on threads."""
    strip = _strip(s, ref)
    extent = known_extent(s, strip)
    if extent is None or extent < 2:
        return
    loops = [strip]
    if target.cores > 1 and extent % target.cores == 0:
        loops = s.split(strip, [target.cores, None])
    for loop in loops:
        s.parallel(loop)
        s.annotate(loop, "to_and_fro", value=True)


def _strip(s: Schedule, ref: BlockRef) -> LoopRef:
    """The outermost loop over columns."""
    block = block_of(s, ref)
    used = _moving(block, set(free_vars(*store_of(block).indices[-1:])))
    return next(x for x in s.get_loops(ref) if x.var in used)


def _summed(s: Schedule, ref: BlockRef) -> LoopRef:
    """The innermost loop over what is summed."""
    block = block_of(s, ref)
    used = _moving(block, {it.var for it in block.iters if it.kind is IterKind.REDUCE})
    return [x for x in s.get_loops(ref) if x.var in used][-1]


def _moving(block: Block, iterators: set[Var]) -> set[Var]:
    """The variables of the loops that move some iterators."""
    return set(free_vars(*(it.binding for it in block.iters if it.var in iterators)))


def _tiled(s: Schedule, ref: BlockRef, what: Contraction, target: Target) -> None:
    """A product of a step of many sequences: the weight is laid out in strips before the first."""
    block = block_of(s, ref)
    columns = _columns(block.iters[what.n[-1]].extent, target.lanes(what.output.dtype.bytes))
    tiles = Tiles(ROWS, columns, 1, 0, pack_b=False)
    schedule_packed(s, ref, what, target, (), tiles=tiles)
    _in_strips(s, ref, what, columns)


def _in_strips(s: Schedule, ref: BlockRef, what: Contraction, columns: int) -> None:
    """Lay out a weight that the program makes in strips of columns, one after the other."""
    weight = what.right.buffer
    plain = weight.rank == 2 and weight not in s.program.buffers
    if plain and _divides(weight.shape[-1], columns):
        strips = IndexMap.of(lambda k, n: (n // columns, k, n % columns), 2)
        s.transform_layout(ref, weight.name, strips)


def _columns(extent: Expr, lanes: int) -> int:
    """Columns of a tile: as many vectors as leave no part of one over, so that the weight needs no
    padding in each step."""
    fitting = (v * lanes for v in range(VECTORS, 0, -1) if _divides(extent, v * lanes))
    return next(fitting, VECTORS * lanes)


def _divides(extent: Expr, by: int) -> bool:
    return isinstance(extent, Const) and int(extent.value) % by == 0
