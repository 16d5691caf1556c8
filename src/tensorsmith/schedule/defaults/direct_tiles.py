"""How large the tiles of a direct convolution are, from the registers and caches of a machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorsmith.target import Target

STEPS = 128
"""Multiply-adds that the innermost loop does before it repeats."""
MOST_VECTORS = 6
"""Vectors of channels of a tile: each step of the sum reads as many from the packed weights."""
LATENCY = 8
"""Multiply-adds that are under way at once where both units are busy."""
USUAL_ROWS = (6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80)
"""Pixels of a row of which the call alone tells the length, as they often are: small tiles of many
vectors leave the least of them over."""


@dataclass(frozen=True, slots=True)
class DirectTiles:
    """pixels, vectors: of the tile of the result in registers. vectors: of channels, `inner` of
    them side by side in one block of channels, `blocks` blocks."""

    pixels: int
    inner: int
    blocks: int

    @property
    def vectors(self) -> int:
        """Vectors of channels of a tile."""
        return self.inner * self.blocks

    def steps(self, extent: int) -> int:
        """How many steps of a loop of the sum, of `extent` iterations, to repeat without a loop."""
        most = max(1, STEPS // (self.pixels * self.vectors))
        if extent <= 2 * most:
            return extent
        return next(x for x in range(most, 0, -1) if extent % x == 0)


def choose_direct_tiles(
    row: int | None, blocks: int | None, vectors: int, target: Target
) -> DirectTiles:
    """Tiles for rows of `row` pixels, and `blocks` blocks of channels of `vectors` vectors each.
    None: what the call alone tells."""
    candidates = _candidates(blocks, vectors, target.vector_registers)
    rows = USUAL_ROWS if row is None else (row,)
    return min(candidates, key=lambda t: (sum(_cost(t, n) for n in rows), -t.pixels * t.vectors))


def _candidates(blocks: int | None, vectors: int, registers: int) -> Iterator[DirectTiles]:
    for inner in (x for x in range(1, vectors + 1) if vectors % x == 0):
        for taken in range(1, MOST_VECTORS // inner + 1):
            is_whole = inner == vectors and blocks is not None and blocks % taken == 0
            if taken > 1 and not is_whole:
                continue
            count = inner * taken
            most = (registers - count - 1) // count if count > 1 else registers - 2
            for pixels in range(1, min(most, 28) + 1):
                yield DirectTiles(pixels, inner, taken)


def _cost(tiles: DirectTiles, row: int) -> float:
    """Cycles for each pixel and vector of channels in a step of the sum.

    Two multiply-adds and two loads are begun in each; weights come from the second-level cache, at
    half of a register a cycle.
    """
    adds = tiles.pixels * tiles.vectors
    cycles = max(adds, tiles.pixels + tiles.vectors, LATENCY) / 2
    cycles = max(cycles, 2.0 * tiles.vectors)
    return -(-row // tiles.pixels) * cycles / (row * tiles.vectors)
