"""Folding an expression over a domain of values.

A *domain* gives each kind of node a function from its operands' values to its own. `fold` walks the
expression; what comes out is numbers, intervals, costs, or whatever the domain's values are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from tensorsmith.ir.expr import Expr

V = TypeVar("V")
Table: TypeAlias = Mapping[type[Expr], Callable[..., V]]
"""For each class of nodes a function ``(node, *values of its operands) -> value``."""


def fold(root: Expr, table: Mapping[type[Expr], Callable[..., Any]], cache: dict[Expr, Any]) -> Any:
    """The value of `root`, operands first, each distinct node once; iterative at any depth.

    cache: known values (of variables, say); it receives those of all nodes visited.
    """
    stack = [root]
    while stack:
        e = stack[-1]
        if e in cache:
            stack.pop()
            continue
        args = e.args
        pending = [a for a in args if a not in cache]
        if pending:
            stack.extend(pending)
            continue
        stack.pop()
        cache[e] = table[type(e)](e, *[cache[a] for a in args])
    return cache[root]
