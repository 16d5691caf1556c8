"""The steps of a recurrence: the blocks inside of a block whose iterator runs in order.

What a step computes is short, and its operands are in cache from the step before. So its products
stream what they read, and whatever else it computes becomes vectors along the fastest axis.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from tensorsmith.errors import TensorsmithError
from tensorsmith.ir import Block, Const, Expr, IndexMap, IterKind
from tensorsmith.schedule.defaults.analysis import Contraction
from tensorsmith.schedule.defaults.attempt import Fallback, attempt
from tensorsmith.schedule.defaults.canonical import block_of
from tensorsmith.schedule.defaults.contraction import is_streamed, product, schedule_contraction
from tensorsmith.schedule.defaults.packed import schedule_packed
from tensorsmith.schedule.defaults.rows import vectorise
from tensorsmith.schedule.defaults.tiles import Tiles
from tensorsmith.schedule.refs import BlockRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import blocks_in
from tensorsmith.target import Target

ROWS, VECTORS = 4, 4
"""Of the tile of a product: few rows, as most batches are small."""


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
    alone = replace(target, cores=1)  # a step is too short for threads
    if is_streamed(block, what):
        action = functools.partial(schedule_contraction, s, ref, alone)
    else:
        action = functools.partial(_tiled, s, ref, what, alone)
    return None if attempt(s, action) is None else vectorise(s, ref, target)


def _tiled(s: Schedule, ref: BlockRef, what: Contraction, target: Target) -> None:
    """A product of a step of many sequences: the weight is laid out in strips before the first."""
    block = block_of(s, ref)
    columns = _columns(block.iters[what.n[-1]].extent, target.lanes(what.output.dtype.bytes))
    tiles = Tiles(ROWS, columns, 1, 0, pack_b=False)
    schedule_packed(s, ref, what, target, (), tiles=tiles)
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
