"""One loop as several that take its range piece by piece, and several loops as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tensorsmith.arith import Analyzer
from tensorsmith.arith.accesses import Access, collect_accesses
from tensorsmith.arith.iter_map import detect_iter_map
from tensorsmith.arith.privacy import touch_apart
from tensorsmith.errors import ArithError
from tensorsmith.ir import (
    Alloc,
    Block,
    Buffer,
    Expr,
    ExprLike,
    For,
    Iter,
    IterKind,
    Seq,
    Stmt,
    TensorProgram,
    Var,
    as_expr,
    free_vars,
    seq,
)
from tensorsmith.ir.instantiate import instantiate
from tensorsmith.ir.rewrite import children, substitute_stmt, with_children
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.loops import plain_loop, require_bindings
from tensorsmith.schedule.tree import (
    Site,
    blocks_in,
    find_loop,
    replace_stmt,
    unique_block_names,
)

# --- Partition -------------------------------------------------------------------------------


def loop_partition(
    program: TensorProgram, var: Var, points: Sequence[ExprLike]
) -> tuple[TensorProgram, list[Var]]:
    """See `Schedule.loop_partition`. Gives the variables of the new loops, in order."""
    site = find_loop(program, var)
    loop = site.node
    assert isinstance(loop, For)
    facts = site.analyzer()
    cuts = _cuts(loop, points, facts)
    around = {x.var: (x.start, x.extent) for x in site.loops}
    outer = {
        it.var: (it.start, it.extent) for s in site.around if isinstance(s, Block) for it in s.iters
    }
    pieces: list[Stmt] = []
    new_vars: list[Var] = []
    for at, (start, stop) in enumerate(pairwise(cuts)):
        piece_var = Var(f"{var.name}_{at}")
        new_vars.append(piece_var)
        body = loop.body if at == 0 else instantiate(loop.body)
        body = substitute_stmt(body, {var: piece_var})
        begin, extent = facts.simplify(loop.start + start), facts.simplify(stop - start)
        place = _Place({**around, piece_var: (begin, extent)}, outer, frozenset({piece_var}))
        body = _Narrowed(_facts_outside(site)).stmt(body, place)
        pieces.append(replace(loop, var=piece_var, start=begin, extent=extent, body=body))
    changed = unique_block_names(replace_stmt(program, loop, seq(*pieces)))
    if any(var in free_vars(b.predicate) for b in blocks_in(loop.body)):
        require_bindings(changed, f"loop_partition({var.name})")
    return changed, new_vars


def _facts_outside(site: Site) -> Analyzer:
    """What is known outside of the block that the loop stands in: of its loops nothing, as the
    detection of iterator maps binds these itself."""
    at = max((k for k, s in enumerate(site.around) if isinstance(s, Block)), default=-1)
    inner = site.around[at + 1] if at + 1 < len(site.around) else site.node
    return Site(inner, site.around[: at + 1]).analyzer()


def _cuts(loop: For, points: Sequence[ExprLike], facts: Analyzer) -> list[Expr]:
    """The iterations at which pieces begin, and the number of iterations at the end."""
    name = loop.var.name
    if not points:
        raise ScheduleError(f"loop_partition({name}) needs points at which to cut")
    cuts = [as_expr(0), *(facts.simplify(as_expr(p)) for p in points), loop.extent]
    for at, (before, after) in enumerate(pairwise(cuts), 1):
        is_end = at == len(points) + 1
        ordered = before <= after if is_end else before < after
        is_empty = facts.prove(before < after) is False
        if facts.prove(ordered) is not True or is_empty:
            raise ScheduleError(
                f"loop_partition({name}): {before!r} is not known to be less than {after!r}",
                because="pieces begin at ascending iterations after the first, within the range",
                given=f"points={[*points]!r}, extent {loop.extent!r}",
                where=loop.span,
            )
    return cuts


Ranges = dict[Var, tuple[Expr, Expr]]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a statement of a piece stands: the loops around it up to the block around, the
    iterators of blocks around, and those of all these whose values the piece decides."""

    loops: Ranges
    iters: Ranges
    moving: frozenset[Var]


class _Narrowed:
    """The blocks of one piece, whose iterators range over what the piece takes."""

    def __init__(self, facts: Analyzer) -> None:
        self.facts = facts

    def stmt(self, s: Stmt, place: _Place) -> Stmt:
        if isinstance(s, Block):
            return self.block(s, place)
        if isinstance(s, For):
            place = replace(place, loops={**place.loops, s.var: (s.start, s.extent)})
        return with_children(s, tuple(self.stmt(c, place) for c in children(s)))

    def block(self, block: Block, place: _Place) -> Block:
        """The block with ranges for its iterators that the piece fills."""
        moving = {it.var for it in block.iters if place.moving & {*free_vars(it.binding)}}
        if not moving:
            return block
        iters = self.narrowed(block, place)
        init = block.init if self.starts(block, iters) else None
        inside = _Place(
            {},
            {**place.iters, **{it.var: (it.start, it.extent) for it in iters}},
            frozenset(moving) | place.moving,
        )
        body = self.stmt(block.body, inside)
        init = None if init is None else self.stmt(init, inside)
        return replace(block, iters=iters, init=init, body=body)

    def starts(self, block: Block, iters: tuple[Iter, ...]) -> bool:
        """Whether the piece takes the first values of the reduce iterators, where the init runs."""
        pairs = zip(block.iters, iters, strict=True)
        first = [(a.start, b.start) for a, b in pairs if a.kind is IterKind.REDUCE]
        if all(self.facts.equal(a, b) for a, b in first):
            return True
        if any(self.facts.prove(a < b) is True for a, b in first):
            return False
        raise ScheduleError(
            f"loop_partition: it is not known whether a piece starts the reduction of block"
            f" {block.name!r}",
            where=block.span,
        )

    def narrowed(self, block: Block, place: _Place) -> tuple[Iter, ...]:
        ordered = [it for it in block.iters if it.kind is not IterKind.OPAQUE]
        theirs = free_vars(*(it.binding for it in block.iters if it.kind is IterKind.OPAQUE))
        ours = free_vars(*(it.binding for it in ordered))
        ranges = {v: r for v, r in place.loops.items() if v in ours or v not in theirs}
        ranges |= {v: r for v, r in place.iters.items() if v in ours}
        bindings = [it.binding for it in ordered]
        try:
            found = detect_iter_map(bindings, ranges, block.predicate, analyzer=self.facts)
        except ArithError as error:
            raise ScheduleError(
                f"loop_partition: a piece would not take a box of the points of block"
                f" {block.name!r}",
                because=error.what,
                where=block.span,
            ) from None
        full = {it.var: (it.start, it.extent) for it in block.iters}
        taken = zip(found.starts, found.extents, strict=True)
        full |= dict(zip((it.var for it in ordered), taken, strict=True))
        return tuple(
            replace(it, start=full[it.var][0], extent=full[it.var][1]) for it in block.iters
        )


# --- Merge -----------------------------------------------------------------------------------


def merge(program: TensorProgram, loop_vars: Sequence[Var]) -> tuple[TensorProgram, Var]:
    """See `Schedule.merge`. Gives the variable of the merged loop, which is that of the first."""
    if len(set(loop_vars)) < 2:
        raise ScheduleError("merge takes two or more loops")
    for v in loop_vars[1:]:
        program = _merge_two(program, loop_vars[0], v)
    return program, loop_vars[0]


def _merge_two(program: TensorProgram, first: Var, second: Var) -> TensorProgram:
    what = f"merge({first.name}, {second.name})"
    ancestor, nests = _nests(program, first, second, what)
    facts = Site(nests[0][0], _around(program, nests[0][0])).analyzer()
    values = _same_ranges(nests, facts, what)
    mine, theirs = (nest[-1].body for nest in nests)
    body = seq(mine, substitute_stmt(theirs, values))
    _check_meetings(nests[0], (mine, body), facts, what)
    merged: Stmt = body
    for loop in reversed(nests[0]):
        merged = replace(loop, body=merged)
    stmts = ancestor.stmts
    at, last = stmts.index(nests[0][0]), stmts.index(nests[1][0])
    between = stmts[at + 1 : last]
    if not all(isinstance(s, Alloc) for s in between):
        raise ScheduleError(
            f"{what}: something stands between the nests",
            because="it would have to come before the first or after the second one",
            try_="compute_at or reverse_compute_at to move it",
            where=nests[0][0].span,
        )
    new = seq(*stmts[:at], *between, merged, *stmts[last + 1 :])
    return replace_stmt(program, ancestor, new)


def _around(program: TensorProgram, loop: For) -> tuple[Stmt, ...]:
    return find_loop(program, loop.var).around


def _nests(
    program: TensorProgram, first: Var, second: Var, what: str
) -> tuple[Seq, tuple[list[For], list[For]]]:
    """The sequence that holds both loops, and the loops below it down to each."""
    sites = [find_loop(program, v) for v in (first, second)]
    paths = [(*site.around, site.node) for site in sites]
    shared = 0
    while shared < min(map(len, paths)) and paths[0][shared] is paths[1][shared]:
        shared += 1
    ancestor = paths[0][shared - 1] if shared else None
    nests = tuple([s for s in path[shared:] if isinstance(s, For)] for path in paths)
    if not isinstance(ancestor, Seq) or shared in map(len, paths):
        raise ScheduleError(
            f"{what}: one of the loops stands in the other",
            because="loops that follow each other become one",
            try_="fuse, for loops that are nested",
        )
    for path, nest in zip(paths, nests, strict=True):
        if len(nest) != len(path) - shared or len(nest) != len(nests[0]):
            raise ScheduleError(
                f"{what}: the loops are not equally deep in nests of their own",
                because="from where both nests begin, each loop must be the only thing in the one"
                " around it",
            )
    if ancestor.stmts.index(nests[0][0]) > ancestor.stmts.index(nests[1][0]):
        raise ScheduleError(f"{what}: the second loop stands before the first")
    for loop in (*nests[0], *nests[1]):
        plain_loop(loop, "merge")
    return ancestor, (nests[0], nests[1])


def _same_ranges(
    nests: tuple[list[For], list[For]], facts: Analyzer, what: str
) -> dict[Expr, Expr]:
    """What the variables of the second nest are in the first."""
    values: dict[Expr, Expr] = {}
    for mine, theirs in zip(*nests, strict=True):
        header = substitute_stmt(replace(theirs, body=Seq(())), values)
        assert isinstance(header, For)
        if not (facts.equal(mine.extent, header.extent)):
            raise ScheduleError(
                f"{what}: {mine.var.name!r} takes {mine.extent!r} values and"
                f" {theirs.var.name!r} {header.extent!r}",
                because="each iteration of one needs one of the other",
                try_="loop_partition, to make pieces of the same extent",
                where=theirs.span,
            )
        values[theirs.var] = facts.simplify(mine.var - mine.start + header.start)
    return values


def _check_meetings(nest: list[For], bodies: tuple[Stmt, Stmt], facts: Analyzer, what: str) -> None:
    """What both use and one writes must be used in the same iterations only."""
    body = bodies[1]
    accesses = collect_accesses(body)
    own = len(collect_accesses(bodies[0]))
    shared = _conflicting(accesses[:own], accesses[own:])
    with facts.scope():
        for at, loop in enumerate(nest):
            facts.bind(loop.var, loop.start, loop.extent)
            inner = body
            for x in reversed(nest[at + 1 :]):
                inner = replace(x, body=inner)
            for buffer in shared:
                uses = [a for a in collect_accesses(inner) if a.region.buffer is buffer]
                if not touch_apart(loop, uses, facts):
                    raise ScheduleError(
                        f"{what}: different iterations of {loop.var.name!r} meet in"
                        f" {buffer.name!r}",
                        because="an iteration of the second nest might use what the first has not"
                        " made yet, or the other way round",
                        where=loop.span,
                    )


def _conflicting(first: Sequence[Access], second: Sequence[Access]) -> list[Buffer]:
    """The buffers that both touch, and at least one writes."""
    touched = {a.region.buffer for a in first} & {a.region.buffer for a in second}
    written = {a.region.buffer for a in (*first, *second) if a.is_write}
    return sorted(touched & written, key=lambda b: b.name)


# --- Unit loops ------------------------------------------------------------------------------


def add_unit_loop(program: TensorProgram, node: Stmt) -> tuple[TensorProgram, Var]:
    """See `Schedule.add_unit_loop`. Gives the variable of the new loop."""
    var = Var("u")
    return replace_stmt(program, node, For(var, as_expr(1), node, span=node.span)), var
