"""Canonical quotients and remainders of ``index`` expressions.

Operands are canonical already. Division by zero is an error of the program, so divisors may be
taken as not 0. The names in comments are those of `tensorsmith.arith.rules`.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Final

from tensorsmith.arith.divide_symbolic import (
    div_symbolic,
    divided_again,
    is_positive,
    mod_symbolic,
)
from tensorsmith.arith.polynomial import (
    Monomial,
    Polynomial,
    add_scaled,
    difference,
    divide_monomial,
    fits,
    product,
    scaled,
    to_expr,
)
from tensorsmith.arith.prove import prove_nonnegative
from tensorsmith.ir.dtype import index
from tensorsmith.ir.expr import Const, Expr, FloorDiv, FloorMod

if TYPE_CHECKING:
    from tensorsmith.arith.analyzer import Analyzer

MERGE_ROUNDS: Final = 16


def _make(facts: Analyzer, p: Polynomial) -> Expr:
    result = to_expr(p, facts.keys)
    facts.polynomials[result] = p
    return result


def _sum(facts: Analyzer, quotient: Polynomial, atom: Expr, k: int, origin: Expr) -> Expr:
    """``quotient + k * atom``, merged with what else the sum holds."""
    total = dict(quotient)
    add_scaled(total, facts.polynomial(atom), k)
    return _merged(facts, total, origin)


def _merged(facts: Analyzer, total: Polynomial, origin: Expr) -> Expr:
    """The sum `total`, which may be changed; `origin` where a coefficient does not fit."""
    merge_quotients(facts, total)
    return _make(facts, total) if fits(total) else origin


# --- Quotients -------------------------------------------------------------------------------


def floor_div(facts: Analyzer, e: Expr) -> Expr:
    """``a // b`` in canonical form."""
    a, b = e.args
    if type(b) is not Const:
        total = dict(facts.polynomial(div_symbolic(facts, e)))
        return _merged(facts, total, e)
    c = int(b.value)
    if c == 0:
        return e
    p = facts.polynomial(a)
    if c < 0:  # div-negative
        p, c = scaled(p, -1), -c
    return _div_const(facts, p, c, e)


def _div_const(facts: Analyzer, p: Polynomial, c: int, origin: Expr) -> Expr:
    quotient, rest = _split_multiples(p, c)  # div-split
    shift, rest, c = _div_reduce(facts, rest, c)
    add_scaled(quotient, {(): 1}, shift)
    if not any(rest):
        add_scaled(quotient, {(): 1}, rest.get((), 0) // c)
        return _merged(facts, quotient, origin)
    if c == 1:
        add_scaled(quotient, rest, 1)
        return _merged(facts, quotient, origin)
    low, high = facts.interval(rest)
    if low is not None and high is not None and low // c == high // c:  # div-small
        add_scaled(quotient, {(): 1}, low // c)
        return _merged(facts, quotient, origin)
    inner = _make(facts, rest)
    return _sum(facts, quotient, _div_atom(facts, rest, inner, c), 1, origin)


def _split_multiples(p: Polynomial, c: int) -> tuple[Polynomial, Polynomial]:
    """``(q, r)`` with ``p == c * q + r``; coefficients of r lie in ``(-c, c)``, its constant in
    ``[0, c)``."""
    quotient: Polynomial = {}
    rest: Polynomial = {}
    for m, k in p.items():
        q = k // c if k >= 0 or not m else -(-k // c)
        if q:
            quotient[m] = q
        if k - q * c:
            rest[m] = k - q * c
    return quotient, rest


def _div_reduce(facts: Analyzer, rest: Polynomial, c: int) -> tuple[int, Polynomial, int]:
    """A smaller division with the same quotient, up to an added constant: common factors and a part
    too small to matter taken out."""
    shift = 0
    while any(rest):
        g = c
        for m, k in rest.items():
            if m:
                g = gcd(g, k)
        if g > 1:  # div-gcd
            rest = {m: k // g for m, k in rest.items() if k // g}
            c //= g
            continue
        found = _small_part(facts, rest, c)
        if found is None:
            break
        rest, g = found  # div-drop-small
        rest = {m: k // g for m, k in rest.items()}
        c //= g
        at = rest.get((), 0) // c
        shift += at
        add_scaled(rest, {(): 1}, -at * c)
    return shift, rest, c


def _small_part(facts: Analyzer, rest: Polynomial, c: int) -> tuple[Polynomial, int] | None:
    """``(r', g)`` where g > 1 divides c and r', and the rest of `rest` lies in ``[0, g)``."""
    if len(rest) < 2:
        return None
    for g in sorted({gcd(c, k) for m, k in rest.items() if m}, reverse=True):
        if g == 1:
            continue
        small = {m: k for m, k in rest.items() if m and k % g}
        offset = rest.get((), 0) % g
        if offset:
            small[()] = offset
        if facts.interval(small).within(0, g - 1):
            return difference(rest, small), g
    return None


def _div_atom(facts: Analyzer, rest: Polynomial, inner: Expr, c: int) -> Expr:
    """``rest // c`` where nothing more can be taken out."""
    atoms = [m for m in rest if m]
    if len(atoms) == 1 and len(atoms[0]) == 1 and rest[atoms[0]] == 1:
        (x,) = atoms[0]
        k = rest.get((), 0)
        if type(x) is FloorDiv and type(x.args[1]) is Const:  # div-div
            d = int(x.args[1].value)
            total = dict(facts.polynomial(x.args[0]))
            add_scaled(total, {(): 1}, k * d)
            if d and fits(total) and fits({(): c * d}):
                return _div_const(facts, total, c * d, FloorDiv(inner, Const(c, index)))
            return FloorDiv(inner, Const(c, index))
        if type(x) is FloorDiv:
            return facts.simplify(divided_again(facts, x, k, Const(c, index)))
        if type(x) is FloorMod and type(x.args[1]) is Const and not k:
            m = int(x.args[1].value)
            if m > 0 and m % c == 0:  # div-mod
                part = _div_const(facts, facts.polynomial(x.args[0]), c, inner)
                return _mod_const(facts, facts.polynomial(part), m // c)
    return FloorDiv(inner, Const(c, index))


# --- Remainders ------------------------------------------------------------------------------


def floor_mod(facts: Analyzer, e: Expr) -> Expr:
    """``a % b`` in canonical form."""
    a, b = e.args
    if type(b) is not Const:
        return mod_symbolic(facts, e)
    c = int(b.value)
    if c == 0:
        return e
    p = facts.polynomial(a)
    if c < 0:  # mod-negative
        positive = _mod_const(facts, scaled(p, -1), -c)
        return _make(facts, scaled(facts.polynomial(positive), -1))
    return _mod_const(facts, p, c)


def _mod_const(facts: Analyzer, p: Polynomial, c: int) -> Expr:
    _, rest = _split_multiples(p, c)  # mod-split
    rest = _drop_inner_modulo(rest, facts, c)
    if not any(rest):
        return _make(facts, {(): rest[()] % c} if rest.get((), 0) % c else {})
    low, high = facts.interval(rest)
    if low is not None and high is not None and low // c == high // c:  # mod-small
        total = dict(rest)
        add_scaled(total, {(): 1}, -(low // c) * c)
        return _make(facts, total)
    inner = _make(facts, rest)
    known = facts.congruence(inner).residue_modulo(c)
    if known is not None:  # mod-known
        return Const(known, index)
    g = c
    for m, k in rest.items():
        if m:
            g = gcd(g, k)
    if g > 1:  # mod-gcd
        part = _mod_const(facts, {m: k // g for m, k in rest.items() if k // g}, c // g)
        total = scaled(facts.polynomial(part), g)
        add_scaled(total, {(): 1}, rest.get((), 0) % g)
        return _make(facts, total)
    found = _small_part(facts, rest, c)
    if found is not None:  # mod-small-part
        large, g = found
        part = _mod_const(facts, {m: k // g for m, k in large.items()}, c // g)
        total = scaled(facts.polynomial(part), g)
        add_scaled(total, difference(rest, large), 1)
        merge_quotients(facts, total)
        return _make(facts, total)
    return FloorMod(inner, Const(c, index))


def _drop_inner_modulo(rest: Polynomial, facts: Analyzer, c: int) -> Polynomial:
    """mod-mod: ``(k * (x % m) + y) % c == (k * x + y) % c`` where c divides ``k * m``."""
    for monomial, k in rest.items():
        if len(monomial) != 1 or type(monomial[0]) is not FloorMod:
            continue
        x, m = monomial[0].args
        if type(m) is Const and m.value and k * int(m.value) % c == 0:
            total = {n: v for n, v in rest.items() if n != monomial}
            add_scaled(total, facts.polynomial(x), k)
            return _drop_inner_modulo(_split_multiples(total, c)[1], facts, c)
    return rest


# --- Truncating division ---------------------------------------------------------------------


def trunc_div(facts: Analyzer, e: Expr) -> Expr:
    """trunc-div: of a dividend and a divisor that are not negative, the floor quotient."""
    return floor_div(facts, FloorDiv(*e.args)) if _both_nonnegative(facts, e) else e


def trunc_mod(facts: Analyzer, e: Expr) -> Expr:
    """trunc-mod: of a dividend and a divisor that are not negative, the floor remainder."""
    return floor_mod(facts, FloorMod(*e.args)) if _both_nonnegative(facts, e) else e


def _both_nonnegative(facts: Analyzer, e: Expr) -> bool:
    return all(prove_nonnegative(facts, facts.polynomial(a)) for a in e.args)


# --- Sums of quotients and remainders --------------------------------------------------------


def merge_quotients(facts: Analyzer, total: Polynomial) -> None:
    """Put quotients and remainders of one dividend together, in place:

    merge-div-mod: ``x // k * k + x % k == x``; merge-mod-mod: ``x // k % m * k + x % k == x % (k *
    m)``; div-exact: ``x // k * k == x - r`` where ``x % k == r`` is known.
    """
    for _ in range(MERGE_ROUNDS):
        for m in total:
            if _merge(facts, total, m):
                break
        else:
            return


def _merge(facts: Analyzer, total: Polynomial, m: Monomial) -> bool:
    for x in m:
        if type(x) is FloorMod:
            rest = divide_monomial(m, (x,))
            if rest is not None and _merge_remainder(facts, total, m, x, rest):
                return True
        elif type(x) is FloorDiv and type(x.args[1]) is Const:
            k = int(x.args[1].value)
            c = total[m]
            known = facts.congruence(x.args[0]).residue_modulo(k) if k > 0 and c % k == 0 else None
            rest = divide_monomial(m, (x,))
            if known is None or rest is None:
                continue
            exact = dict(facts.polynomial(x.args[0]))  # div-exact
            add_scaled(exact, {(): 1}, -known)
            del total[m]
            add_scaled(total, product({rest: c // k}, exact, facts.keys), 1)
            return True
    return False


def _merge_remainder(
    facts: Analyzer, total: Polynomial, m: Monomial, remainder: Expr, rest: Monomial
) -> bool:
    """Merge the term ``c * rest * (x % k)`` with ``c * rest * k * (x // k)``, or with that
    quotient's remainder."""
    x, k = remainder.args
    c = total[m]
    for n, d in total.items():
        for y in n:
            whole = _whole(facts, x, k, y)
            if whole is None:
                continue
            partner = divide_monomial(n, (y,))
            factor = product({rest: c}, facts.polynomial(k), facts.keys)
            if partner is None or factor != {partner: d}:
                continue
            del total[m], total[n]
            add_scaled(total, product({rest: c}, facts.polynomial(whole), facts.keys), 1)
            return True
    return False


def _whole(facts: Analyzer, x: Expr, k: Expr, y: Expr) -> Expr | None:
    """What ``y * k + x % k`` is, if y is ``x // k`` or a remainder of it."""
    if type(y) is FloorDiv and _is_quotient(facts, y, x, k):
        return x
    if type(y) is not FloorMod:
        return None
    inner, m = y.args
    if type(inner) is not FloorDiv or not _is_quotient(facts, inner, x, k):
        return None
    if not is_positive(facts, m):
        return None
    both = product(facts.polynomial(k), facts.polynomial(m), facts.keys)
    return facts.simplify(FloorMod(x, _make(facts, both))) if fits(both) else None


def _is_quotient(facts: Analyzer, y: Expr, x: Expr, k: Expr) -> bool:
    """Whether ``y == x // k``; canonical quotients of a quotient have one divisor (div-div)."""
    if y.args[0] is x and y.args[1] is k:
        return True
    if type(x) is not FloorDiv or y.args[0] is not x.args[0]:
        return False
    both = product(facts.polynomial(k), facts.polynomial(x.args[1]), facts.keys)
    return facts.polynomial(y.args[1]) == both
