"""Copies of buffers in other memory: read caches, write caches.

A copy is a block of its own, so that it can be moved and shaped like any other; the new buffer has
the shape of the old one until lowering shrinks it to what is used. Copies stand as far out as the
dependences let them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import takewhile

from tensorsmith.arith import Analyzer
from tensorsmith.arith.accesses import Access, collect_accesses
from tensorsmith.arith.iter_map import detect_iter_map
from tensorsmith.arith.regions import clip_region, relaxed_region, union_region
from tensorsmith.errors import ArithError
from tensorsmith.ir import (
    Block,
    Buffer,
    Expr,
    For,
    If,
    IterKind,
    Max,
    Min,
    Region,
    Stmt,
    TensorProgram,
    Var,
    While,
    free_vars,
    postorder,
    substitute,
)
from tensorsmith.ir.rewrite import replace_buffers, statements
from tensorsmith.ir.stmt import ZERO
from tensorsmith.schedule.copies import (
    Spot,
    after_alone,
    before_all,
    buffer_of,
    cached_buffer,
    copy_block,
    copy_of,
    element_copy,
    fresh_block_name,
    insert,
    replace_by_id,
)
from tensorsmith.schedule.dependence import (
    check_movable,
    effects,
    has_loads,
    is_written_elsewhere,
    scope_of,
    why_opaque,
)
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.independence import check_marked_loops
from tensorsmith.schedule.placement import Range
from tensorsmith.schedule.tree import Site, find_block, find_loop, sites

# --- Reading through a cache -----------------------------------------------------------------


def cache_read(
    program: TensorProgram,
    name: str,
    which: int | str,
    scope: str,
    consumers: Sequence[str] | None = None,
    at: Var | None = None,
) -> tuple[TensorProgram, str]:
    """See `Schedule.cache_read`. Gives the name of the copy block.

    at: the loop in which the copy stands; as far out as can be if None.
    """
    site = find_block(program, name)
    assert isinstance(site.node, Block)
    buffer = buffer_of(site.node, which, written=False)
    root = scope_of(program, site)
    using = _consumers(program, site, buffer, [name] if consumers is None else consumers)
    start = root if at is None else loop_body(program, site, at)
    spot = before_all(program, start, using, buffer)
    region = _region_read(spot, using, buffer)
    check_all_written(program, buffer, region, spot)
    new = cached_buffer(program, buffer, scope)
    copy_name = fresh_block_name(program, new.name)
    copied, repeating = copy_of(copy_block(copy_name, new, buffer), region.ranges, spot.place())
    changes = {id(b): replace_buffers(b, {buffer: new}) for b in using}
    parts = [replace_by_id(p, changes) for p in spot.parts]
    program = insert(program, root, spot, (copied, *parts), new, repeating)
    check_marked_loops(program, spot.around)
    return program, copy_name


def loop_body(program: TensorProgram, site: Site, var: Var) -> Stmt:
    """The body of a loop around the block at `site`. Raises ScheduleError if it is not around."""
    loop = find_loop(program, var).node
    if loop not in site.loops:
        raise ScheduleError(f"loop {var.name!r} is not around the block", where=loop.span)
    assert isinstance(loop, For)
    return loop.body


def _consumers(
    program: TensorProgram, site: Site, buffer: Buffer, names: Sequence[str]
) -> list[Block]:
    found: list[Block] = []
    for n in dict.fromkeys(names):
        other = find_block(program, n)
        assert isinstance(other.node, Block)
        if scope_of(program, other) is not scope_of(program, site):
            raise ScheduleError(f"the block {n!r} stands in another block", where=other.node.span)
        if buffer not in effects(other.node).reads:
            raise ScheduleError(f"block {n!r} does not read {buffer.name!r}", where=other.node.span)
        if buffer in effects(other.node).writes:
            raise ScheduleError(
                f"block {n!r} writes {buffer.name!r}, which it reads",
                because="it would read what was there when the copy was made",
                where=other.node.span,
            )
        found.append(other.node)
    return found


def _region_read(spot: Spot, using: Sequence[Block], buffer: Buffer) -> Region:
    """What `using` read of the buffer at the spot, as a box inside of it."""
    facts = spot.place().inside
    owners = {id(s) for b in using for s in statements(b)}
    accesses = [
        a
        for p in spot.parts
        for a in collect_accesses(p)
        if a.region.buffer is buffer and not a.is_write and id(a.stmt) in owners
    ]
    if not accesses:
        raise ScheduleError(
            f"it is not told by accesses what is read of {buffer.name!r}",
            because="a block around them states its regions itself",
        )
    box = clip_region(union_region([relaxed_region(a, facts) for a in accesses], facts), facts)
    ranges = [
        (ZERO, size) if _is_involved(r, spot.loops) else r
        for r, size in zip(box.ranges, buffer.shape, strict=True)
    ]
    return Region(buffer, ranges)


def _is_involved(r: Range, loops: set[Var]) -> bool:
    """Whether an extent is better left at the whole dimension."""
    start, extent = r
    if any(isinstance(e, (Min, Max)) for e in postorder(start, extent)):
        return True
    return any(v in loops for v in free_vars(extent))


def check_all_written(program: TensorProgram, buffer: Buffer, region: Region, spot: Spot) -> None:
    """A local buffer must have been written wherever the copy reads it."""
    if buffer in program.buffers:
        return
    facts = spot.place().inside
    before = takewhile(lambda site: site.node is not spot.parts[0], sites(program))
    for site in before:
        box = written_box(site, spot, buffer) if isinstance(site.node, Block) else None
        if box is None:
            continue
        inside = (
            (low <= start) & (start + extent <= low + size)
            for (start, extent), (low, size) in zip(region.ranges, box, strict=True)
        )
        if all(facts.prove(c) is True for c in inside):
            return
    raise ScheduleError(
        f"not all of {buffer.name!r} that a copy would read is known to be written",
        given=f"the copy would read {region!r}",
        because="reading what nothing has written is an error",
    )


def written_box(site: Site, spot: Spot, buffer: Buffer) -> list[Range] | None:
    """The box of `buffer` that a block writes before `spot`, in the same iteration of the loops
    around both, every element of it; None if that is not known."""
    block = site.node
    assert isinstance(block, Block)
    if why_opaque(block) is not None or any(isinstance(s, If) for s in statements(block)):
        return None
    accesses = [a for a in collect_accesses(block.body) if a.is_write]
    points = [a for a in accesses if a.region.buffer is buffer and not a.guards and not a.loops]
    taken = points_taken(site, spot) if points else None
    if taken is None:
        return None
    facts = Analyzer()
    box: list[Range] = []
    used: set[Var] = set()
    for first, width in points[0].region.ranges:
        variables = [v for v in free_vars(first) if v in taken]
        rest = facts.simplify(first - variables[0]) if variables else first
        if used & set(variables) or taken.keys() & set(free_vars(rest)) or has_loads(rest):
            return None
        used.update(variables)
        start, extent = taken[variables[0]] if variables else (ZERO, width)
        box.append((facts.simplify(start + rest), extent))
    return box


def points_taken(
    site: Site, spot: Spot, kinds: Collection[IterKind] = (IterKind.SPATIAL,)
) -> dict[Var, Range] | None:
    """The values of the block's iterators of some kinds in one iteration of the loops around the
    spot, each combination of them taken; None if that cannot be said."""
    block = site.node
    assert isinstance(block, Block)
    inner = {
        s.var: (s.start, s.extent)
        for s in site.loops
        if not any(s is around for around in spot.around)
    }
    if any(isinstance(s, (If, While)) and s not in spot.around for s in site.around):
        return None
    spatial = [it for it in block.iters if it.kind in kinds]
    facts = spot.place().inside
    try:
        found = detect_iter_map(
            [it.binding for it in spatial], inner, bijective=False, analyzer=facts
        )
    except ArithError:
        return None
    return {
        it.var: (start, extent)
        for it, start, extent in zip(spatial, found.starts, found.extents, strict=True)
    }


# --- Writing through a cache -----------------------------------------------------------------


def cache_write(
    program: TensorProgram,
    name: str,
    which: int | str,
    scope: str,
    consumers: Sequence[str] = (),
    at: Var | None = None,
) -> tuple[TensorProgram, str]:
    """See `Schedule.cache_write`. Gives the name of the copy block.

    at: the loop in which the copy stands; as far out as can be if None.
    """
    site = find_block(program, name)
    block = site.node
    assert isinstance(block, Block)
    check_movable(block, "cache_write")
    buffer = buffer_of(block, which, written=True)
    root = scope_of(program, site)
    indices = indices_written(block, buffer)
    readers = _readers_of_cache(program, site, buffer, consumers)
    start = root if at is None else loop_body(program, site, at)
    spot = after_alone(site, start, buffer)
    new = cached_buffer(program, buffer, scope)
    copy_name = fresh_block_name(program, f"{buffer.name}_{new.scope.replace('.', '_')}")
    copied = copy_out(copy_name, site, spot, indices, (buffer, new))
    changes = {id(b): replace_buffers(b, {buffer: new}) for b in (block, *readers)}
    own = replace_by_id(spot.parts[0], changes)
    program = insert(program, root, spot, (own, copied), new)
    rest = {id(b): changes[id(b)] for b in readers}
    program = replace(program, body=replace_by_id(program.body, rest))
    check_marked_loops(program, spot.around)
    return program, copy_name


def indices_written(block: Block, buffer: Buffer) -> tuple[Expr, ...]:
    """Where the block writes the buffer, one element a point."""
    parts = (block.body,) if block.init is None else (block.init, block.body)
    accesses = [a for p in parts for a in collect_accesses(p) if a.is_write]
    facts = Analyzer()
    for it in block.iters:
        facts.bind(it.var, it.start, it.extent)
    found = {_point(a, facts) for a in accesses if a.region.buffer is buffer}
    where = next(iter(found))
    if len(found) != 1 or where is None or has_loads(*where):
        raise ScheduleError(
            f"cache_write: block {block.name!r} does not write one element of {buffer.name!r} for"
            " each of its points",
            because="what it writes, and nothing else, is to be copied out",
            where=block.span,
        )
    single: dict[Expr, Expr] = {
        it.var: it.start for it in block.iters if it.kind is IterKind.REDUCE
    }
    return tuple(substitute(i, single) for i in where)


def _point(access: Access, facts: Analyzer) -> tuple[Expr, ...] | None:
    if access.loops or access.unknown or access.guards:
        return None
    ones = all(facts.equal(extent, 1) for _, extent in access.region.ranges)
    return tuple(facts.simplify(start) for start, _ in access.region.ranges) if ones else None


def _readers_of_cache(
    program: TensorProgram, site: Site, buffer: Buffer, names: Sequence[str]
) -> list[Block]:
    if not names:
        return []
    assert isinstance(site.node, Block)
    if is_written_elsewhere(program, site.node, buffer):
        raise ScheduleError(
            f"cache_write: {buffer.name!r} is written by others, too",
            because="consumers that read the cache would not see that",
        )
    return [b for b in _consumers(program, site, buffer, names) if b is not site.node]


def copy_out(
    name: str,
    site: Site,
    spot: Spot,
    indices: tuple[Expr, ...],
    buffers: tuple[Buffer, Buffer],
    source_at: tuple[Expr, ...] | None = None,
) -> Stmt:
    """Loops and a block that copy what the block wrote in the statement at the spot.

    indices: of the element that a point writes; source_at: where it is in the second buffer.
    """
    block = site.node
    assert isinstance(block, Block)
    taken = points_taken(site, spot)
    for it in block.iters:
        if it.kind is not IterKind.SPATIAL and spot.loops & set(free_vars(it.binding)):
            raise ScheduleError(
                f"cache_write: the {it.kind.value} iterator {it.var.name!r} of block"
                f" {block.name!r} depends on loops outside of the place where the copy would stand",
                because="the values are not final there",
                where=block.span,
            )
    if taken is None:
        raise ScheduleError(
            f"cache_write: it cannot be said what block {block.name!r} writes in one iteration of"
            " the loops around the copy",
            where=block.span,
        )
    target, source = buffers
    order = [v for i in indices for v in free_vars(i)]
    spatial = [it for it in block.iters if it.kind is IterKind.SPATIAL]
    spatial.sort(key=lambda it: order.index(it.var) if it.var in order else -1)
    copied = element_copy(
        name, spatial, (target, indices), (source, indices if source_at is None else source_at)
    )
    return copy_of(copied, [taken[it.var] for it in spatial], spot.place(), may_repeat=False)[0]
