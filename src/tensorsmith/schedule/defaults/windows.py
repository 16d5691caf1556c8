"""Windows that slide over images: pools, products that keep channels apart.

The fastest axis is in vectors: the channels of a block, or the last axis of the image itself, along
which windows then lie, too. Some neighbouring windows along the axis before it are computed
together, in registers: what they have in common is loaded once.
Padding is no copy: loops are cut where a window leaves the image (see
`tensorsmith.codegen.lower.partition`), so that only windows at the border ask. What follows,
element by element, is done while results are in registers. Weights are laid out once, in vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from tensorsmith.ir import (
    Block,
    Call,
    Const,
    Div,
    Expr,
    IndexMap,
    Iter,
    IterKind,
    Load,
    Store,
    Var,
    free_vars,
    postorder,
)
from tensorsmith.schedule.defaults.analysis import points, work
from tensorsmith.schedule.defaults.canonical import block_of
from tensorsmith.schedule.defaults.loops import element_bytes
from tensorsmith.schedule.defaults.threads import on_threads
from tensorsmith.schedule.defaults.users import with_producer, with_users
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import blocks_in
from tensorsmith.target import Target

MOST_TAPS = 1024
"""Positions of a window up to which it is taken for one."""
FEWEST_LANES = 4
"""Elements of the fastest axis for which vectors of it pay."""
MOST_SIDE_BY_SIDE = 8
"""Windows that are computed together: enough to hide the latency of a sum, and code stays short."""
MOST_COPIES = 64
"""Windows side by side times positions of each that are written out."""
MOST_TAPS_COPIED = 25
"""Positions of a window in both directions up to which all are written out."""
MOST_WEIGHTS = 12
"""Positions of a window along the fastest axis up to which products with weights pay; an extent
that only the call tells leaves too many windows to ask about."""
CHEAP_PRODUCER = 12.0
"""Work of what makes the image up to which it is done again for each row of a window."""


@dataclass(frozen=True, slots=True)
class Windows:
    """A reduction over windows, by places of its block's iterators.

    lane: the fastest axis. side: the axis along which windows are computed together, if there is
    one. taps: positions of windows; those that are written out last, which are `copied` many.
    is_shifted: whether windows lie along `lane`, too.
    image: what windows are read from. weights: the other loads, which move with taps.
    """

    lane: int
    side: int | None
    taps: tuple[int, ...]
    copied: int
    is_shifted: bool
    image: Load
    weights: tuple[Load, ...]


def windows(block: Block) -> Windows | None:
    """The windows that a block reduces, if that is what it does."""
    body = block.body
    taps = [at for at, it in enumerate(block.iters) if it.kind is IterKind.REDUCE]
    if not isinstance(body, Store) or block.init is None or not taps or not body.indices:
        return None
    extents = [_known(block.iters[at]) for at in taps]
    if None in extents or prod(e or 0 for e in extents) > MOST_TAPS:
        return None
    place = {it.var: at for at, it in enumerate(block.iters)}
    axes = [place.get(e, -1) if isinstance(e, Var) else -1 for e in body.indices]
    spatial = [at for at, it in enumerate(block.iters) if it.kind is IterKind.SPATIAL]
    if sorted(axes) != spatial:
        return None
    loads = [e for e in postorder(body.value) if isinstance(e, Load) and e.buffer != body.buffer]
    lane = axes[-1]
    return _roles(block, loads, axes, lane)


def _roles(block: Block, loads: list[Load], axes: list[int], lane: int) -> Windows | None:
    """Which load reads the image, and which read weights."""
    iters = block.iters
    lane_var, tap_vars = iters[lane].var, {i.var for i in iters if i.kind is IterKind.REDUCE}
    if any(isinstance(x, Load) for e in loads for x in postorder(*e.indices)):
        return None
    moving = [e for e in loads if _is_window(e, iters, lane_var, tap_vars)]
    if len(moving) != 1:
        return None
    (image,) = moving
    weights = tuple(
        e for e in loads if e is not image and tap_vars.intersection(free_vars(*e.indices))
    )
    is_shifted = image.indices[-1] is not lane_var
    extent = _known(iters[lane])
    if (extent is None and not is_shifted) or (extent or FEWEST_LANES) < FEWEST_LANES:
        return None
    side = axes[-2] if len(axes) > 1 else None
    taps = [at for at, it in enumerate(iters) if it.kind is IterKind.REDUCE]
    along = [at for at in taps if side is not None and _together(image, iters, side, at)]
    across = [at for at in taps if at not in along]
    number = prod(_known(iters[at]) or 1 for at in taps)
    if is_shifted and weights and (extent is None or number > MOST_WEIGHTS):
        return None
    if is_shifted:
        shifts = [at for at in across if _together(image, iters, lane, at)]
        others = [at for at in across if at not in shifts]
        if prod(_known(iters[at]) or 1 for at in (*along, *shifts)) > MOST_TAPS_COPIED:
            return Windows(
                lane, side, (*others, *along, *shifts), len(shifts), True, image, weights
            )
        along, across = [*along, *shifts], others
    return Windows(lane, side, (*across, *along), len(along), is_shifted, image, weights)


def _together(image: Load, iters: Sequence[Iter], axis: int, tap: int) -> bool:
    """Whether a subscript moves with both iterators."""
    both = {iters[axis].var, iters[tap].var}
    return any(both.issubset(free_vars(e)) for e in image.indices)


def _is_window(load: Load, iters: Sequence[Iter], lane: Var, taps: set[Var]) -> bool:
    """Whether a load lies along the lanes, and a subscript moves with an axis and with taps."""
    if not load.indices or lane not in free_vars(load.indices[-1]):
        return False
    spatial = {i.var for i in iters if i.kind is IterKind.SPATIAL}
    used = [set(free_vars(e)) for e in load.indices]
    plain = used[-1] & spatial == {lane} and not any(lane in u for u in used[:-1])
    return plain and any(u & taps and u & spatial for u in used)


def schedule_windows(
    s: Schedule, ref: BlockRef, what: Windows, target: Target, free: Collection[str]
) -> None:
    """Schedule a reduction over windows. Raises ScheduleError where a step is not legal.

    free: the blocks that may become part of it.
    """
    _take_image(s, ref, what, free)
    block = block_of(s, ref)
    for load in what.weights:
        _lay_out(s, ref, load, what)
    loops = s.get_loops(ref)
    total = points(block) * work(block)
    extent, width = _known(block.iters[what.lane]), _width(block, what, target)
    copy = s.cache_write(ref, 0, "local")
    lane, outer = loops[what.lane], [x for at, x in enumerate(loops) if at not in what.taps]
    outer.remove(lane)
    if extent is None or extent > width:
        more, lane = s.split(lane, [None, width])
        outer.append(more)
    tile: list[LoopRef] = []
    if what.side is not None:
        side = loops[what.side]
        outer.remove(side)
        steps, near = s.split(side, [None, _tile(block, what, width, target)])
        outer.insert(len(outer) - (extent is None or extent > width) * what.is_shifted, steps)
        tile.append(near)
    if not outer:
        raise ScheduleError(f"block {ref.name!r} computes one vector: there is nothing to tile")
    taps = [loops[at] for at in what.taps]
    s.reorder(*outer, *taps, *tile, lane)
    along = [b.name for b in blocks_in(s.program.body) if b.name in free and _runs_along(b)]
    copy = with_users(s, copy, (), along)
    s.reverse_compute_at(copy, outer[-1])
    s.vectorize(lane)
    for loop in (*tile, *taps[len(taps) - what.copied :]):
        s.unroll(loop)
    first = s.decompose_reduction(ref, taps[0])
    for made in (first, copy):
        inner = s.get_loops(made)[len(outer) :]
        for loop in inner[:-1]:
            s.unroll(loop)
        s.vectorize(inner[-1])
    error = on_threads(s, outer, target, total)
    if error is not None:
        raise error


def _runs_along(block: Block) -> bool:
    """Whether what a block reads and what it stores lie along the same axis."""
    store = block.body
    if not isinstance(store, Store) or not store.indices:
        return False
    loads = [e for e in postorder(store.value) if isinstance(e, Load)]
    rank = max((len(e.indices) for e in loads), default=0)
    return all(e.indices[-1] is store.indices[-1] for e in loads if 0 < len(e.indices) == rank)


def _take_image(s: Schedule, ref: BlockRef, what: Windows, free: Collection[str]) -> None:
    """Compute what windows are read from where it is read, if that costs little."""
    for producer in s.get_producers(ref):
        block = block_of(s, producer)
        if not isinstance(block.body, Store) or block.body.buffer is not what.image.buffer:
            continue
        dear = any(isinstance(e, (Call, Div)) for e in postorder(block.body.value))
        if not dear and work(block) <= CHEAP_PRODUCER:
            with_producer(s, producer, free)


def _lay_out(s: Schedule, ref: BlockRef, load: Load, what: Windows) -> None:
    """Have a weight in vectors, in the order in which it is used."""
    block = block_of(s, ref)
    used = set(free_vars(*load.indices))
    if load.indices[-1] is block.iters[what.lane].var:
        return
    order = [at for at, it in enumerate(block.iters) if it.kind is IterKind.SPATIAL]
    order.remove(what.lane)
    order = [at for at in (*order, *what.taps, what.lane) if block.iters[at].var in used]
    axes = tuple(Var(f"i{at}") for at in range(len(block.iters)))
    index_map = IndexMap(axes, [axes[at] for at in order])
    made = s.reindex_cache_read(ref, load.buffer.name, "global", index_map)
    loops = s.get_loops(made)
    _vectors_last(s, made, loops)


def _vectors_last(s: Schedule, made: BlockRef, loops: list[LoopRef]) -> None:
    """Run a block that lays a weight out along its result."""
    block = block_of(s, made)
    assert isinstance(block.body, Store)
    last = block.body.indices[-1]
    at = next((k for k, it in enumerate(block.iters) if it.var is last), None)
    if at is None:
        raise ScheduleError(f"block {made.name!r} has no axis along its result")
    s.reorder(*[x for x in loops if x is not loops[at]], loops[at])


def _width(block: Block, what: Windows, target: Target) -> int:
    """Elements of the fastest axis that are computed at a time. Of an image's own axis that is a
    part that leaves nothing over, if there is one: what has to ask is slow."""
    lanes = target.lanes(element_bytes(block))
    extent = _known(block.iters[what.lane])
    if extent is None:
        return lanes
    if not what.is_shifted:
        return min(lanes, extent)
    parts = [n for n in range(lanes // 2, 2 * lanes + 1) if extent % n == 0]
    if extent <= 2 * lanes:
        parts.append(extent)
    return min(parts, key=lambda n: (_registers(n, lanes) / n, n), default=lanes)


def _registers(elements: int, lanes: int) -> int:
    """Registers of vectors that hold so many elements: whole ones, and a part for each power of 2
    that is left."""
    return elements // lanes + (elements % lanes).bit_count()


def _tile(block: Block, what: Windows, width: int, target: Target) -> int:
    """Windows that are computed side by side: as many as registers allow, of those numbers the one
    that leaves least of the last tile empty."""
    assert what.side is not None
    taps = prod(_known(block.iters[at]) or 1 for at in what.taps[len(what.taps) - what.copied :])
    held = _registers(width, target.lanes(element_bytes(block)))
    room = target.vector_registers - 4 - min(taps, 5) * bool(what.weights)
    most = max(1, min(room // held, MOST_SIDE_BY_SIDE, max(MOST_COPIES // taps, 2)))
    extent = _known(block.iters[what.side])
    if extent is None or extent <= most:
        return max(1, most if extent is None else extent)
    return min(range(max(1, most // 2), most + 1), key=lambda r: (-(-extent // r) * r, -r))


def _known(it: Iter) -> int | None:
    return _constant(it.extent)


def _constant(e: Expr) -> int | None:
    return int(e.value) if isinstance(e, Const) else None
