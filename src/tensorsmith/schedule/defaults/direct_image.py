"""The image of a direct convolution: read as it lies, or copied with its padding, part by part."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from tensorsmith.arith import Analyzer
from tensorsmith.ir import Block, Buffer, Const, Expr, Load, Store, free_vars, substitute
from tensorsmith.schedule.defaults.analysis import SYMBOLIC_EXTENT, Contraction, is_reduction
from tensorsmith.schedule.defaults.attempt import attempt
from tensorsmith.schedule.defaults.canonical import block_of
from tensorsmith.schedule.refs import BlockRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.target import Target

UNKNOWN = 64
"""Pixels along an axis of the image of which the call alone tells how many there are. Where no
windows move over the last axis, rows and columns are one; of images there is likely one."""
PIXELS_OF_UNKNOWN = 160
"""Pixels of a part of an image of which only the call tells how large it is: so many that weights
are not read too often, so few that small images have work for all threads."""
ROWS_OF_UNKNOWN = 8
"""The same in rows, where windows move over them."""
FEWEST_ROWS = 4
"""Rows of the result that are computed from one copy of rows of the image, where these overlap."""


@dataclass(frozen=True, slots=True)
class Part:
    """For how many of the axes of the image it is taken apart: `depth` of them, of the last one
    `rows` at a time; depth 0 for the whole of it."""

    depth: int
    rows: int = 1


def known_extent(extent: Expr) -> int | None:
    """An extent that is the same in every call."""
    return int(extent.value) if isinstance(extent, Const) else None


def likely_extent(extent: Expr) -> int:
    """An extent, or what one is taken to be where the call alone tells."""
    known = known_extent(extent)
    return int(SYMBOLIC_EXTENT) if known is None else known


def store_of(block: Block) -> Store:
    """The one store that a block is."""
    assert isinstance(block.body, Store)
    return block.body


def image_part(
    block: Block, what: Contraction, axes: tuple[int, ...], pixels: int, target: Target
) -> Part:
    """Into what parts to cut the image, so that each stays in the second-level cache while all
    channels are computed from it.

    axes: the iterators over the image, outermost first, by place; the last one goes by tiles of
    `pixels`. Small parts leave room for weights that fit beside them, and for the result; others
    are worth reading such weights less often.
    """
    counts = {at: likely_extent(it.extent) for at, it in enumerate(block.iters)}
    for at in axes:
        if known_extent(block.iters[at].extent) is None:
            is_row = overlaps(block, what, at)
            counts[at] = UNKNOWN if is_row else UNKNOWN**2 if at == axes[-1] else 1
    weights = prod(counts[at] for at in (*what.n, *what.k)) * what.right.dtype.bytes
    l2 = target.caches.l2
    budget = (l2 // 8 if weights <= l2 // 4 else l2 // 2) // what.left.dtype.bytes
    steps = _steps(block, what.left)
    if _footprint(steps, counts) <= budget:
        return Part(0)
    for depth, at in enumerate(axes, 1):
        unit = pixels if at == axes[-1] else 1
        extent = -(-counts[at] // unit)
        fewest = FEWEST_ROWS if unit == 1 and overlaps(block, what, at) else 1
        rows = [
            -(-extent // n)
            for n in range(target.cores if extent >= target.cores else 1, extent + 1)
        ]
        fits = [r for r in dict.fromkeys(rows) if r >= fewest]
        fits = [r for r in fits if _footprint(steps, {**counts, at: r * unit}) <= budget]
        if fits and known_extent(block.iters[at].extent) is None:
            most = max(1, PIXELS_OF_UNKNOWN // unit) if unit > 1 else ROWS_OF_UNKNOWN
            return Part(depth, min(fits[0], most))
        if fits:
            even = next((r for r in fits if extent % r == 0 and 2 * r >= fits[0]), fits[0])
            return Part(depth, even)
        counts[at] = unit
    return Part(len(axes))


def overlaps(block: Block, what: Contraction, at: int) -> bool:
    """Whether an iterator moves windows over the image, so that neighbours share elements."""
    var, sums = block.iters[at].var, {block.iters[k].var for k in what.k}
    used = [set(free_vars(e)) for e in what.left.indices]
    return any(var in u and not sums.isdisjoint(u) for u in used)


def _steps(block: Block, image: Load) -> list[dict[int, int]]:
    """For each dimension of the image how far the iterators, by place, move in it."""
    facts = Analyzer()
    found = []
    for index in image.indices:
        used = {at: it.var for at, it in enumerate(block.iters) if it.var in free_vars(index)}
        moves = {
            at: facts.simplify(substitute(index, {v: v + 1}) - index) for at, v in used.items()
        }
        found.append({at: known_extent(step) or 1 for at, step in moves.items()})
    return found


def _footprint(steps: list[dict[int, int]], counts: dict[int, int]) -> int:
    """Elements of the image that are read for so many values of each iterator."""
    return prod(1 + sum((counts[at] - 1) * step for at, step in d.items()) for d in steps)


def image_of(
    s: Schedule, ref: BlockRef, left: Buffer, pixels: tuple[int, int], free: Collection[str]
) -> BlockRef | None:
    """The block that copies the image with its padding, and with rows padded to whole tiles; None
    where it is read as it lies. pixels: an iterator, by place, and of how many a tile is."""
    block = block_of(s, ref)
    at, size = pixels
    padding = [size if n == at else 1 for n in range(len(block.iters))]
    made, backs = s.pad_einsum(ref, padding)
    for back in backs:
        s.compute_inline(back)
    if made:
        (image,) = made
    else:
        found = [p for p in s.get_producers(ref) if store_of(block_of(s, p)).buffer is left]
        if not found or not _is_own(s, found[0], free):
            return None
        (image,) = found
    while own := [p for p in s.get_producers(image) if _is_own(s, p, free)]:
        if any(attempt(s, functools.partial(s.compute_inline, p)) for p in own):
            break
    return image


def _is_own(s: Schedule, producer: BlockRef, free: Collection[str]) -> bool:
    """Whether a block computes what one other block alone uses, one value an element."""
    block = block_of(s, producer)
    return (
        producer.name in free
        and isinstance(block.body, Store)
        and len(s.get_consumers(producer)) == 1
        and not is_reduction(block)
    )
