"""Elementwise operators move up to where their operand is made.

Between a product and the scale of its result often stands a reshape or a transposition. Done before
it, the scale is part of the product's kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorsmith.errors import TensorsmithError
from tensorsmith.graph.analysis import Node, analyse
from tensorsmith.graph.dependences import Dependences
from tensorsmith.graph.kernel import Array, Operators
from tensorsmith.ir import Buffer, IRModule
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
from tensorsmith.te.kind import Access, Kind


def move_up(module: IRModule, *, operators: Operators = OPERATORS) -> IRModule:
    """Swap an elementwise operator of one tensor with what moved the elements of this tensor.

    Before: any graph functions. After: the same results. An operator moves up to one that computes
    something, if nothing else reads what is between. Gives `module` itself if nothing moves.
    """
    graphs = {name: _function(graph, operators) for name, graph in module.graphs.items()}
    if all(graphs[name] is graph for name, graph in module.graphs.items()):
        return module
    return replace(module, functions={**module.functions, **graphs})


def _function(graph: GraphFunction, operators: Operators) -> GraphFunction:
    body = _Moving(operators, {}).sequence(graph.body, graph.results)
    return graph if body is graph.body else replace(graph, body=body)


class _Moving:
    """The bindings of one function."""

    def __init__(self, operators: Operators, constants: dict[Buffer, Array]) -> None:
        self.operators = operators
        self.constants = constants

    def sequence(self, given: tuple[Binding, ...], results: Sequence[Value]) -> tuple[Binding, ...]:
        """The bindings of a function or body; `given` itself if nothing moves."""
        self.constants.update((b.result, b.data) for b in given if isinstance(b, Constant))
        bindings = tuple(map(self.inside, given))
        while True:
            moved = self.once(bindings, results)
            if moved is None:
                break
            bindings = moved
        same = all(a is b for a, b in zip(given, bindings, strict=True))
        return given if same else bindings

    def inside(self, binding: Binding) -> Binding:
        """The binding with what moves in its bodies."""
        if isinstance(binding, Branch):
            then, orelse = self.body(binding.then), self.body(binding.orelse)
            same = then is binding.then and orelse is binding.orelse
            return binding if same else replace(binding, then=then, orelse=orelse)
        if isinstance(binding, Loop):
            body = self.body(binding.body)
            return binding if body is binding.body else replace(binding, body=body)
        return binding

    def body(self, body: Body) -> Body:
        """A body with what moves in it."""
        bindings = self.sequence(body.bindings, body.results)
        return body if bindings is body.bindings else replace(body, bindings=bindings)

    def once(
        self, bindings: tuple[Binding, ...], results: Sequence[Value]
    ) -> tuple[Binding, ...] | None:
        """One step up for every operator that can take one; None if none can."""
        dependences = Dependences(bindings, results)
        made = list(bindings)
        changed = False
        for at, binding in enumerate(bindings):
            if not isinstance(binding, Apply):
                continue
            below = self.below(dependences, bindings, at, binding)
            if below is None or made[below] is not bindings[below]:
                continue
            mover = bindings[below]
            assert isinstance(mover, Apply)
            swapped = self.swapped(binding, mover)
            if swapped is not None:
                made[below], made[at] = swapped
                changed = True
        return tuple(made) if changed else None

    def below(
        self,
        dependences: Dependences,
        bindings: Sequence[Binding],
        at: int,
        apply: Apply,
    ) -> int | None:
        """Where the operator stands that moves what `apply` alone reads, below one that computes
        something for it alone; None if there is none."""
        tensors = [o for o in apply.operands if o is not None and not self.is_number(o)]
        if len(tensors) != 1 or len(apply.results) != 1:
            return None
        (value,) = tensors
        below = dependences.maker(value)
        if below is None or dependences.users(value) != {at}:
            return None
        mover = bindings[below]
        if not isinstance(mover, Apply) or len(mover.operands) != 1 or not mover.operands[0]:
            return None
        source = dependences.maker(mover.operands[0])
        if source is None or dependences.users(mover.operands[0]) != {below}:
            return None
        return below if isinstance(bindings[source], Apply) else None

    def is_number(self, value: Buffer) -> bool:
        """Whether a value is a constant of shape ()."""
        return value in self.constants and not value.shape

    def swapped(self, apply: Apply, mover: Apply) -> tuple[Apply, Apply] | None:
        """The two operators in the other order; None if that is not the same."""
        node, moving = self.node(apply), self.node(mover)
        if node is None or moving is None or not moving.moves or node.moves:
            return None
        if max(moving.access.values()) > Access.MOVED and not moving.is_view:
            return None
        (old,) = mover.operands
        assert old is not None
        (result,) = apply.results
        value = mover.results[0]
        if node.kind > Kind.BROADCAST or node.access[value] is not Access.SAME:
            return None
        if result.shape != value.shape:
            return None
        new = Buffer(result.name, old.shape, result.dtype)
        operands = tuple(old if o is value else o for o in apply.operands)
        first = replace(apply, results=(new,), operands=operands)
        return first, replace(mover, results=(result,), operands=(new,))

    def node(self, apply: Apply) -> Node | None:
        """What the computation of an operator tells."""
        try:
            return analyse(apply, 0, self.operators, self.constants)
        except TensorsmithError:
            return None
