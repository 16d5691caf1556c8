"""Transpositions: through square tiles in registers."""

from __future__ import annotations

from tensorsmith.ir import Block, Load, LoopKind, Store, Var, postorder
from tensorsmith.ir.rewrite import statements
from tensorsmith.schedule.defaults.loops import known_extent, loop_node, loop_of
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import find_block

NEAR_TILES = 16
"""Tiles that are read one below the other, so that few pages are in use."""


def transpose(s: Schedule, ref: BlockRef, loop: LoopRef, across: Var, lanes: int) -> bool:
    """Go through square tiles: each is read row by row into a small buffer, and written from it.

    loop: along which the result lies. across: the iterator along which the operand lies. Whether
    that was done.
    """
    other = loop_of(s, ref, across)
    if other is None or other.var is loop.var or len(s.get_loops(ref)) < 2:
        return False
    if any(loop_node(s, x).kind is not LoopKind.SERIAL for x in (other, loop)):
        return False
    source = _read_along(s, ref, across)
    extent = known_extent(s, loop)
    rows, r = s.split(other, [None, lanes])
    if extent is not None and extent <= lanes:
        columns, c = s.split(loop, [None, lanes])
        s.reorder(rows, columns, r, c)
    else:
        near, columns, c = s.split(loop, [None, _near_tiles(extent, lanes), lanes])
        s.reorder(near, rows, columns, r, c)
    tile = s.cache_read(ref, source, "local")
    s.compute_at(tile, columns)
    *_, outer, inner = s.get_loops(tile)
    s.unroll(outer)
    s.vectorize(inner)
    s.unroll(r)
    s.vectorize(c)
    return True


def _near_tiles(extent: int | None, lanes: int) -> int:
    """Tiles that are read one below the other: a number that leaves few of the last ones empty."""
    if extent is None:
        return NEAR_TILES
    tiles = -(-extent // lanes)
    most = min(tiles, NEAR_TILES)
    return min(range(-(-most // 2), most + 1), key=lambda n: (-(-tiles // n) * n, -n))


def _read_along(s: Schedule, ref: BlockRef, across: Var) -> str:
    """The name of the buffer that a block reads along an iterator."""
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    return next(
        e.buffer.name
        for x in statements(block.body)
        if isinstance(x, Store)
        for e in postorder(x.value)
        if isinstance(e, Load) and e.indices and e.indices[-1] is across
    )
