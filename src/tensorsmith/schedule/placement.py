"""Where a block may stand: the loops around it, and bindings for just the points needed there.

A block that is put under loops gets new loops inside of them, over those points of its iterators
that one iteration needs. If the loops together take each point once, the iterators stay as they
are. Where neighbouring iterations need the same points, these are computed again: the iterator then
counts from where the iteration's part begins, which an opaque iterator over each loop around tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorsmith.arith import Analyzer
from tensorsmith.arith.iter_inverse import inverse
from tensorsmith.arith.iter_map import Level, detect, detect_iter_map
from tensorsmith.arith.relax import symbolic_range
from tensorsmith.errors import ArithError
from tensorsmith.ir import (
    And,
    Block,
    Const,
    Expr,
    For,
    If,
    Iter,
    IterKind,
    Stmt,
    Var,
    While,
    const,
    free_vars,
    substitute,
)
from tensorsmith.ir.rewrite import substitute_stmt
from tensorsmith.ir.stmt import TRUE, ZERO
from tensorsmith.schedule.dependence import repetitions
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.tree import Site

Range = tuple[Expr, Expr]
"""A start and an extent."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a scope.

    loops: those around it in the scope, outermost first.
    inside: what is known there; outside: what is known outside of the loops.
    condition: what the conditions between the loops say.
    """

    loops: tuple[For, ...]
    inside: Analyzer
    outside: Analyzer
    condition: Expr

    @property
    def ranges(self) -> dict[Var, Range]:
        """The loops' ranges."""
        return {loop.var: (loop.start, loop.extent) for loop in self.loops}


def place_of(site: Site) -> Place:
    """The place where `site` stands."""
    loops: list[For] = []
    condition: Expr = TRUE
    outermost = len(site.around)
    path = (*site.around, site.node)
    for at in reversed(range(len(site.around))):
        s = site.around[at]
        if isinstance(s, (Block, While)):
            break
        outermost = at
        if isinstance(s, For):
            loops.insert(0, s)
        elif isinstance(s, If):
            holds = s.condition if path[at + 1] is s.then else ~s.condition
            condition = holds if condition is TRUE else And(holds, condition)
    outer = Site(path[outermost], site.around[:outermost])
    return Place(tuple(loops), site.analyzer(), outer.analyzer(), condition)


def inside_of(site: Site) -> Site:
    """The body of the loop at `site`."""
    assert isinstance(site.node, For)
    return Site(site.node.body, (*site.around, site.node))


@dataclass(slots=True)
class _Axis:
    """One iterator on its way to new loops: ``start + loop`` with ``loop < extent``."""

    it: Iter
    start: Expr
    extent: Expr
    loop: Var
    keeps_loop: bool
    bounds: list[Expr] = field(default_factory=list)
    """What must hold for the value to lie in the iterator's range, unless it always does."""

    @property
    def binding(self) -> Expr:
        if not self.keeps_loop:
            return self.start
        return self.loop if self.start is ZERO else self.start + self.loop


def regenerate(
    block: Block,
    needed: Mapping[Var, Range],
    place: Place,
    *,
    preserve_unit_loops: bool,
    may_repeat: bool,
) -> tuple[Stmt, set[Var]]:
    """The block under new loops at `place`, for the points `needed` (of iterators left out: all).

    may_repeat: whether points may be computed in several iterations of the loops around.
    Gives also the loops around of which several iterations compute the same points. Raises
    ScheduleError if the loops do not take each point once, and may not repeat.
    """
    repeated = repetitions(block)
    axes = [
        _axis(
            it,
            Var(f"ax{d}"),
            needed.get(it.var, (it.start, it.extent)),
            place,
            preserve_unit_loops=preserve_unit_loops,
        )
        for d, it in enumerate(i for i in block.iters if i not in repeated)
    ]
    clean = _clean_axes(axes, place)
    used = set(free_vars(*(a.binding for a in axes if a in clean)))
    idle = [p for p in place.loops if p.var not in used and not _is_one(p.extent)]
    if not may_repeat and (len(clean) < len(axes) or idle):
        raise ScheduleError(
            f"the loops around would not take each point of block {block.name!r} exactly once",
            given=", ".join(f"{a.it.var.name} = {a.binding!r}" for a in axes),
            where=block.span,
        )
    local = [a for a in axes if a not in clean]
    shared = {v for a in local for v in free_vars(a.start)} | {p.var for p in idle}
    counters = [_counter(p, place) for p in place.loops if p.var in shared]
    made = _with_axes(block, axes, local, counters)
    for a in reversed(axes):
        if a.keeps_loop:
            made = For(a.loop, a.extent, made)
    return made, {p.var for p in place.loops if p.var in shared}


def _axis(it: Iter, loop: Var, needed: Range, place: Place, *, preserve_unit_loops: bool) -> _Axis:
    facts = place.inside
    start, extent = facts.simplify(needed[0]), facts.simplify(needed[1])
    extent = _fixed_extent(extent, place)
    first, whole = facts.simplify(it.start), facts.simplify(it.extent)
    covers = (start <= first) & (start + extent >= first + whole)
    if facts.prove(covers) is True or facts.prove(extent >= whole) is True:
        start, extent = first, whole
    axis = _Axis(it, start, extent, loop, True)
    axis.keeps_loop = preserve_unit_loops or not _is_one(extent)
    with facts.scope():
        facts.bind(axis.loop, 0, extent)
        value = axis.binding
        for inside in (first <= value, value < first + whole):
            if facts.prove(inside) is not True:
                axis.bounds.append(facts.simplify(inside))
    return axis


def _fixed_extent(extent: Expr, place: Place) -> Expr:
    """`extent`, or a bound of it that is the same in all iterations."""
    loop_vars = {p.var for p in place.loops}
    high = place.inside.bounds(extent).high
    if high is not None:
        return const(high)
    if not loop_vars.intersection(free_vars(extent)):
        return extent
    bounds = symbolic_range(extent, place.loops, place.inside)
    return extent if bounds is None else bounds[1]


def _is_one(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 1


def _clean_axes(axes: Sequence[_Axis], place: Place) -> list[_Axis]:
    """Axes whose values the loops take each exactly once, together."""
    if _each_point_once(axes, place):
        return list(axes)
    apart = [a for a in axes if _each_point_once([a], place)]
    if _each_point_once(apart, place):
        return apart
    around = {p.var for p in place.loops}
    return [a for a in apart if not around.intersection(free_vars(a.binding))]


def _each_point_once(axes: Sequence[_Axis], place: Place) -> bool:
    used = set(free_vars(*(a.binding for a in axes)))
    around = {v: r for v, r in place.ranges.items() if v in used}
    ranges = {**around, **{a.loop: (ZERO, a.extent) for a in axes if a.keeps_loop}}
    predicate = place.condition
    for bound in (b for a in axes for b in a.bounds):
        predicate = bound if predicate is TRUE else And(predicate, bound)
    facts = place.outside
    try:
        found = detect_iter_map([a.binding for a in axes], ranges, predicate, analyzer=facts)
    except ArithError:
        return False
    return all(
        facts.equal(start, a.it.start) and facts.equal(extent, a.it.extent)
        for a, start, extent in zip(axes, found.starts, found.extents, strict=True)
    )


def counters(place: Place) -> tuple[Iter, ...]:
    """Opaque iterators over the loops around: of a block that does the same in each iteration."""
    return tuple(_counter(loop, place) for loop in place.loops)


def _counter(loop: For, place: Place) -> Iter:
    """An opaque iterator over a loop around."""
    start, extent = loop.start, loop.extent
    outer = [p for p in place.loops if p is not loop]
    if any(p.var in free_vars(start, extent) for p in outer):
        bounds = symbolic_range(start, outer, place.inside)
        ends = symbolic_range(start + extent, outer, place.inside)
        if bounds is None or ends is None:
            raise ScheduleError(
                f"the range of loop {loop.var.name!r} depends on the loops around it",
                because="the points to compute in one iteration cannot be said",
                where=loop.span,
            )
        start, extent = bounds[0], place.inside.simplify(ends[1] - bounds[0])
    return Iter(Var(f"v{loop.var.name}"), extent, IterKind.OPAQUE, loop.var, start)


def _with_axes(
    block: Block, axes: Sequence[_Axis], local: Sequence[_Axis], counters: Sequence[Iter]
) -> Stmt:
    """The block with new bindings. Iterators in `local` count from the start of their part."""
    at_loop: dict[Expr, Expr] = {c.binding: c.var for c in counters}
    iters: list[Iter] = list(counters)
    values: dict[Expr, Expr] = {}
    predicate: Expr = TRUE
    guard: Expr = TRUE
    for a in axes:
        if a not in local:
            iters.append(replace(a.it, binding=a.binding))
            for bound in a.bounds:
                predicate = bound if predicate is TRUE else And(predicate, bound)
            continue
        new = a.it.var.renamed(a.it.var.name)
        binding: Expr = a.loop if a.keeps_loop else ZERO
        iters.append(Iter(new, a.extent, a.it.kind, binding))
        start = substitute(a.start, at_loop)
        values[a.it.var] = start + new if a.keeps_loop or not _is_one(a.extent) else start
        at_loop[a.loop] = new
        for bound in a.bounds:
            inner = substitute(bound, at_loop)
            guard = inner if guard is TRUE else And(guard, inner)
    made = replace(block, iters=tuple(iters), predicate=predicate)
    if not local:
        return made
    body = _guarded(substitute_stmt(block.body, values), guard)
    init = None if block.init is None else _guarded(substitute_stmt(block.init, values), guard)
    return replace(made, body=body, init=init)


def _guarded(s: Stmt, guard: Expr) -> Stmt:
    return s if guard is TRUE else If(guard, s, span=s.span)


# --- From regions to iterators ---------------------------------------------------------------


def points_touching(
    indices: Sequence[Range], box: Sequence[Range], iters: Sequence[Iter], facts: Analyzer
) -> dict[Var, Range]:
    """Ranges of iterators, so that every point whose part `indices` of a buffer meets `box` is in
    them. Iterators that do not matter, or of which nothing can be said, are left out.

    indices: a start and an extent for each dimension, in terms of the iterators.
    """
    own = {it.var: it for it in iters}
    with facts.scope():
        for it in iters:
            facts.bind(it.var, it.start, it.extent)
        found: dict[Var, Range] = {}
        for (first, width), wanted in zip(indices, box, strict=True):
            solved = _solve_one(first, width, wanted, own, facts)
            if solved is not None and solved[0] not in found:
                found[solved[0]] = solved[1]
        rest = {v for v in free_vars(*(f for f, _ in indices)) if v in own and v not in found}
        if rest:
            general = _solve_all([f for f, _ in indices], box, iters, facts)
            found.update({v: general[v] for v in rest if v in general})
        return found


def _solve_one(
    first: Expr, width: Expr, wanted: Range, own: Mapping[Var, Iter], facts: Analyzer
) -> tuple[Var, Range] | None:
    """From ``first = step * v + rest``, the values of v for which the part meets `wanted`."""
    index = facts.simplify(first)
    inside = [v for v in free_vars(index) if v in own]
    if len(inside) != 1:
        return None
    (v,) = inside
    step = facts.simplify(substitute(index, {v: v + 1}) - index)
    if own.keys() & set(free_vars(step)) or facts.prove(step > 0) is not True:
        return None
    rest = facts.simplify(substitute(index, {v: ZERO}))
    start, extent = wanted
    if _is_one(step) and _is_one(width):
        return v, (facts.simplify(start - rest), facts.simplify(extent))
    # The least v with step * v + rest + width > start, the greatest with step * v + rest < stop.
    low = facts.simplify((start - rest - width + step) // step)
    high = facts.simplify((start + extent - 1 - rest) // step)
    return v, (low, facts.simplify(high - low + 1))


def _solve_all(
    indices: Sequence[Expr], box: Sequence[Range], iters: Sequence[Iter], facts: Analyzer
) -> dict[Var, Range]:
    """By the inverse of the map from iterators to indices, if it has one."""
    used = set(free_vars(*indices))
    ranges = {it.var: (it.start, it.extent) for it in iters if it.var in used}
    outputs = [Var(f"o{d}") for d in range(len(indices))]
    try:
        detected = detect(indices, ranges, TRUE, level=Level.INJECTIVE, analyzer=Analyzer())
        values = inverse(detected, outputs)
    except ArithError:
        return {}
    loops = [
        Iter(o, extent, IterKind.SPATIAL, o, start)
        for o, (start, extent) in zip(outputs, box, strict=True)
    ]
    found: dict[Var, Range] = {}
    with facts.scope():
        for loop in loops:
            facts.bind(loop.var, loop.start, loop.extent)
        for v, value in values.items():
            bounds = symbolic_range(facts.simplify(value), loops, facts)
            if bounds is not None:
                found[v] = bounds[0], facts.simplify(bounds[1] - bounds[0] + 1)
    return found
