"""Making one block of the inner loops of a nest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorsmith.arith import Analyzer, conjuncts
from tensorsmith.arith.iter_map import detect_iter_map
from tensorsmith.arith.subspace import Division, subspace_divide
from tensorsmith.errors import ArithError
from tensorsmith.ir import (
    Alloc,
    Bind,
    Block,
    Const,
    Expr,
    For,
    Iter,
    IterKind,
    Seq,
    Stmt,
    TensorProgram,
    Var,
    free_vars,
    substitute,
)
from tensorsmith.ir.instantiate import instantiate
from tensorsmith.ir.rewrite import children, with_children
from tensorsmith.ir.stmt import TRUE, ZERO
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.nest import all_of, copy_loops, describe
from tensorsmith.schedule.tree import (
    Site,
    block_names,
    blocks_in,
    find_block,
    find_loop,
    fresh_name,
    replace_stmt,
    sites,
)


@dataclass(frozen=True, slots=True)
class _Division:
    """A block inside of what becomes the body of the new block.

    inner: the loops between the two. parts: for each iterator its outer and inner part.
    """

    block: Block
    inner: tuple[For, ...]
    parts: tuple[Division, ...]


@dataclass(frozen=True, slots=True)
class _Outer:
    """The new block under way.

    loops: those around it, up to the block around.
    iters: its iterators. values: them, for the expressions of `loops` that they are bound to.
    """

    what: str
    loops: tuple[For, ...]
    iters: tuple[Iter, ...]
    values: dict[Expr, Expr]

    def inside(self, e: Expr) -> Expr:
        """`e` in terms of the new iterators instead of the loops around."""
        return substitute(e, self.values)


def blockize_loop(program: TensorProgram, loop_var: Var) -> tuple[TensorProgram, str]:
    """See `Schedule.blockize`. Gives the name of the new block."""
    site = find_loop(program, loop_var)
    return _blockized(program, site, f"blockize({loop_var.name!r})")


def blockize_blocks(program: TensorProgram, names: Sequence[str]) -> tuple[TensorProgram, str]:
    """See `Schedule.blockize`. Gives the name of the new block."""
    what = f"blockize({', '.join(names)})"
    if not names:
        raise ScheduleError("blockize takes a loop, or one or more blocks")
    found = [find_block(program, n) for n in dict.fromkeys(names)]
    program, node = _gathered(program, found, what)
    site = next(s for s in sites(program) if s.node is node)
    return _blockized(program, site, what)


def _gathered(
    program: TensorProgram, found: Sequence[Site], what: str
) -> tuple[TensorProgram, Stmt]:
    """The least statement that holds these blocks, made one of a part of a sequence if need be."""
    paths = [(*s.around, s.node) for s in found]
    depth = 0
    while all(len(p) > depth + 1 for p in paths) and len({id(p[depth + 1]) for p in paths}) == 1:
        depth += 1
    common = paths[0][depth]
    if len(paths) == 1:
        return program, paths[0][-1]
    if not isinstance(common, Seq):
        raise ScheduleError(f"{what}: the blocks stand inside of each other")
    held = [next(k for k, s in enumerate(common.stmts) if s is p[depth + 1]) for p in paths]
    first, stop = min(held), max(held) + 1
    part = common.stmts[first:stop]
    if any(isinstance(s, (Alloc, Bind)) for s in part) and len(part) < len(common.stmts):
        raise ScheduleError(
            f"{what}: something that is used later is defined between the blocks",
            because="it would be known inside of the new block alone",
        )
    inside = {b.name for s in part for b in blocks_in(s)}
    wanted = {s.node.name for s in found if isinstance(s.node, Block)}
    if inside != wanted:
        other = ", ".join(sorted(inside - wanted))
        raise ScheduleError(f"{what}: block {other!r} stands between them", try_="all of them")
    one = Seq(part)
    new = Seq((*common.stmts[:first], one, *common.stmts[stop:]))
    return replace_stmt(program, common, new), one


def _blockized(program: TensorProgram, site: Site, what: str) -> tuple[TensorProgram, str]:
    blocks = blocks_in(site.node)
    if not blocks:
        raise ScheduleError(f"{what}: no block stands inside of it", where=site.node.span)
    facts = _facts_around(site)
    divisions = [_divided(site, b, facts, what) for b in blocks]
    outer = _outer_block(site, divisions, facts, what)
    inits: list[Stmt] = []
    body = site.node
    taken = block_names(program)
    hoists = len(blocks) == 1 and any(it.kind is IterKind.REDUCE for it in outer.iters)
    for division in divisions:
        inner = _inner_block(division, outer)
        if hoists and inner.init is not None:
            _check_one_init(division, what)
            inits.append(_init_nest(division, inner, fresh_name(f"{inner.name}_init", taken)))
            inner = replace(inner, init=None)
        body = _with_stmt(body, division.block, inner)
    _check_body(body, outer)
    name = fresh_name(f"{blocks[0].name}_o", taken)
    block = Block(
        name,
        outer.iters,
        body,
        init=inits[0] if inits else None,
        predicate=_outer_predicate(divisions, what),
        span=blocks[0].span,
    )
    return replace_stmt(program, site.node, block), name


def _with_stmt(s: Stmt, old: Stmt, new: Stmt) -> Stmt:
    if s is old:
        return new
    return with_children(s, tuple(_with_stmt(c, old, new) for c in children(s)))


def _facts_around(site: Site) -> Analyzer:
    """What is known outside of the loops around."""
    if not site.loops:
        return site.analyzer()
    at = next(k for k, s in enumerate(site.around) if s is site.loops[0])
    return Site(site.loops[0], site.around[:at]).analyzer()


def _iterators_around(site: Site, bindings: Sequence[Expr]) -> dict[Var, tuple[Expr, Expr]]:
    """The ranges of those iterators of blocks around that the bindings use."""
    used = set(free_vars(*bindings))
    blocks = [s for s in site.around if isinstance(s, Block)]
    return {it.var: (it.start, it.extent) for b in blocks for it in b.iters if it.var in used}


def _divided(site: Site, block: Block, facts: Analyzer, what: str) -> _Division:
    """The iterators of a block inside, divided by where their loops stand."""
    inner: list[For] = []
    node = site.node
    while node is not block:
        if isinstance(node, For):
            inner.append(node)
        elif not isinstance(node, Seq):
            raise ScheduleError(
                f"{what}: {describe(node)} stands around block {block.name!r}",
                because="only loops and sequences become part of a block",
                where=node.span,
            )
        node = next(c for c in children(node) if any(b is block for b in blocks_in(c)))
    for it in block.iters:
        if it.start is not ZERO:
            raise ScheduleError(
                f"{what}: the iterator {it.var.name!r} of block {block.name!r} starts at"
                f" {it.start!r}",
                because="only ranges from 0 are divided",
                where=block.span,
            )
    bindings = [it.binding for it in block.iters]
    ranges = _iterators_around(site, bindings)
    ranges.update({x.var: (x.start, x.extent) for x in (*site.loops, *inner)})
    try:
        parts = subspace_divide(bindings, ranges, {x.var for x in inner}, analyzer=facts)
    except ArithError as error:
        raise ScheduleError(
            f"{what}: the iterators of block {block.name!r} do not divide: {error.what}",
            because=error.because,
            given=error.given,
            where=block.span,
        ) from None
    return _Division(block, tuple(inner), tuple(parts))


def _outer_block(site: Site, divisions: Sequence[_Division], facts: Analyzer, what: str) -> _Outer:
    """The iterators of the new block: the distinct outer parts of those inside."""
    kinds: dict[Expr, set[IterKind]] = {}
    extents: dict[Expr, Expr] = {}
    names: dict[Expr, str] = {}
    for d in divisions:
        for it, part in zip(d.block.iters, d.parts, strict=True):
            if not _is_one(part.outer_extent):
                kinds.setdefault(part.outer, set()).add(it.kind)
                extents[part.outer] = part.outer_extent
                names.setdefault(part.outer, f"{it.var.name}_o")
    iters = [
        Iter(Var(names[e]), extents[e], k.pop() if len(k) == 1 else IterKind.OPAQUE, e)
        for e, k in kinds.items()
    ]
    iters = _with_extents(site, iters, _outer_predicate(divisions, what), facts, what)
    values: dict[Expr, Expr] = {it.binding: it.var for it in iters}
    return _Outer(what, site.loops, tuple(iters), values)


def _with_extents(
    site: Site, iters: Sequence[Iter], predicate: Expr, facts: Analyzer, what: str
) -> list[Iter]:
    """The new iterators with the extents that the loops around take, each point once."""
    ordered = [it for it in iters if it.kind is not IterKind.OPAQUE]
    ours = set(free_vars(*(it.binding for it in ordered)))
    theirs = set(free_vars(*(it.binding for it in iters if it.kind is IterKind.OPAQUE)))
    ranges = _iterators_around(site, [it.binding for it in ordered])
    for x in site.loops:
        if x.var in ours or x.var not in theirs:
            ranges[x.var] = x.start, x.extent
    try:
        found = detect_iter_map([it.binding for it in ordered], ranges, predicate, analyzer=facts)
    except ArithError as error:
        raise ScheduleError(
            f"{what}: the loops around do not take each point of the new block once",
            because=error.what,
            try_="a loop further outside",
        ) from None
    extents = dict(zip(ordered, found.extents, strict=True))
    return [replace(it, extent=extents.get(it, it.extent)) for it in iters]


def _is_one(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 1


def _inner_block(d: _Division, outer: _Outer) -> Block:
    """A block inside, its iterators bound to those of the new one and to the loops inside."""
    facts = Analyzer()
    for it in outer.iters:
        facts.bind(it.var, ZERO, it.extent)
    for loop in d.inner:
        facts.bind(loop.var, loop.start, loop.extent)
    iters = [
        replace(
            it, binding=facts.simplify(outer.inside(part.outer) * part.inner_extent + part.inner)
        )
        for it, part in zip(d.block.iters, d.parts, strict=True)
    ]
    kept = [outer.inside(c) for c in conjuncts(d.block.predicate) if _is_inner(c, d)]
    around = {loop.var for loop in outer.loops}
    if left := around.intersection(free_vars(*kept)):
        raise ScheduleError(
            f"{outer.what}: the predicate of block {d.block.name!r} depends on"
            f" {left.pop().name!r}, which is around the new block",
            because="a block knows its own iterators alone",
            where=d.block.span,
        )
    return replace(d.block, iters=tuple(iters), predicate=all_of(kept))


def _is_inner(condition: Expr, d: _Division) -> bool:
    return condition is not TRUE and any(x.var in free_vars(condition) for x in d.inner)


def _outer_predicate(divisions: Sequence[_Division], what: str) -> Expr:
    """The conditions on the loops around alone, which all blocks inside must have in common."""
    found = [
        [c for c in conjuncts(d.block.predicate) if c is not TRUE and not _is_inner(c, d)]
        for d in divisions
    ]
    if any(set(conditions) != set(found[0]) for conditions in found):
        raise ScheduleError(
            f"{what}: the blocks have different predicates over the loops around",
            because="the new block has one for all of them",
        )
    return all_of(found[0])


def _check_one_init(d: _Division, what: str) -> None:
    """No loop inside has the init run again, as those of opaque iterators do."""
    opaque = [it.binding for it in d.block.iters if it.kind is IterKind.OPAQUE]
    used = set(free_vars(*opaque))
    for loop in d.inner:
        if loop.var in used and not _is_one(loop.extent):
            raise ScheduleError(
                f"{what}: the init of block {d.block.name!r} runs in each iteration of loop"
                f" {loop.var.name!r}",
                because="that of the new block runs once, before them",
                where=d.block.span,
            )


def _init_nest(d: _Division, inner: Block, name: str) -> Stmt:
    """The init over the inner points of the spatial iterators."""
    assert inner.init is not None
    spatial = [it for it in inner.iters if it.kind is not IterKind.REDUCE]
    reduce = [it for it in inner.iters if it.kind is IterKind.REDUCE]
    used = set(free_vars(*(it.binding for it in spatial)))
    only_reduce = set(free_vars(*(it.binding for it in reduce))) - used
    values, around = copy_loops(d.inner, used, "init")
    new = {it.var: it.var.renamed(it.var.name) for it in spatial}
    conditions = [
        c
        for c in conjuncts(inner.predicate)
        if c is not TRUE and not only_reduce.intersection(free_vars(c))
    ]
    iters = tuple(
        replace(it, var=new[it.var], binding=substitute(it.binding, values)) for it in spatial
    )
    predicate = substitute(all_of(conditions), values)
    body = instantiate(inner.init, dict(new))
    return around(Block(name, iters, body, predicate=predicate, span=inner.span))


def _check_body(body: Stmt, outer: _Outer) -> None:
    """What becomes the inside of the block depends on its iterators alone, not on the loops."""
    around = {loop.var for loop in outer.loops}
    stack = [body]
    while stack:
        s = stack.pop()
        exprs: tuple[Expr, ...] = ()
        if isinstance(s, For):
            exprs = (s.start, s.extent)
        elif isinstance(s, Block):
            exprs = (s.predicate, *(it.binding for it in s.iters))
        elif not isinstance(s, (Seq, Alloc)):
            raise ScheduleError(
                f"{outer.what}: {describe(s)} stands outside of the blocks",
                because="only loops and sequences become part of a block",
                where=s.span,
            )
        if left := around.intersection(free_vars(*exprs)):
            raise ScheduleError(
                f"{outer.what}: a loop or block inside depends on {left.pop().name!r}",
                because="a block knows its own iterators alone",
                where=s.span,
            )
        stack.extend(() if isinstance(s, Block) else children(s))
