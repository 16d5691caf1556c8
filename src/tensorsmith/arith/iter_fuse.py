"""Fusion: iterator sums whose splits are the digits of one number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorsmith.arith.analyzer import Analyzer
from tensorsmith.arith.iter_sum import ONE, Fused, IterSplit, IterSum, is_one, is_zero
from tensorsmith.ir.expr import Const, Expr, equal

MOST_COMPLETED: Final = 5


class Fusion:
    """What an analyzer knows, and the fused sums that follow.

    backward: which of several ways `complete` takes, the first or the last.
    """

    def __init__(self, analyzer: Analyzer, *, backward: bool = False) -> None:
        self.analyzer = analyzer
        self.backward = backward
        self.has_completed = False

    def simplify(self, e: Expr) -> Expr:
        """The canonical form of `e`."""
        return e if type(e) is Const else self.analyzer.simplify(e)

    def equal(self, a: Expr, b: Expr) -> bool:
        """Whether `a` and `b` are proved equal."""
        return a is b or self.analyzer.prove(equal(a, b)) is True

    def holds(self, condition: Expr) -> bool:
        """Whether `condition` is proved."""
        return self.analyzer.prove(condition) is True

    def divides(self, divisor: Expr, e: Expr) -> bool:
        """Whether `divisor`, positive, is proved to divide `e`."""
        return is_one(divisor) or is_zero(self.simplify(e % divisor))

    def ceil_divide(self, a: Expr, b: Expr) -> Expr:
        """``a / b``, rounded up."""
        return self.simplify(a // b if self.divides(b, a) else (a + b - 1) // b)

    def fuse(self, a: IterSum) -> Fused | None:
        """`a` as a fused sum, or None if its splits are not the digits of one number."""
        signs = []
        for s in a.splits:
            descending = self.holds(s.scale < 0)
            if not descending and not self.holds(s.scale > 0):
                return None
            signs.append(descending)
        scales = [
            self.simplify(-s.scale) if d else s.scale for s, d in zip(a.splits, signs, strict=True)
        ]
        order = self._order(a.splits, scales)
        if order is None:
            return None
        low = a.base
        extent: Expr = ONE
        for at in order:
            s = a.splits[at]
            low = low + s.scale * (s.extent - 1) if signs[at] else low
            extent = s.extent if extent is ONE else self.simplify(extent * s.extent)
        digits = tuple(a.splits[at] for at in order)
        unit = scales[order[0]] if order else ONE
        return Fused(digits, tuple(signs[at] for at in order), unit, self.simplify(low), extent)

    def _order(self, splits: Sequence[IterSplit], scales: Sequence[Expr]) -> list[int] | None:
        """The splits from the least significant up, or None if they are not digits."""
        candidates = list(range(len(splits)))
        constant = [int(s.value) for s in scales if isinstance(s, Const)]
        if splits and len(constant) == len(scales):
            candidates = [constant.index(min(constant))]
        for first in candidates:
            order = [first]
            while len(order) < len(splits):
                last = order[-1]
                expected = self.simplify(scales[last] * splits[last].extent)
                following = [
                    at
                    for at in range(len(splits))
                    if at not in order and self.equal(scales[at], expected)
                ]
                if len(following) != 1:
                    break
                order += following
            if len(order) == len(splits):
                return order
        return None if splits else []

    def complete(self, splits: Sequence[IterSplit], by: Expr) -> list[Expr] | None:
        """Scales, equal to those of `splits` modulo `by`, that make them digits of one number.

        None if there are none, or if there are more than `MOST_COMPLETED` splits, since all their
        orders would be tried.
        """
        if len(splits) > MOST_COMPLETED:
            return None
        self.has_completed = True
        scales: list[Expr | None] = [None] * len(splits)
        return self._complete(splits, by, scales, ONE)

    def _complete(
        self, splits: Sequence[IterSplit], by: Expr, scales: list[Expr | None], step: Expr
    ) -> list[Expr] | None:
        """`scales` with those that are None filled in, from the least up, which is `step`."""
        if None not in scales:
            return [s for s in scales if s is not None]
        for at in sorted(range(len(splits)), reverse=self.backward):
            if scales[at] is not None:
                continue
            s = splits[at]
            down = self.simplify(-step)
            # What drops multiples rounds towards zero, which keeps the sign.
            for scale in (down, step) if self.holds(s.scale < 0) else (step, down):
                if self.divides(by, s.scale - scale):
                    chosen = [*scales[:at], scale, *scales[at + 1 :]]
                    above = self.simplify(step * s.extent)
                    if (found := self._complete(splits, by, chosen, above)) is not None:
                        return found
        return None
