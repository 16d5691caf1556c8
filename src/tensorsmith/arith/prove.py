"""Proving that a polynomial is never negative.

The proof eliminates what the polynomial is made of, innermost variable first: a variable whose
coefficient has a known sign is replaced by the bound that makes the polynomial least, and a
quotient, remainder, minimum or maximum by an inequality that it satisfies, until interval
arithmetic decides. Where that fails, a known constraint ``p >= 0`` is subtracted (Farkas' lemma,
one step at a time).
It is sound and deliberately incomplete: the work is bounded by a budget.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Final

from tensorsmith.arith import congruence as congruences
from tensorsmith.arith import interval as intervals
from tensorsmith.arith.polynomial import (
    Monomial,
    Polynomial,
    add_scaled,
    constant,
    divide_monomial,
    product,
    scaled,
)
from tensorsmith.ir.expr import Const, Expr, FloorDiv, FloorMod, Max, Min, Select, Var, free_vars

if TYPE_CHECKING:
    from tensorsmith.arith.analyzer import Analyzer

BUDGET: Final = 160
"""Polynomials looked at before a proof is given up."""
CONSTRAINT_STEPS: Final = 3
"""Constraints that one proof may combine."""


def prove_nonnegative(facts: Analyzer, p: Polynomial) -> bool:
    """Whether ``p >= 0`` follows from the facts."""
    low = facts.interval(p).low
    if low is not None and low >= 0:
        return True
    question = (frozenset(p.items()), facts.is_at_an_end)
    found = facts.proofs.get(question)
    if found is None:
        proof = _Proof(facts)
        found = proof.nonnegative(_loosened(facts, p), facts.constraints, CONSTRAINT_STEPS)
        facts.proofs[question] = found
    return found


def _loosened(facts: Analyzer, p: Polynomial) -> Polynomial:
    """A polynomial that is never negative if and only if `p` is not, and easier to prove so.

    Of ``p % m == r`` follows that `p` is not negative once it is more than ``r - m``.
    """
    known = congruences.make(0, 0)
    for monomial, c in p.items():
        term = congruences.make(0, c)
        for atom in monomial:
            term = congruences.multiply(term, facts.congruence(atom))
        known = congruences.add(known, term)
        if known.modulus == 1:
            return p
    result = dict(p)
    add_scaled(result, {(): 1}, known.modulus - known.residue - 1 if known.modulus else 0)
    return result


def _divided(p: Polynomial) -> Polynomial:
    """`p` by what divides all of its coefficients but the constant, which is rounded down: not
    negative if and only if `p` is not."""
    factor = gcd(*(c for m, c in p.items() if m))
    if factor <= 1:
        return p
    return {m: c // factor for m, c in p.items() if c // factor}


class _Proof:
    def __init__(self, facts: Analyzer) -> None:
        self.facts = facts
        self.budget = BUDGET
        self.order = {v: at for at, v in enumerate(facts.ranges)}
        """The place of each bound variable, outermost first."""

    def nonnegative(self, p: Polynomial, constraints: tuple[Polynomial, ...], steps: int) -> bool:
        self.budget -= 1
        if self.budget < 0:
            return False
        p = _divided(p)
        low = self.facts.interval(p).low
        if low is not None and low >= 0:
            return True
        if self.by_elimination(p, constraints, steps):
            return True
        return steps > 0 and self.by_constraint(p, constraints, steps)

    # --- Elimination -------------------------------------------------------------------------

    def by_elimination(
        self, p: Polynomial, constraints: tuple[Polynomial, ...], steps: int
    ) -> bool:
        atom = self.innermost(p)
        if atom is not None and not isinstance(atom, Var):
            # Outermost first: an atom that stands inside another one is not met yet.
            return any(
                all(self.nonnegative(q, constraints, steps) for q in alternative)
                for alternative in self.replace_compound(p, atom)
            )
        var = self.innermost_bound(p) if atom is None else atom
        if not isinstance(var, Var):
            return False
        lesser = self.replace_var(p, var)
        return lesser is not None and self.nonnegative(lesser, constraints, steps)

    def innermost(self, p: Polynomial) -> Expr | None:
        """The atom to eliminate first: one with the variable that was bound last in it, since the
        bounds of that one are made of the others; None if only free variables are left."""
        order = self.order
        best: tuple[int, bool] = (-1, False)
        found: Expr | None = None
        keys = self.facts.keys
        for atom in sorted({a for m in p for a in m}, key=keys.__getitem__):
            if isinstance(atom, Var):
                rank = (order.get(atom, -2), False)
            else:
                rank = (max((order.get(v, -1) for v in free_vars(atom)), default=-1), True)
            if rank > best:
                best, found = rank, atom
        return found

    def innermost_bound(self, p: Polynomial) -> Var | None:
        """The variable of `p` that was bound last, else one with constant bounds of its own that
        is multiplied with others (interval arithmetic handles the rest)."""
        present = {a for m in p for a in m if isinstance(a, Var)}
        for var in reversed(self.facts.ranges):
            if var in present:
                return var
        mixed = {a for m in p if len(m) > 1 for a in m if isinstance(a, Var)}
        bounded = [v for v in mixed if self.facts.bounds(v) != intervals.EVERYTHING]
        return min(bounded, key=self.facts.keys.__getitem__) if bounded else None

    def replace_var(self, p: Polynomial, var: Var) -> Polynomial | None:
        """`p` with `var` at the end of its range where `p` is least; None if that is not known."""
        coefficient, rest = split(p, var)
        if any(var in m for m in coefficient) or not coefficient:
            return None
        sign = self.sign(coefficient)
        if sign == 0:
            return None
        bound = self.bound(var, lower=sign > 0)
        if bound is None:
            return None
        result = dict(rest)
        add_scaled(result, product(coefficient, bound, self.facts.keys), 1)
        return result

    def bound(self, var: Var, *, lower: bool) -> Polynomial | None:
        known = self.facts.ranges.get(var)
        if known is not None:
            return known.low if lower else known.high
        low, high = self.facts.bounds(var)
        end = low if lower else high
        return None if end is None else ({(): end} if end else {})

    def sign(self, p: Polynomial) -> int:
        """1 if ``p >= 0``, -1 if ``p <= 0``, 0 if neither is known."""
        only = constant(p)  # as most are
        if only:
            self.budget -= 1 if only > 0 else 2
            return 0 if self.budget < 0 else 1 if only > 0 else -1
        if self.nonnegative(p, self.facts.constraints, 1):
            return 1
        if self.nonnegative(scaled(p, -1), self.facts.constraints, 1):
            return -1
        return 0

    def replace_compound(self, p: Polynomial, atom: Expr) -> list[tuple[Polynomial, ...]]:
        """Ways to bound `p` from below without `atom`: in each, all polynomials must be >= 0."""
        coefficient, rest = split(p, atom)
        if any(atom in m for m in coefficient):
            return []
        sign = self.sign(coefficient)
        if sign == 0:
            return []

        def put(value: Polynomial) -> Polynomial:
            result = dict(rest)
            add_scaled(result, product(coefficient, value, self.facts.keys), 1)
            return result

        of = self.facts.polynomial
        if isinstance(atom, (Min, Max)):
            options = [put(of(x)) for x in atom.args]
            chooses_least = isinstance(atom, Min) == (sign > 0)
            return [tuple(options)] if chooses_least else [(q,) for q in options]
        if isinstance(atom, Select):
            return [(put(of(atom.args[1])), put(of(atom.args[2])))]
        ways: list[tuple[Polynomial, ...]] = []
        if isinstance(atom, FloorDiv) and self.positive(atom.args[1]):
            ways.append((self.replace_quotient(atom, coefficient, rest, sign),))
            end_of_all = self.end_of_quotient(atom, lower=sign > 0)
            if end_of_all is not None:
                # The ends tell less where what is divided stands elsewhere in the polynomial, too.
                at = 1 if _share_variables(atom, rest) else 0
                ways.insert(at, (put(end_of_all),))
        if isinstance(atom, FloorMod) and sign < 0 and self.positive(atom.args[1]):
            top = dict(of(atom.args[1]))
            add_scaled(top, {(): 1}, -self.gaps(*atom.args)[1])
            ways.append((put(top),))
            if self.nonnegative(of(atom.args[0]), self.facts.constraints, 1):
                ways.append((put(of(atom.args[0])),))
        low, high = self.facts.bounds(atom)
        end = low if sign > 0 else high
        if end is not None:
            ways.append((put({(): end} if end else {}),))
        return ways

    def replace_quotient(
        self, atom: FloorDiv, coefficient: Polynomial, rest: Polynomial, sign: int
    ) -> Polynomial:
        """From ``d * (x // d) == x - x % d`` for d > 0 and the ends of ``x % d``, after multiplying
        all by d.

        The polynomial is an integer, so it is not negative once d times it is more than -d.
        """
        x, d = atom.args
        divisor = self.facts.polynomial(d)
        end = dict(self.facts.polynomial(x))
        least, below = self.gaps(x, d)
        if sign > 0:
            add_scaled(end, divisor, -1)
            add_scaled(end, {(): 1}, below)
        else:
            add_scaled(end, {(): 1}, -least)
        result = product(rest, divisor, self.facts.keys)
        add_scaled(result, product(coefficient, end, self.facts.keys), 1)
        add_scaled(result, divisor, 1)
        add_scaled(result, {(): 1}, -1)
        return result

    def end_of_quotient(self, atom: FloorDiv, *, lower: bool) -> Polynomial | None:
        """The quotient, by a divisor that is positive, of the end of the range of what is divided:
        exact where the quotient counts whole rows, as in ``v // w`` for v in ``[0, h * w)``."""
        x, d = atom.args
        if self.facts.is_at_an_end:  # to simplify takes proofs, which must not ask for this again
            return None
        end = self.end_of(self.facts.polynomial(x), lower=lower)
        if end is None:
            return None
        quotient = FloorDiv(self.facts.from_polynomial(end), d)
        self.facts.is_at_an_end = True
        try:
            return self.facts.polynomial(self.facts.simplify(quotient))
        finally:
            self.facts.is_at_an_end = False

    def end_of(self, p: Polynomial, *, lower: bool) -> Polynomial | None:
        """The least or greatest value of a sum of bound variables, in terms of free ones; None if
        it is no such sum."""
        least = p if lower else scaled(p, -1)
        found = False
        for var in reversed(self.facts.ranges):
            if any(var in m for m in least):
                lesser = self.replace_var(least, var)
                if lesser is None:
                    return None
                least, found = lesser, True
        bound = self.facts.ranges
        if not found or any(v in bound for m in least for a in m for v in free_vars(a)):
            return None
        return least if lower else scaled(least, -1)

    def gaps(self, x: Expr, d: Expr) -> tuple[int, int]:
        """``(a, b)`` with ``a <= x % d <= d - b`` for d > 0, from what is known modulo parts of d.

        Of ``x % g == r``, where g divides d, follows ``r <= x % d <= d - g + r``: the remainders of
        a multiple of d are 0, and its quotient is as monotone as the multiple.
        """
        known, of_divisor = self.facts.congruence(x), self.facts.congruence(d)
        g = gcd(known.modulus, of_divisor.modulus, of_divisor.residue)
        if g <= 1:
            return 0, 1
        return known.residue % g, g - known.residue % g

    def positive(self, e: Expr) -> bool:
        if isinstance(e, Const):
            return e.value > 0
        below = dict(self.facts.polynomial(e))
        add_scaled(below, {(): 1}, -1)
        return self.nonnegative(below, self.facts.constraints, 1)

    # --- Constraints -------------------------------------------------------------------------

    def by_constraint(self, p: Polynomial, constraints: tuple[Polynomial, ...], steps: int) -> bool:
        """Subtract multiples of what is known not to be negative."""
        for at, known in enumerate(constraints):
            others = constraints[:at] + constraints[at + 1 :]
            for m in _shared(p, known):
                g = gcd(p[m], known[m])
                remaining = scaled(p, abs(known[m]) // g)
                add_scaled(remaining, known, -(abs(p[m]) // g))
                if self.nonnegative(remaining, others, steps - 1):
                    return True
        return False


def split(p: Polynomial, atom: Expr) -> tuple[Polynomial, Polynomial]:
    """``(a, b)`` with ``p == a * atom + b``, each term of `p` in one of them."""
    coefficient: Polynomial = {}
    rest: Polynomial = {}
    for m, c in p.items():
        if atom in m:
            without = divide_monomial(m, (atom,))
            assert without is not None
            coefficient[without] = c
        else:
            rest[m] = c
    return coefficient, rest


def _share_variables(atom: Expr, rest: Polynomial) -> bool:
    """Whether a variable of `atom` is a factor of a term of `rest`."""
    variables = free_vars(atom.args[0])
    return any(a in variables for m in rest for a in m)


def _shared(p: Polynomial, known: Polynomial) -> list[Monomial]:
    """The monomials that a positive multiple of `known` can cancel in `p`."""
    return [m for m, c in p.items() if m and (c < 0) == (known.get(m, -c) < 0) and m in known]
