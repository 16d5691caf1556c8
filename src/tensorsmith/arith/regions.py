"""Which parts of which buffers a statement reads and writes.

A region is one box a buffer, in terms of the variables that hold outside of the statement. An index
that is a sum of loop variables with coefficients, constant or symbolic, is relaxed exactly: its
least and greatest values over the loops inside. Other indices get a box that covers them, and an
index that depends on data (a load, a value bound to one, a loop whose range is one) gets the whole
dimension. A box covers accesses under their guards too: where an access is guarded, it may reach
over the edge of the buffer. Source: Feng et al., TensorIR, ASPLOS 2023, section 3.1 (block
signatures).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tensorsmith.arith.accesses import Access, collect_accesses
from tensorsmith.arith.analyzer import Analyzer
from tensorsmith.arith.relax import symbolic_range
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import Expr, Load, Max, Min, Var, const, postorder
from tensorsmith.ir.stmt import Block, Stmt

Regions = tuple[Region, ...]
Range = tuple[Expr, Expr]


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a statement reads and writes: one box a buffer, and the single accesses they cover."""

    reads: Regions
    writes: Regions
    accesses: tuple[Access, ...]


def block_regions(block: Block) -> tuple[Regions, Regions]:
    """The regions that one execution of the block's body and init reads, and those that it writes.

    In terms of the block's iterators. Regions that are written out on the block are returned as
    they are; others follow from the accesses. One region a buffer, in order of first access;
    buffers that are allocated inside are left out. A nested block counts with its own regions.
    """
    if block.reads is not None and block.writes is not None:
        return block.reads, block.writes
    analyzer = Analyzer()
    for it in block.iters:
        analyzer.bind(it.var, it.start, it.extent)
    derived = footprint(block, analyzer)
    reads = derived.reads if block.reads is None else block.reads
    writes = derived.writes if block.writes is None else block.writes
    return reads, writes


def accessed_regions(stmt: Stmt, analyzer: Analyzer | None = None) -> tuple[Regions, Regions]:
    """The regions that `stmt` reads and writes, in terms of the variables defined outside of it.

    analyzer: what is known of those variables. Of a block that is `stmt` itself the iterators are
    replaced by their bindings.
    """
    derived = cover(collect_accesses(stmt), analyzer)
    return derived.reads, derived.writes


def footprint(stmt: Stmt, analyzer: Analyzer | None = None) -> Footprint:
    """What `stmt` accesses, for passes that need the single accesses, their loops and guards.

    Of a block that is `stmt` itself this is the inside: one execution, in terms of its iterators.
    """
    return cover(collect_accesses(stmt, inside=True), analyzer)


def relaxed_region(access: Access, analyzer: Analyzer) -> Region:
    """The box that `access` touches in all iterations of the loops around it."""
    ranges: list[Range] = []
    with analyzer.scope():
        for loop in access.loops:
            analyzer.bind(loop.var, loop.start, loop.extent)
        for (start, extent), size in zip(
            access.region.ranges, access.region.buffer.shape, strict=True
        ):
            ranges.append(_relaxed_range(access, start, extent, analyzer) or (const(0), size))
    return Region(access.region.buffer, ranges)


def _relaxed_range(access: Access, start: Expr, extent: Expr, analyzer: Analyzer) -> Range | None:
    """Start and extent over all iterations; None if they depend on data."""
    if _depends_on_data(start, access.unknown) or _depends_on_data(extent, access.unknown):
        return None
    first = analyzer.simplify(start)
    if not any(type(e) is Var and e in access.relaxed for e in postorder(start, extent)):
        return first, analyzer.simplify(extent)
    lowest = symbolic_range(first, access.loops, analyzer)
    highest = symbolic_range(analyzer.simplify(start + extent), access.loops, analyzer)
    if lowest is None or highest is None:
        return None
    return lowest[0], analyzer.simplify(highest[1] - lowest[0])


def _depends_on_data(e: Expr, unknown: frozenset[Var]) -> bool:
    return any(type(n) is Load or n in unknown for n in postorder(e))


def union_region(regions: Sequence[Region], analyzer: Analyzer) -> Region:
    """The least box, as far as can be proven, that covers all `regions` of one buffer."""
    first = regions[0]
    ranges = (
        _union_range([r.ranges[axis] for r in regions], analyzer)
        for axis in range(first.buffer.rank)
    )
    return Region(first.buffer, ranges)


def _union_range(ranges: Iterable[Range], analyzer: Analyzer) -> Range:
    distinct = list(dict.fromkeys(ranges))
    if len(distinct) == 1:
        return distinct[0]
    start, extent = distinct[0]
    stop = analyzer.simplify(start + extent)
    for other_start, other_extent in distinct[1:]:
        other_stop = analyzer.simplify(other_start + other_extent)
        start = _lesser(start, other_start, analyzer)
        stop = _greater(stop, other_stop, analyzer)
    return start, analyzer.simplify(stop - start)


def _lesser(a: Expr, b: Expr, analyzer: Analyzer) -> Expr:
    if analyzer.prove(a <= b) is True:
        return a
    return b if analyzer.prove(b <= a) is True else analyzer.simplify(Min(a, b))


def _greater(a: Expr, b: Expr, analyzer: Analyzer) -> Expr:
    if analyzer.prove(b <= a) is True:
        return a
    return b if analyzer.prove(a <= b) is True else analyzer.simplify(Max(a, b))


def clip_region(region: Region, analyzer: Analyzer | None = None) -> Region:
    """The part of `region` that lies inside of its buffer; nothing where all of it lies outside."""
    analyzer = analyzer or Analyzer()
    ranges = []
    for (start, extent), size in zip(region.ranges, region.buffer.shape, strict=True):
        first = _greater(start, const(0), analyzer)
        stop = _lesser(analyzer.simplify(start + extent), size, analyzer)
        stop = _greater(stop, first, analyzer)
        ranges.append((first, analyzer.simplify(stop - first)))
    return Region(region.buffer, ranges)


def cover(accesses: Sequence[Access], analyzer: Analyzer | None = None) -> Footprint:
    """The boxes around `accesses`: one for the reads and one for the writes of each buffer."""
    analyzer = analyzer or Analyzer()
    boxes: dict[bool, dict[Buffer, list[Region]]] = {False: {}, True: {}}
    for access in accesses:
        region = relaxed_region(access, analyzer)
        boxes[access.is_write].setdefault(region.buffer, []).append(region)
    reads, writes = (
        tuple(union_region(regions, analyzer) for regions in boxes[is_write].values())
        for is_write in (False, True)
    )
    return Footprint(reads, writes, tuple(accesses))
