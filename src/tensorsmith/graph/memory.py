"""Memory planning: where values lie that do not live at the same time, over symbolic sizes.

Sizes are polynomials over dimensions. Those that are multiples of one polynomial, the *unit*, share
a *region*, in which places are whole numbers of units: so two places that are disjoint as ranges of
units are disjoint for all values of the dimensions. A value may also lie in a region of another
unit that is proven to be at least its own. Within a region it is the lowest gap that counts,
largest values first. Source: Pisarchyk and Lee, Efficient memory management for deep neural net
inference, 2020 (greedy by size), extended to symbolic sizes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tensorsmith.arith import Analyzer
from tensorsmith.arith.polynomial import Polynomial
from tensorsmith.ir import Const, Expr, Var, as_expr, const

ALIGN: Final = 64
"""Bytes that divide each place: a line of the cache, and the widest vector."""
LITTLE: Final = 16
"""Multiples of `ALIGN` from which on rounding up to one costs little."""
USUAL: Final = 128
"""What a dimension is taken to be where two sizes are compared that no proof orders."""


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that are needed from one moment to another, both included.

    arena: the innermost arena that may hold them; see `plan_memory`.
    """

    bytes: Expr
    start: int
    end: int
    arena: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A place in an arena, from byte `offset` on."""

    arena: int
    offset: Expr


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """places: one a need. sizes: bytes of each arena that holds something."""

    places: tuple[Place, ...]
    sizes: Mapping[int, Expr]

    @property
    def peak(self) -> Expr:
        """Bytes of all arenas together."""
        total: Expr = const(0)
        for size in self.sizes.values():
            total = total + size
        return Analyzer().simplify(total)


def plan_memory(needs: Sequence[Need], parents: Mapping[int, int] | None = None) -> MemoryPlan:
    """A place for each need; those of needs that meet in time do not overlap.

    parents: of each arena but the outermost the one around it. A need may lie in its arena and all
        around it.
    Cost: needs times places.
    """
    planner = _Planner(dict(parents or {}))
    order = sorted(range(len(needs)), key=lambda n: (-planner.estimate(needs[n]), needs[n].start))
    for n in order:
        planner.put(n, needs[n])
    return planner.plan(len(needs))


@dataclass(frozen=True, slots=True)
class _Occupant:
    need: int
    first: int
    count: int
    start: int
    end: int


@dataclass(slots=True)
class _Region:
    """Places of one unit. extent: how many units there are."""

    arena: int
    unit: Expr
    extent: int = 0
    occupants: list[_Occupant] = field(default_factory=list)

    def gap(self, count: int, start: int, end: int) -> int:
        """The lowest place for `count` units that is free from `start` to `end`; the last one of
        those may lie beyond the extent."""
        first = 0
        meeting = (o for o in self.occupants if o.start <= end and start <= o.end)
        for o in sorted(meeting, key=lambda o: o.first):
            if o.first - first >= count:
                break
            first = max(first, o.first + o.count)
        return first


class _Planner:
    def __init__(self, parents: dict[int, int]) -> None:
        self.parents = parents
        self.facts = Analyzer()
        self.regions: list[_Region] = []
        self._at_most: dict[tuple[Expr, Expr], bool] = {}

    # --- Sizes -------------------------------------------------------------------------------

    def measured(self, size: Expr) -> tuple[Expr, int]:
        """The unit, and how many of them hold `size` bytes; together a multiple of `ALIGN`."""
        simple = self.facts.simplify(size)
        if isinstance(simple, Const):
            return const(1), _rounded(int(simple.value))
        polynomial = self.facts.polynomial(simple)
        content = math.gcd(*polynomial.values())
        if content % ALIGN and content < LITTLE * ALIGN:
            return self.facts.simplify((simple + (ALIGN - 1)) // ALIGN), ALIGN
        unit = {m: c // content for m, c in polynomial.items()}
        return self.facts.from_polynomial(unit), _rounded(content)

    def estimate(self, need: Need) -> float:
        """About how many bytes a need is."""
        size = self.facts.simplify(need.bytes)
        return self._estimated(self.facts.polynomial(size))

    def _estimated(self, polynomial: Polynomial) -> float:
        total = 0.0
        for monomial, coefficient in polynomial.items():
            term = float(coefficient)
            for atom in monomial:
                term *= self._usual(atom)
            total += term
        return total

    def _usual(self, atom: Expr) -> float:
        bounds = self.facts.bounds(atom)
        value = USUAL if isinstance(atom, Var) else USUAL // 2
        low = value if bounds.low is None else max(value, bounds.low)
        return float(low if bounds.high is None else min(low, bounds.high))

    def at_most(self, a: Expr, b: Expr) -> bool:
        """Whether ``a <= b`` is proven for all values of the dimensions."""
        if a is b:
            return True
        if (a, b) not in self._at_most:
            self._at_most[a, b] = self._divides(a, b) or self.facts.prove(a <= b) is True
        return self._at_most[a, b]

    def _divides(self, a: Expr, b: Expr) -> bool:
        """Whether `b` is `a` times factors of at least 1, both products."""
        left, right = self.facts.polynomial(a), self.facts.polynomial(b)
        if len(left) != 1 or len(right) != 1:
            return False
        (m, c), (n, d) = *left.items(), *right.items()
        rest = Counter(n)
        rest.subtract(m)
        if c > d or min(rest.values(), default=0) < 0:
            return False
        atoms = [self.facts.bounds(x).low for x in (*m, *rest.elements())]
        if any(low is None for low in atoms):
            return False
        return all(low >= 0 for low in atoms if low is not None) and all(
            (self.facts.bounds(x).low or 0) >= 1 for x in rest.elements()
        )

    # --- Places ------------------------------------------------------------------------------

    def put(self, number: int, need: Need) -> None:
        """Find a place where nothing has to grow, else the one in the need's own region."""
        unit, count = self.measured(need.bytes)
        region = self._free(need, unit, count) or self._own(need.arena, unit)
        first = region.gap(count, need.start, need.end)
        region.extent = max(region.extent, first + count)
        region.occupants.append(_Occupant(number, first, count, need.start, need.end))

    def _free(self, need: Need, unit: Expr, count: int) -> _Region | None:
        """The smallest region with room for the need as it is."""
        reachable = set(self._around(need.arena))
        found: list[_Region] = []
        for region in self.regions:
            if region.arena not in reachable or not self.at_most(unit, region.unit):
                continue
            if region.gap(count, need.start, need.end) + count <= region.extent:
                found.append(region)
        return min(found, key=lambda r: self._waste(r, unit), default=None)

    def _waste(self, region: _Region, unit: Expr) -> float:
        return 0.0 if region.unit is unit else self._estimated(self.facts.polynomial(region.unit))

    def _around(self, arena: int) -> Iterator[int]:
        current: int | None = arena
        while current is not None:
            yield current
            current = self.parents.get(current)

    def _own(self, arena: int, unit: Expr) -> _Region:
        for region in self.regions:
            if region.arena == arena and region.unit is unit:
                return region
        self.regions.append(_Region(arena, unit))
        return self.regions[-1]

    # --- The plan ----------------------------------------------------------------------------

    def plan(self, count: int) -> MemoryPlan:
        """Regions one after the other in each arena."""
        sizes: dict[int, Expr] = {}
        places: dict[int, Place] = {}
        for region in self.regions:
            base = sizes.get(region.arena, const(0))
            for o in region.occupants:
                offset = self.facts.simplify(base + region.unit * o.first)
                places[o.need] = Place(region.arena, offset)
            sizes[region.arena] = self.facts.simplify(base + region.unit * region.extent)
        return MemoryPlan(tuple(places[n] for n in range(count)), sizes)


def _rounded(count: int) -> int:
    return -(-count // ALIGN) * ALIGN


def bytes_of(shape: Iterable[Expr], element_bytes: int) -> Expr:
    """Bytes of a dense tensor."""
    total: Expr = as_expr(element_bytes)
    for extent in shape:
        total = total * extent
    return total
