"""Multiplying a sum once by what all of its terms are multiplied by."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from tensorsmith.arith import Analyzer
from tensorsmith.ir import (
    Add,
    Alloc,
    Block,
    Buffer,
    Expr,
    Invoke,
    IterKind,
    Load,
    Mul,
    Store,
    TensorProgram,
    Var,
    free_vars,
    postorder,
    substitute,
    transform,
)
from tensorsmith.schedule.dependence import allocation, reads_itself
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.inline import (
    check_bounds,
    check_same_values,
    local_result,
    only_store,
    with_loads,
)
from tensorsmith.schedule.layout import facts_of
from tensorsmith.schedule.tree import find_block, replace_stmt, sites


def factor_out(program: TensorProgram, name: str) -> TensorProgram:
    """See `Schedule.factor_out`."""
    site = find_block(program, name)
    block = site.node
    assert isinstance(block, Block)
    buffer = local_result(program, block, "factor_out")
    store, given = _sum(block)
    facts = facts_of(block.iters)
    terms = [_in_short(e, facts) for e in given]
    places: dict[Expr, int] = {e: d for d, e in enumerate(store.indices)}
    common, rest = _parted(block, terms, places)
    factor = _product(common)
    read = {e.buffer for e in postorder(factor) if isinstance(e, Load)}
    for user in sites(program):
        if user.node is block or block in user.around or not reads_itself(user.node, buffer):
            continue
        if isinstance(user.node, Invoke):
            raise ScheduleError(
                f"factor_out: {buffer.name!r} is used by more than other blocks",
                because="each use is multiplied by the factor",
                where=block.span,
            )
        check_same_values("factor_out", site, user, buffer, read)
    made = buffer.replace(name=buffer.name)
    body = replace(store, buffer=made, value=Load(made, store.indices) + _product(rest))
    assert isinstance(block.init, Store)
    new = replace(block, body=body, init=replace(block.init, buffer=made), reads=None, writes=None)
    home = allocation(program, buffer)
    program = replace_stmt(program, block, new)
    if home is not None:
        program = replace_stmt(program, home.node, Alloc(made))

    def scaled(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer is not buffer:
            return None
        here: dict[Expr, Expr] = {v: e.indices[d] for v, d in places.items()}
        return Load(made, e.indices) * substitute(factor, here)

    changed = replace(program, body=with_loads(program.body, scaled, buffer))
    check_bounds(changed, "factor_out", block)
    return changed


def _sum(block: Block) -> tuple[Store, list[Expr]]:
    """The store of a block that adds up products, and the factors of each."""
    store = only_store(block, "factor_out")
    value = store.value
    is_sum = isinstance(value, Add) and isinstance(block.init, Store)
    if not is_sum or value.args[0] is not Load(store.buffer, store.indices):
        raise ScheduleError(f"factor_out: block {block.name!r} is no sum", where=block.span)
    return store, _factors(value.args[1])


def _factors(e: Expr) -> list[Expr]:
    return [f for x in e.args for f in _factors(x)] if isinstance(e, Mul) else [e]


def _in_short(e: Expr, facts: Analyzer) -> Expr:
    """An expression whose loads say in few words what they load."""

    def change(x: Expr) -> Expr | None:
        return (
            Load(x.buffer, tuple(map(facts.simplify, x.indices))) if isinstance(x, Load) else None
        )

    return transform(e, change)


def _product(factors: list[Expr]) -> Expr:
    return reduce(lambda a, b: a * b, factors)


def _parted(
    block: Block, factors: list[Expr], places: dict[Expr, int]
) -> tuple[list[Expr], list[Expr]]:
    """The factors that all terms of an element's sum have in common, and the others."""
    elements: set[Var] = {
        it.var for it in block.iters if it.kind is IterKind.SPATIAL and it.var in places
    }
    own = only_store(block, "factor_out").buffer
    common = [e for e in factors if elements.issuperset(free_vars(e)) and not _loads(e, own)]
    rest = [e for e in factors if e not in common]
    if not common or not rest:
        raise ScheduleError(
            f"factor_out: the terms of block {block.name!r} have no factor in common",
            because="it must vary with the element that they are summed to alone",
            where=block.span,
        )
    return common, rest


def _loads(e: Expr, buffer: Buffer) -> bool:
    return any(isinstance(x, Load) and x.buffer is buffer for x in postorder(e))
