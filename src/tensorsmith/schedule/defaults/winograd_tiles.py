"""How large the strips and tiles of a convolution by minimal filtering are, from a machine model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tensorsmith.target import Target

NEAR_BYTES, FAR_BYTES = 32.0, 7.0
"""Bytes a cycle from the second-level cache, and from behind it, while sums are computed."""
LATENCY = 8
"""Sums that two multiply-add units work on at a time."""
SPARE_REGISTERS = 1
"""Vector registers that hold neither sums nor kernel points: one image point."""
MOST_VECTORS = 6
"""Vectors of channels in registers."""
USUAL_ROWS = (5, 7, 10, 14, 20, 28, 40)
"""Tiles along an image where their number is told in the call, as they often are."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A convolution: tiles down and along the image (None for what the call tells), channels before
    and after, vectors in a block of channels after, points of a tile, bytes of an element."""

    down: int | None
    along: int | None
    before: int
    after: int
    vectors: int
    points: int
    bytes: int = 4


@dataclass(frozen=True, slots=True)
class Strip:
    """The decisions: rows of tiles in a strip, and for the products, tiles and vectors of channels
    in registers. is_padded: whether rows of tiles are padded to whole ones in registers."""

    rows: int
    tiles: int
    vectors: int
    is_padded: bool = False


def choose_strip(shape: Shape, target: Target) -> Strip:
    """The strip for which a model says the least time a tile."""
    return min(_strips(shape, target), key=lambda strip: _cycles(shape, strip, target))


def _strips(shape: Shape, target: Target) -> Iterator[Strip]:
    """The strips that an image is filled with, with sums that fit the registers; first those that
    read the kernels least often."""
    vectors_after = max(1, shape.after // target.lanes(shape.bytes))
    registers = target.vector_registers - SPARE_REGISTERS
    for vectors in (v for v in range(1, MOST_VECTORS + 1) if vectors_after % v == 0):
        if vectors % shape.vectors and shape.vectors % vectors:
            continue
        for tiles in range(max(1, (registers - vectors) // vectors), 0, -1):
            for rows in _row_counts(shape):
                yield Strip(rows, tiles, vectors, is_padded=not _fits(shape, rows, tiles))


def _row_counts(shape: Shape) -> Iterator[int]:
    """Rows of tiles that a strip may have: whole strips fill the image."""
    if shape.down is None or shape.along is None:
        yield 1
        return
    yield from (n for n in range(1, max(1, shape.down) + 1) if shape.down % n == 0)


def _fits(shape: Shape, rows: int, tiles: int) -> bool:
    """Whether whole groups of tiles are parts of a row, or some rows."""
    if shape.along is None:
        return False
    return shape.along % tiles == 0 or (tiles % shape.along == 0 and rows * shape.along % tiles == 0)


def _cycles(shape: Shape, strip: Strip, target: Target) -> float:
    """Cycles a tile. Of images whose size the call tells, the sum over usual ones."""
    if shape.along is None:
        return sum(_cycles(replace(shape, along=n), strip, target) for n in USUAL_ROWS)
    count = max(1, strip.rows * shape.along)
    groups = count / strip.tiles
    if strip.is_padded:
        groups = strip.rows * -(-shape.along // strip.tiles)
    near = target.caches.l2
    sums = strip.tiles * strip.vectors
    step = max(sums, strip.tiles + strip.vectors, LATENCY) / 2
    parts = shape.after / (target.lanes(shape.bytes) * strip.vectors)
    products = shape.points * shape.before * parts * groups * step
    kernels = shape.points * shape.before * shape.after * shape.bytes
    mapped = shape.points * (shape.before + shape.after) * shape.bytes * count
    kernel_speed = NEAR_BYTES if kernels + mapped <= near * 3 // 4 else FAR_BYTES
    mapped_speed = NEAR_BYTES if mapped <= near // 2 else FAR_BYTES
    return (products + kernels / kernel_speed + 2 * mapped / mapped_speed) / count
