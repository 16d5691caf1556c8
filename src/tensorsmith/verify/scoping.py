"""Scoping: what is used is defined, once, before, and within reach."""

from __future__ import annotations

from collections.abc import Iterable

from tensorsmith.errors import Span
from tensorsmith.ir.buffer import Buffer
from tensorsmith.ir.expr import Expr, Load, Var, postorder
from tensorsmith.verify.context import ISOLATED, Context, Definition, Role, Symbol
from tensorsmith.verify.errors import (
    IsolationError,
    OutOfScopeError,
    RedefinedError,
    UndefinedError,
)


def define(context: Context, symbol: Symbol, role: Role) -> None:
    """Let `symbol` be known from here to the end of the scope."""
    earlier = context.visible.get(symbol) or context.ended.get(symbol)
    if earlier is not None:
        context.report(
            RedefinedError,
            f"{symbol.name!r} is defined twice",
            about=symbol,
            given=_first_defined(earlier),
            because="every variable and buffer has one definition in a program",
            try_="a new Var or Buffer for each definition; they may share a name",
        )
    place = (symbol.span if isinstance(symbol, Buffer) else None) or context.place
    context.visible[symbol] = Definition(role, len(context.block_names), place)


def _first_defined(definition: Definition) -> str:
    place = f" at {definition.place}" if isinstance(definition.place, Span) else ""
    return f"defined first as {definition.role.value}{place}"


def check_uses(context: Context, exprs: Iterable[Expr]) -> None:
    """Every variable and buffer under `exprs` is within reach."""
    for e in postorder(*exprs):
        if type(e) is Var:
            check_symbol(context, e)
        elif type(e) is Load:
            check_symbol(context, e.buffer)


def check_symbol(context: Context, symbol: Symbol) -> None:
    """`symbol` is defined, in scope, and visible inside of the blocks around."""
    definition = context.visible.get(symbol)
    if definition is None:
        _report_unknown(context, symbol)
    elif definition.block_depth < len(context.block_names) and definition.role in ISOLATED:
        context.report(
            IsolationError,
            f"block {context.block_names[-1]!r} uses the {definition.role.value} {symbol.name!r}"
            " from around it",
            about=(symbol, tuple(context.block_names)),
            because="the loops around a block may change; it sees of them what its iterators say",
            try_="a binding of it inside of the block"
            if definition.role is Role.BINDING
            else f"an iterator bound to it: v{symbol.name} = T.spatial(extent, {symbol.name})",
        )


def _report_unknown(context: Context, symbol: Symbol) -> None:
    kind = "buffer" if isinstance(symbol, Buffer) else "variable"
    ended = context.ended.get(symbol)
    if ended is not None:
        context.report(
            OutOfScopeError,
            f"the {kind} {symbol.name!r} is used outside of its scope",
            about=symbol,
            given=_first_defined(ended),
            because="what a loop, a block or a branch defines ends with it",
        )
        return
    known = "a parameter, an allocation before this place"
    if kind == "variable":
        known = (
            "a parameter, a dimension of a parameter, a loop variable, a binding before this place"
        )
    context.report(
        UndefinedError,
        f"the {kind} {symbol.name!r} is used, and nothing defines it before",
        about=symbol,
        try_=known,
    )
