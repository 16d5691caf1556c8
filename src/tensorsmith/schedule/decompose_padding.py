"""Taking the padding out of a block that pads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorsmith.arith import Analyzer, conjuncts
from tensorsmith.arith.accesses import collect_accesses
from tensorsmith.ir import (
    Block,
    Const,
    Expr,
    For,
    If,
    Iter,
    IterKind,
    Le,
    Load,
    Lt,
    Max,
    Min,
    Select,
    Stmt,
    Store,
    TensorProgram,
    Var,
    free_vars,
    postorder,
    seq,
    substitute,
)
from tensorsmith.ir.stmt import TRUE, ZERO
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.nest import all_of, copy_loops, sole_nest
from tensorsmith.schedule.tree import (
    block_names,
    find_block,
    find_loop,
    fresh_name,
    replace_stmt,
)


@dataclass(frozen=True, slots=True)
class _Padded:
    """A block that stores `value` where `condition` holds, and `pad` elsewhere."""

    block: Block
    store: Store
    condition: Expr
    value: Expr
    pad: Expr


def decompose_padding(
    program: TensorProgram, name: str, loop_var: Var
) -> tuple[TensorProgram, str]:
    """See `Schedule.decompose_padding`. Gives the name of the block that fills."""
    what = f"decompose_padding({name!r}, {loop_var.name!r})"
    padded = _padded(program, name, what)
    inner = _inner_loops(program, name, loop_var, what)
    facts = find_block(program, name).analyzer()
    for it in padded.block.iters:
        facts.bind(it.var, it.start, it.extent)
    fill = _fill(padded, inner, fresh_name(f"{name}_pad", block_names(program)))
    copy = _copy(padded, inner, facts)
    return replace_stmt(program, inner[0], seq(fill[0], copy)), fill[1]


def _padded(program: TensorProgram, name: str, what: str) -> _Padded:
    block = find_block(program, name).node
    assert isinstance(block, Block)
    store = block.body
    form = "B[...] = select(inside, value, padding), with a padding that loads nothing"
    if not isinstance(store, Store) or not isinstance(store.value, Select) or block.init:
        raise ScheduleError(
            f"{what}: block {name!r} does not pad", because=f"it must say {form}", where=block.span
        )
    condition, value, pad = store.value.args
    if _loads(value) < _loads(pad):
        condition, value, pad = ~condition, pad, value
    if _loads(pad) or _loads(condition):
        raise ScheduleError(
            f"{what}: block {name!r} does not pad", because=f"it must say {form}", where=block.span
        )
    if any(a.region.buffer is store.buffer and not a.is_write for a in collect_accesses(block)):
        raise ScheduleError(
            f"{what}: block {name!r} reads what it writes",
            because="the padding would be there before",
            where=block.span,
        )
    for it in block.iters:
        if it.kind is not IterKind.SPATIAL:
            raise ScheduleError(
                f"{what}: the iterator {it.var.name!r} is {it.kind.value}, not spatial",
                where=block.span,
            )
    return _Padded(block, store, condition, value, pad)


def _loads(e: Expr) -> int:
    return sum(isinstance(x, Load) for x in postorder(e))


def _inner_loops(program: TensorProgram, name: str, loop_var: Var, what: str) -> tuple[For, ...]:
    """The loops from `loop_var` inwards, which must hold the block alone."""
    find_loop(program, loop_var)
    loops = sole_nest(program, name).loops
    at = next((k for k, loop in enumerate(loops) if loop.var is loop_var), None)
    if at is None:
        raise ScheduleError(
            f"{what}: the loop does not hold block {name!r} alone",
            because="the padding of all its iterations is written first",
            try_="a loop further inside",
        )
    return loops[at:]


def _fill(padded: _Padded, inner: Sequence[For], name: str) -> tuple[Stmt, str]:
    """Store the padding everywhere."""
    values, around = copy_loops(inner, {x.var for x in inner}, "pad")
    new = {it.var: it.var.renamed(it.var.name) for it in padded.block.iters}
    renaming: dict[Expr, Expr] = dict(new.items())
    iters = tuple(
        replace(it, var=new[it.var], binding=substitute(it.binding, values))
        for it in padded.block.iters
    )
    indices = tuple(substitute(i, renaming) for i in padded.store.indices)
    store = replace(padded.store, indices=indices, value=substitute(padded.pad, renaming))
    predicate = substitute(padded.block.predicate, values)
    block = Block(name, iters, store, predicate=predicate, span=padded.block.span)
    return around(block), name


def _copy(padded: _Padded, inner: Sequence[For], facts: Analyzer) -> Stmt:
    """Store the values, over the ranges inside of the padding as far as those are boxes of loops
    of their own; what else the condition says is asked at each point."""
    block = padded.block
    own = {loop.var: loop for loop in inner}
    movable = {
        it.var: own[it.binding]
        for it in block.iters
        if isinstance(it.binding, Var)
        and it.binding in own
        and _is_alone(it.binding, block, inner)
        and it.start is ZERO
        and facts.equal(own[it.binding].extent, it.extent)
        and own[it.binding].start is ZERO
    }
    ranges: dict[Var, tuple[Expr, Expr]] = {}
    left: list[Expr] = []
    for c in conjuncts(padded.condition):
        found = _bound(c, block.iters, facts)
        if found is None or found[0] not in movable:
            left.append(c)
            continue
        var, low, stop = found
        start, end = ranges.get(var, (ZERO, movable[var].extent))
        ranges[var] = (_later(start, low, facts), _earlier(end, stop, facts))
    for var, (start, end) in list(ranges.items()):
        if facts.prove(end > start) is not True:
            left += [start <= var, var < end]
            del ranges[var]
    return _nest(padded, inner, ranges, [c for c in left if c is not TRUE], facts)


def _is_alone(var: Expr, block: Block, inner: Sequence[For]) -> bool:
    """Whether a loop variable stands in one binding, and in nothing else around the block."""
    uses = sum(var in free_vars(it.binding) for it in block.iters)
    others = [block.predicate, *(e for x in inner for e in (x.start, x.extent))]
    return uses == 1 and var not in free_vars(*others)


def _bound(
    condition: Expr, iters: Sequence[Iter], facts: Analyzer
) -> tuple[Var, Expr | None, Expr | None] | None:
    """A condition as a least value, or an end, of one iterator; None if it is neither."""
    if not isinstance(condition, (Lt, Le)) or not condition.a.dtype.is_index:
        return None
    a, b = condition.args
    gap = facts.simplify(b - a - (1 if isinstance(condition, Lt) else 0))
    variables = {it.var for it in iters}
    used = [v for v in free_vars(gap) if v in variables]
    if len(used) != 1:
        return None
    (var,) = used
    rising, falling = facts.simplify(gap - var), facts.simplify(gap + var)
    if not variables.intersection(free_vars(rising)):
        return var, facts.simplify(ZERO - rising), None
    if not variables.intersection(free_vars(falling)):
        return var, None, facts.simplify(falling + 1)
    return None


def _later(a: Expr, b: Expr | None, facts: Analyzer) -> Expr:
    return a if b is None else facts.simplify(Max(a, b))


def _earlier(a: Expr, b: Expr | None, facts: Analyzer) -> Expr:
    return a if b is None else facts.simplify(Min(a, b))


def _nest(
    padded: _Padded,
    inner: Sequence[For],
    ranges: dict[Var, tuple[Expr, Expr]],
    left: Sequence[Expr],
    facts: Analyzer,
) -> Stmt:
    iters: list[Iter] = []
    extents: dict[Expr, Expr] = {}
    for it in padded.block.iters:
        if it.var not in ranges:
            iters.append(it)
            continue
        start, end = ranges[it.var]
        extent = facts.simplify(end - start)
        extents[it.binding] = extent
        binding = facts.simplify(it.binding + start)
        iters.append(replace(it, start=start, extent=extent, binding=binding))
    body: Stmt = replace(padded.store, value=padded.value)
    condition = facts.simplify(all_of(left))
    if not (isinstance(condition, Const) and condition.value):
        body = If(condition, body)
    result: Stmt = replace(padded.block, iters=tuple(iters), body=body)
    for loop in reversed(inner):
        result = replace(loop, extent=extents.get(loop.var, loop.extent), body=result)
    return result
