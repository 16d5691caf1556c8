"""What checks establish is used by what comes after them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tensorsmith.arith import Analyzer
from tensorsmith.graph.substitution import Substitution
from tensorsmith.ir import Const, Expr, IRModule, Load, Var, equal, postorder
from tensorsmith.ir.graph import (
    Binding,
    Body,
    Branch,
    Check,
    Dims,
    GraphFunction,
    Loop,
    MatchShape,
)
from tensorsmith.ir.graph_text import all_bindings, bound_variables
from tensorsmith.ir.structural import structural_equal


def use_facts(module: IRModule) -> IRModule:
    """Simplify types and attributes by what is known where they stand; drop checks that hold.

    Known are the facts on variables, the checks before, and what matches of shapes have compared.
    A check stays unless facts on variables and other checks prove it: kernels are told of checks.
    A variable that a match binds gives way to the extent that it is; a match that compares nothing
    any more, to its operand. Gives `module` itself if nothing is known that helps.
    """
    graphs = {name: _function(graph) for name, graph in module.graphs.items()}
    if all(graphs[name] is graph for name, graph in module.graphs.items()):
        return module
    return replace(module, functions={**module.functions, **graphs})


def _function(graph: GraphFunction) -> GraphFunction:
    if not any(isinstance(b, (Check, MatchShape)) for b in all_bindings(graph.body)):
        return graph
    walk = _Walk(graph)
    body = walk.sequence(graph.body)
    made = replace(graph, body=body, results=tuple(map(walk.replaced.value, graph.results)))
    return graph if structural_equal(made, graph) else made


class _Walk:
    """A walk in order.

    bound: the variables that have their values by now. facts: all that is known. checked: what
    checks that stay have established.
    """

    def __init__(self, graph: GraphFunction) -> None:
        self.facts = Analyzer()
        self.checked = Analyzer()
        self.replaced = Substitution(self.facts.simplify, always=True)
        self.bound = {v for p in graph.params for v in bound_variables(p)}

    def sequence(self, bindings: Iterable[Binding]) -> tuple[Binding, ...]:
        return tuple(made for binding in bindings for made in self.binding(binding))

    def binding(self, b: Binding) -> Sequence[Binding]:
        """What stands for `b`."""
        if isinstance(b, Check):
            return self.check(b)
        if isinstance(b, MatchShape):
            return self.match(b)
        if isinstance(b, Branch):
            then, orelse = self.body(b.then), self.body(b.orelse)
            made = self.replaced.binding(replace(b, then=then, orelse=orelse))
        elif isinstance(b, Loop):
            made = self.replaced.binding(replace(b, body=self.body(b.body)))
        else:
            made = self.replaced.binding(b)
        self.bound.update(v for o in b.outputs for v in bound_variables(o))
        if isinstance(made, Dims):
            self.bound.update(made.variables)
            for var, value in zip(made.variables, made.values, strict=True):
                self.learn_equal(var, value)
        return [made]

    def learn_equal(self, var: Var, value: Expr) -> None:
        """What is read from no tensor is known by more than its name."""
        plain = var.dtype.is_index and not any(isinstance(e, Load) for e in postorder(value))
        if plain and not isinstance(value, Const):
            self.facts.learn(equal(value, var))

    def check(self, b: Check) -> Sequence[Binding]:
        condition = self.checked.simplify(self.replaced.plain(b.condition))
        if self.checked.prove(condition) is True:
            return []
        self.facts.learn(condition)
        self.checked.learn(condition)
        return [b if condition is b.condition else replace(b, condition=condition)]

    def match(self, b: MatchShape) -> Sequence[Binding]:
        operand = self.replaced.tensor(b.operand)
        for wanted, extent in zip(b.result.shape, operand.shape, strict=True):
            if isinstance(wanted, Var) and wanted not in self.bound:
                if self.keeps_facts(wanted, extent):
                    self.replaced.variables[wanted] = extent
                self.bound.add(wanted)
        made = self.replaced.binding(b)
        assert isinstance(made, MatchShape)
        if made.result.shape == made.operand.shape and made.result.layout is made.operand.layout:
            self.replaced.values[b.result] = made.operand
            self.replaced.values.pop(made.operand, None)
            return []
        for before, after in zip(made.operand.shape, made.result.shape, strict=True):
            self.facts.learn(equal(before, after))
        return [made]

    def keeps_facts(self, var: Var, value: Expr) -> bool:
        """Whether `value` is known to keep the facts on `var`."""
        bounds = self.facts.bounds(value)
        low = var.low is None or (bounds.low is not None and bounds.low >= var.low)
        high = var.high is None or (bounds.high is not None and bounds.high <= var.high)
        step = var.multiple_of == 1 or self.facts.prove(equal(value % var.multiple_of, 0)) is True
        return low and high and step

    def body(self, body: Body) -> Body:
        """A body; what is found out inside ends with it."""
        with self.facts.scope(), self.checked.scope(), self.variables():
            self.bound.update(body.variables)
            self.bound.update(v for p in body.params for v in bound_variables(p))
            params = self.replaced.defined(body.params)
            bindings = self.sequence(body.bindings)
            results = tuple(map(self.replaced.value, body.results))
        return replace(body, params=params, bindings=bindings, results=results)

    @contextmanager
    def variables(self) -> Iterator[None]:
        kept = dict(self.replaced.variables)
        yield
        self.replaced.variables = kept
