"""Whether the iterations of a loop meet in a buffer.

They do not if each touches elements of its own (`touch_apart`), or if every element that one reads
was written before in the same iteration (`reads_are_written`): then each may have a buffer of its
own. Both give False where this cannot be proven.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product

from tensorsmith.arith.accesses import MOST_GUARDS, Access
from tensorsmith.arith.analyzer import Analyzer
from tensorsmith.arith.iter_map import Level, detect
from tensorsmith.arith.regions import relaxed_region, union_region
from tensorsmith.errors import ArithError
from tensorsmith.ir.buffer import Region
from tensorsmith.ir.expr import (
    And,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    Le,
    Load,
    Lt,
    Var,
    const,
    free_vars,
    postorder,
    substitute,
)
from tensorsmith.ir.rewrite import children, expressions
from tensorsmith.ir.stmt import TRUE, Block, For, If, Stmt, Store, While

# --- Apart -----------------------------------------------------------------------------------


def touch_apart(loop: For, accesses: Sequence[Access], facts: Analyzer) -> bool:
    """Whether no element that an iteration of `loop` writes is touched by another one.

    accesses: all those of one buffer in the loop's body. facts: with the range of the loop.
    """
    if not any(a.is_write for a in accesses):
        return True
    box = union_region([relaxed_region(a, facts) for a in accesses], facts)
    if any(_moves_apart(loop, start, extent, facts) for start, extent in box.ranges):
        return True
    if _on_a_grid(loop, box, facts):
        return True
    writes = [a for a in accesses if a.is_write]
    return all(_meet_themselves_only(loop, w, a, facts) for w, a in product(writes, accesses))


def _moves_apart(loop: For, start: Expr, extent: Expr, facts: Analyzer) -> bool:
    """Whether the range moves by at least its extent from one iteration to the next."""
    following = substitute(start, {loop.var: loop.var + 1})
    step = facts.simplify(following - start)
    if loop.var in free_vars(step, extent):
        return False
    return facts.prove(step >= extent) is True or facts.prove(step <= -extent) is True


def _on_a_grid(loop: For, box: Region, facts: Analyzer) -> bool:
    """Whether the boxes of the iterations are different tiles of one grid."""
    places: list[Expr] = []
    for start, extent in box.ranges:
        if loop.var in free_vars(extent) or facts.prove(extent > 0) is not True:
            return False
        moved = facts.simplify(start - substitute(start, {loop.var: loop.start}))
        if not facts.equal(FloorMod(moved, extent), 0):
            return False
        places.append(facts.simplify(FloorDiv(moved, extent)))
    return _is_injective(places, {loop.var: (loop.start, loop.extent)}, facts)


def _is_injective(
    indices: Sequence[Expr],
    ranges: Mapping[Var, tuple[Expr, Expr]],
    facts: Analyzer,
    guards: Sequence[Expr] = (),
) -> bool:
    """Whether different values of the variables of `ranges`, those for which all `guards` hold,
    give different indices."""
    bounds = [g for g in guards if isinstance(g, (Lt, Le)) and ranges.keys() & set(free_vars(g))]
    together: Expr = TRUE
    for bound in bounds:
        together = bound if together is TRUE else And(together, bound)
    for predicate in dict.fromkeys((TRUE, together)):
        for written in dict.fromkeys((tuple(indices), tuple(_joined(indices)))):
            try:
                detect(written, ranges, predicate, level=Level.INJECTIVE, analyzer=facts)
            except ArithError:
                continue
            return True
    return False


def _joined(indices: Sequence[Expr]) -> list[Expr]:
    """The indices with the parts of one number, ``x // n`` and ``x % n``, joined to ``x`` again:
    they tell the same apart."""
    found = list(indices)
    while True:
        pairs = ((a, b) for a, b in permutations(found, 2) if _joint(a, b) is not None)
        pair = next(pairs, None)
        if pair is None:
            return found
        joint = _joint(*pair)
        assert joint is not None
        found = [joint, *(e for e in found if e is not pair[0] and e is not pair[1])]


def _joint(high: Expr, low: Expr) -> Expr | None:
    """What two indices are parts of: ``x`` of ``x // n`` and ``x % n``, ``x % (n * m)`` of
    ``x // n % m`` and ``x % n``."""
    if not isinstance(low, FloorMod) or not isinstance(low.args[1], Const):
        return None
    x, n = low.args
    assert isinstance(n, Const)
    if isinstance(high, FloorDiv) and high.args == (x, n):
        return x
    if isinstance(high, FloorMod):
        inner, m = high.args
        if isinstance(m, Const) and isinstance(inner, FloorDiv) and inner.args == (x, n):
            return FloorMod(x, const(int(n.value) * int(m.value)))
    return None


def _meet_themselves_only(loop: For, w: Access, a: Access, facts: Analyzer) -> bool:
    """Whether both accesses are one function of their loops that never gives an element twice."""
    mine, theirs = _moving(loop, w), _moving(loop, a)
    if mine is None or theirs is None or len(mine) != len(theirs):
        return False
    renamed: dict[Expr, Expr] = {
        b.var: f.var for f, b in zip(mine.values(), theirs.values(), strict=True)
    }
    for own, other in zip(mine.values(), theirs.values(), strict=True):
        start, extent = (substitute(e, renamed) for e in (other.start, other.extent))
        if not (facts.equal(start, own.start) and facts.equal(extent, own.extent)):
            return False
    indices = [start for start, _ in w.region.ranges]
    theirs_too = [substitute(start, renamed) for start, _ in a.region.ranges]
    if not all(facts.equal(x, y) for x, y in zip(indices, theirs_too, strict=True)):
        return False
    ranges = {v: (x.start, x.extent) for v, x in mine.items()}
    if loop.var not in ranges or any(v in ranges for r in ranges.values() for v in free_vars(*r)):
        return False
    same = {substitute(g, renamed) for g in a.guards}
    others = {x.var for x in w.loops}.difference(ranges)
    guards = [
        g for g in w.guards if g in same and not _is_data(g, w) and others.isdisjoint(free_vars(g))
    ]
    return _is_injective(indices, ranges, facts, guards)


def _moving(loop: For, a: Access) -> dict[Var, For] | None:
    """The loops whose variables pick the element, in order of use; None if more does."""
    loops = {x.var: x for x in (loop, *a.loops)}
    for start, extent in a.region.ranges:
        if not (isinstance(extent, Const) and extent.value == 1) or _is_data(start, a):
            return None
    used = free_vars(*(start for start, _ in a.region.ranges))
    return {v: loops[v] for v in used if v in loops}


def _is_data(e: Expr, a: Access) -> bool:
    return any(isinstance(x, Load) or x in a.unknown for x in postorder(e))


# --- Written before read ---------------------------------------------------------------------


def reads_are_written(accesses: Sequence[Access], body: Stmt, facts: Analyzer) -> bool:
    """Whether every element that a run of `body` reads of a buffer was written before in that run.

    accesses: all those of the buffer in `body`, in order of the text.
    """
    unknown = accesses[0].unknown if accesses else frozenset()
    skipped = _perhaps_skipped(body, unknown)
    writes: list[Access] = []
    for a in accesses:
        if not a.is_write and not any(_Cover(w, a, facts).holds() for w in writes):
            return False
        if a.is_write and isinstance(a.stmt, Store) and a.stmt not in skipped:
            writes.append(a)
    return True


def _perhaps_skipped(root: Stmt, unknown: frozenset[Var]) -> set[Stmt]:
    """The statements that data decide whether to do."""
    found: set[Stmt] = set()
    stack = [(root, False)]
    while stack:
        s, skipped = stack.pop()
        if skipped:
            found.add(s)
        inner = skipped or isinstance(s, While) or _data_decide(s, unknown)
        stack.extend((c, inner) for c in children(s))
    return found


def _data_decide(s: Stmt, unknown: frozenset[Var]) -> bool:
    if isinstance(s, Block):
        deciding: tuple[Expr, ...] = (s.predicate,)
    elif isinstance(s, (If, For)):
        deciding = tuple(expressions(s))
    else:
        return False
    return any(isinstance(e, Load) or e in unknown for e in postorder(*deciding))


@dataclass(slots=True)
class _Cover:
    """Whether the element that `read` takes was written by `write`, which stands before it.

    The loops around both have the same values for both, but those that the write's guards hold at
    their first value (an init): there the write happened in an earlier iteration or the same. The
    loops around the write alone take the values that give the element.
    """

    write: Access
    read: Access
    facts: Analyzer
    values: dict[Expr, Expr] = field(default_factory=dict)

    def holds(self) -> bool:
        with self.facts.scope():
            try:
                for loop in self.read.loops:
                    self.facts.bind(loop.var, loop.start, loop.extent)
                element = self._element()
            except ArithError:  # never read
                return True
            for guard in self.read.guards:
                self.facts.learn(guard)
            return element is not None and self._reaches(element)

    def _element(self) -> list[Expr] | None:
        """Any element that is read, in terms of new variables where it is one of several."""
        element: list[Expr] = []
        for axis, (start, extent) in enumerate(self.read.region.ranges):
            if isinstance(extent, Const) and extent.value == 1 and not _is_data(start, self.read):
                element.append(start)
                continue
            place = Var(f"element{axis}")
            if _is_data(start, self.read) or _is_data(extent, self.read):
                start, extent = const(0), self.read.region.buffer.shape[axis]  # noqa: PLW2901
            self.facts.bind(place, start, extent)
            element.append(place)
        return element

    def _reaches(self, element: list[Expr]) -> bool:
        if len(self.write.guards) >= MOST_GUARDS:
            return False
        common = self.read.relaxed
        own = [loop for loop in self.write.loops if loop.var not in common]
        for (start, _), target in zip(self.write.region.ranges, element, strict=True):
            if _is_data(start, self.write):
                return False
            self._solve(start, target, own)
        for guard in self.write.guards:
            self._meet(guard)
        if not all(self._is_met(guard) for guard in self.write.guards):
            return False
        if not all(self._runs(loop, common) for loop in self.write.loops):
            return False
        return all(
            self.facts.equal(substitute(start, self.values), target)
            for (start, _), target in zip(self.write.region.ranges, element, strict=True)
        )

    def _solve(self, index: Expr, target: Expr, own: Sequence[For]) -> None:
        """Values for the loops of `own` that the index uses, as digits of what they must give."""
        used = [x for x in own if x.var in free_vars(index) and x.var not in self.values]
        weights: list[tuple[int, For]] = []
        for loop in used:
            step = self.facts.simplify(substitute(index, {loop.var: loop.var + 1}) - index)
            if not isinstance(step, Const) or int(step.value) <= 0:
                return
            weights.append((int(step.value), loop))
        if not weights:
            return
        weights.sort(key=lambda w: w[0])
        firsts: dict[Expr, Expr] = {x.var: x.start for x in used}
        rest = self.facts.simplify(target - substitute(index, {**self.values, **firsts}))
        for at, (weight, loop) in enumerate(weights):
            digit = rest if weight == 1 else FloorDiv(rest, const(weight))
            if at + 1 < len(weights):
                digit = FloorMod(digit, loop.extent)
            self.values[loop.var] = self.facts.simplify(digit + loop.start)

    def _is_met(self, guard: Expr) -> bool:
        return self.facts.prove(substitute(guard, self.values)) is True

    def _meet(self, guard: Expr) -> None:
        """Give the loops of a guard that does not hold in general their first values."""
        if self._is_met(guard):
            return
        used = free_vars(guard)
        for loop in self.write.loops:
            if loop.var in used and loop.var not in self.values:
                self.values[loop.var] = substitute(loop.start, self.values)

    def _runs(self, loop: For, common: frozenset[Expr]) -> bool:
        """Whether the loop around the write takes the value that is asked of it."""
        start, extent = (substitute(e, self.values) for e in (loop.start, loop.extent))
        value = self.values.get(loop.var)
        if value is None and loop.var in common:
            if start is loop.start and extent is loop.extent:
                return True
            value = loop.var
        if value is None:
            return self.facts.prove(extent > 0) is True
        return self.facts.prove((start <= value) & (value < start + extent)) is True
