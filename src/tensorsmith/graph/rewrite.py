"""Rewriting of operators by rules: see `tensorsmith.graph.rules` for the rules themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tensorsmith.arith import Analyzer
from tensorsmith.errors import TensorsmithError
from tensorsmith.graph.patterns import Match, Op, Scope, match
from tensorsmith.graph.substitution import Substitution
from tensorsmith.ir import Buffer, IRModule
from tensorsmith.ir.graph import (
    Apply,
    Binding,
    Body,
    Branch,
    Constant,
    GraphFunction,
    Loop,
    MatchShape,
    Value,
    bodies,
)
from tensorsmith.ops import OPERATORS
from tensorsmith.ops.operator import Operator

Becomes: TypeAlias = "str | Callable[[Match], Buffer | None]"

MOST_STEPS: Final = 64
"""Rules that are applied in place of one operator, one after the other."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a pattern of operators may be replaced by.

    name: for traces and tests. pattern: the operators; the outermost has the value to be replaced.
    becomes: the name of a value in the pattern, or a function that makes the value with
        `Match.apply` and `Match.constant`, or gives None where the rule does not apply after all.
    when: a condition besides.
    rounds: whether results may be rounded in another way. Rules without keep every bit, but for
        which NaN a NaN is.
    """

    name: str
    pattern: Op
    becomes: Becomes
    when: Callable[[Match], bool] | None = None
    rounds: bool = False


Observe: TypeAlias = "Callable[[Rule, Match], None]"


def rewrite(
    module: IRModule,
    rules: Sequence[Rule],
    *,
    operators: Mapping[str, Operator] = OPERATORS,
    observe: Observe | None = None,
) -> IRModule:
    """Apply rules to the operators of graph functions, in order, until none applies any more.

    What a rule makes superfluous stays for `eliminate_dead_code`. A value that replaces another has
    its type; where the same extents are said in other words, a match says so. Gives `module` itself
    if no rule applies.
    observe: called for each rule that is applied, with what it has matched.
    """
    table: dict[str, list[Rule]] = {}
    for rule in rules:
        table.setdefault(rule.pattern.op, []).append(rule)
    graphs = {
        name: _Rewriting(table, operators, observe).function(g) for name, g in module.graphs.items()
    }
    if all(graphs[name] is graph for name, graph in module.graphs.items()):
        return module
    return replace(module, functions={**module.functions, **graphs})


class _Rewriting:
    """A walk in order over one function."""

    def __init__(
        self,
        table: Mapping[str, Sequence[Rule]],
        operators: Mapping[str, Operator],
        observe: Observe | None,
    ) -> None:
        self.table = table
        self.observe = observe
        self.scope = Scope(operators)
        self.replaced = Substitution()
        self.changed = False

    def function(self, graph: GraphFunction) -> GraphFunction:
        self.scope.uses = uses_of(graph.body, graph.results)
        body = self.sequence(graph.body)
        if not self.changed:
            return graph
        return replace(graph, body=body, results=tuple(map(self.replaced.value, graph.results)))

    def sequence(self, bindings: Iterable[Binding]) -> tuple[Binding, ...]:
        made: list[Binding] = []
        for binding in bindings:
            made.extend(self.binding(binding))
        return tuple(made)

    def binding(self, b: Binding) -> Sequence[Binding]:
        if isinstance(b, Branch):
            then, orelse = self.body(b.then), self.body(b.orelse)
            return [self.replaced.binding(replace(b, then=then, orelse=orelse))]
        if isinstance(b, Loop):
            return [self.replaced.binding(replace(b, body=self.body(b.body)))]
        new = self.replaced.binding(b)
        if isinstance(new, Apply):
            return self.operator(new)
        if isinstance(new, Constant):
            self.scope.known[new.result] = new.data
        return [new]

    def body(self, body: Body) -> Body:
        """A body, whose operators are matched with each other alone."""
        outside, self.scope.made = self.scope.made, {}
        bindings = self.sequence(body.bindings)
        self.scope.made = outside
        return replace(
            body, bindings=bindings, results=tuple(map(self.replaced.value, body.results))
        )

    def operator(self, apply: Apply) -> list[Binding]:
        """What stands for an operator: itself, or what rules make of it."""
        made: list[Binding] = []
        pending: list[Binding] = [apply]
        steps = 0
        while pending:
            b = pending.pop(0)
            new = self.replaced.binding(b)
            found = self.step(new) if isinstance(new, Apply) and steps < MOST_STEPS else None
            if found is not None:
                steps += 1
                pending = [*found, *pending]
                continue
            if isinstance(new, Apply):
                self.scope.made.update((r, new) for r in new.results)
            made.append(new)
        return made

    def step(self, apply: Apply) -> list[Binding] | None:
        """The bindings that replace `apply` by the first rule that applies; None if none does."""
        for rule in self.table.get(apply.op, ()):
            found = match(rule.pattern, apply, self.scope)
            if found is None or (rule.when is not None and not rule.when(found)):
                continue
            try:
                becomes = rule.becomes
                value = found[becomes] if isinstance(becomes, str) else becomes(found)
            except TensorsmithError:  # what the rule would make, its operator refuses
                continue
            if value is not None and self.stand_for(found, value):
                if self.observe is not None:
                    self.observe(rule, found)
                return found.bindings
        return None

    def stand_for(self, found: Match, value: Buffer) -> bool:
        """Let `value` stand for the root's result from here on. Whether it can."""
        result = found.result
        if value.dtype is not result.dtype or value.rank != result.rank:
            return False
        if result.layout is not None or result.strides is not None:
            return False
        if all(a is b for a, b in zip(value.shape, result.shape, strict=True)):
            self.changed = True
            self.replaced.values[result] = value
            self.scope.uses[value] += self.scope.uses[result]
            return True
        facts = Analyzer()
        if not all(facts.equal(a, b) for a, b in zip(value.shape, result.shape, strict=True)):
            return False
        self.changed = True
        root = found.root
        found.bindings.append(MatchShape(result, value, sources=root.sources, span=root.span))
        return True


def uses_of(bindings: Iterable[Binding], results: Iterable[Value]) -> Counter[Value]:
    """How often each value is used, inside of bodies, too."""
    found: Counter[Value] = Counter(results)
    for binding in bindings:
        found.update(binding.inputs)
        for body in bodies(binding):
            found.update(uses_of(body.bindings, body.results))
    return found
