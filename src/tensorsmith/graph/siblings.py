"""Products of one tensor by known weights become one product, of which each takes a slice.

Query, key and value are three products of one tensor; so are the branches of a network that begin
with a convolution of one point. As one product they read the tensor once, start threads once, and
share tiles that the narrow ones leave partly empty. What follows each alike, a bias or a relu, is
done on the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tensorsmith.arith import Analyzer
from tensorsmith.errors import TensorsmithError
from tensorsmith.graph.analysis import analyse
from tensorsmith.graph.dead_code import eliminate_dead_code
from tensorsmith.graph.kernel import Array, Operators
from tensorsmith.graph.rewrite import rewrite, uses_of
from tensorsmith.graph.sibling_costs import Family, pays
from tensorsmith.graph.slices import SLICES
from tensorsmith.ir import Buffer, IRModule, as_expr
from tensorsmith.ir.dtype import dtype as as_dtype
from tensorsmith.ir.graph import (
    Apply,
    Binding,
    Body,
    Branch,
    Constant,
    GraphFunction,
    Loop,
    Value,
)
from tensorsmith.ops import OPERATORS
from tensorsmith.ops.operator import placeholders, result_types
from tensorsmith.ops.requirements import collecting
from tensorsmith.te.kind import Access, Kind


def join_siblings(module: IRModule, *, operators: Operators = OPERATORS) -> IRModule:
    """Have products of one tensor by known weights computed as one where that is faster.

    Before: any graph functions. After: the same results, but for the order of sums. Products by
    weights of one kind are one product by all of them side by side, with what follows each alike;
    `slice` gives each its part. Whether it pays says `tensorsmith.graph.sibling_costs`. Gives
    `module` itself if there are none.
    """
    graphs = {name: _Joining(operators).function(g) for name, g in module.graphs.items()}
    if all(graphs[name] is graph for name, graph in module.graphs.items()):
        return module
    joined = replace(module, functions={**module.functions, **graphs})
    return eliminate_dead_code(rewrite(joined, SLICES, operators=operators))


def siblings(graph: GraphFunction, *, operators: Operators = OPERATORS) -> tuple[Family, ...]:
    """The products of a function that `join_siblings` computes together."""
    joining = _Joining(operators)
    joining.function(graph)
    return tuple(joining.joined)


@dataclass(frozen=True, slots=True)
class _Role:
    """Where a product has what is made: the axis of the weight, and that of the result."""

    weight: int
    result: int


def _role(apply: Apply) -> _Role | None:
    """The axes of a product by weights that can stand side by side; None if it is none."""
    if len(apply.operands) < 2 or len(apply.results) != 1:
        return None
    weight, (result,) = apply.operands[1], apply.results
    if weight is None or result.layout is not None:
        return None
    if apply.op == "conv" and apply.attrs.get("groups", 1) == 1:
        return _Role(0, 1)
    if apply.op == "gemm":
        return _Role(0 if apply.attrs.get("trans_b") else 1, 1)
    if apply.op == "matmul" and weight.rank == 2 and result.rank >= 2:
        return _Role(1, result.rank - 1)
    return None


class _Joining:
    """A walk over one function. joined: the families that became one product."""

    def __init__(self, operators: Operators) -> None:
        self.operators = operators
        self.constants: dict[Buffer, Array] = {}
        self.uses: Counter[Value] = Counter()
        self.joined: list[Family] = []

    def function(self, graph: GraphFunction) -> GraphFunction:
        self.uses = uses_of(graph.body, graph.results)
        body = self.sequence(graph.body)
        return graph if body is graph.body else replace(graph, body=body)

    def sequence(self, given: tuple[Binding, ...]) -> tuple[Binding, ...]:
        """The bindings of a function or body; `given` itself if nothing is joined."""
        self.constants.update((b.result, b.data) for b in given if isinstance(b, Constant))
        families = list(self.families(given))
        self.joined += families
        first = {family.members[0]: family for family in families}
        gone = {a for family in families for a in family.applies}
        made: list[Binding] = []
        for b in given:
            if isinstance(b, Apply) and b in gone:
                made += self.one(first[b]) if b in first else ()
            else:
                made.append(self.inside(b))
        same = len(made) == len(given) and all(a is b for a, b in zip(made, given, strict=True))
        return given if same else tuple(made)

    def inside(self, b: Binding) -> Binding:
        """The binding with what is joined in its bodies."""
        if isinstance(b, Branch):
            then, orelse = self.body(b.then), self.body(b.orelse)
            same = then is b.then and orelse is b.orelse
            return b if same else replace(b, then=then, orelse=orelse)
        if isinstance(b, Loop):
            body = self.body(b.body)
            return b if body is b.body else replace(b, body=body)
        return b

    def body(self, body: Body) -> Body:
        bindings = self.sequence(body.bindings)
        return body if bindings is body.bindings else replace(body, bindings=bindings)

    # --- Families ----------------------------------------------------------------------------

    def families(self, bindings: Sequence[Binding]) -> Iterator[Family]:
        """The products of each tensor that are worth to be one."""
        users = _users(bindings)
        alike: dict[Hashable, list[Apply]] = {}
        for b in bindings:
            key = self.key(b) if isinstance(b, Apply) else None
            if key is not None:
                assert isinstance(b, Apply)
                alike.setdefault(key, []).append(b)
        for members in alike.values():
            role = _role(members[0])
            assert role is not None
            yield from self.chosen(Family(tuple(members), (), role.result, role.weight), users)

    def key(self, apply: Apply) -> Hashable:
        """What products that can be one have in common; None for what is no such product."""
        role = _role(apply)
        if role is None or any(o not in self.constants for o in apply.operands[1:]):
            return None
        x, weight, *rest = apply.operands
        assert weight is not None
        kept = tuple(e for d, e in enumerate(weight.shape) if d != role.weight)
        parts = (*(None if o is None else (o.rank, o.dtype.name) for o in rest),)
        attrs = tuple(sorted(apply.attrs.items()))
        return (apply.op, x, attrs, kept, weight.dtype.name, parts)

    def chosen(self, family: Family, users: Mapping[Value, Sequence[Apply]]) -> Iterator[Family]:
        """The family, with what follows, if it pays; else less those whose results are joined with
        others, which costs nothing where they are made apart."""
        apart = tuple(m for m in family.members if not self.is_for_a_join(m, users))
        for members in (apart, family.members):
            if len(members) < 2:
                continue
            whole = replace(family, members=members, followers=())
            whole = replace(whole, followers=self.followers(whole, users))
            moved = [v for a in whole.last for v in a.results if not self.is_for_products(v, users)]
            if pays(whole, moved):
                yield whole
                return

    def is_for_a_join(self, apply: Apply, users: Mapping[Value, Sequence[Apply]]) -> bool:
        """Whether the result, after what follows element by element, is joined with others."""
        value = apply.results[0]
        while len(found := users.get(value, ())) == 1:
            if self.follower_key(found[0], {value: 0}) is None:
                return found[0].op == "concat"
            value = found[0].results[0]
        return False

    def is_for_products(self, value: Value, users: Mapping[Value, Sequence[Apply]]) -> bool:
        """Whether products alone read a value, or what moves its elements: they read a slice as it
        lies in the whole."""
        found = users.get(value, ())
        if len(found) != self.uses[value]:
            return False
        for user in found:
            try:
                node = analyse(user, 0, self.operators, self.constants)
            except TensorsmithError:
                return False
            if node.kind is Kind.CONTRACTION:
                continue
            if not node.moves or not all(self.is_for_products(r, users) for r in user.results):
                return False
        return True

    def followers(
        self, family: Family, users: Mapping[Value, Sequence[Apply]]
    ) -> tuple[tuple[Apply, ...], ...]:
        """The operators that follow all members alike, one element at a time, up to the last after
        which one value of each is used elsewhere."""
        levels: list[tuple[Apply, ...]] = [family.members]
        while (level := self.next_level(levels, users)) is not None:
            levels.append(level)
        while len(levels) > 1 and not self.gives_one(levels, users):
            levels.pop()
        return tuple(levels[1:])

    def next_level(
        self, levels: Sequence[tuple[Apply, ...]], users: Mapping[Value, Sequence[Apply]]
    ) -> tuple[Apply, ...] | None:
        """Operators, one for each member, that follow what `levels` make in one way."""
        known = [
            {level[n].results[0]: k for k, level in enumerate(levels)}
            for n in range(len(levels[0]))
        ]
        taken = {a for level in levels for a in level}
        ways: list[dict[Hashable, Apply]] = []
        for values in known:
            found: dict[Hashable, Apply] = {}
            for user in (u for v in values for u in users.get(v, ()) if u not in taken):
                key = self.follower_key(user, values)
                if key is not None:
                    found.setdefault(key, user)
            ways.append(found)
        for key in ways[0]:
            level = [found[key] for found in ways if key in found]
            if len(level) == len(ways):
                return tuple(level)
        return None

    def gives_one(
        self, levels: Sequence[tuple[Apply, ...]], users: Mapping[Value, Sequence[Apply]]
    ) -> bool:
        """Whether nothing but the last level is used elsewhere."""
        taken = {a for level in levels for a in level}
        values = [a.results[0] for level in levels[:-1] for a in level]
        return all(sum(u in taken for u in users.get(v, ())) == self.uses[v] for v in values)

    def follower_key(self, apply: Apply, values: Mapping[Buffer, int]) -> Hashable:
        """What followers of numbered values have in common that can be one; None for what is no
        follower."""
        read = [o for o in apply.operands if o is not None]
        given = [o for o in read if o in values]
        if len(apply.results) != 1 or not given:
            return None
        if any(o not in self.constants and o not in values for o in read):
            return None
        if any(apply.results[0].shape != o.shape for o in given):
            return None
        try:
            node = analyse(apply, 0, self.operators, self.constants)
        except TensorsmithError:
            return None
        if node.kind > Kind.BROADCAST or any(node.access.get(o) is not Access.SAME for o in given):
            return None
        parts = tuple(
            o if o is None else values.get(o, (o.rank, o.dtype.name)) for o in apply.operands
        )
        return (apply.op, tuple(sorted(apply.attrs.items())), parts, apply.results[0].dtype.name)

    # --- One product -------------------------------------------------------------------------

    def one(self, family: Family) -> list[Binding]:
        """The product that stands for a family, what follows it, and the slices."""
        made = _Made(self.operators)
        x = family.members[0].operands[0]
        weights = [self.constants[_tensor(m.operands[1])] for m in family.members]
        operands = [x, made.constant(np.concatenate(weights, family.weight_axis), family)]
        rest = range(2, len(family.members[0].operands))
        operands += [self.beside(family, family.members, place, made) for place in rest]
        whole = made.apply(family.members, operands)
        wholes: dict[Value, Buffer] = {m.results[0]: whole for m in family.members}
        for level in family.followers:
            operands = [
                wholes[o] if o in wholes else self.beside(family, level, place, made)
                for place, o in enumerate(level[0].operands)
            ]
            whole = made.apply(level, operands)
            wholes.update((a.results[0], whole) for a in level)
        start = 0
        for last, extent in zip(family.last, family.extents, strict=True):
            attrs: dict[str, Any] = {"starts": (as_expr(start),), "extents": (as_expr(extent),)}
            kept = MappingProxyType({**attrs, "steps": (), "axes": (family.axis,)})
            made.bindings.append(Apply(last.results, "slice", (whole,), kept, sources=last.sources))
            start += extent
        return made.bindings

    def beside(
        self, family: Family, level: Sequence[Apply], place: int, made: _Made
    ) -> Buffer | None:
        """The constants at one place of operators that become one, side by side as what they are
        broadcast to."""
        operands = [a.operands[place] for a in level]
        if operands[0] is None:
            return None
        arrays = [self.constants[_tensor(o)] for o in operands]
        rank = level[0].results[0].rank
        is_of_channels = level[0].op == "conv"  # whose bias has that axis alone
        axis = 0 if is_of_channels else arrays[0].ndim - (rank - family.axis)
        if axis < 0 or all(a.shape[axis] == 1 for a in arrays):
            if all(np.array_equal(arrays[0], a) for a in arrays[1:]):
                return made.constant(arrays[0], family)
            arrays = [a.reshape((1,) * (rank - a.ndim) + a.shape) for a in arrays]
            axis = family.axis
        around = np.broadcast_shapes(*(np.take(a, [0], axis).shape for a in arrays))
        shapes = [(*around[:axis], e, *around[axis + 1 :]) for e in family.extents]
        spread = [np.broadcast_to(a, s) for a, s in zip(arrays, shapes, strict=True)]
        return made.constant(np.concatenate(spread, axis), family)


@dataclass(slots=True)
class _Made:
    """The bindings that stand for a family."""

    operators: Operators
    bindings: list[Binding] = field(default_factory=list)

    def constant(self, data: Array, family: Family) -> Buffer:
        weight = _tensor(family.members[0].operands[1])
        value = Buffer(weight.name, data.shape, as_dtype(data.dtype.name))
        self.bindings.append(Constant(value, np.ascontiguousarray(data)))
        return value

    def apply(self, level: Sequence[Apply], operands: Sequence[Buffer | None]) -> Buffer:
        """The operator that stands for those of a level."""
        attrs: Mapping[str, Any] = level[0].attrs
        with collecting():  # what it requires was checked for those that it stands for
            results = self.operators[level[0].op](placeholders(operands), attrs)
        values = result_types(results, (level[0].results[0].name,), Analyzer())
        sources = tuple(dict.fromkeys(s for a in level for s in a.sources))
        kept = replace(level[0], results=values, operands=tuple(operands), sources=sources)
        self.bindings.append(kept)
        return values[0]


def _users(bindings: Sequence[Binding]) -> dict[Value, list[Apply]]:
    """The operators that read each value, those inside of bodies left out."""
    found: dict[Value, list[Apply]] = {}
    for apply in (b for b in bindings if isinstance(b, Apply)):
        for value in apply.inputs:
            found.setdefault(value, []).append(apply)
    return found


def _tensor(value: Buffer | None) -> Buffer:
    assert value is not None
    return value
