"""Copies of buffers in other memory: read caches, write caches.

A copy is a block of its own, so that it can be moved and shaped like any other; the new buffer has the
shape of the old one until lowering shrinks it to what is used. Copies stand as far out as the
dependences let them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensorsmith.arith import Analyzer
from tensorsmith.arith.accesses import Access, collect_accesses
from tensorsmith.arith.iter_map import detect_iter_map
from tensorsmith.arith.regions import clip_region, relaxed_region, union_region
from tensorsmith.errors import ArithError
from tensorsmith.ir import (
    Alloc,
    Block,
    Buffer,
    Expr,
    For,
    If,
    Iter,
    IterKind,
    Load,
    LoopKind,
    Max,
    Min,
    Region,
    Seq,
    Stmt,
    Store,
    TensorProgram,
    Var,
    While,
    free_vars,
    postorder,
    seq,
    substitute,
)
from tensorsmith.ir.rewrite import children, replace_buffers, statements, with_children
from tensorsmith.ir.stmt import ZERO
from tensorsmith.schedule.dependence import (
    check_movable,
    effects,
    has_loads,
    scope_of,
    units,
    why_opaque,
    writers,
)
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.independence import check_marked_loops
from tensorsmith.schedule.placement import Place, Range, place_of, regenerate
from tensorsmith.schedule.tree import Site, block_names, find_block, fresh_name, replace_stmt, sites

PARALLEL: Final = LoopKind.PARALLEL
THREAD: Final = LoopKind.THREAD


def buffer_of(block: Block, which: int | str, *, written: bool) -> Buffer:
    """The buffer that a block reads or writes, by position in the order of first access, or name.

    Raises ScheduleError, with the names there are.
    """
    accesses = collect_accesses(block)
    found = list(dict.fromkeys(a.region.buffer for a in accesses if a.is_write is written))
    if not written:
        own = {a.region.buffer for a in accesses if a.is_write}
        found = [b for b in found if b not in own]
    if isinstance(which, str):
        named = [b for b in found if b.name == which]
        if named:
            return named[0]
    elif 0 <= which < len(found):
        return found[which]
    verb = "writes" if written else "reads"
    known = ", ".join(repr(b.name) for b in found) or "nothing"
    raise ScheduleError(
        f"block {block.name!r} {verb} no buffer {which!r}",
        try_=f"what it {verb}: {known}, by name or by position",
        where=block.span,
    )


def cached_buffer(program: TensorProgram, buffer: Buffer, scope: str, **fields: object) -> Buffer:
    """A dense local buffer like `buffer`, named after it and its scope."""
    taken = {p.name for p in program.params} | {
        s.buffer.name for s in statements(program.body) if isinstance(s, Alloc)
    }
    name = fresh_name(f"{buffer.name}_{scope.replace('.', '_')}", taken)
    kept: dict[str, object] = {"strides": None, "offset": ZERO, "layout": None, "span": None}
    return buffer.replace(name=name, scope=scope, **{**kept, **fields})


def allocate_in(program: TensorProgram, scope: Stmt, buffer: Buffer) -> TensorProgram:
    """The program with `buffer` allocated at the start of a scope."""
    return replace_stmt(program, scope, seq(Alloc(buffer), scope))


def copy_block(name: str, target: Buffer, source: Buffer) -> Block:
    """A block, without loops, that copies all of `source` to the same place of `target`."""
    iters = tuple(
        Iter(v := Var(f"v{d}"), extent, IterKind.SPATIAL, v)
        for d, extent in enumerate(source.shape)
    )
    at = tuple(it.var for it in iters)
    return Block(name, iters, Store(target, at, Load(source, at)))


def copy_of(
    block: Block, box: Sequence[Range], place: Place, *, may_repeat: bool = True
) -> tuple[Stmt, set[Var]]:
    """A copy block under loops at `place`, for a box of its iterators. See `regenerate`."""
    needed = {it.var: r for it, r in zip(block.iters, box, strict=True)}
    return regenerate(block, needed, place, preserve_unit_loops=True, may_repeat=may_repeat)


def fresh_block_name(program: TensorProgram, name: str) -> str:
    """`name`, or it with a number where a block has it."""
    return fresh_name(name, block_names(program))


# --- Reading through a cache -----------------------------------------------------------------


def cache_read(
    program: TensorProgram,
    name: str,
    which: int | str,
    scope: str,
    consumers: Sequence[str] | None = None,
) -> tuple[TensorProgram, str]:
    """See `Schedule.cache_read`. Gives the name of the copy block."""
    site = find_block(program, name)
    assert isinstance(site.node, Block)
    buffer = buffer_of(site.node, which, written=False)
    root = scope_of(program, site)
    using = _consumers(program, site, buffer, [name] if consumers is None else consumers)
    spot = _before_all(program, root, using, buffer)
    region = _region_read(spot, using, buffer)
    _check_all_written(program, buffer, region, spot)
    new = cached_buffer(program, buffer, scope)
    copy_name = fresh_block_name(program, new.name)
    copied, repeating = copy_of(copy_block(copy_name, new, buffer), region.ranges, spot.place())
    changes = {id(b): replace_buffers(b, {buffer: new}) for b in using}
    parts = [_replace_by_id(p, changes) for p in spot.parts]
    program = _insert(program, root, spot, (copied, *parts), new, repeating)
    check_marked_loops(program, spot.around)
    return program, copy_name


@dataclass(frozen=True, slots=True)
class Spot:
    """Statements side by side, and the statement around: a sequence, or what has one child."""

    parts: tuple[Stmt, ...]
    around: tuple[Stmt, ...]

    def place(self) -> Place:
        """The place, with what is known there."""
        return place_of(Site(self.parts[0], self.around))

    @property
    def loops(self) -> set[Var]:
        """The variables of the loops around."""
        return {s.var for s in self.around if isinstance(s, For)}


def _consumers(
    program: TensorProgram, site: Site, buffer: Buffer, names: Sequence[str]
) -> list[Block]:
    found: list[Block] = []
    for n in dict.fromkeys(names):
        other = find_block(program, n)
        assert isinstance(other.node, Block)
        if other.parent_block is not site.parent_block:
            raise ScheduleError(f"the block {n!r} stands in another block", where=other.node.span)
        if buffer not in effects(other.node).reads:
            raise ScheduleError(
                f"block {n!r} does not read {buffer.name!r}", where=other.node.span
            )
        if buffer in effects(other.node).writes:
            raise ScheduleError(
                f"block {n!r} writes {buffer.name!r}, which it reads",
                because="it would read what was there when the copy was made",
                where=other.node.span,
            )
        found.append(other.node)
    return found


def _before_all(
    program: TensorProgram, root: Stmt, using: Sequence[Block], buffer: Buffer
) -> Spot:
    """The outermost statements that hold all of `using`, and do not write the buffer."""
    around = _path_to(program.body, root)
    here = root
    while True:
        parts = here.stmts if isinstance(here, Seq) else (here,)
        holding = [k for k, p in enumerate(parts) if _holds(p, using)]
        span = parts[holding[0] : holding[-1] + 1]
        outer = (*around, here) if isinstance(here, Seq) else around
        if buffer not in effects(*span).writes:
            return Spot(span, outer)
        if len(span) != 1 or isinstance(span[0], Block):
            raise ScheduleError(
                f"{buffer.name!r} is written between the blocks that read it",
                given=", ".join(repr(b.name) for b in using),
                because="one copy cannot have the values before and after",
                try_="a cache for each of them",
            )
        around = (*outer, span[0])
        inside = [c for c in children(span[0]) if _holds(c, using)]
        if len(inside) != 1:
            raise ScheduleError(f"no place is common to all readers of {buffer.name!r}")
        here = inside[0]


def _path_to(s: Stmt, target: Stmt) -> tuple[Stmt, ...]:
    """The statements around `target` in `s`."""
    stack: list[tuple[Stmt, tuple[Stmt, ...]]] = [(s, ())]
    while stack:
        x, around = stack.pop()
        if x is target:
            return around
        stack.extend((c, (*around, x)) for c in children(x))
    raise AssertionError(target)


def _holds(s: Stmt, blocks: Sequence[Block]) -> bool:
    return any(x is b for x in statements(s) for b in blocks)


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


def _check_all_written(program: TensorProgram, buffer: Buffer, region: Region, spot: Spot) -> None:
    """A local buffer must have been written wherever the copy reads it."""
    if buffer in program.buffers:
        return
    facts = spot.place().inside
    for site in sites(program):
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
    taken = _points_taken(site, spot) if points else None
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


def _points_taken(site: Site, spot: Spot) -> dict[Var, Range] | None:
    """The values of the block's spatial iterators in one iteration of the loops around the spot."""
    block = site.node
    assert isinstance(block, Block)
    inner = {
        s.var: (s.start, s.extent)
        for s in site.loops
        if not any(s is around for around in spot.around)
    }
    if any(isinstance(s, (If, While)) and s not in spot.around for s in site.around):
        return None
    spatial = [it for it in block.iters if it.kind is IterKind.SPATIAL]
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


def _replace_by_id(s: Stmt, changes: Mapping[int, Stmt]) -> Stmt:
    if id(s) in changes:
        return changes[id(s)]
    return with_children(s, tuple(_replace_by_id(c, changes) for c in children(s)))


def _insert(
    program: TensorProgram,
    root: Stmt,
    spot: Spot,
    parts: Sequence[Stmt],
    new: Buffer,
    repeating: Collection[Var] = (),
) -> TensorProgram:
    """The program with `parts` in the place of the spot's, and `new` allocated in the scope, or in
    the innermost loop of `repeating` that runs in parallel."""
    if spot.around and isinstance(around := spot.around[-1], Seq):
        at = next(k for k, p in enumerate(around.stmts) if p is spot.parts[0])
        inner = (*around.stmts[:at], *parts, *around.stmts[at + len(spot.parts) :])
        old: Stmt = around
        changed = seq(*inner)
    else:
        old, changed = spot.parts[0], seq(*parts)
    racing = [
        s
        for s in spot.around
        if isinstance(s, For) and s.var in repeating and s.kind in (PARALLEL, THREAD)
    ]
    home = racing[-1].body if racing else root
    if old is home:
        return replace_stmt(program, home, seq(Alloc(new), changed))
    return replace_stmt(allocate_in(program, home, new), old, changed)


# --- Writing through a cache -----------------------------------------------------------------


def cache_write(
    program: TensorProgram,
    name: str,
    which: int | str,
    scope: str,
    consumers: Sequence[str] = (),
) -> tuple[TensorProgram, str]:
    """See `Schedule.cache_write`. Gives the name of the copy block."""
    site = find_block(program, name)
    block = site.node
    assert isinstance(block, Block)
    check_movable(block, "cache_write")
    buffer = buffer_of(block, which, written=True)
    root = scope_of(program, site)
    indices = _indices_written(block, buffer)
    readers = _readers_of_cache(program, site, buffer, consumers)
    spot = _after_alone(program, site, root, buffer)
    new = cached_buffer(program, buffer, scope)
    copy_name = fresh_block_name(program, f"{buffer.name}_{new.scope.replace('.', '_')}")
    copied = _copy_out(copy_name, site, spot, indices, (buffer, new))
    changes = {id(b): replace_buffers(b, {buffer: new}) for b in (block, *readers)}
    own = _replace_by_id(spot.parts[0], changes)
    program = _insert(program, root, spot, (own, copied), new)
    rest = {id(b): changes[id(b)] for b in readers}
    program = replace(program, body=_replace_by_id(program.body, rest))
    check_marked_loops(program, spot.around)
    return program, copy_name


def _indices_written(block: Block, buffer: Buffer) -> tuple[Expr, ...]:
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
    if len(writers(program.body, buffer)) > 1:
        raise ScheduleError(
            f"cache_write: {buffer.name!r} is written by others, too",
            because="consumers that read the cache would not see that",
        )
    return [b for b in _consumers(program, site, buffer, names) if b is not site.node]


def _after_alone(program: TensorProgram, site: Site, root: Stmt, buffer: Buffer) -> Spot:
    """The outermost statement with the block in which nothing else touches the buffer."""
    path = (*site.around, site.node)
    first = next(k for k, s in enumerate(path) if s is root)
    conditional = [k + 1 for k, s in enumerate(path) if isinstance(s, (If, While))]
    for at in range(max([first, *conditional]), len(path)):
        s = path[at]
        if isinstance(s, Seq):
            continue
        others = [u for u in units(s) if u is not site.node]
        touched = effects(*others)
        if buffer not in touched.reads | touched.writes:
            return Spot((s,), path[:at])
    raise AssertionError(site.node)


def _copy_out(
    name: str,
    site: Site,
    spot: Spot,
    indices: tuple[Expr, ...],
    buffers: tuple[Buffer, Buffer],
) -> Stmt:
    """Loops and a block that copy what the block wrote in the statement at the spot."""
    block = site.node
    assert isinstance(block, Block)
    taken = _points_taken(site, spot)
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
    fresh = tuple(replace(it, var=it.var.renamed(it.var.name)) for it in spatial)
    values: dict[Expr, Expr] = {a.var: b.var for a, b in zip(spatial, fresh, strict=True)}
    at = tuple(substitute(i, values) for i in indices)
    copied = Block(name, fresh, Store(target, at, Load(source, at)))
    box = [taken[it.var] for it in spatial]
    return copy_of(copied, box, spot.place(), may_repeat=False)[0]
