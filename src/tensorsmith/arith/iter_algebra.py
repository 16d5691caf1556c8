"""The algebra of iterator sums: from expressions to sums, and their division and fusion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

from tensorsmith.arith.analyzer import Analyzer
from tensorsmith.arith.iter_fuse import Fusion
from tensorsmith.arith.iter_sum import (
    ONE,
    ZERO,
    Digit,
    Fused,
    IterMark,
    IterSplit,
    IterSum,
    is_one,
    is_zero,
)
from tensorsmith.errors import ArithError
from tensorsmith.ir.expr import (
    Add,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    Mul,
    Neg,
    Sub,
    Var,
    const,
    postorder,
)

Quotient = tuple[IterSum, IterSum]
"""A quotient and a remainder."""

NAMES: Final[Mapping[type[Expr], str]] = {
    FloorDiv: "quotient",
    FloorMod: "remainder",
    Mul: "product",
}


@dataclass(frozen=True, slots=True)
class Constraint:
    """A mark that has those values of a fused sum that a predicate leaves."""

    mark: IterMark
    fused: Fused
    predicate: Expr


class IterAlgebra(Fusion):
    """Sums over given loop variables, under what an analyzer knows.

    The ranges must be bound on the analyzer.
    """

    def __init__(
        self,
        ranges: Mapping[Var, tuple[Expr, Expr]],
        analyzer: Analyzer,
        *,
        backward: bool = False,
    ) -> None:
        super().__init__(analyzer, backward=backward)
        self.constraints: list[Constraint] = []
        self._count = 0
        self._fused_marks: dict[object, IterMark] = {}
        self._sums: dict[Expr, IterSum] = {}
        self._quotients: dict[object, Quotient] = {}
        self.marks: dict[Var, IterMark] = {}
        for var, (start, extent) in ranges.items():
            mark = self._new_mark(var, self.simplify(start), ZERO, self.simplify(extent))
            self.marks[var] = mark

    def _new_mark(self, source: Var | Fused, start: Expr, first: Expr, extent: Expr) -> IterMark:
        self._count += 1
        return IterMark(source, start, first, extent, self._count)

    # --- From expressions to sums ------------------------------------------------------------

    def sum_of(self, e: Expr) -> IterSum:
        """`e` as a sum. Raises ArithError if it is not quasi-affine in the loop variables."""
        for node in postorder(e):
            if node not in self._sums:
                self._sums[node] = self._node(node)
        return self._sums[e]

    def _node(self, e: Expr) -> IterSum:
        if type(e) is Var and e in self.marks:
            mark = self.marks[e]
            return self._whole(mark, ONE, mark.start)
        parts = [self._sums[a] for a in e.args]
        if not any(p.splits for p in parts):
            # Variables of one value vanish: what is left has no loop variables.
            bases = tuple(p.base for p in parts)
            return IterSum((), e.with_args(bases) if bases else e)
        kind = type(e)
        if kind is Add:
            return self.add(parts[0], parts[1])
        if kind is Sub:
            return self.add(parts[0], self.scale(parts[1], const(-1)))
        if kind is Neg:
            return self.scale(parts[0], const(-1))
        if kind is Mul and not (parts[0].splits and parts[1].splits):
            factor, scaled = (1, 0) if parts[0].splits else (0, 1)
            return self.scale(parts[scaled], parts[factor].base)
        if kind in (FloorDiv, FloorMod) and not parts[1].splits:
            quotient, remainder = self.divide(parts[0], self.simplify(parts[1].base), e)
            return quotient if kind is FloorDiv else remainder
        raise ArithError(
            f"{e!r} is not quasi-affine in the loop variables",
            because=f"a {NAMES.get(kind, kind.__name__)} of loop variables is no sum of digits",
        )

    def _whole(self, mark: IterMark, scale: Expr, base: Expr) -> IterSum:
        if is_one(mark.extent):
            return IterSum((), base)
        return IterSum((IterSplit(mark, ONE, mark.extent, scale),), base)

    def make_sum(self, splits: Iterable[IterSplit], base: Expr) -> IterSum:
        """The sum of `splits` and `base`: one split a digit, neighbouring digits joined."""
        scales: dict[Digit, Expr] = {}
        for s in splits:
            known = scales.get(s.digit)
            scales[s.digit] = s.scale if known is None else self.simplify(known + s.scale)
        parts = [IterSplit(*d, scale) for d, scale in scales.items() if not is_zero(scale)]
        parts = [s for s in parts if not is_one(s.extent)]
        while (joined := self._join(parts)) is not None:
            parts = joined
        return IterSum(tuple(parts), self.simplify(base))

    def _join(self, splits: Sequence[IterSplit]) -> list[IterSplit] | None:
        """The splits with two neighbouring digits joined to one, or None if there are none."""
        for low in splits:
            above = [s for s in splits if s.source is low.source and s is not low]
            for high in above:
                neighbours = self.equal(high.lower_factor, low.lower_factor * low.extent)
                if neighbours and self.equal(high.scale, low.scale * low.extent):
                    extent = self._extent(low.source, low.lower_factor, low.extent * high.extent)
                    joined = IterSplit(low.source, low.lower_factor, extent, low.scale)
                    return [joined, *(s for s in splits if s is not low and s is not high)]
        return None

    def _extent(self, mark: IterMark, lower_factor: Expr, extent: Expr) -> Expr:
        """The extent of a digit, not more than what is above `lower_factor` in the mark."""
        if self.holds(mark.extent <= lower_factor * extent):
            return self.ceil_divide(mark.extent, lower_factor)
        return self.simplify(extent)

    def add(self, a: IterSum, b: IterSum) -> IterSum:
        """``a + b``."""
        return self.make_sum((*a.splits, *b.splits), a.base + b.base)

    def scale(self, a: IterSum, by: Expr) -> IterSum:
        """``a * by``; `by` has no loop variables."""
        splits = [s.scaled(self.simplify(s.scale * by)) for s in a.splits]
        return self.make_sum(splits, a.base * by)

    # --- Division ----------------------------------------------------------------------------

    def divide(self, a: IterSum, by: Expr, e: Expr) -> Quotient:
        """``a // by`` and ``a % by``; `e` is what is divided, for messages.

        Digits that lie above or below the divisor go to one side; what straddles it becomes a fused
        mark with digits of its own. Raises ArithError.
        """
        if not self.holds(by > 0):
            raise ArithError(
                f"{e!r} is not quasi-affine", because=f"{by!r} is not known to be positive"
            )
        a = self.absorb(a)
        key = (a.key, by)
        found = self._quotients.get(key)
        if found is None:
            found = self._aligned(a, by) or self._peeled(a, by, e)
            found = found or self._straddling(a, by) or self._completed(a, by)
            if found is None:
                raise ArithError(
                    f"{e!r} is not quasi-affine in the loop variables",
                    because="what is divided is not one fused iterator: its terms overlap or have"
                    " gaps",
                )
            self._quotients[key] = found
        return found

    def _aligned(self, a: IterSum, by: Expr) -> Quotient | None:
        """The division when each digit, or a part of it, is above or below the divisor."""
        high: list[IterSplit] = []
        low: list[IterSplit] = []
        for split in a.splits:
            for s in self._cut(split, by):
                if self.divides(by, s.scale):
                    high.append(s.scaled(self.simplify(s.scale // by)))
                else:
                    low.append(s)
        rest = self.simplify(a.base % by)
        least, greatest = rest, rest
        for s in low:
            reach = s.scale * (s.extent - 1)
            if self.holds(s.scale > 0):
                greatest = greatest + reach
            elif self.holds(s.scale < 0):
                least = least + reach
            else:
                return None
        if not (self.holds(least >= 0) and self.holds(greatest < by)):
            return None
        return self.make_sum(high, a.base // by), self.make_sum(low, rest)

    def _cut(self, s: IterSplit, by: Expr) -> tuple[IterSplit, ...]:
        """The split cut in two digits where its value reaches `by`, if that is without a rest."""
        step = self.simplify(-s.scale) if self.holds(s.scale < 0) else s.scale
        if not self.holds(step > 0) or self.divides(by, step) or not self.divides(step, by):
            return (s,)
        at = self.simplify(by // step)
        if self.holds(s.extent <= at) or not self.divides(at, s.extent):
            return (s,)
        return self._halves(s, at)

    def _halves(self, s: IterSplit, at: Expr) -> tuple[IterSplit, IterSplit]:
        lower_factor = self.simplify(s.lower_factor * at)
        upper = self.ceil_divide(s.extent, at)
        low = IterSplit(s.source, s.lower_factor, at, s.scale)
        return low, IterSplit(s.source, lower_factor, upper, self.simplify(s.scale * at))

    def _peeled(self, a: IterSum, by: Expr, e: Expr) -> Quotient | None:
        """The division by a factor of `by` that is aligned, then by the rest.

        So the digits that can be told apart are, and equal values get equal digits however written.
        """
        for factor in self._factors(a, by):
            first = self._aligned(a, factor)
            if first is None:
                continue
            quotient, rest = self.divide(first[0], self.simplify(by // factor), e)
            return quotient, self.add(self.scale(rest, factor), first[1])
        return None

    def _factors(self, a: IterSum, by: Expr) -> list[Expr]:
        """Proper factors of `by` at which digits of `a` may be aligned, the greatest first."""
        if type(by) is not Const:
            scales = dict.fromkeys(s.scale for s in a.splits if not is_one(s.scale))
            positive = [s for s in scales if self.holds(s > 0) and not self.equal(s, by)]
            return [s for s in positive if self.divides(s, by)]
        whole = int(by.value)
        found = {whole}
        for step in {e for s in a.splits for e in (s.scale, s.scale * s.extent)}:
            multiple = self._known_multiple(step)
            found |= {gcd(f, multiple) for f in found}
        return [const(f) for f in sorted(found, reverse=True) if 1 < f < whole]

    def _known_multiple(self, e: Expr) -> int:
        """The greatest constant that is known to divide `e`."""
        known = self.analyzer.congruence(self.simplify(e))
        if known.modulus == 0:
            return known.residue
        return gcd(known.modulus, known.residue)

    def _straddling(self, a: IterSum, by: Expr) -> Quotient | None:
        """The division of a fused sum by what does not divide its digits: through a new mark."""
        fused = self.fuse(a)
        if fused is None or not is_one(fused.unit):
            return None
        first = self.simplify(fused.low % by)
        if is_zero(first) and len(a.splits) == 1 and self._is_upper(a.splits[0], fused):
            split = a.splits[0]
        else:
            mark = self._mark_of(fused, first, first + fused.extent)
            split = IterSplit(mark, ONE, mark.extent, ONE)
        low, high = self._halves(split, by)
        quotient = self.make_sum((high.scaled(ONE),), fused.low // by)
        return quotient, self.make_sum((low,), ZERO)

    def _completed(self, a: IterSum, by: Expr) -> Quotient | None:
        """The division of a sum that is fused but for multiples of `by` in its scales.

        A simplifier makes ``i + (i + j) // 6`` of ``(i * 7 + j) // 6``; this is the way back.
        """
        whole, excess = self._absorb_modulo(a, by)
        scales = self.complete(whole.splits, by)
        if scales is None:
            return None
        splits = [s.scaled(scale) for s, scale in zip(whole.splits, scales, strict=True)]
        for s, scale in zip(whole.splits, scales, strict=True):
            excess.append(s.scaled(self.simplify((s.scale - scale) // by)))
        found = self._straddling(self.make_sum(splits, whole.base), by)
        if found is None:
            return None
        return self.add(found[0], self.make_sum(excess, ZERO)), found[1]

    def _is_upper(self, s: IterSplit, fused: Fused) -> bool:
        """Whether `s` is the uppermost digit of its mark, counting upwards."""
        return not fused.descending[0] and self.holds(s.source.extent <= s.lower_factor * s.extent)

    def _mark_of(self, fused: Fused, low: Expr, extent: Expr) -> IterMark:
        """The one mark of the number of `fused`, counted from `low`."""
        low, extent = self.simplify(low), self.simplify(extent)
        key = (fused.key, low, extent)
        mark = self._fused_marks.get(key)
        if mark is None:
            mark = self._new_mark(self._counted_from(fused, low), ZERO, low, extent)
            self._fused_marks[key] = mark
        return mark

    def _counted_from(self, fused: Fused, low: Expr) -> Fused:
        """The number of `fused` plus `low`, as a fused sum."""
        scale: Expr = ONE
        digits = []
        for s, descending in zip(fused.digits, fused.descending, strict=True):
            digits.append(s.scaled(self.simplify(-scale) if descending else scale))
            scale = self.simplify(scale * s.extent)
        return Fused(tuple(digits), fused.descending, ONE, low, fused.extent)

    # --- Constraints -------------------------------------------------------------------------

    def constrain(self, fused: Fused, first: Expr, stop: Expr, predicate: Expr) -> None:
        """Let the number of `fused` satisfy ``first <= number < stop``, as `predicate` says.

        Raises ArithError if that leaves nothing.
        """
        extent = self.simplify(stop - first)
        if self.holds(extent <= 0):
            raise ArithError(f"the predicate {predicate!r} never holds")
        number = self._counted_from(fused, self.simplify(-first))
        mark = self._new_mark(number, ZERO, ZERO, extent)
        self.constraints.append(Constraint(mark, fused, predicate))
        self._sums.clear()
        self._quotients.clear()

    def absorb(self, a: IterSum) -> IterSum:
        """`a` with every group of digits that a predicate ties replaced by their common mark."""
        for constraint in self.constraints:
            absorbed = self._absorb(a, constraint, None)
            a = a if absorbed is None else absorbed[0]
        return a

    def _absorb_modulo(self, a: IterSum, by: Expr) -> tuple[IterSum, list[IterSplit]]:
        """As `absorb`, but for multiples of `by`: a sum and a quotient that make up `a`."""
        excess: list[IterSplit] = []
        for constraint in self.constraints:
            absorbed = self._absorb(a, constraint, by)
            if absorbed is not None:
                a = absorbed[0]
                excess += absorbed[1]
        return a, excess

    def _absorb(
        self, a: IterSum, constraint: Constraint, by: Expr | None
    ) -> tuple[IterSum, list[IterSplit]] | None:
        """The sum with the constraint's digits replaced, and the digits in excess over `by`."""
        assert isinstance(constraint.mark.source, Fused)
        source = constraint.mark.source
        present = {s.digit: s.scale for s in a.splits}
        factor = present.get(source.digits[0].digit)
        if factor is None:
            return None
        factor = self.simplify(-factor) if source.descending[0] else factor
        excess = []
        for s in source.digits:
            surplus = self.simplify(present.pop(s.digit, ZERO) - s.scale * factor)
            if is_zero(surplus):
                continue
            if by is None or not self.divides(by, surplus):
                return None
            excess.append(s.scaled(self.simplify(surplus // by)))
        rest = [s for s in a.splits if s.digit in present]
        whole = IterSplit(constraint.mark, ONE, constraint.mark.extent, factor)
        # The value of the mark is the sum of the tied splits plus this shift.
        shift = source.low
        for s, descending in zip(source.digits, source.descending, strict=True):
            shift = shift - s.scale * (s.extent - 1) if descending else shift
        return self.make_sum((*rest, whole), a.base - shift * factor), excess
