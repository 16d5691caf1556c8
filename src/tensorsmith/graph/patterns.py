"""Patterns of operators: what a rewrite rule looks for, and what it finds.

::

    x = Anything("x")
    Op("neg", Op("neg", x))                       # two operators in a row
    Op("mul", x, Known("c", is_all(1)))           # either way round
    Op("transpose", Op("transpose", x, name="inner"))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from tensorsmith.arith import Analyzer
from tensorsmith.ir import Buffer
from tensorsmith.ir.dtype import dtype as as_dtype
from tensorsmith.ir.graph import Apply, Binding, Constant, Value
from tensorsmith.ops.operator import Operator, placeholders, result_types
from tensorsmith.ops.requirements import collecting

Array: TypeAlias = np.ndarray[Any, Any]

COMMUTATIVE: Final = frozenset({"add", "mul"})
"""Operators of two operands whose order does not matter, not even for the result's rounding."""


@dataclass(frozen=True, slots=True)
class Anything:
    """Any tensor."""

    name: str


@dataclass(frozen=True, slots=True)
class Known:
    """A constant that passes a test."""

    name: str
    test: Callable[[Array], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class Rest:
    """All further operands."""

    name: str


@dataclass(frozen=True, slots=True, init=False)
class Op:
    """An operator of operands that match; a missing one of the pattern is one that is left out.

    name: by which the match has it; its operator's name unless stated.
    """

    op: str
    operands: tuple[Pattern | Rest, ...]
    name: str

    def __init__(self, op: str, *operands: Pattern | Rest, name: str = "") -> None:
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "operands", operands)
        object.__setattr__(self, "name", name or op)


Pattern: TypeAlias = "Anything | Known | Op"


@dataclass(slots=True)
class Scope:
    """What is known where a rule is tried.

    operators: by name. known: constants. made: the operator that gives a value, in this body.
    uses: how often a value is used; one that a rule has made counts as used once.
    """

    operators: Mapping[str, Operator]
    known: dict[Value, Array] = field(default_factory=dict)
    made: dict[Value, Apply] = field(default_factory=dict)
    uses: Counter[Value] = field(default_factory=Counter)


class Match:
    """What the parts of a pattern have matched, and what the rule makes of it.

    values: by the names in the pattern. nodes: the operators. bindings: those made so far.
    """

    def __init__(self, scope: Scope, root: Apply) -> None:
        self.scope = scope
        self.facts = Analyzer()
        self.root = root
        self.values: dict[str, Buffer] = {}
        self.nodes: dict[str, Apply] = {}
        self.rest: dict[str, tuple[Buffer | None, ...]] = {}
        self.bindings: list[Binding] = []

    def __getitem__(self, name: str) -> Buffer:
        """The value that a name in the pattern stands for."""
        return self.values[name]

    @property
    def result(self) -> Buffer:
        """The value that is to be replaced."""
        return self.root.results[0]

    def array(self, name: str) -> Array:
        """The elements of a constant."""
        return self.scope.known[self.values[name]]

    def attr(self, name: str, attribute: str, default: object = None) -> Any:
        """An attribute of an operator in the pattern."""
        return self.nodes[name].attrs.get(attribute, default)

    def is_single(self, name: str) -> bool:
        """Whether the result of an inner operator is used by this match alone."""
        return self.scope.uses[self.nodes[name].results[0]] <= 1

    # --- What a rule makes -------------------------------------------------------------------

    def apply(self, op: str, *operands: Buffer | None, **attrs: Any) -> Buffer:
        """A new operator with one result."""
        inputs = placeholders(operands)
        with collecting():  # what it requires was checked for the operators that it replaces
            results = self.scope.operators[op](inputs, attrs)
        values = result_types(results, [self.result.name] * len(results), self.facts)
        return self._applied(op, operands, attrs, values)

    def _applied(
        self,
        op: str,
        operands: tuple[Buffer | None, ...],
        attrs: Mapping[str, Any],
        values: tuple[Buffer, ...],
    ) -> Buffer:
        kept = MappingProxyType(dict(attrs))
        sources = tuple(
            dict.fromkeys(s for node in (*self.nodes.values(), self.root) for s in node.sources)
        )
        made = Apply(values, op, operands, kept, sources=sources, span=self.root.span)
        self.bindings.append(made)
        return values[0]

    def constant(self, array: Array, name: str) -> Buffer:
        """A new constant."""
        data = np.ascontiguousarray(array).reshape(array.shape)
        made = Buffer(name, array.shape, as_dtype(array.dtype.name))
        self.bindings.append(Constant(made, data, sources=self.root.sources))
        self.scope.known[made] = data
        return made

    def again(self, node: str, *operands: Buffer | None, **changed: Any) -> Buffer:
        """An operator of the pattern with other operands, and some attributes changed."""
        old = self.nodes[node]
        if not changed and list(map(_type, operands)) == list(map(_type, old.operands)):
            values = tuple(r.replace(name=self.result.name) for r in old.results)
            return self._applied(old.op, operands, old.attrs, values)
        return self.apply(old.op, *operands, **{**old.attrs, **changed})


def _type(operand: Buffer | None) -> object:
    return None if operand is None else (operand.shape, operand.dtype.name, operand.layout)


def match(pattern: Op, apply: Apply, scope: Scope) -> Match | None:
    """The match of a pattern whose root is `apply`; None if it does not match."""
    for found in _operator(pattern, apply, Match(scope, apply)):
        return found
    return None


def _operator(pattern: Op, apply: Apply, found: Match) -> Iterator[Match]:
    """The ways in which an operator matches: each is `found` itself, with its parts filled in."""
    if apply.op != pattern.op or len(apply.results) != 1:
        return
    orders = [pattern.operands]
    if pattern.op in COMMUTATIVE and len(pattern.operands) == 2:
        orders.append(pattern.operands[::-1])
    for operands in orders:
        for way in _operands(operands, apply.operands, found):
            way.nodes[pattern.name] = apply
            yield way


def _operands(
    patterns: Sequence[Pattern | Rest], operands: Sequence[Buffer | None], found: Match
) -> Iterator[Match]:
    if not patterns:
        if all(o is None for o in operands):
            yield found
        return
    first = patterns[0]
    if isinstance(first, Rest):
        found.rest[first.name] = tuple(operands)
        yield found
        return
    if not operands or operands[0] is None:
        return
    for way in _value(first, operands[0], found):
        yield from _operands(patterns[1:], operands[1:], way)


def _value(pattern: Pattern, value: Buffer, found: Match) -> Iterator[Match]:
    if isinstance(pattern, Op):
        inner = found.scope.made.get(value)
        if inner is not None:
            yield from _operator(pattern, inner, found)
        return
    if isinstance(pattern, Known):
        data = found.scope.known.get(value)
        if data is None or not pattern.test(data):
            return
    before = found.values.get(pattern.name)
    if before is not None and before is not value:
        return
    found.values[pattern.name] = value
    yield found
    if before is None:
        found.values.pop(pattern.name, None)
