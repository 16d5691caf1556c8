"""Canonical minima, maxima and comparisons of ``index`` expressions."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Final

from tensorsmith.arith.polynomial import (
    Polynomial,
    add_scaled,
    constant,
    difference,
    fits,
    to_expr,
)
from tensorsmith.arith.prove import prove_nonnegative
from tensorsmith.ir.dtype import bool_
from tensorsmith.ir.expr import Const, Eq, Expr, FloorDiv, Le, Lt, Max, Min, Ne, Not

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorsmith.arith.analyzer import Analyzer

OPERANDS: Final = 8
"""Operands up to which nested minima (maxima) are taken apart and compared pairwise."""


def _make(facts: Analyzer, p: Polynomial) -> Expr:
    result = to_expr(p, facts.keys)
    facts.polynomials[result] = p
    return result


# --- Minima and maxima -----------------------------------------------------------------------


def _extreme(facts: Analyzer, e: Expr) -> Expr:
    kind = type(e)
    operands = _operands(e)
    if len(operands) > OPERANDS:
        operands = list(e.args)
    kept: list[Expr] = []
    for x in operands:
        if any(_decides(facts, kind, k, x) for k in kept):  # min-dominated
            continue
        kept = [k for k in kept if not _decides(facts, kind, x, k)]
        kept.append(x)
    if len(kept) == 1:
        return kept[0]
    if len(kept) == 2:
        return _extract_common(facts, kind, kept)
    return _chain(kind, sorted(kept, key=facts.keys.__getitem__))


def _operands(e: Expr) -> list[Expr]:
    """The operands of nested minima (or maxima) in order; at most one more than are looked at."""
    kind = type(e)
    found: list[Expr] = []
    stack = [e]
    while stack and len(found) <= OPERANDS:
        x = stack.pop()
        if type(x) is kind:
            stack.extend(reversed(x.args))
        else:
            found.append(x)
    return found if not stack else [*found, *stack]


def _decides(facts: Analyzer, kind: type[Expr], a: Expr, b: Expr) -> bool:
    """Whether `a` makes `b` needless in a minimum (maximum)."""
    if a is b:
        return True
    gap = difference(facts.polynomial(b), facts.polynomial(a))
    if kind is Max:
        gap = {m: -c for m, c in gap.items()}
    value = constant(gap)
    return value >= 0 if value is not None else prove_nonnegative(facts, gap)


def _extract_common(facts: Analyzer, kind: type[Expr], pair: list[Expr]) -> Expr:
    """min-common: ``min(x + z, y + z) == min(x, y) + z``."""
    p, q = (facts.polynomial(x) for x in pair)
    common = {m: c for m, c in p.items() if q.get(m) == c}
    offsets = (p.get((), 0), q.get((), 0))
    if () not in common and offsets[0] and offsets[1]:
        common[()] = min(offsets)
    if not common:
        return _chain(kind, sorted(pair, key=facts.keys.__getitem__))
    rest = [_make(facts, difference(x, common)) for x in (p, q)]
    total = dict(common)
    extreme = _chain(kind, sorted(rest, key=facts.keys.__getitem__))
    if any(type(x) is kind for x in rest):  # what was taken out had kept them apart
        extreme = _extreme(facts, extreme)
    add_scaled(total, facts.polynomial(extreme), 1)
    return _make(facts, total)


def _chain(kind: type[Expr], operands: list[Expr]) -> Expr:
    build: Callable[[Expr, Expr], Expr] = Min if kind is Min else Max
    result = operands[0]
    for x in operands[1:]:
        result = build(result, x)
    return result


# --- Comparisons -----------------------------------------------------------------------------


def _less(facts: Analyzer, e: Expr) -> Expr:
    a, b = e.args
    gap = difference(facts.polynomial(b), facts.polynomial(a))
    if type(e) is Lt:  # lt-as-le
        add_scaled(gap, {(): 1}, -1)
    return nonnegative(facts, gap, e)


def nonnegative(facts: Analyzer, gap: Polynomial, origin: Expr) -> Expr:
    """``gap >= 0`` as a canonical comparison."""
    value = constant(gap)
    if value is not None:
        return Const(value >= 0, bool_)
    if (opened := _open_quotient(facts, gap)) is not None:
        gap = opened
    g = 0
    for m, c in gap.items():
        if m:
            g = gcd(g, c)
    if g > 1:  # le-gcd
        gap = {m: c // g for m, c in gap.items() if c // g}
    if not fits(gap):
        return origin
    low, high = facts.interval(gap)
    if low is not None and low >= 0:
        return Const(1, bool_)
    if high is not None and high < 0:
        return Const(0, bool_)
    if facts.ranges or facts.constraints:  # bounds that are not constant
        if prove_nonnegative(facts, gap):
            return Const(1, bool_)
        opposite = {m: -c for m, c in gap.items()}
        add_scaled(opposite, {(): 1}, -1)
        if prove_nonnegative(facts, opposite):
            return Const(0, bool_)
    return _ordered(facts, gap)


def _open_quotient(facts: Analyzer, gap: Polynomial) -> Polynomial | None:
    """le-quotient: ``k <= x // c`` is ``c * k <= x``; ``x // c <= k`` is ``x <= c * k + c - 1``."""
    terms = [(m, c) for m, c in gap.items() if m]
    if len(terms) != 1 or len(terms[0][0]) != 1 or abs(terms[0][1]) != 1:
        return None
    (x,), sign = terms[0]
    if type(x) is not FloorDiv or type(x.args[1]) is not Const or int(x.args[1].value) < 1:
        return None
    c, k = int(x.args[1].value), gap.get((), 0)
    opened: Polynomial = {}
    add_scaled(opened, facts.polynomial(x.args[0]), sign)
    add_scaled(opened, {(): 1}, c * k if sign > 0 else c * k + c - 1)
    return opened


def _ordered(facts: Analyzer, gap: Polynomial) -> Expr:
    """``gap >= 0`` with its negative terms on the left and its positive ones on the right."""
    left = {m: -c for m, c in gap.items() if m and c < 0}
    right = {m: c for m, c in gap.items() if m and c > 0}
    k = gap.get((), 0)
    if not right:  # x < k reads better than x <= k - 1
        return Lt(_make(facts, left), _make(facts, {(): k + 1} if k != -1 else {}))
    strict = k < 0 and bool(left)
    if strict:
        k += 1
    if k < 0 or (k > 0 and not left):
        left = {**left, (): -k}
    elif k > 0:
        right = {**right, (): k}
    return (Lt if strict else Le)(_make(facts, left), _make(facts, right))


def _equal(facts: Analyzer, e: Expr) -> Expr:
    a, b = e.args
    gap = difference(facts.polynomial(a), facts.polynomial(b))
    value = constant(gap)
    if value is not None:
        return Const((value == 0) == (type(e) is Eq), bool_)
    g = 0
    for m, c in gap.items():
        if m:
            g = gcd(g, c)
    if gap.get((), 0) % g:  # eq-gcd
        return Const(type(e) is Ne, bool_)
    gap = {m: c // g for m, c in gap.items()}
    if not fits(gap):
        return e
    if not facts.interval(gap).contains(0):
        return Const(type(e) is Ne, bool_)
    return _balanced(facts, gap, type(e))


def _balanced(facts: Analyzer, gap: Polynomial, kind: type[Expr]) -> Expr:
    """``gap == 0`` with positive terms on both sides, the first term on the left."""
    first = min((m for m in gap if m), key=lambda m: [facts.keys[x] for x in m])
    if gap[first] < 0:
        gap = {m: -c for m, c in gap.items()}
    left = {m: c for m, c in gap.items() if m and c > 0}
    right = {m: -c for m, c in gap.items() if m and c < 0}
    k = gap.get((), 0)
    if k > 0 and right:
        left[()] = k
    elif k:
        right[()] = -k
    build: Callable[[Expr, Expr], Expr] = Eq if kind is Eq else Ne
    return build(_make(facts, left), _make(facts, right))


ORDER: Final[dict[type[Expr], Callable[[Analyzer, Expr], Expr]]] = {
    Min: _extreme,
    Max: _extreme,
    Lt: _less,
    Le: _less,
    Eq: _equal,
    Ne: _equal,
}


def negated(facts: Analyzer, e: Expr) -> Expr | None:
    """not-compare: the canonical comparison that holds where `e` does not."""
    a, b = e.args if len(e.args) == 2 else (None, None)
    if a is None or b is None or isinstance(e, Not):
        return None
    if type(e) is Eq:
        return Ne(a, b)
    if type(e) is Ne:
        return Eq(a, b)
    if type(e) in (Lt, Le) and a.dtype.is_integer:  # with NaN, neither may hold
        flipped = Le(b, a) if type(e) is Lt else Lt(b, a)
        return _less(facts, flipped) if a.dtype.name == "index" else flipped
    return None
