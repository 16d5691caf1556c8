"""Counts as expressions in dimensions, and their sums over loops.

A count is a polynomial over dimensions with a common denominator, as sums of powers need:
``0 + 1 + ... + (n - 1)`` is ``n * (n - 1) / 2``. Its value is a whole number all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd, lcm
from typing import Final

from tensorsmith.arith.analyzer import Analyzer
from tensorsmith.arith.polynomial import Polynomial, add_scaled, product, scaled, to_expr
from tensorsmith.arith.relax import symbolic_range
from tensorsmith.ir.expr import Expr, Max, Var, const, postorder, substitute


@dataclass(frozen=True, slots=True)
class Count:
    """``numerator / denominator``, a whole number for all values of the dimensions."""

    numerator: Polynomial
    denominator: int = 1

    @property
    def is_zero(self) -> bool:
        """Whether it is 0 whatever the dimensions are."""
        return not self.numerator


ZERO: Final = Count({})
ONE: Final = Count({(): 1})


@dataclass(frozen=True, slots=True)
class Span:
    """A loop as a sum: `var` takes the values from 0 to ``extent - 1``, and extent >= 0."""

    var: Var
    extent: Expr

    @property
    def start(self) -> Expr:
        """The first value."""
        return const(0)


class CountAlgebra:
    """Operations on counts, under the facts of an analyzer.

    unknown: makes a variable for a count that has no bound in terms of the dimensions.
    """

    def __init__(self, analyzer: Analyzer, unknown: Callable[[str], Var]) -> None:
        self._analyzer = analyzer
        self._unknown = unknown

    def of(self, e: Expr) -> Count:
        """An ``index`` expression as a count."""
        return Count(self._analyzer.polynomial(self._analyzer.simplify(e)))

    def expr(self, count: Count) -> Expr:
        """A count as an expression."""
        common = gcd(count.denominator, *count.numerator.values())
        numerator = {m: c // common for m, c in count.numerator.items()}
        whole = to_expr(numerator, self._analyzer.keys)
        denominator = count.denominator // common
        return whole if denominator == 1 else whole // denominator

    def add(self, a: Count, b: Count) -> Count:
        """The sum."""
        denominator = lcm(a.denominator, b.denominator)
        total = scaled(a.numerator, denominator // a.denominator)
        add_scaled(total, b.numerator, denominator // b.denominator)
        return Count(total, denominator)

    def multiply(self, a: Count, b: Count) -> Count:
        """The product."""
        numerator = product(a.numerator, b.numerator, self._analyzer.keys)
        return Count(numerator, a.denominator * b.denominator)

    def greater(self, a: Count, b: Count) -> Count:
        """The greater, where neither is negative."""
        if a == b or b.is_zero:
            return a
        return b if a.is_zero else self.of(Max(self.expr(a), self.expr(b)))

    def at_first(self, count: Count, span: Span) -> Count:
        """The value for the first iteration, or 0 if there is none."""
        first = self._substituted(count, span.var)
        if self._analyzer.prove(const(1) <= span.extent) is True:
            return first
        ran = Max(const(1) - span.extent, const(0))  # 1 if there is no iteration
        return self.multiply(first, self.add(ONE, self.of(-ran)))

    def _substituted(self, count: Count, var: Var) -> Count:
        if not any(_mentions(atom, var) for m in count.numerator for atom in m):
            return count
        return self.of(substitute(self.expr(count), {var: const(0)}))

    def total(self, count: Count, span: Span) -> Count:
        """The sum over all iterations: exact for polynomials of degree 3 and less in the loop
        variable, else an upper bound, the extent times the greatest value."""
        extent = self.of(span.extent)
        powers = self._by_power(count, span.var)
        if powers is None:
            return self.multiply(extent, self._greatest(count, span))
        total = ZERO
        for degree, coefficient in powers.items():
            part = self.multiply(coefficient, self._power_sum(degree, extent))
            total = self.add(total, part)
        return total

    def _by_power(self, count: Count, var: Var) -> dict[int, Count] | None:
        """The coefficients of the powers of `var`; None if the count is no such polynomial."""
        powers: dict[int, Polynomial] = {}
        for monomial, c in count.numerator.items():
            rest = tuple(atom for atom in monomial if atom is not var)
            degree = len(monomial) - len(rest)
            if degree >= len(_POWER_SUMS) or any(_mentions(atom, var) for atom in rest):
                return None
            powers.setdefault(degree, {})[rest] = c
        return {degree: Count(p, count.denominator) for degree, p in powers.items()}

    def _power_sum(self, degree: int, n: Count) -> Count:
        """``0**degree + 1**degree + ... + (n - 1)**degree``: Faulhaber's formula."""
        coefficients, denominator = _POWER_SUMS[degree]
        total, power = ZERO, ONE
        for c in coefficients:
            power = self.multiply(power, n)
            total = self.add(total, Count(scaled(power.numerator, c), power.denominator))
        return Count(total.numerator, total.denominator * denominator)

    def _greatest(self, count: Count, span: Span) -> Count:
        e = self._analyzer.simplify(self.expr(count))
        found = symbolic_range(e, [span], self._analyzer)
        high = self._analyzer.bounds(e).high
        if found is not None:
            return self.of(found[1])
        return self.of(self._unknown("count") if high is None else const(high))


_POWER_SUMS: Final = (
    ((1,), 1),
    ((-1, 1), 2),
    ((1, -3, 2), 6),
    ((0, 1, -2, 1), 4),
)
"""For each degree the coefficients of n, n**2, ..., and their denominator."""


def _mentions(e: Expr, var: Var) -> bool:
    return any(node is var for node in postorder(e))
