"""Primitives that change loops: split, fuse, reorder.

Each takes a program and gives a new one; it checks first, and raises ScheduleError before anything
changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

from tensorsmith.arith import Analyzer
from tensorsmith.ir import (
    Alloc,
    And,
    Assert,
    Bind,
    Block,
    Const,
    Expr,
    ExprLike,
    FloorDiv,
    FloorMod,
    For,
    If,
    Invoke,
    IterKind,
    LoopKind,
    Seq,
    Stmt,
    Store,
    TensorProgram,
    Var,
    While,
    as_expr,
    free_vars,
    postorder,
    seq,
)
from tensorsmith.ir.rewrite import children, statements, substitute_stmt, with_children
from tensorsmith.ir.stmt import TRUE, ZERO
from tensorsmith.schedule.dependence import BlockKind, block_kind
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.independence import meetings
from tensorsmith.schedule.tree import blocks_in, find_loop, replace_stmt
from tensorsmith.verify import problems
from tensorsmith.verify.errors import BindingError


def split(
    program: TensorProgram,
    var: Var,
    factors: Sequence[ExprLike | None],
    *,
    preserve_unit_loops: bool = True,
    disable_predication: bool = False,
) -> tuple[TensorProgram, list[Var]]:
    """See `Schedule.split`. Gives the variables of the new loops, outermost first."""
    site = find_loop(program, var)
    loop = plain_loop(site.node, "split")
    facts = site.analyzer()
    extents = _factors(loop, factors, facts)
    new_vars = [Var(f"{var.name}_{k}") for k in range(len(extents))]
    value: Expr = ZERO
    for v, extent in zip(new_vars, extents, strict=True):
        value = value * extent + v
    covered = as_expr(1)
    for extent in extents:
        covered = covered * extent
    with facts.scope():
        for v, extent in zip(new_vars, extents, strict=True):
            facts.bind(v, 0, extent)
        value = facts.simplify(value)
        body = substitute_stmt(loop.body, {var: facts.simplify(value + loop.start)})
        guard = facts.simplify(value < loop.extent)
        if guard is not TRUE:
            if disable_predication:
                raise ScheduleError(
                    f"split({var.name}) needs a predicate: {facts.simplify(covered)!r} is not the"
                    f" extent {loop.extent!r}",
                    try_="factors whose product is the extent",
                )
            body = add_guard(body, guard, facts)
    result, kept = _nested(body, loop, new_vars, extents, preserve_unit_loops)
    changed = replace_stmt(program, loop, result)
    if not _is_seen_at_once(loop, guard):
        require_bindings(changed, f"split({var.name})", result)
    return changed, kept


def _nested(
    body: Stmt, loop: For, new_vars: list[Var], extents: list[Expr], keep_units: bool
) -> tuple[Stmt, list[Var]]:
    """`body` under the new loops, and the variables of those that there are."""
    kept: list[Var] = []
    for v, extent in zip(reversed(new_vars), reversed(extents), strict=True):
        if not keep_units and isinstance(extent, Const) and extent.value == 1:
            body = substitute_stmt(body, {v: ZERO})
            continue
        kept.insert(0, v)
        body = For(v, extent, body, span=loop.span)
    return body, kept


def _is_seen_at_once(loop: For, guard: Expr) -> bool:
    """Whether bindings stay what they are: sums in which the loop is a term, without predicates."""
    for block in blocks_in(loop.body):
        bindings = [it.binding for it in block.iters if loop.var in free_vars(it.binding)]
        if any(isinstance(e, (FloorDiv, FloorMod)) for e in postorder(*bindings)):
            return False
        if block.predicate is not TRUE:
            return False
    return guard is TRUE


def plain_loop(loop: Stmt, primitive: str) -> For:
    """The loop. Raises ScheduleError if it is more than a serial one."""
    assert isinstance(loop, For)
    if loop.kind is not LoopKind.SERIAL or loop.attrs:
        what = loop.kind.value if loop.kind is not LoopKind.SERIAL else "annotated"
        raise ScheduleError(
            f"{primitive}: loop {loop.var.name!r} is {what}",
            because="its parts would not all be that",
            try_=f"{primitive} first, then make the new loops {what}",
            where=loop.span,
        )
    return loop


def _factors(loop: For, factors: Sequence[ExprLike | None], facts: Analyzer) -> list[Expr]:
    """The extents of the new loops, the one that is None derived."""
    name = loop.var.name
    if not factors or sum(f is None for f in factors) > 1:
        raise ScheduleError(
            f"split({name}) takes one or more factors, of which one may be None",
            given=f"factors={list(factors)!r}",
        )
    given = [None if f is None else facts.simplify(as_expr(f)) for f in factors]
    known = as_expr(1)
    for f in given:
        if f is None:
            continue
        if facts.prove(f > 0) is not True:
            raise ScheduleError(f"split({name}): the factor {f!r} is not known to be positive")
        known = known * f
    divides = facts.equal(loop.extent % known, 0)
    outer = facts.simplify(loop.extent if divides else loop.extent + known - 1)
    outer = facts.simplify(outer // known)
    extents = [outer if f is None else f for f in given]
    covered = facts.simplify(known * outer) if None in given else facts.simplify(known)
    if facts.prove(covered >= loop.extent) is not True:
        raise ScheduleError(
            f"split({name}): the factors cover {covered!r} of {loop.extent!r} iterations",
            because="all iterations must be kept",
            try_="None for one of the factors",
        )
    return extents


def add_guard(s: Stmt, guard: Expr, facts: Analyzer) -> Stmt:
    """`s` done only where `guard` holds: a predicate on its outermost blocks, a condition on what
    stands outside of blocks."""
    if isinstance(s, Block):
        return replace(s, predicate=facts.simplify(And(s.predicate, guard)))
    if isinstance(s, Alloc):
        return s
    binds = isinstance(s, Seq) and any(isinstance(x, Bind) for x in s.stmts)
    if isinstance(s, (Seq, For, If)) and blocks_in(s) and not binds:
        return with_children(s, tuple(add_guard(c, guard, facts) for c in children(s)))
    return If(guard, s, span=s.span)


def require_bindings(program: TensorProgram, what: str, changed: Stmt | None = None) -> None:
    """Raise ScheduleError if it is not seen of the program, which was well formed before, that the
    loops take each point of the blocks' iterators once.

    changed: the part that is new, if all else is as it was.
    """
    body = program.body
    if changed is not None and any(x is changed for x in statements(body)):
        body = _without_others(body, changed)
    for problem in problems(replace(program, body=body)):
        if isinstance(problem, BindingError):
            raise ScheduleError(
                f"{what} would leave a nest of loops of which it is not seen that it takes each"
                " point once",
                because=problem.what,
                given=problem.given,
            )


def _without_others(s: Stmt, part: Stmt) -> Stmt:
    """A statement that holds `part`, without what is done before and after it."""
    if s is part:
        return s
    kept = []
    for c in children(s):
        if any(x is part for x in statements(c)):
            kept.append(_without_others(c, part))
        elif not isinstance(s, Seq) or not isinstance(c, (For, Block, If, While, Store, Invoke)):
            kept.append(c)
    return seq(*kept) if isinstance(s, Seq) else with_children(s, tuple(kept))


def fuse(program: TensorProgram, loop_vars: Sequence[Var]) -> tuple[TensorProgram, Var]:
    """See `Schedule.fuse`. Gives the variable of the fused loop."""
    if not loop_vars:
        raise ScheduleError("fuse takes at least one loop")
    site = find_loop(program, loop_vars[0])
    nest = [plain_loop(find_loop(program, v).node, "fuse") for v in loop_vars]
    for outer, inner in pairwise(nest):
        if outer.body is not inner:
            raise ScheduleError(
                f"fuse: {inner.var.name!r} is not the only thing inside of {outer.var.name!r}",
                because="only loops that are perfectly nested become one",
            )
    outer_vars = {loop.var for loop in nest}
    for loop in nest:
        if used := outer_vars.intersection(free_vars(loop.extent, loop.start)):
            raise ScheduleError(
                f"fuse: the range of {loop.var.name!r} depends on {used.pop().name!r}",
                because="the fused loop would not have a rectangular domain",
            )
    facts = site.analyzer()
    fused = Var("_".join([*(loop.var.name for loop in nest), "fused"]))
    extent = as_expr(1)
    for loop in nest:
        extent = extent * loop.extent
    extent = facts.simplify(extent)
    with facts.scope():
        facts.bind(fused, 0, extent)
        values: dict[Expr, Expr] = {}
        rest: Expr = fused
        for at, loop in reversed(list(enumerate(nest))):
            value = rest if at == 0 else rest % loop.extent
            values[loop.var] = facts.simplify(value + loop.start)
            rest = rest // loop.extent
    body = substitute_stmt(nest[-1].body, values)
    new = For(fused, extent, body, span=nest[0].span)
    changed = replace_stmt(program, nest[0], new)
    is_plain = all(
        b.predicate is TRUE and all(it.kind is not IterKind.OPAQUE for it in b.iters)
        for b in blocks_in(body)
    )
    if not is_plain:
        require_bindings(changed, f"fuse({_names(loop_vars)})", new)
    return changed, fused


def reorder(program: TensorProgram, loop_vars: Sequence[Var]) -> TensorProgram:
    """See `Schedule.reorder`."""
    if len(set(loop_vars)) != len(loop_vars):
        raise ScheduleError("reorder names a loop twice", given=_names(loop_vars))
    if not loop_vars:
        return program
    chain = _chain(program, loop_vars)
    order = iter(loop_vars)
    new_order = [next(order) if loop.var in loop_vars else loop.var for loop in chain]
    by_var = {loop.var: loop for loop in chain}
    _check_ranges(new_order, by_var)
    block = _only_block(chain[-1].body)
    old_order = [loop.var for loop in chain]
    crossing = _crossing(old_order, new_order, block)
    result = chain[-1].body
    for v in reversed(new_order):
        result = replace(by_var[v], body=result)
    changed = replace_stmt(program, chain[0], result)
    for v, is_outside in crossing.items():
        _check_crossing(program if is_outside else changed, v, block, new_order)
    return changed


def _chain(program: TensorProgram, loop_vars: Sequence[Var]) -> list[For]:
    """The loops from the outermost to the innermost of those named, each alone in the next one."""
    found = [find_loop(program, v) for v in loop_vars]
    innermost = max(found, key=lambda site: len(site.around))
    assert isinstance(innermost.node, For)
    chain = [innermost.node]
    missing = set(loop_vars) - {innermost.node.var}
    for s in reversed(innermost.around):
        if not missing:
            break
        if not isinstance(s, For) or s.body is not chain[0]:
            raise ScheduleError(
                f"reorder({_names(loop_vars)}): the loops are not one nest",
                because="something else stands between them",
                try_="move it out first (compute_at, decompose_reduction, loop_partition)",
            )
        chain.insert(0, s)
        missing.discard(s.var)
    if missing:
        raise ScheduleError(
            f"reorder({_names(loop_vars)}): {missing.pop().name!r} is not around"
            f" {innermost.node.var.name!r}"
        )
    return chain


def _check_ranges(order: list[Var], by_var: dict[Var, For]) -> None:
    for at, v in enumerate(order):
        later = set(order[at:])
        if used := later.intersection(free_vars(by_var[v].extent, by_var[v].start)):
            raise ScheduleError(
                f"reorder would move {v.name!r} out of {used.pop().name!r}, on which its range"
                " depends"
            )


def _crossing(old: list[Var], new: list[Var], block: Block) -> dict[Var, bool]:
    """The loops that change places with one that opaque iterators use, and whether they stood
    outside of it. What is ordered must stay ordered: those that opaque iterators use.

    {} if that makes no difference, as each element that the block writes has one value.
    """
    opaque = [it for it in block.iters if it.kind is IterKind.OPAQUE]
    used = free_vars(*(it.binding for it in opaque))
    before, after = ([v for v in order if v in used] for order in (old, new))
    if before != after:
        raise ScheduleError(
            f"reorder({_names(new)}) would change the order of {_names(before)}",
            because=f"opaque iterators of block {block.name!r} depend on it",
        )
    if block_kind(block) is BlockKind.COMPLETE:
        return {}
    crossing: dict[Var, bool] = {}
    for v, u in product((v for v in old if v not in used), before):
        was_outside = old.index(v) < old.index(u)
        if was_outside != (new.index(v) < new.index(u)):
            crossing[v] = was_outside
    return crossing


def _check_crossing(program: TensorProgram, var: Var, block: Block, order: list[Var]) -> None:
    """Raise ScheduleError unless the iterations of a loop, with those that opaque iterators use
    inside of it, do not meet: then it is the same whether these run inside or outside."""
    ordered = next(it for it in block.iters if it.kind is IterKind.OPAQUE)
    because: str | None = None
    if any(isinstance(s, (Invoke, Assert, While)) for s in statements(block)):
        because = f"block {block.name!r} does more than to write its buffers"
    else:
        met = [buffer.name for buffer, _ in meetings(find_loop(program, var))]
        if met:
            because = f"iterations of {var.name!r} meet in {met[0]!r}"
    if because is not None:
        raise ScheduleError(
            f"reorder({_names(order)}) would change the order in which the opaque iterator"
            f" {ordered.var.name!r} of block {block.name!r} takes its values, for those of"
            f" {var.name!r}",
            because=because,
        )


def _only_block(s: Stmt) -> Block:
    """The block in which all is done that is done in `s`. Raises ScheduleError if there is none."""
    while not isinstance(s, Block):
        inner = children(s)
        if len(inner) != 1 or not isinstance(s, (For, If, Seq)):
            raise ScheduleError(
                "reorder: several blocks, or statements outside of blocks, stand inside of the"
                " loops",
                because="one may use what another wrote in an earlier iteration",
                try_="a nest with a single block",
            )
        s = inner[0]
    return s


def _names(loop_vars: Sequence[Var]) -> str:
    return ", ".join(v.name for v in loop_vars)
