"""Matrix products, packed: tiled for registers and caches, on threads, with what follows them.

The tile of the result that one inner loop computes stays in registers: some rows of a few vectors
of columns. Both operands are packed so that this loop reads them in the order in which they lie.
What computes an operand element by element is done while it is packed; what is done with the result
element by element is done with the tile while it is in registers. Source: Goto and van de Geijn,
Anatomy of high-performance matrix multiplication, 2008; Van Zee and van de Geijn, BLIS, 2015.
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
    For,
    IndexMap,
    Load,
    Store,
    Var,
    free_vars,
    postorder,
)
from tensorsmith.schedule.defaults.analysis import Contraction
from tensorsmith.schedule.defaults.attempt import attempt
from tensorsmith.schedule.defaults.canonical import (
    Product,
    as_product,
    block_of,
)
from tensorsmith.schedule.defaults.constants import CONSTANTS, constants_of
from tensorsmith.schedule.defaults.decoded import Decoded, lay_out
from tensorsmith.schedule.defaults.dots import Dot, dot_for
from tensorsmith.schedule.defaults.tiles import Sizes, Tiles, choose_tiles, is_far
from tensorsmith.schedule.defaults.users import has_producer, with_producers, with_users
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import find_loop
from tensorsmith.target import Target

PACK_DEPTH = 16
"""Steps of `k` that are packed for all tiles before the next ones, so that few pages are in use."""
PARALLEL_FLOPS = 2_000_000.0
"""Operations below which threads do not pay."""
PARALLEL_FLOPS_OF_FEW_ROWS = 250_000.0
"""The same where each element of B is read for a few operations alone, and takes the time."""
PREFETCH_BYTES = 8192
"""How far ahead of its use a packed operand is fetched, in all streams together: the time that the
cache behind the second level takes to answer, and what hardware does not fetch for itself while it
waits for few rows."""


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops of a product, outermost first; a part that is not tiled has no loop."""

    batch: LoopRef | None
    strip: LoopRef | None
    depth: LoopRef | None
    panel: LoopRef | None
    column: LoopRef
    row: LoopRef
    k: LoopRef
    i: LoopRef
    vector: LoopRef
    lane: LoopRef

    @property
    def complete(self) -> LoopRef | None:
        """The loop in which a part of the result is complete; None if none is before all is."""
        return self.row if self.depth is None else self.strip or self.batch


@dataclass(frozen=True, slots=True)
class Operand:
    """How an operand gets to where the inner loop reads it.

    copy: the block that reads it from where it lies; pack: the one that lays it out in tiles.
    by_tiles: whether it goes through small tiles, to be transposed or interleaved on the way.
    is_constant: whether it is the same in every call (see `CONSTANTS`), so that packing it may be
        done once and for all: it is packed before everything else.
    """

    copy: BlockRef
    pack: BlockRef
    by_tiles: bool
    size: int
    width: int = 1
    is_constant: bool = False


def schedule_packed(
    s: Schedule,
    ref: BlockRef,
    what: Contraction,
    target: Target,
    free: Collection[str],
    *,
    tiles: Tiles | None = None,
    one_row: bool = False,
    few_rows: bool = False,
    decoded: Decoded | None = None,
) -> None:
    """Schedule a contraction. Raises ScheduleError where a step is not legal.

    free: the blocks that may become part of it. tiles: those to take, where they are known.
    one_row: whether rows are computed one by one, for results of very few.
    few_rows: whether a tile holds all rows, whose number is known, and more columns instead.
    decoded: how B is computed from fewer bits, which happens as it is packed.
    """
    if decoded is not None:
        lay_out(s, decoded)
    dot = dot_for(block_of(s, ref), what, target)
    product = as_product(s, ref, what)
    extents = [known(it.extent) for it in block_of(s, ref).iters]
    batches = prod(extent or 1 for extent in extents[: product.batches])
    m, n, k = extents[product.batches :]
    sizes = Sizes(m, n, k, what.output.dtype.bytes, what.right.dtype.bytes)
    if tiles is None:
        varies = not (few_rows or one_row or decoded or is_constant(s, product.right))
        tiles = _chosen(sizes, target, batches, in_blocks=varies)
    if m is None and decoded is None and what.right.buffer.name in constants_of(s):
        tiles = tiles.in_streams(n)
    if few_rows and m is not None:
        tiles = tiles.flat(m, n, target)
    elif one_row:
        tiles = tiles.of_few_rows(1, n, target)
    elif decoded is not None:
        tiles = tiles.in_strips(sizes, target)
        s.compute_inline(decoded.block)
    width = 1 if dot is None else dot.width
    operands = _operands(s, product, tiles, free, width)
    result = with_users(s, product.result, product.axes, free)
    nest = tiled_loops(s, product, tiles, target.lanes(sizes.bytes), width)
    if nest.complete is not None:
        s.reverse_compute_at(result, nest.complete)
    in_strips = m is None and decoded is None and nest.strip is not None and nest.depth is None
    places = _place_packs(s, operands, packing_places(nest, tiles, a_once=in_strips))
    _in_registers(s, product.block, nest, dot)
    lanes = target.lanes(sizes.bytes)
    _finish(s, result, nest, lanes)
    if operands[1] is not None:
        step = tiles.columns * tiles.across * width * what.right.dtype.bytes
        s.annotate(nest.k, "prefetch", max(1, PREFETCH_BYTES // step))
    packing = [
        None if operand is None else pack(s, operand, place, lanes)
        for operand, place in zip(operands, places, strict=True)
    ]
    if target.cores > 1 and sizes.flops * batches >= PARALLEL_FLOPS:
        shared = [(a, b) for a, b in zip(packing, places, strict=True) if a is not None]
        even = batches % target.cores == 0 or batches >= 4 * target.cores
        if one_row or few_rows:  # what is constant is packed as for many rows
            worth = replace(sizes, m=m or 1).flops >= PARALLEL_FLOPS_OF_FEW_ROWS
            _parallel_columns(s, nest, shared, worth=worth)
        else:
            made = decoded is not None and tiles.has_even_strips(n, target)
            by_strips = in_strips or made
            on_panels(s, nest, shared, even, by_strips=by_strips)


def _chosen(sizes: Sizes, target: Target, batches: int, *, in_blocks: bool) -> Tiles:
    """The tiles for products side by side. in_blocks: whether B may be packed in blocks."""
    tiles = choose_tiles(sizes, target, batches)
    if in_blocks and is_far(sizes, tiles, target):
        return tiles.in_blocks(sizes, target, target.cores if batches == 1 else 1)
    return tiles


def known(extent: Expr) -> int | None:
    """An extent, if it is a number."""
    return int(extent.value) if isinstance(extent, Const) else None


# --- Operands and result ---------------------------------------------------------------------


def _operands(
    s: Schedule, product: Product, tiles: Tiles, free: Collection[str], width: int
) -> list[Operand | None]:
    """How A and B get to the inner loop, padded to whole tiles; None for one that is read where it
    lies. The result is summed in a tile, too. width: steps of `k` that one instruction takes."""
    block = block_of(s, product.block)
    at = product.batches
    steps = (tiles.rows * max(tiles.panel, 1), tiles.columns * max(tiles.strip, 1))
    padding = [1] * len(block.iters)
    padding[at : at + 3] = (*steps, width)
    sides = (
        (product.left, product.a, tiles.rows, at + 1),
        (product.right, product.b, tiles.columns, at),
    )
    turned = [lies_along(block_of(s, copy), depth) for copy, _, _, depth in sides]
    if turned[1]:
        turn(s, product)
    made: dict[str, BlockRef] = {}
    if not all(divides(block.iters[d].extent, padding[d]) for d in (at, at + 1, at + 2)):
        pads, backs = s.pad_einsum(product.block, padding)
        made = {p.name: p for p in (*pads, *backs)}
    found: list[Operand | None] = []
    lies_well = lies_along(block_of(s, product.right), at + 1)
    must_pack = (
        tiles.pack_a or (width > 1 and not turned[0]),
        tiles.pack_b or width > 1 or not lies_well or turned[1],
    )
    for (copy, name, size, _), is_turned, is_packed in zip(sides, turned, must_pack, strict=True):
        pad = made.get(f"{name}_pad")
        is_kept = is_constant(s, copy)
        free_to_stay = pad is None and not is_kept and not has_producer(s, copy, free)
        if free_to_stay and not is_packed:
            s.compute_inline(copy)
            found.append(None)
            continue
        by_tiles = is_turned if width == 1 else not is_turned
        operand = make_operand(s, product, (copy, name, pad), by_tiles, size)
        with_producers(s, operand.copy, free)
        is_kept = is_kept or is_constant(s, operand.copy)
        found.append(replace(operand, is_constant=is_kept, width=width))
    back = made.get(f"{product.c}_unpad")
    if back is not None:
        s.compute_inline(back)
    s.set_scope(product.block, 0, "global" if tiles.depth else "local")
    packs = [block_of(s, x.pack).body for x in found if x is not None]
    in_tiles(s, product, (tiles, width), {x.buffer for x in packs if isinstance(x, Store)})
    return found


def turn(s: Schedule, product: Product) -> None:
    """Lay out the copy of B as B lies: along k."""
    inputs = tuple(Var(f"i{d}") for d in range(product.batches + 2))
    *batches, k, n = inputs
    s.transform_layout(product.block, product.b, IndexMap(inputs, (*batches, n, k)))


def make_operand(
    s: Schedule,
    product: Product,
    side: tuple[BlockRef, str, BlockRef | None],
    by_tiles: bool,
    size: int,
) -> Operand:
    """The blocks of one operand. side: the copy of it, its buffer, the block that pads it, if any.
    size: elements of a tile."""
    copy, name, pack = side
    if not by_tiles:
        if pack is not None:
            s.compute_inline(copy)
        return Operand(pack or copy, pack or copy, by_tiles, size)
    if pack is None:
        pack = s.cache_read(product.block, name, "global")
    s.set_scope(copy, 0, "local")
    return Operand(copy, pack, by_tiles, size)


def is_constant(s: Schedule, copy: BlockRef) -> bool:
    """Whether a block copies what is the same in every call."""
    named = s.program.attrs.get(CONSTANTS, ())
    block = block_of(s, copy)
    assert isinstance(block.body, Store)
    read = [e.buffer for e in postorder(block.body.value) if isinstance(e, Load)]
    return isinstance(named, tuple) and all(
        b.name in named and b in s.program.buffers for b in read
    )


def divides(extent: Expr, by: int) -> bool:
    """Whether an extent is known to be a multiple of a number."""
    return by == 1 or (isinstance(extent, Const) and int(extent.value) % by == 0)


def lies_along(copy: Block, at: int) -> bool:
    """Whether what a block copies lies along its iterator number `at` alone."""
    assert isinstance(copy.body, Store)
    loads = [e for e in postorder(copy.body.value) if isinstance(e, Load) and e.indices]
    own = [it.var for it in copy.iters]
    return bool(loads) and all(
        {v for v in free_vars(e.indices[-1]) if v in own} == {own[at]} for e in loads
    )


def in_tiles(
    s: Schedule, product: Product, sizes: tuple[Tiles, int], packed: Collection[Buffer]
) -> None:
    """Lay out the packed operands so that the inner loop reads them in order: (batch.., tile, k,
    element), and the steps of `k` that one instruction takes last."""
    tiles, width = sizes
    block = block_of(s, product.block)
    assert isinstance(block.body, Store)
    at = product.batches
    m, n, k = (it.var for it in block.iters[at:])
    for load in (e for e in postorder(block.body.value) if isinstance(e, Load)):
        if load.buffer not in packed:
            continue
        outer, size, streams = n, tiles.columns, tiles.streams
        if m in load.indices:
            outer, size, streams = m, tiles.rows, 1
        index_map = _tiled(load.indices, outer, k, (size, width, streams))
        s.transform_layout(product.block, load.buffer.name, index_map)


def _tiled(indices: tuple[Expr, ...], var: Var, k: Var, sizes: tuple[int, int, int]) -> IndexMap:
    """From where the subscripts of an operand say to (others, var // size, k, var % size), and
    groups of `k` last. sizes: of tiles, of groups, and in how many streams tiles are read, which
    then lie one after the other."""
    size, width, streams = sizes
    inputs = tuple(Var(f"i{d}") for d in range(len(indices)))
    if var not in indices or k not in indices:
        raise ScheduleError("an operand has no rows and columns")
    at, depth = indices.index(var), indices.index(k)
    others = [x for d, x in enumerate(inputs) if d not in (at, depth)]
    tile, element, step = inputs[at] // size, inputs[at] % size, inputs[depth]
    tiles = (tile,) if streams == 1 else (tile % streams, tile // streams)
    if width == 1:
        return IndexMap(inputs, (*others, *tiles, step, element))
    return IndexMap(inputs, (*others, *tiles, step // width, element, step % width))


# --- Loops -----------------------------------------------------------------------------------


def tiled_loops(s: Schedule, product: Product, tiles: Tiles, lanes: int, width: int) -> Nest:
    """Tile the loops of the product. width: steps of `k` that one instruction takes."""
    *batches, m, n, k = s.get_loops(product.block)
    strip = panel = None
    parts = [tiles.columns * tiles.across // lanes, lanes]
    if tiles.takes_strips:
        strip, column, vector, lane = s.split(n, [None, tiles.strip // tiles.across, *parts])
    else:
        column, vector, lane = s.split(n, [None, *parts])
    if tiles.panel > 1:
        panel, row, i = s.split(m, [None, tiles.panel, tiles.rows])
        order = (column, row)
    else:
        row, i = s.split(m, [None, tiles.rows])
        order = (row, column) if tiles.panel else (column, row)
    inner, depth = [lane], None
    if tiles.depth:
        depth, k = s.split(k, [None, tiles.depth])
    if width > 1:
        k, steps = s.split(k, [None, width])
        inner = [lane, steps]
    outer = [x for x in (strip, depth, panel) if x is not None]
    s.reorder(*batches, *outer, *order, k, i, vector, *inner)
    batch = s.fuse(*batches) if len(batches) > 1 else (batches[0] if batches else None)
    if tiles.panel == 1:
        return Nest(batch, strip, depth, row, column, column, k, i, vector, lane)
    return Nest(batch, strip, depth, panel, column, row, k, i, vector, lane)


def packing_places(
    nest: Nest, tiles: Tiles, *, a_once: bool = False
) -> tuple[LoopRef | None, LoopRef | None]:
    """The loops in which A and B are packed; None: before all. a_once: whether A, of which the call
    alone tells how many rows there are, is packed once and not for each strip of B."""
    outer = nest.depth or nest.batch
    of_a = nest.panel if tiles.panel and not a_once else outer
    return (of_a, nest.depth or nest.strip or nest.batch)


def _place_packs(
    s: Schedule, operands: Sequence[Operand | None], places: Sequence[LoopRef | None]
) -> list[LoopRef | None]:
    """Pack operands in these loops, what is constant before all; where they are packed."""
    found = []
    for operand, place in zip(operands, places, strict=True):
        at = None if operand is not None and operand.is_constant else place
        if operand is not None and at is not None:
            s.compute_at(operand.pack, at, preserve_unit_loops=True)
        found.append(at)
    return found


def _in_registers(s: Schedule, ref: BlockRef, nest: Nest, dot: Dot | None) -> None:
    """The inner loops without loops: rows, vectors, and lanes, or the instruction for these."""
    if dot is None:
        s.vectorize(nest.lane)
    s.unroll(nest.vector)
    s.unroll(nest.i)
    first = s.decompose_reduction(ref, nest.depth or nest.k)
    used = free_vars(*(it.binding for it in block_of(s, ref).iters))
    count = 1 + sum(x.var in used for x in (nest.i, nest.vector))  # a single row has no loop there
    *unrolled, lane = s.get_loops(first)[-count:]
    for loop in unrolled:
        s.unroll(loop)
    s.vectorize(lane)
    if dot is not None:
        s.tensorize(nest.lane, dot.intrinsic)


def _finish(s: Schedule, result: BlockRef, nest: Nest, lanes: int) -> None:
    """Store the result: tile by tile from registers, or all that lies in a strip."""
    inner = s.get_loops(result) if nest.complete is None else inside(s, result, nest.complete)
    block = block_of(s, result)
    assert isinstance(block.body, Store)
    last = set(free_vars(*block.body.indices[-1:]))
    bindings = [it.binding for it in block.iters if it.var in last]
    along = [x for x in inner if x.var in free_vars(*bindings)]
    if not along:
        return
    if along[-1] is not inner[-1]:
        s.reorder(*[x for x in inner if x is not along[-1]], along[-1])
    if nest.depth is not None:
        s.vectorize(s.split(along[-1], [None, lanes])[1])
        return
    run_in_vectors(s, along[-1], lanes)
    for x in inner:
        if x is not along[-1]:
            s.unroll(x)


def inside(s: Schedule, ref: BlockRef, loop: LoopRef) -> list[LoopRef]:
    """The loops around a block that stand inside of a loop around it."""
    loops = s.get_loops(ref)
    return loops[[x.var for x in loops].index(loop.var) + 1 :]


def run_in_vectors(s: Schedule, loop: LoopRef, lanes: int) -> None:
    """Run a loop of constant extent in vectors of `lanes`, one after the other."""
    node = find_loop(s.program, loop.var).node
    assert isinstance(node, For)
    if isinstance(node.extent, Const) and int(node.extent.value) > lanes:
        outer, loop = s.split(loop, [None, lanes])
        s.unroll(outer)
    s.vectorize(loop)


def pack(s: Schedule, operand: Operand, place: LoopRef | None, lanes: int) -> LoopRef:
    """Order the loops of a packing block; gives the outermost of them."""
    loops = s.get_loops(operand.pack) if place is None else inside(s, operand.pack, place)
    if len(loops) < 2 + (operand.width > 1):
        raise ScheduleError(f"block {operand.pack.name!r} has not the loops of a packed operand")
    if operand.width > 1:
        return _pack_groups(s, operand, loops, lanes)
    *tiles, depth, element = loops
    if operand.by_tiles:
        square = min(lanes, 1 << (operand.size - 1).bit_length())
        steps, step = s.split(depth, [None, square])
        s.compute_at(operand.copy, steps, preserve_unit_loops=True)
        *_, rows, along = s.get_loops(operand.copy)
        s.unroll(rows)
        s.vectorize(along)
        s.unroll(step)
        run_in_vectors(s, element, lanes)
        return tiles[0] if tiles else steps
    if not tiles:
        run_in_vectors(s, element, lanes)
        return depth
    steps, step = s.split(depth, [None, PACK_DEPTH])
    s.reorder(*tiles[:-1], steps, tiles[-1], step, element)
    run_in_vectors(s, element, lanes)
    return tiles[0] if len(tiles) > 1 else steps


def _pack_groups(s: Schedule, operand: Operand, loops: list[LoopRef], lanes: int) -> LoopRef:
    """Pack groups of steps of `k`, which lie together, or else are interleaved from their rows."""
    *tiles, depth, element, step = loops
    if operand.by_tiles:
        s.compute_at(operand.copy, depth, preserve_unit_loops=True)
        *_, rows, along = s.get_loops(operand.copy)
        s.unroll(rows)
        run_in_vectors(s, along, lanes)
        run_in_vectors(s, s.fuse(element, step), lanes * operand.width)
    else:
        s.vectorize(step)
    return tiles[0] if tiles else depth


def on_panels(
    s: Schedule,
    nest: Nest,
    packing: list[tuple[LoopRef, LoopRef | None]],
    batched: bool,
    *,
    by_strips: bool = False,
) -> None:
    """Run panels, or strips, on threads, and the packing of what they share: the outer loops of the
    blocks that pack, each with where it stands. by_strips: strips before panels, so that each
    thread makes what it reads, or reads columns that no other does."""
    if nest.batch is not None and batched:
        s.parallel(nest.batch)
        return
    error = None
    order = [nest.strip, nest.panel] if by_strips else [nest.panel, nest.strip]
    if nest.depth is not None:
        order.remove(nest.panel)
    for outer in (*order, nest.column):
        if outer is None:
            continue
        error = attempt(s, functools.partial(s.parallel, outer))
        if error is None:
            break
    if error is not None:
        raise error
    for loop, place in packing:
        if place is None or place is nest.batch or (place is nest.strip and outer is nest.panel):
            s.parallel(loop)


def _parallel_columns(
    s: Schedule, nest: Nest, packing: list[tuple[LoopRef, LoopRef | None]], *, worth: bool
) -> None:
    """Run strips of columns on threads, if that is worth it, and what is packed before all."""
    if worth:
        s.parallel(nest.strip or nest.column)
    for loop, place in packing:
        if place is None:
            s.parallel(loop)
