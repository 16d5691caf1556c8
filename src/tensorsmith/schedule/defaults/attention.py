"""Two products with rows between them, as in attention: one pass over tiles of rows.

A tile of rows of the first result is computed, then all that is done with it row by row, then the
second product's rows, before the next tile: the whole of the matrix between is never there. What
the products read for all rows is laid out once a batch. Sources: Rabe and Staats, Self-attention
does not need O(n^2) memory, 2021; Dao et al., FlashAttention, 2022.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import prod

from tensorsmith.ir import (
    Block,
    Buffer,
    Const,
    Expr,
    IndexMap,
    IterKind,
    Load,
    Store,
    Var,
    postorder,
)
from tensorsmith.schedule.defaults.analysis import (
    SYMBOLIC_EXTENT,
    Contraction,
    contraction,
    is_reduction,
    work,
)
from tensorsmith.schedule.defaults.attempt import attempt
from tensorsmith.schedule.defaults.canonical import Product, as_product, block_of
from tensorsmith.schedule.defaults.packed import (
    PARALLEL_FLOPS,
    Operand,
    in_tiles,
    lies_along,
    make_operand,
    pack,
    run_in_vectors,
)
from tensorsmith.schedule.defaults.tiles import Tiles
from tensorsmith.schedule.defaults.users import with_users
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import blocks_in
from tensorsmith.target import Target

ROWS, ROWS_OF_FEW_REGISTERS = 8, 6
"""Rows of a tile, with 32 vector registers and with fewer."""
VECTORS = 2
"""Vectors of columns of a tile in registers."""
INLINE_WORK = 4.0
"""What a point of a row may cost to be computed again where it is used, not stored."""
LAST_LANES = 4
"""Partial results of a row that are combined one by one."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Two contractions, and what is computed row by row from the first's result for the second.

    first, second: names of blocks.
    before, after: what the contractions are, with one iterator of rows each.
    """

    first: str
    second: str
    before: Contraction
    after: Contraction


def chain_of(s: Schedule, name: str) -> Chain | None:
    """The chain that ends in block `name`, if there is one: a row of what the block reads is
    reduced, and takes what it is made of from the same row of another contraction."""
    ref = s.get_block(name)
    after = contraction(block_of(s, ref))
    if after is None or not after.m or not after.n or len(after.k) != 1:
        return None
    above = _above(s, [p for p in s.get_producers(ref) if _writes(s, p, after.left.buffer)])
    order = [b for b in blocks_in(s.program.body) if b.name in above]
    found = [(b, what) for b in order if (what := contraction(b)) is not None]
    if len(found) != 1 or not any(map(is_reduction, order[1:])):
        return None
    ((first, before),) = found
    if first is not order[0] or not before.m or len(before.n) != 1 or len(before.k) != 1:
        return None
    before, after = _by_row(before), _by_row(after)
    if _extent(first.iters[before.m[0]].extent) < 2:
        return None
    chain = Chain(first.name, name, before, after)
    return chain if _keeps_rows(first, order[1:], block_of(s, ref), chain) else None


def _by_row(what: Contraction) -> Contraction:
    """The same with one iterator of rows; others are batches that move one operand alone."""
    return replace(what, m=what.m[-1:], batch=(*what.batch, *what.m[:-1]))


def _above(s: Schedule, pending: list[BlockRef]) -> set[str]:
    """The names of these blocks, and of all that make what they read."""
    found: set[str] = set()
    while pending:
        ref = pending.pop()
        if ref.name not in found:
            found.add(ref.name)
            pending.extend(s.get_producers(ref))
    return found


def _writes(s: Schedule, ref: BlockRef, buffer: Buffer) -> bool:
    body = block_of(s, ref).body
    return isinstance(body, Store) and body.buffer is buffer


def _keeps_rows(first: Block, between: Sequence[Block], second: Block, chain: Chain) -> bool:
    """Whether each block computes a row from the same row of what it reads of the chain."""
    outer = [first.iters[at].var for at in (*chain.before.batch, *chain.before.m)]
    places = _places(first, outer)
    if places is None:
        return False
    rows = {chain.before.output: places}
    for block in between:
        if not isinstance(block.body, Store):
            return False
        own = _rows_read(block, rows)
        made = None if own is None else _places(block, own)
        if made is None or len(block.iters) > len(made) + 1:
            return False
        rows[block.body.buffer] = made
    own = _rows_read(second, rows)
    return own is not None and {*own} == {
        second.iters[at].var for at in (*chain.after.batch, *chain.after.m)
    }


def _places(block: Block, own: Sequence[Expr]) -> tuple[int, ...] | None:
    """The axes of what a block stores that these of its iterators move along alone."""
    assert isinstance(block.body, Store)
    spatial = {it.var for it in block.iters if it.kind is IterKind.SPATIAL}
    place: dict[Expr, int] = {e: d for d, e in enumerate(block.body.indices)}
    found = [place.get(v, -1) if v in spatial else -1 for v in own]
    return None if -1 in found else tuple(found)


def _rows_read(block: Block, rows: dict[Buffer, tuple[int, ...]]) -> tuple[Expr, ...] | None:
    """The iterators that tell which row of buffers of rows a block reads, if it is one alone."""
    assert isinstance(block.body, Store)
    found = {
        tuple(e.indices[d] for d in rows[e.buffer])
        for e in postorder(block.body.value)
        if isinstance(e, Load) and e.buffer in rows
    }
    return found.pop() if len(found) == 1 else None


# --- The schedule ----------------------------------------------------------------------------


def schedule_chain(
    s: Schedule,
    chain: Chain,
    target: Target,
    free: Collection[str],
    *,
    one_row: bool = False,
) -> None:
    """Schedule a chain, with what uses its result element by element. Raises ScheduleError where a
    step is not legal.

    free: the blocks that may become part of it. one_row: whether rows are computed one by one.
    """
    lanes = target.lanes(chain.before.output.dtype.bytes)
    rows = ROWS if target.vector_registers >= 32 else ROWS_OF_FEW_REGISTERS
    rows = 1 if one_row else rows
    flops = _flops(s, chain)
    last, second = _finished(s, chain, free)
    first = _padded(s, chain, rows, VECTORS * lanes)
    middle = _middle(s, last, first.made, chain.second)
    batches, row, column = _tiled(s, _loops(s, last, second), rows, _columns(s, second, lanes))
    place = batches[-1] if batches else None
    s.set_scope(second.block, 0, "local")
    s.compute_at(second.block, column, preserve_unit_loops=True)
    for ref in (*middle, first.made):
        s.compute_at(ref, row, preserve_unit_loops=True)
    tile = _over_tiles(s, first.made, VECTORS * lanes)
    s.compute_at(first.block, tile, preserve_unit_loops=True)
    s.compute_at(first.left, row, preserve_unit_loops=True)
    for ref in (first.right.pack, second.right):
        if place is not None:
            s.compute_at(ref, place, preserve_unit_loops=True)
    for ref in (first.block, second.block):
        _tile(s, ref, lanes)
    for ref in (first.made, last):
        _store_tile(s, ref, lanes)
    for ref in middle:
        _along_rows(s, ref, lanes)
    pack(s, first.right, place, lanes)
    for ref in (first.left, second.right):
        run_in_vectors(s, s.get_loops(ref)[-1], lanes)
    if target.cores > 1 and flops >= PARALLEL_FLOPS:
        _parallel(s, batches, row)


def _tiled(
    s: Schedule, loops: Sequence[LoopRef], rows: int, columns: int
) -> tuple[list[LoopRef], LoopRef, LoopRef]:
    """The loops of batches, of tiles of rows, and of tiles of columns in these."""
    *batches, m, n = loops
    s.reorder(*loops)
    row, i = s.split(m, [None, rows])
    column, lane = s.split(n, [None, columns])
    s.reorder(row, column, i, lane)
    return batches, row, column


def _flops(s: Schedule, chain: Chain) -> float:
    blocks = (block_of(s, s.get_block(name)) for name in (chain.first, chain.second))
    return sum(2.0 * prod(_extent(it.extent) for it in b.iters) for b in blocks)


def _extent(extent: Expr) -> float:
    return float(extent.value) if isinstance(extent, Const) else SYMBOLIC_EXTENT


def _finished(s: Schedule, chain: Chain, free: Collection[str]) -> tuple[BlockRef, Product]:
    """The second product, which reads rows where they are made, and the last of the blocks that do
    something with each element of its result."""
    product = as_product(s, s.get_block(chain.second), chain.after)
    s.compute_inline(product.left)
    return with_users(s, product.result, product.axes, free), product


@dataclass(frozen=True, slots=True)
class _First:
    """The first product. block: computes it in registers; made: stores it; left, right: lay out
    what it reads."""

    block: BlockRef
    made: BlockRef
    left: BlockRef
    right: Operand


def _padded(s: Schedule, chain: Chain, rows: int, columns: int) -> _First:
    """The first product on whole tiles: what its result is padded with is never read."""
    product = as_product(s, s.get_block(chain.first), chain.before)
    s.compute_inline(product.result)
    at = product.batches
    turned = lies_along(block_of(s, product.right), at)
    if turned:
        *outer, m, n = inputs = tuple(Var(f"i{d}") for d in range(at + 2))
        s.transform_layout(product.block, product.b, IndexMap(inputs, (*outer, n, m)))
    pads, backs = s.pad_einsum(product.block, [*[1] * at, rows, columns, 1])
    made = {p.name: p for p in (*pads, *backs)}
    side = product.right, product.b, made.get(f"{product.b}_pad")
    right = make_operand(s, product, side, turned, columns)
    left = product.left
    if f"{product.a}_pad" in made:
        s.compute_inline(left)
        left = made[f"{product.a}_pad"]
    if f"{product.c}_unpad" in made:
        s.compute_inline(made[f"{product.c}_unpad"])
    in_tiles(s, product, (Tiles(rows, columns, 1, 1), 1), {_stored(s, right.pack)})
    store = s.cache_write(product.block, 0, "local")
    made_in = _stored(s, store)
    *outer, m, n = inputs = tuple(Var(f"i{d}") for d in range(made_in.rank))
    tiles = IndexMap(inputs, (*outer, m, n // columns, n % columns))
    s.transform_layout(store, made_in.name, tiles)
    return _First(product.block, store, left, right)


def _over_tiles(s: Schedule, made: BlockRef, columns: int) -> LoopRef:
    """The loop over tiles of columns of the first product, with rows inside."""
    *_, i, tile, lane = s.get_loops(made)
    block = block_of(s, made)
    assert isinstance(block.body, Store)
    if not isinstance(block.body.indices[-1], Var):
        i = tile
        tile, lane = s.split(lane, [None, columns])
    s.reorder(tile, i, lane)
    return tile


def _stored(s: Schedule, ref: BlockRef) -> Buffer:
    body = block_of(s, ref).body
    if not isinstance(body, Store):
        raise ScheduleError(f"block {ref.name!r} is more than one store")
    return body.buffer


def _middle(s: Schedule, last: BlockRef, first: BlockRef, second: str) -> list[BlockRef]:
    """What is computed of the first product for the last block row by row, the last first; what is
    cheap becomes part of what uses it."""
    names = (_above(s, s.get_producers(last)) & _below(s, first)) - {second}
    kept = []
    for name in [b.name for b in blocks_in(s.program.body) if b.name in names]:
        ref = s.get_block(name)
        block = block_of(s, ref)
        is_cheap = not is_reduction(block) and work(block) <= INLINE_WORK
        if not is_cheap or attempt(s, functools.partial(s.compute_inline, ref)):
            kept.append(ref)
    return kept[::-1]


def _below(s: Schedule, ref: BlockRef) -> set[str]:
    """The names of all blocks that read, over others or not, what a block makes."""
    found: set[str] = set()
    pending = s.get_consumers(ref)
    while pending:
        user = pending.pop()
        if user.name not in found:
            found.add(user.name)
            pending.extend(s.get_consumers(user))
    return found


def _loops(s: Schedule, last: BlockRef, second: Product) -> list[LoopRef]:
    """The loops of the last block, in the order of the axes of the second product."""
    block = block_of(s, last)
    assert isinstance(block.body, Store)
    number: dict[Expr, int] = {it.var: d for d, it in enumerate(block.iters)}
    (indices,) = {
        e.indices
        for e in postorder(block.body.value)
        if isinstance(e, Load) and e.buffer.name == second.c
    }
    places = [number[e] for e in indices if e in number]
    loops = s.get_loops(last)
    rest = [at for at in range(len(block.iters)) if at not in places]
    if len(loops) != len(block.iters) or any(_extent(block.iters[at].extent) != 1 for at in rest):
        raise ScheduleError(f"block {last.name!r} does not run over the elements of {second.c!r}")
    return [loops[at] for at in (*rest, *places)]


def _columns(s: Schedule, second: Product, lanes: int) -> int:
    """Columns of a tile of the second product: so many vectors that none of one is left over."""
    extent = block_of(s, second.block).iters[second.batches + 1].extent
    whole = -(-int(extent.value) // lanes) if isinstance(extent, Const) else VECTORS
    return lanes * (VECTORS if whole % VECTORS == 0 else 1)


def _tile(s: Schedule, ref: BlockRef, lanes: int) -> None:
    """A tile of a product in registers."""
    *_, i, columns, k = s.get_loops(ref)
    vector, lane = s.split(columns, [None, lanes])
    s.reorder(k, i, vector, lane)
    start = s.decompose_reduction(ref, k)
    for loops in (s.get_loops(start), s.get_loops(ref)):
        s.unroll(loops[-3])
        s.unroll(loops[-2])
        s.vectorize(loops[-1])


def _store_tile(s: Schedule, ref: BlockRef, lanes: int) -> None:
    *_, i, columns = s.get_loops(ref)
    s.unroll(i)
    run_in_vectors(s, columns, lanes)


def _along_rows(s: Schedule, ref: BlockRef, lanes: int) -> None:
    """What is done row by row, in vectors along the rows."""
    block = block_of(s, ref)
    if is_reduction(block):
        _reduce_rows(s, ref, lanes)
        return
    loops = s.get_loops(ref)
    if len(block.iters) > 1:
        s.vectorize(s.split(loops[-1], [None, lanes])[1])


def _reduce_rows(s: Schedule, ref: BlockRef, lanes: int) -> None:
    """A result for each row: one partial result a lane, in registers, combined at the end."""
    rank = _stored(s, ref).rank
    keys = next(it.extent for it in block_of(s, ref).iters if it.kind is IterKind.REDUCE)
    length = int(keys.value) if isinstance(keys, Const) else 2 * lanes
    for width in (lanes, LAST_LANES):
        if length < 2 * width:
            continue
        step, lane = s.split(s.get_loops(ref)[-1], [None, width])
        part = s.rfactor(lane, rank)
        length = width
        s.set_scope(part, 0, "local")
        *_, a, b = s.get_loops(part)
        step, lane = (a, b) if a.var is step.var else (b, a)
        s.reorder(step, lane)
        start = s.decompose_reduction(part, step)
        s.vectorize(lane)
        s.vectorize(s.get_loops(start)[-1])
    if length <= lanes:
        s.unroll(s.get_loops(ref)[-1])


def _parallel(s: Schedule, batches: Sequence[LoopRef], row: LoopRef) -> None:
    """Run batches on threads, or tiles of rows where there are none."""
    if not batches:
        s.parallel(row)
        return
    s.parallel(s.fuse(*batches) if len(batches) > 1 else batches[0])
