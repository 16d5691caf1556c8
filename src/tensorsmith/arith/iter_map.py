"""Detection of quasi-affine iterator maps: which values do the bindings of a block take, and how
often.

``(i, j) -> (i // 4, j, i % 4)`` takes every point of a box exactly once, ``(i, j) -> (i + j,)``
does not. Each binding is brought into the form of a sum of digits of fused iterators (`iter_sum`);
the map is a bijection onto the box of the bindings' ranges if each binding is one number of its
digits and each iterator's digits are used, all of them and each once. Source: Feng et al.,
TensorIR, ASPLOS 2023, section 3.3.

What is accepted is right; what is refused may be a bijection all the same. Known to be refused:
bindings whose bijectivity rests on two of them together (``(i + j, i)``), a divisor that depends
on loop variables, digits of different paddings of one iterator, predicates that are not bounds of a
fused iterator. A loop's extent is taken to be positive.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorsmith.arith.analyzer import Analyzer, conjuncts
from tensorsmith.arith.iter_algebra import IterAlgebra
from tensorsmith.arith.iter_sum import (
    ONE,
    ZERO,
    Fused,
    IterMark,
    IterSplit,
    is_one,
    is_zero,
    marks_under,
    variables_under,
)
from tensorsmith.errors import ArithError
from tensorsmith.ir.expr import Const, Expr, Le, Lt, Max, Min, Var, free_vars
from tensorsmith.ir.stmt import TRUE

Ranges = Mapping[Var, tuple[Expr, Expr]]
"""A start and an extent for each loop variable."""


class Level(enum.Enum):
    """What is asked of a map."""

    BIJECTIVE = "bijective"
    """Every point of the box is taken exactly once."""
    ONTO = "onto"
    """Every point of the box is taken."""
    INJECTIVE = "injective"
    """Every point of the box is taken at most once; padding is allowed."""


@dataclass(frozen=True, slots=True)
class IterMap:
    """Bindings as fused sums of the digits of loop variables.

    bindings: the expressions.
    fused: for each binding its digits, as `iter_sum` says.
    starts, extents: the range of each binding; together they span the box of the map.
    is_bijective: whether every point of the box is taken exactly once, where the predicate holds.
    used: the loop variables that the bindings depend on.
    padded: marks whose digits stand for more values than the mark has: their surplus is a hole in
        the box. () unless padding was asked for.
    ranges: those of the loop variables.
    uses: every mark below the bindings with the digits used of it, in an order such that a mark
        stands before those that its source is made of.
    """

    bindings: tuple[Expr, ...]
    fused: tuple[Fused, ...]
    starts: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    is_bijective: bool
    used: tuple[Var, ...]
    padded: tuple[IterMark, ...]
    ranges: Ranges
    uses: Mapping[IterMark, tuple[IterSplit, ...]]


def detect_iter_map(
    bindings: Sequence[Expr],
    ranges: Ranges,
    predicate: Expr = TRUE,
    *,
    bijective: bool = True,
    analyzer: Analyzer | None = None,
) -> IterMap:
    """The bindings as an iterator map over the loops' box, cut by `predicate`.

    ranges: start and extent of each loop variable; other variables are constants. Extents may be
        symbolic. predicate: a conjunction of bounds of fused iterators, such as ``i * 4 + j < n``.
    bijective: whether every point of the box must be taken exactly once; otherwise it may be taken
        several times, and variables may go unused. analyzer: what is known of other variables.
    Raises ArithError, with the reason, where this is not so or cannot be proven.
    """
    level = Level.BIJECTIVE if bijective else Level.ONTO
    return detect(bindings, ranges, predicate, level=level, analyzer=analyzer)


def detect(
    bindings: Sequence[Expr],
    ranges: Ranges,
    predicate: Expr = TRUE,
    *,
    level: Level,
    analyzer: Analyzer | None = None,
) -> IterMap:
    """As `detect_iter_map`; of level INJECTIVE the box may have holes, which `padded` tells."""
    analyzer = analyzer or Analyzer()
    with analyzer.scope():
        for var, (start, extent) in ranges.items():
            analyzer.bind(var, start, extent)
        simple = tuple(analyzer.simplify(b) for b in bindings)
        reason: ArithError | None = None
        for written in dict.fromkeys((tuple(bindings), simple)):
            for backward in (False, True):
                detection = _Detection(ranges, predicate, level, analyzer, backward=backward)
                try:
                    return detection.run(written, bindings)
                except ArithError as error:
                    reason = reason or error
                if not detection.algebra.has_completed:
                    break  # the other direction makes a difference there only
        assert reason is not None
        raise reason


class _Detection:
    """One attempt. The expressions are taken as they are written."""

    def __init__(
        self,
        ranges: Ranges,
        predicate: Expr,
        level: Level,
        analyzer: Analyzer,
        *,
        backward: bool,
    ) -> None:
        self.ranges = ranges
        self.level = level
        self.algebra = IterAlgebra(ranges, analyzer, backward=backward)
        self.predicate = predicate
        self._constrain(predicate)

    def run(self, written: Sequence[Expr], bindings: Sequence[Expr]) -> IterMap:
        """The map of `bindings`, of which `written` is some way to write them."""
        fused = tuple(self._fused(b) for b in written)
        fixed = [c.mark for c in self.algebra.constraints if is_one(c.mark.extent)]
        uses = _uses(fused, fixed)
        loose = _extents_not_one(self.algebra.marks)
        self._check_constraints(uses)
        complete = self._check_unused(uses, loose)
        padded = []
        for mark, splits in uses.items():
            state = _Coverage(self.algebra, mark, splits)
            complete = complete and state.is_complete()
            if self.level is Level.ONTO:
                state.require_onto()
                complete = complete and state.is_exact()
            else:
                state.require_complete()
                if self.level is Level.BIJECTIVE:
                    state.require_exact()
                if not state.is_exact():
                    padded.append(mark)
        return IterMap(
            tuple(bindings),
            fused,
            tuple(f.low for f in fused),
            tuple(f.extent for f in fused),
            complete and not padded,
            tuple(v for v in self.ranges if v in free_vars(*bindings)),
            tuple(padded),
            self.ranges,
            uses,
        )

    def _fused(self, binding: Expr) -> Fused:
        total = self.algebra.absorb(self.algebra.sum_of(binding))
        fused = self.algebra.fuse(total)
        if fused is None:
            raise ArithError(
                f"{binding!r} does not take each value of a range once",
                given=_describe(self.ranges, binding),
                because="its terms overlap or leave gaps: the stride of each must be the stride"
                " times the extent of the one below",
            )
        if not is_one(fused.unit) and not is_one(fused.extent):
            raise ArithError(
                f"{binding!r} leaves out values of its range",
                given=_describe(self.ranges, binding),
                because=f"neighbouring values are {fused.unit!r} apart",
            )
        return fused

    # --- Predicates --------------------------------------------------------------------------

    def _constrain(self, predicate: Expr) -> None:
        """Note each part of the predicate that is not always true; those of few variables first."""
        prove = self.algebra.analyzer.prove
        parts = [p for p in conjuncts(predicate) if prove(p) is not True]
        for part in sorted(parts, key=lambda p: len(free_vars(p))):
            self._constrain_one(part)

    def _constrain_one(self, part: Expr) -> None:
        algebra = self.algebra
        refused = ArithError(
            f"the predicate {part!r} is not a bound of a fused iterator",
            because="a predicate must be comparisons (<, <=) of sums of loop variables that are"
            " digits of one number, such as i * 4 + j < n",
        )
        bound = part if isinstance(part, (Lt, Le)) else algebra.simplify(part)
        if not isinstance(bound, (Lt, Le)):
            raise refused
        a, b = bound.args
        gap = algebra.sum_of(a - b if isinstance(bound, Lt) else a - b - 1)  # gap < 0
        gap = algebra.absorb(gap)
        fused = algebra.fuse(gap) if gap.splits else None
        if fused is None:
            raise refused
        kept = algebra.ceil_divide(algebra.simplify(-fused.low), fused.unit)  # number < kept
        if not fused.descending[-1]:
            algebra.constrain(fused, ZERO, self._least(kept, fused.extent), part)
            return
        mirrored = algebra.fuse(algebra.scale(gap, algebra.simplify(ZERO - ONE)))
        assert mirrored is not None
        first = algebra.simplify(fused.extent - kept)
        if not algebra.holds(first >= 0):
            first = algebra.simplify(Max(first, ZERO))
        algebra.constrain(mirrored, first, mirrored.extent, part)

    def _least(self, a: Expr, b: Expr) -> Expr:
        if self.algebra.holds(a <= b):
            return a
        return self.algebra.simplify(Min(a, b))

    # --- Checks over all bindings ------------------------------------------------------------

    def _check_constraints(self, uses: Mapping[IterMark, tuple[IterSplit, ...]]) -> None:
        for constraint in self.algebra.constraints:
            if constraint.mark in uses:
                continue
            tied = variables_under(constraint.fused.digits)
            if self.level is not Level.ONTO or any(m.source in tied for m in uses):
                raise ArithError(
                    f"the predicate {constraint.predicate!r} cuts the box of the bindings",
                    because="no binding uses, as a whole, the fused iterator that it bounds",
                )
            if not self.algebra.holds(constraint.mark.extent > 0):
                raise ArithError(f"the predicate {constraint.predicate!r} may leave nothing")

    def _check_unused(
        self, uses: Mapping[IterMark, tuple[IterSplit, ...]], loose: Iterable[IterMark]
    ) -> bool:
        """Whether every loop variable of more than one value is used."""
        unused = [m.source for m in loose if m not in uses]
        if unused and self.level is not Level.ONTO:
            raise ArithError(
                f"points are taken once for each value of {unused[0]!r}",
                because="no binding uses this loop variable",
            )
        return not unused


class _Coverage:
    """Which part of a mark its digits make up."""

    def __init__(self, algebra: IterAlgebra, mark: IterMark, splits: tuple[IterSplit, ...]) -> None:
        self.algebra = algebra
        self.mark = mark
        self.order, self.gap = self._chain(list(splits))

    def _chain(self, splits: list[IterSplit]) -> tuple[list[IterSplit], list[IterSplit]]:
        """Digits in order from the lowest, each on top of the one before; and those left over."""
        order: list[IterSplit] = []
        expected: Expr = ONE
        while splits:
            above = [s for s in splits if self.algebra.equal(s.lower_factor, expected)]
            if len(above) != 1:
                break
            order += above
            splits = [s for s in splits if s is not above[0]]
            expected = self.algebra.simplify(expected * above[0].extent)
        self.reach = expected
        return order, splits

    def is_complete(self) -> bool:
        """Whether the digits tell the values of the mark apart, each digit used once."""
        return not self.gap and self.algebra.holds(self.mark.extent <= self.reach)

    def is_exact(self) -> bool:
        """Whether the digits stand for no more values than the mark has."""
        return is_zero(self.mark.first) and self.algebra.equal(self.reach, self.mark.extent)

    def require_complete(self) -> None:
        if not self.is_complete():
            name = _name(self.mark)
            used = ", ".join(map(_digit_text, (*self.order, *self.gap)))
            raise ArithError(
                f"the digits of {name} that the bindings use are not all of it, each once",
                given=f"used: {used}; {name} has {self.mark.extent!r} values",
            )

    def require_exact(self) -> None:
        if not self.is_exact():
            raise ArithError(
                f"some points of the box are not taken: {_name(self.mark)} is not divisible",
                given=f"{self.mark.extent!r} values, as digits {self.reach!r} values",
            )

    def require_onto(self) -> None:
        """The digits must take all combinations of their values."""
        splits = [*self.order, *self.gap]
        if len(splits) == 1 and self._takes_all(splits[0]):
            return
        if is_zero(self.mark.first) and self._independent(splits):
            return
        raise ArithError(
            f"the bindings use digits of {_name(self.mark)} that are not independent",
            given=", ".join(map(_digit_text, splits)),
        )

    def _takes_all(self, s: IterSplit) -> bool:
        holds, mark = self.algebra.holds, self.mark
        reach = s.lower_factor * s.extent
        if holds(mark.extent - mark.first >= reach):
            return True
        return holds(mark.first < s.lower_factor) and holds(reach < mark.extent + s.lower_factor)

    def _independent(self, splits: list[IterSplit]) -> bool:
        below: Expr = ONE
        while splits:
            following = [s for s in splits if self._lies_below_all(s, splits)]
            if len(following) != 1 or not self.algebra.divides(below, following[0].lower_factor):
                return False
            below = self.algebra.simplify(following[0].lower_factor * following[0].extent)
            splits = [s for s in splits if s is not following[0]]
        return self.algebra.holds(below <= self.mark.extent)

    def _lies_below_all(self, s: IterSplit, splits: list[IterSplit]) -> bool:
        holds = self.algebra.holds
        return all(holds(s.lower_factor <= o.lower_factor) for o in splits if o is not s)


def _uses(
    fused: Sequence[Fused], fixed: Sequence[IterMark]
) -> dict[IterMark, tuple[IterSplit, ...]]:
    """Every mark below `fused` and `fixed` with all uses of its digits, later marks first.

    fixed: marks that a predicate leaves one value, so that no digit of them appears.
    """
    splits = [s for f in fused for s in f.digits]
    marks = marks_under([*(s.source for s in splits), *fixed])
    for mark in marks:
        if isinstance(mark.source, Fused):
            splits += mark.source.digits
    by_serial = sorted(marks, key=lambda mark: -mark.serial)
    return {mark: tuple(s for s in splits if s.source is mark) for mark in by_serial}


def _extents_not_one(marks: Mapping[Var, IterMark]) -> list[IterMark]:
    return [m for m in marks.values() if not (isinstance(m.extent, Const) and m.extent.value == 1)]


def _name(mark: IterMark) -> str:
    if isinstance(mark.source, Var):
        return repr(mark.source)
    names = sorted(v.name for v in variables_under(mark.source.digits))
    return f"the iterator fused of {', '.join(names)}"


def _digit_text(s: IterSplit) -> str:
    low = "" if is_one(s.lower_factor) else f" // {s.lower_factor!r}"
    return f"{_name(s.source)}{low} % {s.extent!r}"


def _describe(ranges: Ranges, e: Expr) -> str:
    parts = [
        f"{var.name} takes {extent!r} values from {start!r}"
        for var, (start, extent) in ranges.items()
        if var in free_vars(e)
    ]
    return ", ".join(parts)
