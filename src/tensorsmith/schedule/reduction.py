"""Taking a reduction's init out of its block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorsmith.arith.accesses import collect_accesses
from tensorsmith.ir import (
    Alloc,
    Bind,
    Block,
    Expr,
    For,
    Invoke,
    Iter,
    IterKind,
    Region,
    Seq,
    Stmt,
    TensorProgram,
    Var,
    free_vars,
    seq,
    substitute,
)
from tensorsmith.ir.instantiate import instantiate
from tensorsmith.ir.rewrite import statements
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.nest import all_of, conditions_between, copy_loops
from tensorsmith.schedule.tree import (
    Site,
    block_names,
    find_block,
    find_loop,
    fresh_name,
    replace_stmt,
)


@dataclass(frozen=True, slots=True)
class ReductionLoops:
    """The loops around a reduction block, from the one where it is to be cut inwards.

    reduce: those that reduce iterators are bound to.
    spatial: those that spatial iterators are bound to.
    """

    site: Site
    block: Block
    inner: tuple[For, ...]
    reduce: frozenset[Var]
    spatial: frozenset[Var]


def reduction_loops(program: TensorProgram, name: str, loop_var: Var, what: str) -> ReductionLoops:
    """What the loops around block `name` are used for, those from `loop_var` inwards.

    Raises ScheduleError unless the block has an init, the loop is around it, and no loop inside
    serves spatial and reduce iterators at once, or an opaque one.
    """
    site = find_block(program, name)
    block = site.node
    assert isinstance(block, Block)
    if block.init is None:
        raise ScheduleError(
            f"{what}: block {name!r} has no init",
            because="only a reduction that starts from an init has one to be moved",
            where=block.span,
        )
    find_loop(program, loop_var)
    at = next((k for k, loop in enumerate(site.loops) if loop.var is loop_var), None)
    if at is None:
        raise ScheduleError(
            f"{what}: loop {loop_var.name!r} is not around block {name!r}",
            try_="a loop from get_loops(block)",
            where=block.span,
        )
    inner = site.loops[at:]
    own = {loop.var for loop in inner}
    used = {kind: _used(block.iters, kind) & own for kind in IterKind}
    ordered = used[IterKind.OPAQUE]
    mixed = used[IterKind.SPATIAL] & used[IterKind.REDUCE]
    for wrong, because in (
        (ordered, "an opaque iterator keeps its order"),
        (mixed, "spatial and reduce iterators both depend on it"),
    ):
        if wrong:
            names = ", ".join(sorted(v.name for v in wrong))
            raise ScheduleError(f"{what}: loop {names!r} cannot be cut", because=because)
    return ReductionLoops(
        site, block, inner, frozenset(used[IterKind.REDUCE]), frozenset(used[IterKind.SPATIAL])
    )


def _used(iters: Sequence[Iter], kind: IterKind) -> set[Var]:
    return set(free_vars(*(it.binding for it in iters if it.kind is kind)))


def split_conditions(
    loops: ReductionLoops, conditions: Sequence[Expr], what: str
) -> tuple[list[Expr], list[Expr]]:
    """The conditions on the loops without `reduce`, and those on `reduce` alone.

    Raises ScheduleError for one that ties both.
    """
    around = {loop.var for loop in loops.site.loops}
    spatial: list[Expr] = []
    reduce: list[Expr] = []
    for c in conditions:
        used = around.intersection(free_vars(c))
        if used and used <= loops.reduce:
            reduce.append(c)
        elif not used & loops.reduce:
            spatial.append(c)
        else:
            raise ScheduleError(
                f"{what}: the condition {c!r} ties reduce and spatial loops",
                because="whether a point is left out is then not known without the reduction",
                where=loops.block.span,
            )
    return spatial, reduce


def decompose_reduction(
    program: TensorProgram, name: str, loop_var: Var
) -> tuple[TensorProgram, str]:
    """See `Schedule.decompose_reduction`. Gives the name of the block of the init."""
    what = f"decompose_reduction({name!r}, {loop_var.name!r})"
    loops = reduction_loops(program, name, loop_var, what)
    cut = find_loop(program, loop_var)
    block = loops.block
    assert isinstance(cut.node, For)
    assert block.init is not None
    _check_inside(loops, what)
    _check_runs(loops, cut, what)
    _check_others(cut.node, block, block.init, what)
    conditions = conditions_between(cut.node, (*loops.site.around, block))
    spatial_conditions, _ = split_conditions(loops, conditions, what)
    iters = [it for it in block.iters if it.kind is not IterKind.REDUCE]
    values, around = copy_loops(loops.inner, loops.spatial, "init")
    _check_defined(cut.node, loops, [it.binding for it in iters], spatial_conditions, what)
    new_vars = {it.var: it.var.renamed(it.var.name) for it in iters}
    reads, writes = _stated_regions(block, new_vars, what)
    init = Block(
        fresh_name(f"{name}_init", block_names(program)),
        tuple(
            replace(it, var=new_vars[it.var], binding=substitute(it.binding, values))
            for it in iters
        ),
        instantiate(block.init, dict(new_vars)),
        predicate=substitute(all_of(spatial_conditions), values),
        reads=reads,
        writes=writes,
        span=block.init.span or block.span,
    )
    program = replace_stmt(program, block, replace(block, init=None))
    loop = find_loop(program, loop_var).node
    return replace_stmt(program, loop, seq(around(init), loop)), init.name


def _check_inside(loops: ReductionLoops, what: str) -> None:
    """All loops that the reduction runs over are cut off."""
    inner = {loop.var for loop in loops.inner}
    for loop in loops.site.loops:
        if loop.var not in inner and loop.var in _used(loops.block.iters, IterKind.REDUCE):
            raise ScheduleError(
                f"{what}: loop {loop.var.name!r}, which is outside, is one of the reduction",
                because="the init would run again in each of its iterations, and undo the others",
                try_=f"decompose_reduction at {loop.var.name!r} or outside of it",
                where=loops.block.span,
            )


def _check_runs(loops: ReductionLoops, cut: Site, what: str) -> None:
    """There is something to reduce: over no points, the init of a block does not run."""
    facts = cut.analyzer()
    for it in loops.block.iters:
        if it.kind is IterKind.REDUCE and facts.prove(it.extent > 0) is not True:
            raise ScheduleError(
                f"{what}: the reduction over {it.var.name!r} may be empty",
                because="the init would run alone, where now nothing runs",
                given=f"its extent is {it.extent!r}",
                try_="a dimension with min=1",
                where=loops.block.span,
            )


def _check_others(loop: For, block: Block, init: Stmt, what: str) -> None:
    """Nothing else in the loop sees or changes what the init writes, or changes what it reads."""
    of_init = collect_accesses(init)
    written = {a.region.buffer for a in of_init if a.is_write}
    read = {a.region.buffer for a in of_init if not a.is_write}
    for s in statements(loop):
        if isinstance(s, Alloc) and s.buffer in written | read:
            raise ScheduleError(
                f"{what}: {s.buffer.name!r}, which the init uses, is allocated inside of the loop",
                because="it is not there in front of the loop",
                try_="a loop further inside",
                where=s.span,
            )
    for a in collect_accesses(_without(loop, block)):
        buffer = a.region.buffer
        if buffer in written or (a.is_write and buffer in read):
            verb = "writes" if a.is_write else "reads"
            raise ScheduleError(
                f"{what}: another statement in the loop {verb} {buffer.name!r}",
                because="the init would move over it",
                try_="a loop that holds the block alone",
                where=a.stmt.span,
            )


def _without(loop: For, block: Block) -> Stmt:
    program = TensorProgram("", (), loop)
    return replace_stmt(program, block, Seq(())).body


def _check_defined(
    loop: For, loops: ReductionLoops, bindings: list[Expr], conditions: list[Expr], what: str
) -> None:
    """What the new block says is known in front of the loop."""
    kept = [x for x in loops.inner if x.var in loops.spatial]
    local = {s.var for s in statements(loop) if isinstance(s, Bind)}
    local |= {x.var for x in loops.inner} - loops.spatial
    exprs = [*bindings, *conditions, *(e for x in kept for e in (x.start, x.extent))]
    for v in free_vars(*exprs):
        if v in local:
            raise ScheduleError(
                f"{what}: the iterations of the init depend on {v.name!r}",
                because=f"{v.name!r} is not known in front of the loop",
                where=loops.block.span,
            )


def _stated_regions(
    block: Block, new_vars: dict[Var, Var], what: str
) -> tuple[tuple[Region, ...] | None, tuple[Region, ...] | None]:
    """Regions for the block of the init: none, unless it calls what only the block tells about."""
    if block.init is None or not any(isinstance(s, Invoke) for s in statements(block.init)):
        return None, None
    reduce = {it.var for it in block.iters if it.kind is IterKind.REDUCE}
    values: dict[Expr, Expr] = dict(new_vars.items())
    stated: list[tuple[Region, ...] | None] = []
    for regions in (block.reads, block.writes):
        for region in regions or ():
            exprs = [e for pair in region.ranges for e in pair]
            if reduce.intersection(free_vars(*exprs)):
                raise ScheduleError(
                    f"{what}: the region {region!r} of a call in the init depends on the reduction",
                    where=block.span,
                )
        stated.append(None if regions is None else tuple(_moved(r, values) for r in regions))
    return stated[0], stated[1]


def _moved(region: Region, values: dict[Expr, Expr]) -> Region:
    moved = [(substitute(a, values), substitute(b, values)) for a, b in region.ranges]
    return Region(region.buffer, moved)
