"""How large the tiles of a matrix product are, from the registers and caches of a machine.

Source: Low, Igual, Smith, Quintana-Orti, Analytical modeling is enough for high-performance BLIS,
2016, of which this is a plainer form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorsmith.target import Target

SYMBOLIC = 256
"""What an extent that is not known is taken to be."""
SPARE_REGISTERS = 4
"""Vector registers that hold no sums."""
STREAMS = 4, 3, 2, 1
"""In how many places constants may be read at a time, the best first."""
FEW_USES_OF_A, FEW_USES_OF_B = 32, 16
"""How often a part of an operand may be used without packing: reading its rows one element at a
time costs little, reading short pieces of many rows may miss the cache of page addresses."""

FAR_READS = 4
"""Second-level caches that may be read in short pieces before packing pays."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The extents of a product; None for what only the call tells. bytes: of an element of the
    result; operand: of one of A and B."""

    m: int | None
    n: int | None
    k: int | None
    bytes: int = 4
    operand: int = 4

    @property
    def flops(self) -> float:
        """Operations of one product."""
        return 2.0 * (self.m or SYMBOLIC) * (self.n or SYMBOLIC) * (self.k or SYMBOLIC)


@dataclass(frozen=True, slots=True)
class Tiles:
    """The decisions for a packed product.

    rows, columns: of the tile of the result in registers. panel: tiles of rows whose part of A is
    packed at a time, to stay in the second-level cache; 0 for all. strip: tiles of columns whose
    part of B is packed at a time, to stay in the cache behind; 0 for all. pack_a, pack_b: whether
    operands are packed at all. across: tiles of columns that are computed side by side. depth:
    steps of the sum that are done with all of a strip before the next ones, where sums wait in
    memory; 0 for all.
    streams: in how many places the packed columns are read at a time, where they are the same in
    every call: the tiles that are computed side by side lie that far apart, and each is followed by
    the next that is read. One stream alone waits for memory.
    """

    rows: int
    columns: int
    panel: int
    strip: int
    pack_a: bool = True
    pack_b: bool = True
    across: int = 1
    depth: int = 0
    streams: int = 1

    @property
    def takes_strips(self) -> bool:
        """Whether strips of B are taken one after the other; streams go through all of it."""
        return bool(self.strip) and not self.across == self.streams > 1

    def in_blocks(self, sizes: Sizes, target: Target, chunks: int) -> Tiles:
        """The same with a B that is packed in blocks of the depth, wide ones, since what is used a
        few times costs most where it is read in short pieces of many rows. A tile of a block stays
        in the first-level cache, a block in the second."""
        assert sizes.n is not None
        assert sizes.k is not None
        row_bytes = self.columns * sizes.operand
        depth = _even_depth(sizes.k, max(1, target.caches.l1 * 2 // 3 // row_bytes))
        strip = max(1, target.caches.l2 // 4 // (depth * row_bytes))
        strip = even_part(sizes.n, self.columns, strip, chunks)
        deep = depth if depth < sizes.k else 0
        return replace(self, panel=0, strip=strip, depth=deep, pack_a=False, pack_b=True)

    def in_strips(self, sizes: Sizes, target: Target) -> Tiles:
        """The same with strips of B that stay in the second-level cache, where they are made, and
        as many for each thread, if they divide so."""
        tiles = None if sizes.n is None else -(-sizes.n // self.columns)
        tile_bytes = self.columns * (sizes.k or SYMBOLIC) * sizes.operand
        strip = max(1, target.caches.l2 // 2 // tile_bytes)
        if tiles is not None:
            fewest = -(-tiles // strip)
            even = [p for p in range(fewest, tiles + 1) if tiles % p == 0]
            strip = tiles // next((p for p in even if p % target.cores == 0), even[0])
        return replace(self, strip=strip, pack_a=False, pack_b=True)

    def has_even_strips(self, columns: int | None, target: Target) -> bool:
        """Whether all threads get as many strips of so many columns."""
        if columns is None or not self.strip:
            return False
        return -(-columns // (self.columns * self.strip)) % target.cores == 0

    def of_few_rows(self, rows: int, columns: int | None, target: Target) -> Tiles:
        """The same with so few rows in registers, and so more columns; B is packed as it was.

        columns: of the result, if that is known.
        """
        whole = self.strip or (1 if columns is None else -(-columns // self.columns))
        vectors = -(-self.columns // target.lanes(4))
        most = max(1, (target.vector_registers - SPARE_REGISTERS) // (rows * vectors))
        if 1 < self.streams <= most:
            return replace(self, rows=rows, panel=1, across=self.streams, pack_a=False)
        across = next(a for a in (4, 3, 2, 1) if whole % a == 0 and a <= most)
        return replace(self, rows=rows, panel=1, across=across, pack_a=False)

    def in_streams(self, columns: int | None) -> Tiles:
        """The same with so many columns read in several places, as results of few rows do."""
        if columns is None:
            return self
        tiles = -(-columns // self.columns)
        padded = -(-tiles // max(self.strip, 1)) * max(self.strip, 1)
        return replace(self, streams=next(s for s in STREAMS if padded % s == 0))

    def flat(self, rows: int, columns: int | None, target: Target) -> Tiles:
        """The same for a result that never has more rows than these."""
        return replace(self, strip=0).of_few_rows(rows, columns, target)


def choose_tiles(sizes: Sizes, target: Target, batch: int = 1) -> Tiles:
    """Tiles for a product of which there are `batch` side by side."""
    lanes = target.lanes(sizes.bytes)
    vectors = _vectors(sizes.n, lanes, target.vector_registers)
    rows = _rows(sizes.m, vectors, target)
    columns = vectors * lanes
    depth = sizes.k or SYMBOLIC
    row_bytes, column_bytes = rows * depth * sizes.operand, columns * depth * sizes.operand
    chunks = 2 * target.cores if target.cores > 1 and batch < 2 * target.cores else 1
    panel = max(1, target.caches.l2 // 2 // row_bytes)
    if sizes.m is None:
        strip = max(1, target.caches.l2 // 2 // column_bytes)
        return Tiles(rows, columns, 1, even_part(sizes.n, columns, strip, 1))
    if sizes.n is None:
        return Tiles(rows, columns, even_part(sizes.m, rows, panel, chunks), 0)
    tall = -(-sizes.m // rows) >= chunks
    strip = max(1, target.caches.l3 // 4 // target.cores // column_bytes)
    return Tiles(
        rows,
        columns,
        even_part(sizes.m, rows, panel, chunks if tall else 1),
        even_part(sizes.n, columns, strip, 1 if tall else chunks),
        pack_a=-(-sizes.n // columns) > FEW_USES_OF_A,
        pack_b=-(-sizes.m // rows) > FEW_USES_OF_B
        or sizes.n * depth * sizes.operand > min(target.caches.l3 // 4, 8 * target.caches.l2),
    )


def is_far(sizes: Sizes, tiles: Tiles, target: Target) -> bool:
    """Whether packing a B that is not used often pays nevertheless: it does not stay in the
    second-level cache, or short pieces of its rows would be read from there many times."""
    if sizes.m is None or sizes.n is None or sizes.k is None or sizes.operand != sizes.bytes:
        return False
    uses = -(-sizes.m // tiles.rows)
    size = sizes.n * sizes.k * sizes.operand
    is_far = size > target.caches.l2 or uses * size > FAR_READS * target.caches.l2
    return uses <= FEW_USES_OF_B and is_far


def _even_depth(k: int, most: int) -> int:
    """Steps of a block of the depth, of at most `most`, so that blocks are even if they may be."""
    parts = -(-k // most)
    even = next((p for p in range(parts, 2 * parts) if k % p == 0), parts)
    return -(-k // even)


def _vectors(n: int | None, lanes: int, registers: int) -> int:
    """Vectors in a row of the tile: two keep both multiply-add units busy while a row's factor is
    broadcast once; one or three where that leaves less of the last tile empty."""
    if n is None:
        return 2
    whole = -(-n // lanes)
    if whole == 1:
        return 1
    return 3 if registers >= 32 and whole % 2 and whole % 3 == 0 else 2


def _rows(m: int | None, vectors: int, target: Target) -> int:
    """Rows of the tile: as many as leave registers for a row of B and a factor, fewer where that
    leaves less of the last tile empty, but enough to hide the latency of a multiply-add."""
    registers = target.vector_registers
    most = max(1, min((registers - vectors - 1) // vectors, 14 if registers >= 32 else 6))
    if m is None:
        return min(most, 8)
    if m <= most:
        return max(1, m)
    least = min(most, max(4, -(-most // 2) + 1))
    return min(range(least, most + 1), key=lambda r: (-(-m // r) * r, -r))


def even_part(extent: int | None, size: int, most: int, least_parts: int) -> int:
    """Tiles of `size` that are taken at a time, of at most `most` and in no fewer parts than
    `least_parts`, so that the parts are even; 0 for all, as for an extent that is not known."""
    if extent is None:
        return 0
    tiles = max(1, -(-extent // size))
    parts = min(tiles, max(-(-tiles // most), least_parts))
    if parts == 1:
        return 0
    candidates = range(parts, min(tiles, 2 * parts) + 1)
    best = min(candidates, key=lambda p: (-(-tiles // p) * p, p))
    return -(-tiles // best)
