"""Where in a loop a condition is decided: from which iteration on it holds, or holds no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorsmith.arith import Analyzer
from tensorsmith.arith.polynomial import constant
from tensorsmith.arith.prove import split
from tensorsmith.arith.relax import symbolic_range
from tensorsmith.codegen.lower.tree import loads_anything
from tensorsmith.errors import ArithError
from tensorsmith.ir import (
    Bind,
    Eq,
    Expr,
    For,
    If,
    Le,
    LoopKind,
    Lt,
    Ne,
    Select,
    Stmt,
    Store,
    Var,
    free_vars,
    postorder,
)
from tensorsmith.ir.rewrite import children, expressions

COMPARISONS = (Le, Lt, Eq, Ne)


@dataclass(frozen=True, slots=True)
class Found:
    """A comparison in the body of a loop, and the loops of the body around it, outermost first."""

    condition: Expr
    loops: tuple[For, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """Where `condition` is decided in a loop.

    at: an iteration. is_low: whether the condition is `value` from `at` on; else before `at`.
    is_sharp: whether it is the opposite on the other side of `at`.
    """

    condition: Expr
    at: Expr
    is_low: bool
    value: bool
    is_sharp: bool


def comparisons(loop: For) -> list[Found]:
    """The comparisons of index expressions in conditions in the body of `loop`, each once, that
    are decided again and again: in loops inside of it or, if it has none, in its body."""
    found = list(dict.fromkeys(_in_stmt(loop.body, ())))
    serial_inside = any(
        isinstance(s, For) and s.kind in (LoopKind.SERIAL, LoopKind.PARALLEL)
        for s in _statements(loop.body)
    )
    return [f for f in found if f.loops or not serial_inside]


def _statements(s: Stmt) -> Iterator[Stmt]:
    yield s
    for c in children(s):
        yield from _statements(c)


def _in_stmt(s: Stmt, loops: tuple[For, ...]) -> Iterator[Found]:
    if isinstance(s, If):
        yield from (Found(c, loops) for c in _in_condition(s.condition))
    if isinstance(s, (Store, Bind, If)):
        for e in postorder(*expressions(s)):
            if isinstance(e, Select):
                yield from (Found(c, loops) for c in _in_condition(e.condition))
    inner = (*loops, s) if isinstance(s, For) else loops
    for c in children(s):
        yield from _in_stmt(c, inner)


def _in_condition(condition: Expr) -> Iterator[Expr]:
    for e in postorder(condition):
        if isinstance(e, COMPARISONS) and e.args[0].dtype.is_index and not loads_anything(e):
            yield e


def cut(loop: For, found: Found, facts: Analyzer) -> Cut | None:
    """Where the condition is decided in `loop`; None if that cannot be said."""
    if loop.var not in free_vars(found.condition):
        return None
    with facts.scope():
        try:
            for x in (loop, *found.loops):
                facts.bind(x.var, x.start, x.extent)
        except ArithError:  # dead code
            return None
        step, least, most = _as_gap(loop.var, found, facts)
        if not step:
            return None
    if isinstance(found.condition, (Le, Lt)):
        return _of_order(found.condition, step, least, most)
    return _of_equality(loop, found.condition, (step, least, most), facts)


def _as_gap(var: Var, found: Found, facts: Analyzer) -> tuple[int, Expr, Expr]:
    """The condition as ``step * var + rest >= 0`` (or ``== 0``): step, and the least and greatest
    rest over the loops inside. A step of 0 says that it is not of this form."""
    condition = found.condition
    a, b = condition.args
    gap = facts.simplify(b - a - 1 if isinstance(condition, Lt) else b - a)
    coefficient, rest_polynomial = split(facts.polynomial(gap), var)
    step, rest = constant(coefficient), facts.from_polynomial(rest_polynomial)
    known = symbolic_range(rest, found.loops, facts)
    if not step or known is None:
        return 0, rest, rest
    inner = {var, *(x.var for x in found.loops)}
    if inner.intersection(free_vars(*known)):
        return 0, rest, rest
    return step, known[0], known[1]


def _of_order(condition: Expr, step: int, least: Expr, most: Expr) -> Cut:
    is_sharp = least is most
    if step > 0:
        return Cut(condition, -(least // step), is_low=True, value=True, is_sharp=is_sharp)
    return Cut(condition, least // -step + 1, is_low=False, value=True, is_sharp=is_sharp)


def _of_equality(
    loop: For, condition: Expr, gap: tuple[int, Expr, Expr], facts: Analyzer
) -> Cut | None:
    """An equality that can hold at one end of the loop only."""
    step, least, most = gap
    if step < 0:
        step, least, most = -step, -most, -least
    first, after = -(most // step), -least // step + 1
    value = isinstance(condition, Ne)
    if facts.prove(first <= loop.start) is True:
        return Cut(condition, after, is_low=True, value=value, is_sharp=False)
    if facts.prove(after >= loop.start + loop.extent) is True:
        return Cut(condition, first, is_low=False, value=value, is_sharp=False)
    return None


def is_inside(loop: For, at: Expr, facts: Analyzer) -> bool:
    """Whether `at` may be after the first iteration of the loop and not after its last."""
    end = loop.start + loop.extent
    return not (facts.prove(at <= loop.start) is True or facts.prove(at >= end) is True)
