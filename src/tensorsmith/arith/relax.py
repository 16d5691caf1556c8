"""The least and greatest value of an index expression over loops, as expressions.

One variable is eliminated at a time, innermost first, so that a loop's range may depend on the
variables of loops around it. In each step the expression is a sum ``coefficient * atom + rest``,
where an atom is the variable or a non-linear term of it whose range follows from that of its
operands. Sums of loop variables come out exact; so does a floor division of one, and a remainder
whose operand stays within one period. Where one variable stands in several atoms, the range may be
too wide, never too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from tensorsmith.arith.analyzer import Analyzer
from tensorsmith.ir.expr import (
    Add,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Neg,
    Select,
    Sub,
    Var,
    const,
    free_vars,
    postorder,
)

Bounds = tuple[Expr, Expr]
"""Least and greatest value, both attained or passed."""

ZERO: Final = const(0)
ONE: Final = const(1)


class Ranged(Protocol):
    """What has a variable and its range: a loop, or a block's iterator."""

    @property
    def var(self) -> Var: ...
    @property
    def start(self) -> Expr: ...
    @property
    def extent(self) -> Expr: ...


def symbolic_range(e: Expr, loops: Sequence[Ranged], analyzer: Analyzer) -> Bounds | None:
    """The least and greatest value of `e` over all iterations of `loops`, outermost first.

    The results are in terms of other variables; None if a term has no range that could be said.
    Facts about the loop variables should be bound on the analyzer.
    """
    low = high = e
    for loop in reversed(loops):
        if loop.var not in free_vars(low) and loop.var not in free_vars(high):
            low, high = analyzer.simplify(low), analyzer.simplify(high)
            continue
        last = loop.start + loop.extent - 1
        domain = (analyzer.simplify(loop.start), analyzer.simplify(last))
        least = _Elimination(loop.var, domain, analyzer).bounds(low)
        greatest = least
        if high is not low:
            greatest = _Elimination(loop.var, domain, analyzer).bounds(high)
        if least is None or greatest is None:
            return None
        low, high = analyzer.simplify(least[0]), analyzer.simplify(greatest[1])
    return low, high


class _Elimination:
    """Bounds of expressions while `var` runs over `domain`. Bottom-up over each distinct node."""

    def __init__(self, var: Var, domain: Bounds, analyzer: Analyzer) -> None:
        self.var = var
        self.analyzer = analyzer
        self.linear: dict[Expr, dict[Expr, Expr]] = {}
        """Each node as coefficients of atoms; the atom `ONE` has the rest."""
        self.atoms: dict[Expr, Bounds | None] = {var: domain}

    def bounds(self, e: Expr) -> Bounds | None:
        for node in postorder(e):
            self.linear[node] = self._decompose(node)
        return self._range(e)

    def _decompose(self, e: Expr) -> dict[Expr, Expr]:
        if e is self.var:
            return {e: ONE}
        parts = [self.linear[a] for a in e.args]
        if all(p.keys() <= {ONE} for p in parts):
            return {ONE: e}
        kind = type(e)
        if kind is Add or kind is Sub or kind is Neg:
            return self._sum(kind, parts)
        if kind is Mul:
            for factor, part in ((e.args[0], parts[1]), (e.args[1], parts[0])):
                if self.linear[factor].keys() <= {ONE}:
                    return {atom: _times(c, factor) for atom, c in part.items()}
        self.atoms[e] = self._atom_range(e)
        return {e: ONE}

    def _sum(self, kind: type[Expr], parts: list[dict[Expr, Expr]]) -> dict[Expr, Expr]:
        if kind is Neg:
            return {atom: Neg(c) for atom, c in parts[0].items()}
        total = dict(parts[0])
        for atom, c in parts[1].items():
            known = total.get(atom, ZERO)
            total[atom] = known - c if kind is Sub else (c if known is ZERO else known + c)
        return total

    def _range(self, e: Expr) -> Bounds | None:
        low: Expr = ZERO
        high: Expr = ZERO
        for atom, coefficient in self.linear[e].items():
            if atom is ONE:
                term: Bounds | None = (coefficient, coefficient)
            else:
                term = self._scaled(self.atoms[atom], self.analyzer.simplify(coefficient))
            if term is None:
                return None
            low, high = low + term[0], high + term[1]
        return self.analyzer.simplify(low), self.analyzer.simplify(high)

    def _scaled(self, bounds: Bounds | None, by: Expr) -> Bounds | None:
        if bounds is None:
            return None
        low, high = _times(bounds[0], by), _times(bounds[1], by)
        if self.analyzer.prove(by >= 0) is True:
            return low, high
        if self.analyzer.prove(by <= 0) is True:
            return high, low
        return Min(low, high), Max(low, high)

    def _atom_range(self, e: Expr) -> Bounds | None:
        kind = type(e)
        if kind is FloorDiv or kind is FloorMod:
            return self._division(e, self._range(e.args[0]), e.args[1])
        if kind is Min or kind is Max:
            a, b = self._range(e.args[0]), self._range(e.args[1])
            return a and b and (kind(a[0], b[0]), kind(a[1], b[1]))
        if kind is Select:
            a, b = self._range(e.args[1]), self._range(e.args[2])
            return a and b and (Min(a[0], b[0]), Max(a[1], b[1]))
        return self._constant_bounds(e)

    def _division(self, e: Expr, numerator: Bounds | None, divisor: Expr) -> Bounds | None:
        prove, simplify = self.analyzer.prove, self.analyzer.simplify
        fixed = self.linear[divisor].keys() <= {ONE}
        if numerator is None or not fixed or prove(divisor > 0) is not True:
            return self._constant_bounds(e)
        low, high = simplify(numerator[0] // divisor), simplify(numerator[1] // divisor)
        if type(e) is FloorDiv:
            return low, high
        if low is high:
            return numerator[0] - low * divisor, numerator[1] - low * divisor
        return ZERO, divisor - 1

    def _constant_bounds(self, e: Expr) -> Bounds | None:
        if not e.dtype.is_integer:
            return None
        interval = self.analyzer.bounds(e)
        if interval.low is None or interval.high is None:
            return None
        return const(interval.low), const(interval.high)


def _times(a: Expr, b: Expr) -> Expr:
    if type(a) is Const and a.value == 1:
        return b
    return a if type(b) is Const and b.value == 1 else a * b
