"""Contractions: packed, tiled for registers and caches, on threads.

The tile of the result that one inner loop computes stays in registers: `m` rows of a few vectors of
`n`. Both operands are packed so that this loop reads them in the order in which they lie. Results
of few
rows are not worth packing for: they stream the larger operand once. Source: Goto and van de Geijn,
Anatomy of high-performance matrix multiplication, 2008; Van Zee and van de Geijn, BLIS, 2015.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorsmith.ir import Block, Const, Expr, IndexMap, Store, Var, free_vars
from tensorsmith.schedule.defaults.analysis import SYMBOLIC_EXTENT, Contraction, contraction
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import find_block
from tensorsmith.target import Target

FEW_ROWS = 8
"""Rows of a result up to which the larger operand is streamed, not packed."""
STREAM_ROWS = 4
"""Rows of the larger operand that are streamed side by side."""
PACK_DEPTH = 16
"""Steps of `k` that are packed for all tiles before the next ones, so that few pages are in use."""
PARALLEL_FLOPS = 4_000_000.0
"""Operations below which threads do not pay."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The decisions for a packed contraction.

    rows, columns: of the tile in registers. panel: rows of A that are packed at a time, to stay in
    the second-level cache, while B is packed as a whole; 0 to pack all of A, and a tile's columns
    of B at a time.
    """

    rows: int
    columns: int
    panel: int


def schedule_contraction(s: Schedule, ref: BlockRef, target: Target) -> bool:
    """Schedule a block that is a contraction with one `m`, one `n` and one `k`; whether it did."""
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    what = matrix_product(block)
    if what is None:
        return False
    lanes = target.lanes(what.output.dtype.bytes)
    if _extent(block, what.m[0]) <= FEW_ROWS:
        if _last_is(what.right.indices, block, what.n[0]):
            _stream(s, ref, block, what, lanes, target)
            return True
        return False
    _packed(s, ref, block, what, choose_tiles(block, what, target), target)
    return True


def matrix_product(block: Block) -> Contraction | None:
    """The contraction that a block is, if it has one `m`, one `n` and one `k`; the operands named
    so that `n` runs along the last dimension of the result."""
    what, body = contraction(block), block.body
    if what is None or not (len(what.m) == len(what.n) == len(what.k) == 1):
        return None
    assert isinstance(body, Store)
    if _last_is(body.indices, block, what.m[0]):
        what = replace(what, left=what.right, right=what.left, m=what.n, n=what.m)
    return what if _last_is(body.indices, block, what.n[0]) else None


def choose_tiles(block: Block, what: Contraction, target: Target) -> Tiles:
    """Tiles from the registers and the caches of the machine.

    All but a few registers hold the tile; two vectors a row keep both multiply-add units busy
    while a row's factor is broadcast once.
    """
    lanes = target.lanes(what.output.dtype.bytes)
    vectors = 2
    free = target.vector_registers - vectors - 1
    rows = max(1, min(free // vectors, 14))
    if target.vector_registers <= 16:
        rows = min(rows, 6)
    extent = _extent(block, what.m[0])
    if extent < rows:
        rows = int(extent)
    depth = _extent(block, what.k[0])
    most = target.caches.l2 / 2 / (depth * what.left.dtype.bytes)
    if extent * depth * what.left.dtype.bytes <= target.caches.l2:
        return Tiles(rows, vectors * lanes, 0)
    panel = max(rows, int(most) // rows * rows)
    share = -(-int(extent) // rows // target.cores) * rows  # every core gets a panel
    return Tiles(rows, vectors * lanes, max(rows, min(panel, max(share, rows), 16 * rows)))


def _extent(block: Block, at: int) -> float:
    extent = block.iters[at].extent
    return float(extent.value) if isinstance(extent, Const) else SYMBOLIC_EXTENT


def _last_is(indices: tuple[Expr, ...], block: Block, at: int) -> bool:
    return bool(indices) and indices[-1] is block.iters[at].var


def _loop(s: Schedule, ref: BlockRef, var: Var) -> LoopRef:
    """The loop of an iterator that is bound to a loop of its own."""
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    binding = next(it.binding for it in block.iters if it.var is var)
    used = set(free_vars(binding))
    return next(x for x in s.get_loops(ref) if x.var in used)


# --- Streamed --------------------------------------------------------------------------------


def _stream(
    s: Schedule, ref: BlockRef, block: Block, what: Contraction, lanes: int, target: Target
) -> None:
    """Few rows: strips of columns, each read once, their sums in registers."""
    m, n, k = (_loop(s, ref, block.iters[at].var) for at in (*what.m, *what.n, *what.k))
    rows = max(1, int(_extent(block, what.m[0])))
    width = lanes * max(1, min(16, (target.vector_registers - 4) // rows))
    while width > lanes and width // 2 >= _extent(block, what.n[0]):
        width //= 2
    copy = s.cache_write(ref, 0, "local")
    larger = _extent(block, what.n[0]) * _extent(block, what.k[0]) * what.right.dtype.bytes
    along = larger > target.caches.l2 and _extent(block, what.n[0]) > 2 * width
    if along:
        width = min(width, lanes * max(1, min(4, (target.vector_registers - 4) // (2 * rows))))
        outer, k, inner = _stream_rows(s, (m, n, k), width, rows, block, what=what, target=target)
    else:
        outer, inner = s.split(n, [None, width])
        s.reorder(outer, k, m, inner)
    s.reverse_compute_at(copy, outer)
    s.vectorize(inner)
    s.unroll(m)
    s.decompose_reduction(ref, k)
    last = s.get_loops(copy)[-1]
    s.vectorize(s.split(last, [None, width])[1] if along else last)
    _parallel(s, outer, block, what, target)


def _stream_rows(
    s: Schedule,
    loops: tuple[LoopRef, LoopRef, LoopRef],
    width: int,
    rows: int,
    block: Block,
    *,
    what: Contraction,
    target: Target,
) -> tuple[LoopRef, LoopRef, LoopRef]:
    """Several rows of B at a time, each read along its length, their sums in the first-level cache.

    Rows are long, and lie side by side: reading a narrow strip down all of them would touch a page
    for each. Gives the loop over strips, the outer loop of the sum, and the one to vectorise.
    """
    m, n, k = loops
    strip = target.caches.l1 // 2 // what.output.dtype.bytes // rows
    share = -(-int(_extent(block, what.n[0])) // target.cores)
    across = max(1, min(strip, share) // width)
    outer, along, inner = s.split(n, [None, across, width])
    steps, step = s.split(k, [None, STREAM_ROWS])
    s.reorder(outer, steps, along, step, m, inner)
    s.unroll(step)
    return outer, steps, inner


def _parallel(s: Schedule, loop: LoopRef, block: Block, what: Contraction, target: Target) -> None:
    flops = 2.0
    for at in (*what.m, *what.n, *what.k, *what.batch):
        flops *= _extent(block, at)
    if target.cores > 1 and flops >= PARALLEL_FLOPS:
        s.parallel(loop)


# --- Packed ----------------------------------------------------------------------------------


def _packed(
    s: Schedule, ref: BlockRef, block: Block, what: Contraction, tiles: Tiles, target: Target
) -> None:
    """Tiles of C in registers; of A and B the smaller packed as a whole, the other in parts."""
    a, b, c = _copies(s, ref, block, what, tiles)
    _pack(s, ref, tiles)
    m, n, k = (_loop(s, ref, block.iters[at].var) for at in (*what.m, *what.n, *what.k))
    batch = [_loop(s, ref, block.iters[at].var) for at in what.batch]
    column, j = s.split(n, [None, tiles.columns])
    if tiles.panel:
        outer, row, i = s.split(m, [None, tiles.panel // tiles.rows, tiles.rows])
        s.reorder(*batch, outer, column, row, k, i, j)
        inside, whole = a, b
    else:
        outer = column
        row, i = s.split(m, [None, tiles.rows])
        s.reorder(*batch, column, row, k, i, j)
        inside, whole = b, a
    s.reverse_compute_at(c, row)
    s.compute_at(inside, outer)
    if batch:
        s.compute_at(whole, batch[-1])
    s.vectorize(j)
    s.unroll(i)
    first = s.decompose_reduction(ref, k)
    for made in (first, c):
        *_, rows, columns = s.get_loops(made)
        s.unroll(rows)
        s.vectorize(columns)
    around = len(batch)
    _pack_in_order(s, s.get_loops(inside)[around + 1 :])
    _pack_in_order(s, s.get_loops(whole)[around:])
    _parallel(s, batch[0] if batch else outer, block, what, target)
    if not batch:
        _parallel(s, s.get_loops(whole)[0], block, what, target)


def _pack_in_order(s: Schedule, loops: list[LoopRef]) -> None:
    """Order the loops of a packing block: (tile, k, element), or (k, element) of one tile."""
    *tiles, depth, element = loops
    if tiles:
        steps, step = s.split(depth, [None, PACK_DEPTH])
        s.reorder(steps, *tiles, step, element)
    s.vectorize(element)


def _copies(
    s: Schedule, ref: BlockRef, block: Block, what: Contraction, tiles: Tiles
) -> tuple[BlockRef, BlockRef, BlockRef]:
    """The blocks that copy A and B to where they are packed, and C from where it is summed; padded
    to whole tiles."""
    multiples = [1] * len(block.iters)
    multiples[what.m[0]] = tiles.rows
    multiples[what.n[0]] = tiles.columns
    made: dict[str, BlockRef] = {}
    if not all(_divides(block.iters[at].extent, multiples[at]) for at in (*what.m, *what.n)):
        pads, backs = s.pad_einsum(ref, multiples)
        made = {p.name: p for p in (*pads, *backs)}
    a, b, c = (x.name for x in (what.left.buffer, what.right.buffer, what.output))
    left = made.get(f"{a}_pad") or s.cache_read(ref, a, "global")
    right = made.get(f"{b}_pad") or s.cache_read(ref, b, "global")
    result = made.get(f"{c}_unpad")
    if result is None:
        result = s.cache_write(ref, 0, "local")
    else:
        s.set_scope(ref, 0, "local")
    return left, right, result


def _divides(extent: Expr, by: int) -> bool:
    return isinstance(extent, Const) and int(extent.value) % by == 0


def _pack(s: Schedule, ref: BlockRef, tiles: Tiles) -> None:
    """Lay out the copies so that the inner loop reads them in order: (batch, tile, k, element)."""
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    now = matrix_product(block)
    assert now is not None
    k = block.iters[now.k[0]].var
    for load, outer, size in (
        (now.left, now.m[0], tiles.rows),
        (now.right, now.n[0], tiles.columns),
    ):
        index_map = _tiled(load.indices, block.iters[outer].var, k, size)
        s.transform_layout(ref, load.buffer.name, index_map)


def _tiled(indices: tuple[Expr, ...], var: Var, k: Var, size: int) -> IndexMap:
    """From where the subscripts of an operand say to (others, var // size, k, var % size)."""
    inputs = tuple(Var(f"i{d}") for d in range(len(indices)))
    at, depth = indices.index(var), indices.index(k)
    others = [x for d, x in enumerate(inputs) if d not in (at, depth)]
    return IndexMap(inputs, (*others, inputs[at] // size, inputs[depth], inputs[at] % size))
