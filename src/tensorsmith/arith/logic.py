"""Canonical conditions and selections.

``and`` and ``or`` keep the order of their operands, since the right one is evaluated only where the
left one does not decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tensorsmith.arith.order import negated
from tensorsmith.arith.polynomial import constant, difference
from tensorsmith.ir.dtype import bool_
from tensorsmith.ir.expr import (
    Add,
    And,
    Const,
    Eq,
    Expr,
    Le,
    Lt,
    Mul,
    Ne,
    Neg,
    Not,
    Or,
    Select,
    Sub,
    Var,
    postorder,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorsmith.arith.analyzer import Analyzer

OPERANDS: Final = 12
"""Conditions up to which a conjunction is taken apart and compared pairwise."""


def _joint(facts: Analyzer, e: Expr) -> Expr:
    """and-or: the neutral operand dropped, the deciding one taken, repetitions and what another
    operand implies dropped."""
    kind = type(e)
    decides = kind is Or
    a, b = e.args
    if type(a) is Const:
        return a if bool(a.value) is decides else b
    if type(b) is Const and (bool(b.value) is not decides or _cannot_fail(a)):
        return a if bool(b.value) is not decides else b
    operands = _operands(e)
    if len(operands) > OPERANDS:
        return a if a is b else e
    kept: list[Expr] = []
    for x in operands:
        opposite = negate(facts, x)
        if opposite in kept:
            return Const(decides, bool_)
        if any(_stronger(facts, k, x, decides=decides) for k in kept):
            continue
        # A later condition may replace an earlier one only if neither can go wrong.
        weaker = [k for k in kept if _stronger(facts, x, k, decides=decides)]
        kept = [x if weaker and k is weaker[0] else k for k in kept if k not in weaker[1:]]
        if not weaker:
            kept.append(x)
    result = kept[0]
    for x in kept[1:]:
        result = And(result, x) if kind is And else Or(result, x)
    return result


def _cannot_fail(e: Expr) -> bool:
    """Whether a condition can be left out: it compares sums of variables."""
    return all(type(x) in _SAFE for x in postorder(e))


def _operands(e: Expr) -> list[Expr]:
    kind = type(e)
    found: list[Expr] = []
    stack = [e]
    while stack and len(found) <= OPERANDS:
        x = stack.pop()
        if type(x) is kind:
            stack.extend(reversed(x.args))
        else:
            found.append(x)
    return [*found, *stack]


def _stronger(facts: Analyzer, a: Expr, b: Expr, *, decides: bool) -> bool:
    """Whether `a` makes `b` needless beside it: in ``and`` a implies b, in ``or`` b implies a."""
    if a is b:
        return True
    if decides:
        a, b = b, a
    if not (_is_order(a) and _is_order(b)):
        return False
    gap = constant(difference(_slack(facts, b), _slack(facts, a)))
    return gap is not None and gap >= 0


def _is_order(e: Expr) -> bool:
    return type(e) in (Lt, Le) and e.args[0].dtype.is_index


def _slack(facts: Analyzer, e: Expr) -> dict[tuple[Expr, ...], int]:
    """The polynomial that is not negative where the comparison holds."""
    gap = difference(facts.polynomial(e.args[1]), facts.polynomial(e.args[0]))
    if type(e) is Lt:
        gap[()] = gap.get((), 0) - 1
    return gap


def negate(facts: Analyzer, e: Expr) -> Expr:
    """The canonical condition that holds where the canonical `e` does not."""
    if type(e) is Const:
        return Const(not e.value, bool_)
    if type(e) is Not:
        return e.args[0]
    if type(e) in (Eq, Ne, Lt, Le):
        found = negated(facts, e)
        if found is not None:
            return found
    return Not(e)


def _not(facts: Analyzer, e: Expr) -> Expr:
    """not-compare, not-not; and De Morgan's laws where both operands take them."""
    a = e.args[0]
    if type(a) in (And, Or):
        parts = [negate(facts, x) for x in a.args]
        if not any(type(x) is Not for x in parts):
            joint = Or(*parts) if type(a) is And else And(*parts)
            return _joint(facts, joint)
        return e
    return negate(facts, a)


def _select(facts: Analyzer, e: Expr) -> Expr:
    """select-same, select-known, select-not, select-bool."""
    condition, a, b = e.args
    if a is b:
        return a
    if type(condition) is Const:
        return a if condition.value else b
    if type(condition) is Not:
        return Select(condition.args[0], b, a)
    if e.dtype is bool_ and type(a) is Const and type(b) is Const:
        return condition if a.value else negate(facts, condition)
    return e


_SAFE: Final = frozenset((Const, Var, Add, Sub, Mul, Neg, Lt, Le, Eq, Ne, And, Or, Not))

LOGIC: Final[dict[type[Expr], Callable[[Analyzer, Expr], Expr]]] = {
    And: _joint,
    Or: _joint,
    Not: _not,
    Select: _select,
}
