"""Convolutions over blocks of channels, direct: nothing is packed but the weights.

The result lies along a few channels, so a vector of it is a sum of vectors of weights, each times
one element of the image. The tile in registers is some pixels of a row times some vectors of
channels; elements of the image are read where they lie, weights in the order of the inner loop.
Padding, and what computes the image element by element, is done on a copy of some rows that stays
in cache. Source: Georganas et al., Anatomy of high-performance deep learning convolutions on SIMD
architectures, 2018.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from tensorsmith.ir import (
    Block,
    Buffer,
    Expr,
    For,
    IndexMap,
    Load,
    Mul,
    Store,
    Var,
    free_vars,
    postorder,
)
from tensorsmith.schedule.defaults.analysis import Contraction
from tensorsmith.schedule.defaults.canonical import block_of
from tensorsmith.schedule.defaults.constants import CONSTANTS
from tensorsmith.schedule.defaults.direct_image import (
    Part,
    image_of,
    image_part,
    known_extent,
    likely_extent,
    overlaps,
    store_of,
)
from tensorsmith.schedule.defaults.direct_tiles import DirectTiles, choose_direct_tiles
from tensorsmith.schedule.defaults.packed import PARALLEL_FLOPS
from tensorsmith.schedule.defaults.rows import vectorise
from tensorsmith.schedule.defaults.users import with_users
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import find_loop
from tensorsmith.target import Target

MOST_ALONG = 64
"""Channels side by side up to which they are one block of channels, not a row of a matrix."""
PARALLEL_COPY = 100_000
"""Elements of a copy from which on threads pay."""


@dataclass(frozen=True, slots=True)
class Roles:
    """What the iterators of a block do, by place.

    lane: the channels side by side; blocks: the other axes of channels; pixel: the axis of the
    image that is tiled; outer: groups, batches and the other axes of the image; k: the sum, in the
    order in which the image lies. slides: whether the last of them moves along the pixels, so that
    its steps read the same elements for other pixels.
    """

    lane: int
    blocks: tuple[int, ...]
    pixel: int
    outer: tuple[int, ...]
    k: tuple[int, ...]
    slides: bool


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops outside of a tile, outermost first: over parts of the image, over tiles of
    channels, and over the tiles of a part. If the last are none, a part is one tile."""

    parts: list[LoopRef]
    channels: list[LoopRef]
    tiles: list[LoopRef]

    @property
    def last(self) -> LoopRef:
        """The innermost of them."""
        return [*self.parts, *self.channels, *self.tiles][-1]


def direct_roles(s: Schedule, block: Block, what: Contraction) -> Roles | None:
    """What the iterators do, if the block is a convolution over blocks of channels."""
    if not isinstance(block.body, Store) or not what.output.dtype.is_float:
        return None
    place = {e: d for d, e in enumerate(block.body.indices)}
    spatial = (*what.batch, *what.m, *what.n)
    if any(block.iters[at].var not in place for at in spatial):
        return None
    lane = next((at for at in what.n if block.iters[at].var is block.body.indices[-1]), None)
    if lane is None:
        return None
    along = known_extent(block.iters[lane].extent)
    is_window = len(what.m) > 1 or len(what.k) > 1 or len(what.n) > 1
    if along is None or along % 4 or along > MOST_ALONG or not is_window:
        return None
    if not _has_plain_factors(block):
        return None
    if not _is_constant(s, what.right) and not any(overlaps(block, what, at) for at in what.m):
        return None
    order = sorted((*what.batch, *what.m), key=lambda at: place[block.iters[at].var])
    image = [at for at in order if at in what.m]
    pixel = image[-1]
    k = sorted(what.k, key=lambda at: _place_in(what.left, block.iters[at].var))
    both = {block.iters[pixel].var, block.iters[k[-1]].var}
    return Roles(
        lane,
        tuple(at for at in what.n if at != lane),
        pixel,
        tuple(at for at in order if at != pixel),
        tuple(k),
        any(both.issubset(free_vars(e)) for e in what.left.indices),
    )


def _has_plain_factors(block: Block) -> bool:
    assert isinstance(block.body, Store)
    product = block.body.value.args[1]
    return isinstance(product, Mul) and all(isinstance(e, Load) for e in product.args)


def _is_constant(s: Schedule, load: Load) -> bool:
    named = s.program.attrs.get(CONSTANTS, ())
    return isinstance(named, tuple) and load.buffer.name in named


def _place_in(load: Load, var: Var) -> int:
    return max(d for d, index in enumerate(load.indices) if var in free_vars(index))


def schedule_direct(
    s: Schedule,
    ref: BlockRef,
    what: Contraction,
    roles: Roles,
    target: Target,
    free: Collection[str],
) -> None:
    """Schedule a convolution, with those of the blocks `free` that compute its image, or use its
    result, element by element. Raises ScheduleError where a step is not legal."""
    block = block_of(s, ref)
    _check_loops(s, ref, block)
    lanes = _lanes(block, roles, target)
    tiles = _tiles(block, roles, lanes, target)
    weights = s.reindex(ref, what.right.buffer.name, "read")
    result = s.cache_write(ref, 0, "local")
    image = image_of(s, ref, what.left.buffer, (roles.pixel, tiles.pixels), free)
    result = with_users(s, result, (), free)
    axes = (*roles.outer, roles.pixel)
    part = image_part(block, what, axes, tiles.pixels, target)
    packed = store_of(block_of(s, weights)).buffer
    _lay_out_weights(s, ref, packed, roles, tiles.inner * lanes, tiles)
    nest = _nest(s, ref, roles, tiles, lanes, part)
    s.reverse_compute_at(result, nest.last)
    _finish(s, ref, result, nest.last, lanes)
    work = 2.0 * prod(likely_extent(it.extent) for it in block.iters)
    on_threads = target.cores > 1 and work >= PARALLEL_FLOPS
    parts = nest.parts
    if on_threads:  # first, so that each thread has a copy of its own of what is copied in a loop
        parts = _parallel(s, nest.parts or [*nest.channels, *nest.tiles], target)
        for x in [] if nest.parts else parts[:1]:
            s.annotate(x, "prefetch_next", value=True)
    if nest.channels and (nest.parts or not on_threads):
        s.annotate(nest.channels[-1], "prefetch_next", value=True)
    if image is not None:
        if part.depth:
            s.compute_at(image, parts[-1])
        vectorise(s, image, target)
    s.vectorize(s.get_loops(weights)[-1])
    shared = [] if _is_constant(s, what.right) else [weights]
    shared += [image] if image is not None and not part.depth else []
    for copy in shared if on_threads else ():
        if prod(likely_extent(it.extent) for it in block_of(s, copy).iters) >= PARALLEL_COPY:
            s.parallel(s.get_loops(copy)[0])


def _tiles(block: Block, roles: Roles, lanes: int, target: Target) -> DirectTiles:
    along = likely_extent(block.iters[roles.lane].extent)
    blocks = known_extent(block.iters[roles.blocks[-1]].extent) if roles.blocks else 1
    row = known_extent(block.iters[roles.pixel].extent)
    return choose_direct_tiles(row, blocks, along // lanes, target)


def _check_loops(s: Schedule, ref: BlockRef, block: Block) -> None:
    loops = [x.var for x in s.get_loops(ref)]
    if [it.binding for it in block.iters] != loops:
        raise ScheduleError(f"block {ref.name!r} has not one loop an iterator")


def _lanes(block: Block, roles: Roles, target: Target) -> int:
    """Elements of a vector: as many as a register holds, fewer where the channels are fewer."""
    lanes = target.lanes(store_of(block).buffer.dtype.bytes)
    along = likely_extent(block.iters[roles.lane].extent)
    while along % lanes:
        lanes //= 2
    if lanes < 4:
        raise ScheduleError("too few channels lie side by side")
    return lanes


# --- Weights ---------------------------------------------------------------------------------


def _lay_out_weights(
    s: Schedule, ref: BlockRef, packed: Buffer, roles: Roles, width: int, tiles: DirectTiles
) -> None:
    """Lay out the weights in the order of the inner loop: (groups.., tiles of channels, k.., the
    channels of a tile). width: channels of a tile that lie side by side."""
    block = block_of(s, ref)
    load = next(
        e
        for e in postorder(store_of(block).value)
        if isinstance(e, Load) and e.buffer.name == packed.name
    )
    inputs = tuple(Var(f"i{d}") for d in range(len(load.indices)))
    at: dict[Expr, Var] = dict(zip(load.indices, inputs, strict=True))
    part = {n: at[it.var] for n, it in enumerate(block.iters) if it.var in at}
    heads: list[Expr] = [part[n] for n in (*roles.outer, *roles.blocks[:-1]) if n in part]
    tails: list[Expr] = []
    channels = [(n, tiles.blocks) for n in roles.blocks[-1:]]
    for n, taken in (*channels, (roles.lane, width)):
        whole = likely_extent(block.iters[n].extent) == taken
        heads += [] if whole else [part[n] // taken]
        tails += [part[n] if whole else part[n] % taken]
    outputs = [*heads, *(part[n] for n in roles.k), *tails]
    s.transform_layout(ref, packed.name, IndexMap(inputs, outputs))


# --- Loops -----------------------------------------------------------------------------------


def _nest(
    s: Schedule, ref: BlockRef, roles: Roles, tiles: DirectTiles, lanes: int, part: Part
) -> Nest:
    """Tile the loops."""
    loops = s.get_loops(ref)
    block = block_of(s, ref)
    tile, pixel = s.split(loops[roles.pixel], [None, tiles.pixels])
    axes = [*(loops[at] for at in roles.outer), tile]
    inside: list[LoopRef] = []
    if part.rows > 1:
        axes[part.depth - 1], row = s.split(axes[part.depth - 1], [None, part.rows])
        inside = [row]
    head, tail = axes[: part.depth], [*inside, *axes[part.depth :]]
    channels = [loops[at] for at in roles.blocks]
    inner: list[LoopRef] = []
    if channels and tiles.blocks > 1:
        channels[-1], taken = s.split(channels[-1], [None, tiles.blocks])
        inner.append(taken)
    lane = loops[roles.lane]
    along = likely_extent(block.iters[roles.lane].extent)
    if along > tiles.inner * lanes:
        apart, lane = s.split(lane, [None, tiles.inner * lanes])
        channels.append(apart)
    if tiles.inner > 1:
        vector, lane = s.split(lane, [None, lanes])
        inner.append(vector)
    *sums, step = (loops[at] for at in roles.k)
    extent = likely_extent(block.iters[roles.k[-1]].extent)
    count = 1 if roles.slides else tiles.steps(extent)  # else too much is kept for other pixels
    if count < extent:
        steps, step = s.split(step, [None, count])
        sums.append(steps)
    s.reorder(*head, *channels, *tail, *sums, step, pixel, *inner, lane)
    for x in (step, pixel, *inner):
        s.unroll(x)
    s.vectorize(lane)
    return Nest(head, channels, tail)


def _finish(s: Schedule, ref: BlockRef, result: BlockRef, last: LoopRef, lanes: int) -> None:
    """Begin the sums of a tile, and store it, from registers."""
    loops = [x.var for x in s.get_loops(ref)]
    sums = s.get_loops(ref)[loops.index(last.var) + 1]
    first = s.decompose_reduction(ref, sums)
    for x in _inside(s, first, last)[:-1]:
        s.unroll(x)
    s.vectorize(s.get_loops(first)[-1])
    inner = _inside(s, result, last)
    block = block_of(s, result)
    along = set(free_vars(*(it.binding for it in block.iters if it.var in _lies(block))))
    at = next((x for x in reversed(inner) if x.var in along), inner[-1])
    if at is not inner[-1]:
        s.reorder(*[x for x in inner if x is not at], at)
    for x in inner:
        if x is not at:
            s.unroll(x)
    node = find_loop(s.program, at.var).node
    assert isinstance(node, For)
    if likely_extent(node.extent) > lanes:
        vectors, at = s.split(at, [None, lanes])
        s.unroll(vectors)
    s.vectorize(at)


def _lies(block: Block) -> set[Var]:
    return set(free_vars(*store_of(block).indices[-1:]))


def _inside(s: Schedule, ref: BlockRef, loop: LoopRef) -> list[LoopRef]:
    """The loops around a block that stand inside of `loop`."""
    loops = s.get_loops(ref)
    return loops[[x.var for x in loops].index(loop.var) + 1 :]


def _parallel(s: Schedule, loops: Sequence[LoopRef], target: Target) -> list[LoopRef]:
    """Run outer loops on threads, as many of them as it takes for even shares, as one loop. Gives
    the loops as they are then.

    A loop of which the call alone tells how long it is may be over the one image that there is.
    """
    taken: list[LoopRef] = []
    count, unknown = 1, 0
    for x in loops:
        node = find_loop(s.program, x.var).node
        assert isinstance(node, For)
        extent = known_extent(node.extent)
        taken.append(x)
        if extent is None:
            unknown += 1
        else:
            count *= extent
        if unknown > 1 or count % target.cores == 0 or count >= 4 * target.cores:
            break
    outer = s.fuse(*taken) if len(taken) > 1 else taken[0]
    s.parallel(outer)
    return [outer, *loops[len(taken) :]]
