"""Reduction blocks: what they start from, and which elements they write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import Const, Expr, Load, Var, postorder, substitute
from tensorsmith.ir.stmt import (
    Alloc,
    Assert,
    Bind,
    Block,
    For,
    If,
    Invoke,
    IterKind,
    Stmt,
    Store,
    While,
)
from tensorsmith.verify.context import Context, statements_under
from tensorsmith.verify.errors import InitError, ReductionWriteError


@dataclass(slots=True)
class _Effects:
    """What the statements of a body or an init do, in order.

    stores: with the subscripts in terms of what is defined outside of the statements.
    accumulated: buffers that are read before they are written, and written.
    """

    stores: list[tuple[Store, tuple[Expr, ...]]] = field(default_factory=list)
    loads: list[tuple[Stmt, Load]] = field(default_factory=list)
    written: set[Buffer] = field(default_factory=set)
    """By stores, and perhaps by calls."""
    accumulated: dict[Buffer, None] = field(default_factory=dict)


def check_reduction(context: Context, block: Block) -> None:
    """The init and the stores of `block` fit its reduce iterators. Called before its inside."""
    reduce_vars = [it.var for it in block.iters if it.kind is IterKind.REDUCE]
    if not reduce_vars:
        if block.init is not None:
            context.report(
                InitError,
                f"block {block.name!r} has an init, and no reduce iterator",
                because="an init runs where every reduce iterator has its first value",
                try_="a store before the block, or a reduce iterator: T.reduce(extent, k)",
            )
        return
    body = _effects(block.body)
    init = _Effects() if block.init is None else _effects(block.init, blocks=True)
    if block.init is not None:
        _check_init(context, block, block.init, (init, body), reduce_vars)
    _check_start(context, block, init, body)
    varying = {
        it.var
        for it in block.iters
        if it.kind is IterKind.REDUCE
        and not (isinstance(it.extent, Const) and it.extent.value == 1)
    }
    for stmt, indices in body.stores:
        _check_store(context, block, (stmt, indices), varying, stmt.buffer in init.written)


def _check_init(
    context: Context,
    block: Block,
    init: Stmt,
    effects: tuple[_Effects, _Effects],
    reduce_vars: list[Var],
) -> None:
    for stmt in statements_under(init):
        used = set(postorder(*direct_expressions(stmt)))
        for var in reduce_vars:
            if var in used:
                with context.at(stmt):
                    context.report(
                        InitError,
                        f"the init of block {block.name!r} uses the reduce iterator {var.name!r}",
                        about=(block, var),
                        because="it runs once for each point of the other iterators",
                        try_="a start value that is the same for all of them",
                    )
    init_effects, body = effects
    computed = {store.buffer for store, _ in body.stores}
    for stmt, load in init_effects.loads:
        if load.buffer in computed:
            with context.at(stmt):
                context.report(
                    InitError,
                    f"the init of block {block.name!r} reads its result {load.buffer.name!r}",
                    about=(block, load.buffer),
                    because="before the init nothing has computed it",
                    try_="the start value of the reduction, such as 0",
                )


def _check_start(context: Context, block: Block, init: _Effects, body: _Effects) -> None:
    if block.attrs.get("accumulate"):
        return
    accumulated = dict(body.accumulated)
    if block.reads is not None and block.writes is not None:
        stated = {region.buffer for region in block.reads}
        accumulated.update({r.buffer: None for r in block.writes if r.buffer in stated})
    for buffer in accumulated:
        if buffer not in init.written and buffer not in context.written:
            context.report(
                InitError,
                f"block {block.name!r} accumulates in {buffer.name!r}, and nothing initialises it",
                about=(block, buffer),
                because="a reduction needs a start value",
                try_="`with T.init():` in the block, a store before it, or, to add to what the"
                ' caller passes, T.block_attrs({"accumulate": True})',
            )


def _check_store(
    context: Context,
    block: Block,
    store: tuple[Store, tuple[Expr, ...]],
    varying: set[Var],
    initialised: bool,
) -> None:
    stmt, indices = store
    with context.at(stmt):
        picked = next((v for v in _outside_of_loads(indices) if v in varying), None)
        if picked is not None:
            context.report(
                ReductionWriteError,
                f"the reduce iterator {picked.name!r} of block {block.name!r} picks the element of"
                f" {stmt.buffer.name!r} that is written",
                about=(block, stmt.buffer, picked),
                because="the values of a reduce iterator combine into one element",
                try_=f"a spatial iterator: {picked.name} = T.spatial(...)",
            )
        elif initialised and any(v in varying for v in postorder(*indices)):
            context.report(
                InitError,
                f"the init of block {block.name!r} cannot know which elements of"
                f" {stmt.buffer.name!r} it accumulates in",
                about=(block, stmt.buffer),
                because="loaded data picks them, by a reduce iterator",
                try_="a block before it that initialises the whole buffer",
            )


def _outside_of_loads(exprs: tuple[Expr, ...]) -> Iterator[Var]:
    """The variables under `exprs` that do not merely pick what is loaded."""
    seen: set[Expr] = set()
    stack = list(exprs)
    while stack:
        e = stack.pop()
        if e in seen or type(e) is Load:
            continue
        seen.add(e)
        if isinstance(e, Var):
            yield e
        stack.extend(e.args)


def _effects(root: Stmt, *, blocks: bool = False) -> _Effects:
    effects = _Effects()
    values: dict[Expr, Expr] = {}
    local: set[Buffer] = set()
    read: set[Buffer] = set()
    for stmt in statements_under(root, blocks=blocks):
        for e in postorder(*direct_expressions(stmt)):
            if isinstance(e, Load) and e.buffer not in local:
                effects.loads.append((stmt, e))
                if e.buffer not in effects.written:
                    read.add(e.buffer)
        if isinstance(stmt, Alloc):
            local.add(stmt.buffer)
        elif isinstance(stmt, Bind) and stmt.var.dtype is stmt.value.dtype:
            values[stmt.var] = substitute(stmt.value, values)
        elif isinstance(stmt, Store) and stmt.buffer not in local:
            indices = tuple(substitute(i, values) for i in stmt.indices)
            effects.stores.append((stmt, indices))
            effects.written.add(stmt.buffer)
            if stmt.buffer in read:
                effects.accumulated[stmt.buffer] = None
        elif isinstance(stmt, Invoke):
            effects.written.update(a.buffer for a in stmt.args if isinstance(a, Region))
    return effects


def direct_expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that `stmt` evaluates itself, without the statements in it."""
    match stmt:
        case Store():
            return (*stmt.indices, stmt.value)
        case Bind():
            return (stmt.value,)
        case Assert() | If() | While():
            return (stmt.condition,)
        case For():
            return (stmt.start, stmt.extent)
        case Invoke():
            ranges = [r.ranges for r in stmt.args if isinstance(r, Region)]
            scalars = [a for a in stmt.args if isinstance(a, Expr)]
            return (*scalars, *(e for pairs in ranges for pair in pairs for e in pair))
        case Block():
            return (stmt.predicate, *(it.binding for it in stmt.iters))
    return ()
