"""Canonical quotients and remainders of ``index`` expressions by divisors that are no constants.

As `tensorsmith.arith.divide`, which calls this, says: operands are canonical, divisors are not 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Final

from tensorsmith.arith.polynomial import (
    Monomial,
    Polynomial,
    add_scaled,
    difference,
    divide_monomial,
    fits,
    product,
    to_expr,
)
from tensorsmith.arith.prove import prove_nonnegative
from tensorsmith.ir.dtype import index
from tensorsmith.ir.expr import Const, Expr, FloorDiv, FloorMod

if TYPE_CHECKING:
    from tensorsmith.arith.analyzer import Analyzer

MOST_FACTORS: Final = 5
"""Factors of a divisor up to which the products of some of them are tried as divisors."""


def _make(facts: Analyzer, p: Polynomial) -> Expr:
    result = to_expr(p, facts.keys)
    facts.polynomials[result] = p
    return result


def is_positive(facts: Analyzer, e: Expr) -> bool:
    """Whether ``e > 0`` is proved."""
    if type(e) is Const:
        return e.value > 0
    below = dict(facts.polynomial(e))
    add_scaled(below, {(): 1}, -1)
    return prove_nonnegative(facts, below)


# --- Quotients -------------------------------------------------------------------------------


def div_symbolic(facts: Analyzer, e: Expr) -> Expr:
    """``a // b``; quotients and remainders in the sum that it may be are not merged."""
    a, b = e.args
    if a is b:  # div-self
        return Const(1, index)
    d = facts.polynomial(b)
    quotient, rest = _divide_polynomial(facts, facts.polynomial(a), d)
    if not rest or _in_divisor(facts, rest, d):  # div-symbolic
        return _sum(facts, quotient, e)
    smaller = _smaller_division(facts, rest, d, b)
    if smaller is None:
        if not quotient or not fits(rest):
            return e
        smaller = FloorDiv(_make(facts, rest), b)
    total = dict(quotient)
    add_scaled(total, facts.polynomial(smaller), 1)
    return _sum(facts, total, e)


def _sum(facts: Analyzer, total: Polynomial, origin: Expr) -> Expr:
    return _make(facts, total) if fits(total) else origin


def _divide_polynomial(
    facts: Analyzer, p: Polynomial, d: Polynomial
) -> tuple[Polynomial, Polynomial]:
    """``(q, r)`` with ``p == d * q + r``: the terms of p that d's leading term divides go to q."""
    lead = max(d, key=lambda m: (len(m), [facts.keys[x] for x in m]))
    quotient: Polynomial = {}
    rest = dict(p)
    for m, k in p.items():
        ratio = divide_monomial(m, lead)
        if ratio is None or k % d[lead]:
            continue
        step = {ratio: k // d[lead]}
        add_scaled(quotient, step, 1)
        add_scaled(rest, product(step, d, facts.keys), -1)
    if len(d) > 1 and rest and not _in_divisor(facts, rest, d):
        return {}, p  # with several terms in d, a division that leaves a rest need not shrink
    return quotient, rest


def _in_divisor(facts: Analyzer, rest: Polynomial, d: Polynomial) -> bool:
    """Whether ``0 <= rest < d``."""
    above = difference(d, rest)
    add_scaled(above, {(): 1}, -1)
    return prove_nonnegative(facts, rest) and prove_nonnegative(facts, above)


def _smaller_division(facts: Analyzer, rest: Polynomial, d: Polynomial, b: Expr) -> Expr | None:
    """``rest // b`` as another division, if there is a simpler one."""
    atoms = [m for m in rest if m]
    if len(atoms) == 1 and len(atoms[0]) == 1 and rest[atoms[0]] == 1:
        (x,) = atoms[0]
        k = rest.get((), 0)
        if type(x) is FloorDiv and is_positive(facts, b):
            return facts.simplify(divided_again(facts, x, k, b))
        if type(x) is FloorMod and not k:  # div-mod-symbolic
            periods, more = _divide_polynomial(facts, facts.polynomial(x.args[1]), d)
            count = _make(facts, periods)
            if not more and is_positive(facts, b) and is_positive(facts, count):
                return facts.simplify(FloorMod(FloorDiv(x.args[0], b), count))
    found = _small_part(facts, rest, d)
    if found is None:
        return None
    large, _, _, fewer = found  # div-drop-small-symbolic
    return facts.simplify(FloorDiv(_make(facts, large), _make(facts, fewer)))


def divided_again(facts: Analyzer, quotient: Expr, k: int, b: Expr) -> Expr:
    """div-div-symbolic: ``(x // d + k) // b == (x + k * d) // (b * d)`` for b > 0."""
    x, d = quotient.args
    total = dict(facts.polynomial(x))
    add_scaled(total, facts.polynomial(d), k)
    both = product(facts.polynomial(d), facts.polynomial(b), facts.keys)
    if not fits(total) or not fits(both):
        return FloorDiv(quotient + k, b)
    return FloorDiv(_make(facts, total), _make(facts, both))


def _small_part(
    facts: Analyzer, rest: Polynomial, d: Polynomial
) -> tuple[Polynomial, Polynomial, Polynomial, Polynomial] | None:
    """``(l, s, g, q)`` with ``rest == l * g + s``, ``d == q * g`` and ``0 <= s < g``."""
    if len(d) != 1:
        return None
    ((atoms, c),) = d.items()
    for chosen, factor in _proper_factors(atoms, c):
        large: Polynomial = {}
        small: Polynomial = {}
        for m, k in rest.items():
            ratio = None if k % factor else divide_monomial(m, chosen)
            if ratio is None:
                small[m] = k
            else:
                large[ratio] = k // factor
        g = {chosen: factor}
        if large and is_positive(facts, _make(facts, g)) and _in_divisor(facts, small, g):
            others = divide_monomial(atoms, chosen)
            assert others is not None
            return large, small, g, {others: c // factor}
    return None


def _proper_factors(atoms: Monomial, c: int) -> Iterator[tuple[Monomial, int]]:
    """The monomials that divide ``c * atoms``, with or without the constant; not 1, not all."""
    constants = (1, c) if c > 1 else (1,)
    if len(atoms) > MOST_FACTORS:
        return
    for count in range(len(atoms), -1, -1):
        for chosen in dict.fromkeys(combinations(atoms, count)):
            for factor in constants:
                whole = count == len(atoms) and factor == c
                if not whole and (chosen or factor > 1):
                    yield chosen, factor


# --- Remainders ------------------------------------------------------------------------------


def mod_symbolic(facts: Analyzer, e: Expr) -> Expr:
    """``a % b``."""
    a, b = e.args
    if a is b:  # mod-self
        return Const(0, index)
    d = facts.polynomial(b)
    quotient, rest = _divide_polynomial(facts, facts.polynomial(a), d)
    if not rest or _in_divisor(facts, rest, d):  # mod-symbolic
        return _sum(facts, rest, e)
    whole = _without_inner_modulo(facts, rest, d)
    if whole is not None:  # mod-mod-symbolic
        return facts.simplify(FloorMod(_make(facts, whole), b)) if fits(whole) else e
    found = _small_part(facts, rest, d)
    if found is not None:  # mod-small-part-symbolic
        large, small, g, fewer = found
        digit = facts.simplify(FloorMod(_make(facts, large), _make(facts, fewer)))
        total = product(facts.polynomial(digit), g, facts.keys)
        add_scaled(total, small, 1)
        return facts.simplify(_sum(facts, total, e))
    if not quotient or not fits(rest):
        return e
    return FloorMod(_make(facts, rest), b)


def _without_inner_modulo(facts: Analyzer, rest: Polynomial, d: Polynomial) -> Polynomial | None:
    """``(k * (x % m) + y) % d == (k * x + y) % d`` where d divides ``k * m``; None if none does."""
    for monomial, k in rest.items():
        for x in monomial:
            if type(x) is not FloorMod:
                continue
            others = divide_monomial(monomial, (x,))
            assert others is not None
            factor = {others: k}
            periods = product(facts.polynomial(x.args[1]), factor, facts.keys)
            if not periods or _divide_polynomial(facts, periods, d)[1]:
                continue
            total = {m: c for m, c in rest.items() if m != monomial}
            add_scaled(total, product(facts.polynomial(x.args[0]), factor, facts.keys), 1)
            return total
    return None
