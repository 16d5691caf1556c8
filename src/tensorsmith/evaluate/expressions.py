"""Evaluation of one expression over a domain: lazy where the language is, and without recursion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tensorsmith.evaluate.domain import Domain, M, V
from tensorsmith.ir.expr import And, Expr, Or, Select, const

_FALSE: Final = const(0, "bool")
_TRUE: Final = const(1, "bool")


def _parts(e: Expr) -> tuple[Expr, Expr, Expr]:
    """A lazy node as the condition and branches of a select."""
    if type(e) is Select:
        return e.args[0], e.args[1], e.args[2]
    a, b = e.args
    return (a, b, _FALSE) if type(e) is And else (a, _TRUE, b)


LAZY: Final = frozenset({Select, And, Or})


class _Fork:
    """A lazy node of which both branches are walked: where on the stack its work stands."""

    __slots__ = ("first", "mark", "node", "state")

    def __init__(self, node: Expr) -> None:
        self.node = node
        self.state = 0
        self.mark = 0
        self.first: Any = None


def evaluate_expr(
    root: Expr,
    domain: Domain[V, M],
    operations: Mapping[type[Expr], Callable[..., V]],
    known: dict[Expr, V],
) -> V:
    """The value of `root`: operands before users, each distinct node once, left to right.

    Branches that `domain` decides against are not evaluated. known: values of nodes already there;
    receives those of the nodes visited.
    """
    stack: list[Expr | _Fork] = [root]
    while stack:
        e = stack[-1]
        if isinstance(e, _Fork):
            _advance(e, stack, domain, known)
            continue
        if e in known:
            stack.pop()
            continue
        kind = type(e)
        if kind in LAZY:
            _choose(e, stack, domain, known)
            continue
        pending = [a for a in e.args if a not in known]
        if pending:
            stack.extend(reversed(pending))
            continue
        stack.pop()
        known[e] = operations[kind](e, *[known[a] for a in e.args])
    return known[root]


def _choose(e: Expr, stack: list[Expr | _Fork], domain: Domain[V, M], known: dict[Expr, V]) -> None:
    """One step of a lazy node at the top of the stack."""
    condition, a, b = _parts(e)
    if condition not in known:
        stack.append(condition)
        return
    decision = domain.decide(known[condition])
    if decision is None:
        stack[-1] = _Fork(e)
        return
    taken = a if decision else b
    if taken in known:
        known[e] = known[taken]
        stack.pop()
    else:
        stack.append(taken)


def _advance(
    fork: _Fork, stack: list[Expr | _Fork], domain: Domain[V, M], known: dict[Expr, V]
) -> None:
    """One step of a node with two possible branches."""
    condition, a, b = _parts(fork.node)
    fork.state += 1
    if fork.state == 1:
        # What both branches need is needed anyway. Without this, a chain of selects that share
        # operands would take time exponential in its length.
        needed = _needed(a, known)
        stack.extend(e for e in _needed(b, known) if e in needed)
    elif fork.state == 2:
        domain.enter_then(known[condition])
        fork.mark = len(known)
        stack.append(a)
    elif fork.state == 3:
        fork.first = known[a]
        _forget_branch(fork, domain, known)
        domain.enter_else()
        fork.mark = len(known)
        stack.append(b)
    else:
        second = known[b]
        _forget_branch(fork, domain, known)
        domain.leave()
        known[fork.node] = domain.merge(fork.node, known[condition], fork.first, second)
        stack.pop()


def _forget_branch(fork: _Fork, domain: Domain[V, M], known: dict[Expr, V]) -> None:
    if domain.values_depend_on_branch:
        while len(known) > fork.mark:
            known.popitem()  # the last one inserted


def _needed(root: Expr, known: Mapping[Expr, object]) -> dict[Expr, None]:
    """The unknown nodes that an evaluation of `root` needs whatever its conditions are."""
    needed: dict[Expr, None] = {}
    stack = [root]
    while stack:
        e = stack.pop()
        if e not in known and e not in needed:
            needed[e] = None
            stack.extend(e.args[:1] if type(e) in LAZY else e.args)
    return needed
