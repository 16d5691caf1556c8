"""Axes that are always used together become one.

Two neighbouring axes of a tensor are one axis to a program in which every access goes through both
of them side by side. So the sum of two tensors (batch, length, 768) is a loop over one axis, and
a product of such a tensor with a matrix has one axis of rows: programs are simpler, schedules need
to know less, and more programs are the same. Axes of extent 1 go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

from tensorsmith.arith import Analyzer
from tensorsmith.ir import Const, Expr, Load, Var, const, free_vars, postorder, transform
from tensorsmith.te.compute import Compute, compute
from tensorsmith.te.graph import definitions_under
from tensorsmith.te.reduce import ReduceAxis, Reduction, reduce_axis
from tensorsmith.te.tensor import Definition, Tensor, make_tensor

Pair: TypeAlias = "tuple[Expr, Expr]"
Groups: TypeAlias = "tuple[tuple[int, ...], ...]"
"""For each new axis the old ones that it stands for; those of extent 1 are in none."""


@dataclass(frozen=True, slots=True)
class Collapsed:
    """Tensors by their new shapes: the outputs in order, and each input that is read.

    extents: what the new variables stand for.
    """

    outputs: tuple[Tensor, ...]
    inputs: dict[Tensor, Tensor]
    extents: dict[Var, Expr]


def collapse(outputs: Sequence[Tensor], given: Collection[Tensor]) -> Collapsed:
    """The same computation over as few axes as possible.

    given: what is taken as it is, though by other shapes of as many elements in the same order. An
    extent that is the product of several is a new variable, unless it is constant; so is one that
    is not known to be at least 0. What is no
    `compute` keeps its axes, and so does all that it depends on.
    """
    definitions = definitions_under(outputs, given)
    pairs = _Pairs(definitions)
    pairs.settle()
    return _Rebuilding(pairs).run(definitions, outputs)


class _Pairs:
    """Which neighbouring axes go together: of tensors by place, of definitions by variable.

    kept: of each tensor the axes that are not known to be of extent 1.
    units: what stands for the axes of definitions that are.
    """

    def __init__(self, definitions: Sequence[Definition]) -> None:
        self.facts = Analyzer()
        self.fixed = _fixed(definitions)
        self.kept: dict[Tensor, tuple[int, ...]] = {}
        self.tensors: dict[Tensor, set[tuple[int, int]]] = {}
        for t in dict.fromkeys(t for d in definitions for t in (*d.inputs, *d.outputs)):
            is_fixed = t in self.fixed
            self.kept[t] = tuple(
                at for at, e in enumerate(t.shape) if is_fixed or not self.is_one(e)
            )
            self.tensors[t] = set() if is_fixed else set(pairwise(self.kept[t]))
        self.units: dict[Expr, Expr] = {}
        self.extents: dict[Expr, Expr] = {}
        self.axes: dict[Compute, set[Pair]] = {}
        self.loads: dict[Compute, list[Load]] = {}
        for d in definitions:
            if isinstance(d, Compute):
                self._start(d)

    def is_one(self, e: Expr) -> bool:
        """Whether an extent is known to be 1."""
        return isinstance(e, Const) and e.value == 1

    def is_open(self, t: Tensor) -> bool:
        """Whether an extent of a tensor that may change is not known to be at least 0."""
        return t not in self.fixed and any(is_open(e, self.facts) for e in t.shape)

    def spatial(self, d: Compute) -> list[Var]:
        """The axes of a definition that count."""
        return [d.axes[at] for at in self.kept[d.outputs[0]]]

    def reduced(self, d: Compute) -> list[ReduceAxis]:
        """The reduced axes that count; at least one of a reduction stays."""
        axes = list(d.reductions[0].axes) if d.reductions else []
        if d.outputs[0] in self.fixed:
            return axes
        return [a for a in axes if not self.is_one(a.extent)] or axes[:1]

    def simple(self, e: Expr) -> Expr:
        """An expression without axes of extent 1, with simple indices."""

        def change(x: Expr) -> Expr | None:
            if not isinstance(x, Load):
                return self.units.get(x)
            plain = (Var, Const)
            at = tuple(i if isinstance(i, plain) else self.facts.simplify(i) for i in x.indices)
            return None if at == x.indices else Load(x.buffer, at)

        return transform(e, change)

    def elements(self, d: Compute) -> Iterator[Expr]:
        """What a definition evaluates at a point."""
        yield from map(self.simple, d.values)
        for reduction in d.reductions:
            yield from map(self.simple, reduction.values)
            if reduction.where is not None:
                yield self.simple(reduction.where)

    def _start(self, d: Compute) -> None:
        spatial, reduced = self.spatial(d), self.reduced(d)
        self.units.update((v, const(0)) for v in d.axes if v not in spatial)
        for axis in d.reductions[0].axes if d.reductions else ():
            if axis not in reduced:
                self.units[axis.var] = axis.start
        self.extents.update(zip(d.axes, d.outputs[0].shape, strict=True))
        self.extents.update((a.var, a.extent) for a in reduced)
        elements = list(self.elements(d))
        self.loads[d] = [
            e for e in postorder(*elements) if isinstance(e, Load) and isinstance(e.buffer, Tensor)
        ]
        found: set[Pair] = set(pairwise(spatial))
        if all(isinstance(a.start, Const) and a.start.value == 0 for a in reduced):
            found.update((a.var, b.var) for a, b in pairwise(reduced))
        other = _used_elsewhere(d, elements)
        if any(o in self.fixed for o in d.outputs):
            found = set()
        self.axes[d] = {(a, b) for a, b in found if a not in other and b not in other}

    def settle(self) -> None:
        """Drop pairs until all that are left agree."""
        before = -1
        while before != (now := self._count()):
            before = now
            for d in self.axes:
                self._agree(d)

    def _count(self) -> int:
        return sum(map(len, self.tensors.values())) + sum(map(len, self.axes.values()))

    def _agree(self, d: Compute) -> None:
        own = self.axes[d]
        for output in d.outputs:
            places = self.tensors[output]
            kept = self.kept[output]
            for a, b in pairwise(kept):
                pair = d.axes[a], d.axes[b]
                if pair not in own or (a, b) not in places:
                    own.discard(pair)
                    places.discard((a, b))
        for load in self.loads[d]:
            assert isinstance(load.buffer, Tensor)
            places = self.tensors[load.buffer]
            places -= {p for p in places if not self._is_together(load, p, own)}
            kept = self.kept[load.buffer]
            own -= {p for p in own if not _is_whole(load, p, kept, places)}

    def _is_together(self, load: Load, place: tuple[int, int], own: set[Pair]) -> bool:
        """Whether a load goes through two axes as through one."""
        pair = load.indices[place[0]], load.indices[place[1]]
        if pair in own:
            shape = (load.buffer.shape[at] for at in place)
            return all(map(self.facts.equal, shape, (self.extents[e] for e in pair)))
        return all(isinstance(i, Const) and i.value == 0 for i in pair)


def is_open(extent: Expr, facts: Analyzer) -> bool:
    """Whether an extent is an expression that is not known to be at least 0."""
    return not isinstance(extent, (Const, Var)) and facts.prove(extent >= 0) is not True


def _fixed(definitions: Sequence[Definition]) -> set[Tensor]:
    """The tensors that stay as they are: what is no compute makes them, or depends on them."""
    fixed: set[Tensor] = set()
    for d in reversed(definitions):
        if not isinstance(d, Compute) or not fixed.isdisjoint(d.outputs):
            fixed.update(d.inputs, d.outputs)
    return fixed


def _is_whole(
    load: Load, pair: Pair, kept: Sequence[int], places: Collection[tuple[int, int]]
) -> bool:
    """Whether a load has both variables of a pair side by side, or neither."""
    first, second = ([at for at, i in enumerate(load.indices) if v in free_vars(i)] for v in pair)
    if not first and not second:
        return True
    if len(first) != 1 or len(second) != 1:
        return False
    place = (*first, *second)
    is_plain = load.indices[place[0]] is pair[0] and load.indices[place[1]] is pair[1]
    return is_plain and place in places


def _used_elsewhere(d: Compute, elements: Sequence[Expr]) -> set[Expr]:
    """The variables that are more than an index of what is loaded."""
    other: set[Expr] = set()
    seen: set[Expr] = set()
    stack = list(elements)
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if isinstance(e, Load):
            stack.extend(i for i in e.indices if not isinstance(i, Var))
        elif isinstance(e, Var):
            other.add(e)
        else:
            stack.extend(e.args)
    for reduction in d.reductions:
        for axis in reduction.axes:
            other.update(free_vars(axis.start, axis.extent))
    return other


@dataclass(slots=True)
class _Rebuilding:
    """The definitions on their way to fewer axes."""

    pairs: _Pairs
    made: dict[Tensor, Tensor] = field(default_factory=dict)
    extents: dict[Expr, Var] = field(default_factory=dict)

    def run(self, definitions: Sequence[Definition], outputs: Sequence[Tensor]) -> Collapsed:
        inputs: dict[Tensor, Tensor] = {}
        for d in definitions:
            for t in d.inputs:
                if t not in self.made:
                    inputs[t] = self.made[t] = self.input(t)
            if isinstance(d, Compute) and self.changes(d):
                self.made.update(zip(d.outputs, self.compute(d), strict=True))
            else:
                self.made.update((o, o) for o in d.outputs)
        extents = {v: e for e, v in self.extents.items()}
        return Collapsed(tuple(self.made[o] for o in outputs), inputs, extents)

    def changes(self, d: Compute) -> bool:
        """Whether the definition, or a tensor that it reads, changes."""
        if self.pairs.is_open(d.outputs[0]) or any(self.made[t] is not t for t in d.inputs):
            return True
        if bool(self.pairs.axes[d]) or len(self.pairs.kept[d.outputs[0]]) < len(d.axes):
            return True
        return any(len(self.pairs.reduced(d)) < len(r.axes) for r in d.reductions)

    def groups(self, t: Tensor) -> Groups:
        """The axes of a tensor that become one."""
        found: list[list[int]] = []
        for at in self.pairs.kept[t]:
            if found and (found[-1][-1], at) in self.pairs.tensors[t]:
                found[-1].append(at)
            else:
                found.append([at])
        return tuple(map(tuple, found))

    def input(self, t: Tensor) -> Tensor:
        groups = self.groups(t)
        if len(groups) == t.rank and not self.pairs.is_open(t):
            return t
        return make_tensor(t.name, self.joined(t.shape, groups), t.dtype, t.span)

    def joined(self, shape: Sequence[Expr], groups: Groups) -> tuple[Expr, ...]:
        """The extents of the groups of a shape."""
        return tuple(self.extent([shape[at] for at in group]) for group in groups)

    def extent(self, extents: Sequence[Expr]) -> Expr:
        """The product of extents: a constant, or a variable for it."""
        facts = self.pairs.facts
        if len(extents) == 1 and not is_open(extents[0], facts):
            return extents[0]
        total: Expr = const(1)
        for e in extents:
            total = total * e
        total = facts.simplify(total)
        if isinstance(total, (Const, Var)):
            return total
        if total not in self.extents:
            congruence = facts.congruence(total)
            of = congruence.modulus if congruence.residue == 0 else 1
            low = max(facts.bounds(total).low or 0, 0)
            self.extents[total] = Var("points", low=low, multiple_of=max(of, 1))
        return self.extents[total]

    # --- Definitions -------------------------------------------------------------------------

    def compute(self, d: Compute) -> tuple[Tensor, ...]:
        """The definition over fewer axes."""
        shape = self.joined(d.outputs[0].shape, self.groups(d.outputs[0]))
        together = self.pairs.axes[d]
        runs = list(_runs(self.pairs.spatial(d), together))
        over = {
            run[0].var: self.reduced(run) for run in _reduced_runs(self.pairs.reduced(d), together)
        }
        variables: dict[Expr, Expr] = {v: axis.var for v, axis in over.items()}
        fresh = [Var(run[0].name) for run in runs]
        variables.update((run[0], v) for run, v in zip(runs, fresh, strict=True))

        def changed(e: Expr) -> Expr:
            return transform(self.pairs.simple(e), lambda x: self.replaced(x, variables))

        if d.reductions:
            parts = [_with(r, tuple(over.values()), changed) for r in d.reductions]
            found = _computed(d, shape, fresh, parts)
        else:
            found = _computed(d, shape, fresh, [changed(e) for e in d.values])
        return found

    def reduced(self, run: Sequence[ReduceAxis]) -> ReduceAxis:
        if len(run) == 1:
            return run[0]
        return reduce_axis(self.extent([a.extent for a in run]), run[0].var.name)

    def replaced(self, e: Expr, variables: dict[Expr, Expr]) -> Expr | None:
        """A load of a tensor by its new axes; a variable's stand-in."""
        if not isinstance(e, Load) or e.buffer not in self.made:
            return variables.get(e)
        assert isinstance(e.buffer, Tensor)
        indices = tuple(e.indices[group[0]] for group in self.groups(e.buffer))
        return Load(self.made[e.buffer], indices)


def _runs(axes: Sequence[Var], together: Collection[Pair]) -> Iterator[list[Var]]:
    """Axes in runs that become one."""
    run: list[Var] = []
    for axis in axes:
        if run and (run[-1], axis) not in together:
            yield run
            run = []
        run.append(axis)
    if run:
        yield run


def _reduced_runs(
    axes: Sequence[ReduceAxis], together: Collection[Pair]
) -> Iterator[list[ReduceAxis]]:
    by_variable = {a.var: a for a in axes}
    for run in _runs([a.var for a in axes], together):
        yield [by_variable[v] for v in run]


def _with(r: Reduction, axes: tuple[ReduceAxis, ...], changed: Callable[[Expr], Expr]) -> Reduction:
    """A reduction of changed values over other axes."""
    where = None if r.where is None else changed(r.where)
    return replace(r, values=tuple(changed(v) for v in r.values), axes=axes, where=where)


def _computed(
    d: Compute, shape: Sequence[Expr], axes: Sequence[Var], elements: Sequence[Expr | Reduction]
) -> tuple[Tensor, ...]:
    """The definition with other axes and elements."""

    def element(*at: Expr) -> tuple[Expr | Reduction, ...]:
        own: dict[Expr, Expr] = dict(zip(axes, at, strict=True))
        return tuple(_at(e, own) for e in elements)

    return compute(shape, element, d.name, attrs=d.attrs)


def _at(e: Expr | Reduction, own: dict[Expr, Expr]) -> Expr | Reduction:
    """An element at other axes."""

    def changed(x: Expr) -> Expr:
        return transform(x, own.get)

    return changed(e) if isinstance(e, Expr) else _with(e, e.axes, changed)
