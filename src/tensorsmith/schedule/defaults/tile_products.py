"""Matrix products of bytes in tile registers: a block of the result for each call of the unit.

The unit sums a block over all of k in its own registers, and stores it on the stack, where what
follows takes it from the first-level cache. Its left operand is read where it lies, wherever that
has whole tiles; the right one is packed in groups of four steps of k.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod
from typing import Final

from tensorsmith.ir import Block, Load, Store, free_vars, postorder
from tensorsmith.schedule.defaults.analysis import Contraction
from tensorsmith.schedule.defaults.canonical import Product, as_product, block_of
from tensorsmith.schedule.defaults.packed import (
    PARALLEL_FLOPS,
    Operand,
    divides,
    in_tiles,
    inside,
    is_constant,
    known,
    lies_along,
    make_operand,
    on_panels,
    pack,
    packing_places,
    tiled_loops,
    turn,
)
from tensorsmith.schedule.defaults.tiles import SYMBOLIC, Sizes, Tiles, even_part
from tensorsmith.schedule.defaults.users import has_producer, with_producers, with_users
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.target import Target

DEPTH: Final = 64
"""Steps of k in a tile."""
GROUP: Final = 4
"""Steps of k that lie side by side in the right operand."""
BLOCKS: Final = ((32, 32), (16, 64), (16, 48), (48, 16), (16, 32), (32, 16), (16, 16))
"""Rows and columns of the blocks that there are registers for, the best first: a product of two
tiles takes longer than one load, and less than two."""
PRODUCT_CYCLES, LOAD_CYCLES = 16.0, 10.0
"""Of tiles, in and from the first-level cache."""


def schedule_tile_product(
    s: Schedule,
    ref: BlockRef,
    what: Contraction,
    intrinsic: str,
    target: Target,
    free: Collection[str],
) -> None:
    """Schedule a contraction of bytes. Raises ScheduleError where a step is not legal.

    intrinsic: what computes a block. free: the blocks that may become part of it.
    """
    product = as_product(s, ref, what)
    extents = [known(it.extent) for it in block_of(s, ref).iters]
    batches = prod(extent or 1 for extent in extents[: product.batches])
    m, n, k = extents[product.batches :]
    sizes = Sizes(m, n, k, what.output.dtype.bytes, what.right.dtype.bytes)
    tiles = choose_block(sizes, target, batches)
    operands = _operands(s, product, tiles, free)
    result = with_users(s, product.result, product.axes, free)
    nest = tiled_loops(s, product, tiles, tiles.columns, 1)
    s.reverse_compute_at(result, nest.row)
    places = [
        None if operand is not None and operand.is_constant else place
        for operand, place in zip(operands, packing_places(nest, tiles), strict=True)
    ]
    for operand, place in zip(operands, places, strict=True):
        if operand is not None and place is not None:
            s.compute_at(operand.pack, place, preserve_unit_loops=True)
    s.tensorize(nest.k, intrinsic)
    _in_vectors(s, result, inside(s, result, nest.row), target)
    left, right = operands
    packing = []
    if left is not None:
        packing.append((_pack_rows(s, left, places[0], target), places[0]))
    if right is not None:
        packing.append((pack(s, right, places[1], target.lanes(sizes.bytes)), places[1]))
    if target.cores > 1 and sizes.flops * batches >= PARALLEL_FLOPS:
        even = batches % target.cores == 0 or batches >= 4 * target.cores
        on_panels(s, nest, packing, even, by_strips=bool(tiles.strip))


def choose_block(sizes: Sizes, target: Target, batches: int = 1) -> Tiles:
    """The block, and how many are computed for a part of the operands at a time.

    As long as all of B leaves room in the second-level cache, some rows of A stay in the first one
    and meet all columns, so that the result is stored row by row. Else some columns of B stay
    there, and meet as many rows as the second-level cache has room for. Where there are too few
    parts of rows for the threads, each gets strips of columns.
    """
    m, n, depth = sizes.m or SYMBOLIC, sizes.n or SYMBOLIC, sizes.k or SYMBOLIC
    rows, columns = min(BLOCKS, key=lambda block: _cycles(block, m, n))
    chunks = 2 * target.cores if target.cores > 1 and batches < 2 * target.cores else 1
    is_near = n * depth <= target.caches.l2 // 2 or sizes.m is None
    most = 1 if is_near else max(1, target.caches.l2 // 2 // (rows * depth))
    is_tall = sizes.m is None or m >= rows * most * chunks
    strip = even_part(sizes.n, columns, -(-n // columns), 1 if is_tall else chunks)
    panel = 1 if is_near else even_part(m, rows, most, chunks if is_tall else 1)
    return Tiles(rows, columns, panel, strip)


def _cycles(block: tuple[int, int], m: int, n: int) -> float:
    """What each step of k costs in all blocks of a result."""
    rows, columns = block
    down, across = rows // 16, columns // 16
    one = max(PRODUCT_CYCLES * down * across, LOAD_CYCLES * (down + across))
    return -(-m // rows) * -(-n // columns) * one


def _operands(
    s: Schedule, product: Product, tiles: Tiles, free: Collection[str]
) -> tuple[Operand | None, Operand | None]:
    """How A and B get to the unit, padded to whole tiles; None for an A that is read where it
    lies."""
    at = product.batches
    is_turned = lies_along(block_of(s, product.right), at)
    if is_turned:
        turn(s, product)
    block = block_of(s, product.block)
    padding = [1] * len(block.iters)
    steps = (tiles.rows * max(tiles.panel, 1), tiles.columns * max(tiles.strip, 1), DEPTH)
    padding[at:] = steps
    pads: dict[str, BlockRef] = {}
    if not all(divides(it.extent, by) for it, by in zip(block.iters, padding, strict=True)):
        made, backs = s.pad_einsum(product.block, padding)
        pads = {p.name: p for p in (*made, *backs)}
    left_pad = pads.get(f"{product.a}_pad")
    left = None
    if left_pad is not None or is_constant(s, product.left) or has_producer(s, product.left, free):
        side = (product.left, product.a, left_pad)
        left = make_operand(s, product, side, by_tiles=False, size=tiles.rows)
        with_producers(s, left.copy, free)
        left = replace(left, is_constant=is_constant(s, left.copy))
    else:
        s.compute_inline(product.left)
    side = (product.right, product.b, pads.get(f"{product.b}_pad"))
    right = make_operand(s, product, side, by_tiles=not is_turned, size=tiles.columns)
    with_producers(s, right.copy, free)
    right = replace(right, is_constant=is_constant(s, right.copy), width=GROUP)
    back = pads.get(f"{product.c}_unpad")
    if back is not None:
        s.compute_inline(back)
    s.set_scope(product.block, 0, "local")
    body = block_of(s, right.pack).body
    assert isinstance(body, Store)
    in_tiles(s, product, (tiles, GROUP), {body.buffer})
    return left, right


def _pack_rows(s: Schedule, operand: Operand, place: LoopRef | None, target: Target) -> LoopRef:
    """Copy rows of A one after the other; gives the outermost loop."""
    loops = s.get_loops(operand.pack) if place is None else inside(s, operand.pack, place)
    _in_vectors(s, operand.pack, loops[-1:], target)
    return loops[0]


def _in_vectors(s: Schedule, ref: BlockRef, loops: list[LoopRef], target: Target) -> None:
    """Run the loop along which a block stores in vectors of what it computes with, innermost."""
    block = block_of(s, ref)
    assert isinstance(block.body, Store)
    last = set(free_vars(*block.body.indices[-1:]))
    bindings = [it.binding for it in block.iters if it.var in last]
    along = [x for x in loops if x.var in free_vars(*bindings)]
    if not along:
        return
    if along[-1] is not loops[-1]:
        s.reorder(*[x for x in loops if x is not along[-1]], along[-1])
    _, vector = s.split(along[-1], [None, target.lanes(_widest(block))])
    s.vectorize(vector)


def _widest(block: Block) -> int:
    """Bytes of the widest elements that a block loads or stores."""
    assert isinstance(block.body, Store)
    loads = [e.dtype.bytes for e in postorder(block.body.value) if isinstance(e, Load)]
    return max(block.body.buffer.dtype.bytes, *loads, 1)
