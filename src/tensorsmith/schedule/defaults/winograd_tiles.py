"""How large the strips of a convolution by minimal filtering are, from a model of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tensorsmith.ops.winograd import TOGETHER
from tensorsmith.target import Target

NEAR_BYTES, FAR_BYTES, SPILLED_BYTES = 32.0, 16.0, 2.5
"""Bytes a cycle: from the second-level cache, from behind it in order, and of what is written and
read again and does not fit."""
LATENCY = 8
"""Sums that two multiply-add units work on at a time."""
SPARE_REGISTERS = 1
"""Vector registers that hold neither sums nor kernel points: one image point."""
MOST_VECTORS = 6
"""Vectors of channels in registers."""
ROWS = (1, 2, 3, 4, 6, 8)
"""Rows of tiles that a strip may have, where the call tells the height of the image."""
USUAL_ROWS = (4, 5, 7, 10, 14, 20, 28, 40)
"""Tiles along such an image, and down, as they often are."""


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
    """The decisions.

    rows, columns: tiles of a strip, down and along the image; no columns stand for whole rows,
    however long they are. tiles, vectors: in registers, of the products. is_padded: whether rows of
    tiles are padded to whole ones in registers.
    """

    rows: int
    columns: int
    tiles: int
    vectors: int
    is_padded: bool = False


def choose_strip(shape: Shape, target: Target) -> Strip:
    """The strip for which a model says the least time a tile."""
    return min(
        _strips(shape, target),
        key=lambda strip: (_time(shape, strip, target), -strip.tiles * strip.vectors),
    )


def _strips(shape: Shape, target: Target) -> Iterator[Strip]:
    """The strips that an image is filled with, with sums that fit the registers; first those that
    read the kernels least often."""
    vectors_after = max(1, shape.after // target.lanes(shape.bytes))
    registers = target.vector_registers - SPARE_REGISTERS
    for vectors in (v for v in range(1, MOST_VECTORS + 1) if vectors_after % v == 0):
        if vectors % shape.vectors and shape.vectors % vectors:
            continue
        for tiles in range(max(1, (registers - vectors) // vectors), 0, -1):
            if shape.along is None and TOGETHER % tiles:
                continue
            for rows, columns in _sizes(shape, tiles):
                yield Strip(rows, columns, tiles, vectors, _is_padded(shape, rows, tiles))


def _sizes(shape: Shape, tiles: int) -> Iterator[tuple[int, int]]:
    """Rows and columns of tiles that a strip may have: whole strips fill an image whose size is
    known. Rows of an unknown length are not cut: code for what such a cut leaves over is long."""
    if shape.along is None:
        yield from ((rows, 0) for rows in (ROWS if shape.down is None else _divisors(shape.down)))
        return
    if shape.down is None:
        yield from ((rows, shape.along) for rows in ROWS)
        return
    yield from ((n, shape.along) for n in _divisors(shape.down))
    yield from ((1, n) for n in _divisors(shape.along) if n % tiles == 0)


def _divisors(number: int) -> Iterator[int]:
    return (n for n in range(1, number + 1) if number % n == 0)


def _is_padded(shape: Shape, rows: int, tiles: int) -> bool:
    """Whether groups of tiles are neither whole parts of a row nor some rows of a strip, of which
    the last may be fewer where the strip is the whole image."""
    if shape.along is None or shape.along % tiles == 0:
        return False
    is_whole = rows == shape.down or rows * shape.along % tiles == 0
    return tiles % shape.along > 0 or tiles > rows * shape.along or not is_whole


def _time(shape: Shape, strip: Strip, target: Target) -> float:
    """Cycles a tile. Of images whose size the call tells, the sum over usual ones."""
    if shape.along is None or shape.down is None:
        usual = (
            replace(shape, down=shape.down or n, along=shape.along or -(-n // TOGETHER) * TOGETHER)
            for n in USUAL_ROWS
        )
        return sum(_time(each, strip, target) for each in usual)
    rows, columns = min(strip.rows, shape.down), strip.columns or shape.along
    count = max(1, rows * columns)
    groups = count / strip.tiles
    if strip.is_padded:
        groups = rows * -(-columns // strip.tiles)
    parts = shape.after / (target.lanes(shape.bytes) * strip.vectors)
    products = shape.points * shape.before * parts * groups * _step(shape, strip, target)
    near = target.caches.l2
    kernels = shape.points * shape.before * shape.after * shape.bytes
    mapped = shape.points * (shape.before + shape.after) * shape.bytes * count
    is_near = kernels + min(mapped, near // 2) <= near * 3 // 4
    reading = kernels / (NEAR_BYTES if is_near else FAR_BYTES)
    far = max(0.0, 1.0 - 0.75 * near / mapped)
    moving = 4.0 * mapped * ((1.0 - far) / NEAR_BYTES + far / SPILLED_BYTES)
    return (products + reading + moving) / count


def _step(shape: Shape, strip: Strip, target: Target) -> float:
    """Cycles for one channel before, of the sums in registers."""
    l1 = target.caches.l1
    time = max(strip.tiles * strip.vectors, strip.tiles + strip.vectors, LATENCY) / 2
    kernels = strip.vectors * target.lanes(shape.bytes) * shape.bytes
    if kernels * shape.before > l1 // 2:
        time += kernels / NEAR_BYTES
    if strip.tiles * shape.bytes * shape.before > l1 * 2 // 3:
        time += strip.tiles / 2
    return time
