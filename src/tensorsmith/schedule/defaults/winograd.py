"""Convolutions by minimal filtering: to points, a product at each point, and back, strip by strip.

A strip is some tiles of the image. What it is mapped to, and the products, stay in the second-level
cache until the strip of the result is done, with all that is computed of it element by element. The
sums that one inner loop computes, of some tiles times some vectors of channels, stay in registers;
image points are read where they lie, kernel points in the order of the loop. See
`tensorsmith.ops.winograd`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod

from tensorsmith.ir import (
    Block,
    Buffer,
    Const,
    Expr,
    FloorDiv,
    For,
    IndexMap,
    IterKind,
    Load,
    Store,
    Var,
    postorder,
)
from tensorsmith.ops.winograd import TOGETHER
from tensorsmith.schedule.defaults.analysis import SYMBOLIC_EXTENT, Contraction, is_reduction
from tensorsmith.schedule.defaults.attempt import attempt
from tensorsmith.schedule.defaults.canonical import block_of
from tensorsmith.schedule.defaults.packed import PARALLEL_FLOPS
from tensorsmith.schedule.defaults.users import with_users
from tensorsmith.schedule.defaults.winograd_tiles import Shape, Strip, choose_strip
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import find_loop
from tensorsmith.target import Target


@dataclass(frozen=True, slots=True)
class Chain:
    """The blocks of a convolution by minimal filtering.

    rows, points: map the image along its columns, then along its rows. products: sums over the
    channels at each point. back: maps those along the columns, `result` along the rows.
    """

    rows: BlockRef
    points: BlockRef
    products: BlockRef
    back: BlockRef
    result: BlockRef


@dataclass(frozen=True, slots=True)
class Places:
    """What the iterators of the products do, by place: at which point (two), of which images, in
    which tile down and along the image, for which block of channels after, which of them, and of
    which channel before (two)."""

    points: tuple[int, int]
    images: tuple[int, ...]
    down: int
    along: int
    lead: int
    lane: int
    sums: tuple[int, ...]


def winograd_chain(
    s: Schedule, ref: BlockRef, what: Contraction, free: Collection[str]
) -> Chain | None:
    """The convolution whose products a block is; None if it is no such thing: if there is not one
    user that combines the products at all points, and another that combines what that makes."""
    if (len(what.batch), len(what.n), len(what.k)) != (2, 2, 2) or len(what.m) < 2:
        return None
    back = _only(s.get_consumers(ref), free)
    result = None if back is None else _only(s.get_consumers(back), free)
    makers = [p for p in s.get_producers(ref) if _stored(s, p) is what.left.buffer]
    points = _only(makers, free)
    rows = None if points is None else _only(s.get_producers(points), free)
    if back is None or result is None or points is None or rows is None:
        return None
    combined = _loads(block_of(s, back), what.output)
    if not any(len({e.indices[d] for e in combined}) > 1 for d in range(2)):
        return None
    return Chain(rows, points, ref, back, result)


def _only(found: list[BlockRef], free: Collection[str]) -> BlockRef | None:
    return found[0] if len(found) == 1 and found[0].name in free else None


def _stored(s: Schedule, ref: BlockRef) -> Buffer | None:
    body = block_of(s, ref).body
    return body.buffer if isinstance(body, Store) else None


def _loads(block: Block, buffer: Buffer) -> list[Load]:
    """The loads of a buffer in what a block stores."""
    if not isinstance(block.body, Store):
        return []
    found = (e for e in postorder(block.body.value) if isinstance(e, Load))
    return [e for e in found if e.buffer is buffer]


def schedule_winograd(
    s: Schedule, chain: Chain, what: Contraction, target: Target, free: Collection[str]
) -> None:
    """Schedule a convolution by minimal filtering, with those of the blocks `free` that use its
    result element by element. Raises ScheduleError where a step is not legal."""
    places = _places(block_of(s, chain.products), what)
    tile = _tile(block_of(s, chain.result), _stored(s, chain.back))
    shape = _shape(s, chain, places, target)
    strip = choose_strip(shape, target)
    lanes = target.lanes(what.output.dtype.bytes)
    chain = _with_whole_rows(s, chain, places, strip)
    last = _last(s, chain, free)
    outer, row = _strips(s, chain, last, strip, tile)
    for ref in (chain.back, chain.products, chain.points):
        s.compute_at(ref, row, preserve_unit_loops=True)
    _lay_out_kernels(s, chain, what.right.buffer.name, strip.vectors * lanes)
    parts = [
        _map_image(s, chain, row, lanes),
        _multiply(s, chain, places, row, (strip, lanes)),
        _map_back(s, chain, last, row, (strip, lanes)),
    ]
    block = block_of(s, chain.products)
    flops = 2.0 * prod(_size(it.extent) for it in block.iters)
    if target.cores > 1 and flops >= PARALLEL_FLOPS:
        strips = [*outer, row] if strip.columns else outer
        count = prod(_size(_loop(s, x).extent) for x in strips)
        if count % target.cores == 0 or count >= 4 * target.cores:
            _parallel(s, strips)
        else:
            for part in parts:
                s.parallel(part)


def _parallel(s: Schedule, loops: list[LoopRef]) -> None:
    """Run strips on threads: those of all images together where their numbers are known."""
    if len(loops) > 1 and all(isinstance(_loop(s, x).extent, Const) for x in loops):
        s.parallel(s.fuse(*loops))
    else:
        s.parallel(loops[-1])


# --- What the iterators do -------------------------------------------------------------------


def _places(block: Block, what: Contraction) -> Places:
    """What the iterators of the products do. Raises ScheduleError where they are not in order."""
    assert isinstance(block.body, Store)
    place: dict[Expr, int] = {e: d for d, e in enumerate(block.body.indices)}
    spatial = [at for at, it in enumerate(block.iters) if it.kind is IterKind.SPATIAL]
    if any(block.iters[at].var not in place for at in spatial):
        raise ScheduleError(f"block {block.name!r} has not one iterator a dimension")
    order = sorted(spatial, key=lambda at: place[block.iters[at].var])
    points, images, channels = (
        [at for at in order if at in part] for part in (what.batch, what.m, what.n)
    )
    if order != [*points, *images[:-2], channels[0], *images[-2:], channels[1]]:
        raise ScheduleError(f"block {block.name!r} does not have its channels in blocks")
    return Places(
        (points[0], points[1]),
        tuple(images[:-2]),
        images[-2],
        images[-1],
        channels[0],
        channels[1],
        what.k,
    )


def _tile(block: Block, source: Buffer | None) -> int:
    """How many results a tile has along a dimension: the result is read by tiles of them."""
    tiles = {index.args[1] for index in _divided(block, source)}
    if len(tiles) != 1 or not isinstance(size := tiles.pop(), Const):
        raise ScheduleError(f"block {block.name!r} does not run over tiles")
    return int(size.value)


def _divided(block: Block, source: Buffer | None) -> list[Expr]:
    """The subscripts at which a block reads tiles down and along the image."""
    loads = [] if source is None else _loads(block, source)
    found = [e for e in loads[0].indices if isinstance(e, FloorDiv)] if loads else []
    if len(found) != 2 or any(not isinstance(e.args[0], Var) for e in found):
        raise ScheduleError(f"block {block.name!r} does not run over tiles")
    return list(found)


def _shape(s: Schedule, chain: Chain, places: Places, target: Target) -> Shape:
    iters = block_of(s, chain.products).iters
    size = _bytes(s, chain)
    lead, lane = (_size(iters[at].extent) for at in (places.lead, places.lane))
    points = prod(_size(iters[at].extent) for at in places.points)
    return Shape(
        _known(iters[places.down].extent),
        _known(iters[places.along].extent),
        prod(_size(iters[at].extent) for at in places.sums),
        lead * lane,
        max(1, lane // target.lanes(size)),
        points,
        size,
    )


def _bytes(s: Schedule, chain: Chain) -> int:
    made = _stored(s, chain.products)
    assert made is not None
    return made.dtype.bytes


def _known(extent: Expr) -> int | None:
    return int(extent.value) if isinstance(extent, Const) else None


def _size(extent: Expr) -> int:
    known = _known(extent)
    return int(SYMBOLIC_EXTENT) if known is None else known


def _loop(s: Schedule, ref: LoopRef) -> For:
    node = find_loop(s.program, ref.var).node
    assert isinstance(node, For)
    return node


# --- Blocks and strips -----------------------------------------------------------------------


def _with_whole_rows(s: Schedule, chain: Chain, places: Places, strip: Strip) -> Chain:
    """The chain with rows of tiles that are padded, where that is decided."""
    if not strip.is_padded:
        return chain
    block = block_of(s, chain.products)
    padding = [1] * len(block.iters)
    padding[places.along] = strip.tiles
    pads, backs = s.pad_einsum(chain.products, padding)
    if not pads:
        return chain
    s.compute_inline(chain.points)
    s.compute_inline(backs[0])
    return replace(chain, points=pads[0])


def _last(s: Schedule, chain: Chain, free: Collection[str]) -> BlockRef:
    """The last of the blocks that use the result element by element, which computes the others; the
    result itself, where that would not be stored along the channels."""
    found: list[BlockRef] = []

    def join() -> None:
        last = with_users(s, chain.result, (), free)
        block = block_of(s, last)
        assert isinstance(block.body, Store)
        source = _stored(s, chain.back)
        _divided(block, source)
        lanes = {e.indices[-1] for e in _loads(block, source)} if source is not None else set()
        if lanes != {block.body.indices[-1]} or is_reduction(block):
            raise ScheduleError(f"block {block.name!r} does not store the channels side by side")
        found.append(last)

    return chain.result if attempt(s, join) else found[0]


def _strips(
    s: Schedule, chain: Chain, last: BlockRef, strip: Strip, tile: int
) -> tuple[list[LoopRef], LoopRef]:
    """Cut the result into strips: the loops around one, and the innermost of them."""
    block = block_of(s, last)
    source = _stored(s, chain.back)
    assert source is not None
    variables: list[Expr] = [it.var for it in block.iters]
    loops = dict(zip(variables, s.get_loops(last), strict=True))
    load = _loads(block, source)[0]
    y, x = (loops.pop(e.args[0]) for e in _divided(block, source))
    lane = loops.pop(load.indices[-1])
    images = _stored(s, chain.rows)
    count = 0 if images is None else images.rank - 5
    outer = [loops.pop(e) for e in load.indices[:count]]
    row, inner, down = s.split(y, [None, strip.rows, tile])
    parts = [None, strip.columns, tile]
    if not strip.columns:  # in groups, so that all tiles of a row are computed
        parts = [1, None, TOGETHER, tile]
    column, *along, across = s.split(x, parts)
    s.reorder(*outer, row, column, *loops.values(), inner, down, *along, across, lane)
    return [*outer, row], column


def _lay_out_kernels(s: Schedule, chain: Chain, name: str, width: int) -> None:
    """Lay out the kernels at the points as the inner loop reads them: (points, points, channels
    after by `width`, channels before, the rest of channels after)."""
    s.transform_layout(
        chain.products,
        name,
        IndexMap.of(lambda i, j, c, m: (i, j, m // width, c, m % width), 4),
    )


def _inside(s: Schedule, ref: BlockRef, loop: LoopRef) -> list[LoopRef]:
    """The loops around a block that stand inside of `loop`."""
    loops = s.get_loops(ref)
    return loops[[x.var for x in loops].index(loop.var) + 1 :]


def _vectors(s: Schedule, loop: LoopRef, lanes: int) -> None:
    """Run a loop in vectors, one after the other."""
    if _size(_loop(s, loop).extent) > lanes:
        vectors, loop = s.split(loop, [None, lanes])
        s.unroll(vectors)
    s.vectorize(loop)


def _map_image(s: Schedule, chain: Chain, row: LoopRef, lanes: int) -> LoopRef:
    """Map the image, one block of channels of a row of tiles at a time. Gives the outer loop."""
    i, j, *images, lead, down, along, lane = _inside(s, chain.points, row)
    s.reorder(*images, lead, down, i, along, j, lane)
    s.unroll(j)
    _vectors(s, lane, lanes)
    s.compute_at(chain.rows, down, preserve_unit_loops=True)
    *_, point, column, lane = _inside(s, chain.rows, down)
    s.reorder(column, point, lane)
    s.unroll(point)
    _vectors(s, lane, lanes)
    return lead


def _multiply(
    s: Schedule, chain: Chain, places: Places, row: LoopRef, sizes: tuple[Strip, int]
) -> LoopRef:
    """The products of a strip, some tiles times some vectors at a time. Gives the outer loop."""
    strip, lanes = sizes
    loops = _inside(s, chain.products, row)
    i, j = (loops[at] for at in places.points)
    lane = loops[places.lane]
    inner: list[LoopRef] = []
    if _size(_loop(s, lane).extent) > lanes:
        vector, lane = s.split(lane, [None, lanes])
        inner.append(vector)
    block = max(1, _size(block_of(s, chain.products).iters[places.lane].extent) // lanes)
    channels = [loops[places.lead]]
    if strip.vectors >= block:
        lead, taken = s.split(loops[places.lead], [None, strip.vectors // block])
        channels, inner = [lead], [taken, *inner]
    else:
        vector, taken = s.split(inner[0], [None, strip.vectors])
        channels, inner = [*channels, vector], [taken]
    sums = [loops[at] for at in places.sums]
    images = [loops[at] for at in places.images]
    tiles = [loops[places.down], loops[places.along]]
    s.reorder(i, j, *images, *channels, *tiles, *sums, *inner, lane)
    along = s.fuse(*tiles) if strip.columns and not strip.is_padded else tiles[1]
    tile, pixel = s.split(along, [None, strip.tiles])
    s.reorder(tile, *sums, pixel, *inner, lane)
    s.annotate(channels[-1], "prefetch_next", value=True)  # the kernels of the next channels
    copy = s.cache_write(chain.products, 0, "local")
    s.reverse_compute_at(copy, tile, preserve_unit_loops=True)
    for x in (pixel, *inner):
        s.unroll(x)
    s.vectorize(lane)
    first = s.decompose_reduction(chain.products, sums[0])
    for x in _inside(s, first, tile)[:-1]:
        s.unroll(x)
    s.vectorize(s.get_loops(first)[-1])
    *others, lane = _inside(s, copy, tile)
    for x in others:
        s.unroll(x)
    _vectors(s, lane, lanes)
    return i


def _map_back(
    s: Schedule, chain: Chain, last: BlockRef, row: LoopRef, sizes: tuple[Strip, int]
) -> LoopRef:
    """Map the products back, one block of channels of a row of tiles at a time. Gives the outer
    loop."""
    strip, lanes = sizes
    *outer, inner, _, _, across, lane = _inside(s, last, row)
    if not strip.columns:  # there is one loop more, over groups of tiles
        *outer, inner = outer
    s.unroll(across)
    _vectors(s, lane, lanes)
    s.compute_at(chain.back, inner, preserve_unit_loops=True)
    *_, down, along, point, lane = _inside(s, chain.back, inner)
    s.reorder(along, point, down, lane)
    s.unroll(down)
    _vectors(s, lane, lanes)
    return outer[0] if outer else inner
