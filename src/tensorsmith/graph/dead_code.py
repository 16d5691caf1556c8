"""What nothing uses is left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tensorsmith.ir import Expr, IRModule, Load, Var, postorder
from tensorsmith.ir.graph import (
    Apply,
    Binding,
    Body,
    Branch,
    CallExtern,
    CallProgram,
    Check,
    Dims,
    GraphFunction,
    Loop,
    MatchShape,
    Value,
    bodies,
)
from tensorsmith.ir.graph_text import bound_variables
from tensorsmith.ir.term_text import attr_exprs


def eliminate_dead_code(module: IRModule) -> IRModule:
    """Leave out bindings, results of control flow, and carried states that nothing uses.

    Checks and impure external calls stay, and branches and loops with any inside. The check that a
    match makes goes with it. Gives `module` itself if all is used.
    """
    graphs = {name: _function(graph) for name, graph in module.graphs.items()}
    if all(graphs[name] is graph for name, graph in module.graphs.items()):
        return module
    return replace(module, functions={**module.functions, **graphs})


def _function(graph: GraphFunction) -> GraphFunction:
    binders: dict[Var, Value] = {}
    known = {v for p in graph.params for v in bound_variables(p)}
    _find_binders(graph.body, known, binders)
    live = _Live(binders)
    live.values(graph.results)
    live.exprs(attr_exprs(graph.attrs))
    body = live.sequence(graph.body)
    same = len(body) == len(graph.body) and all(
        a is b for a, b in zip(body, graph.body, strict=True)
    )
    return graph if same else replace(graph, body=body)


def _find_binders(bindings: Iterable[Binding], known: set[Var], binders: dict[Var, Value]) -> None:
    """The value by whose definition each variable of a shape gets its number."""

    def define(values: Iterable[Value]) -> None:
        for value in values:
            for var in bound_variables(value):
                if var not in known:
                    known.add(var)
                    binders[var] = value

    for binding in bindings:
        for body in bodies(binding):
            define(body.params)
            known.update(body.variables)
            _find_binders(body.bindings, known, binders)
        if isinstance(binding, Dims):
            known.update(binding.variables)
        define(binding.outputs)


def has_effect(binding: Binding) -> bool:
    """Whether a binding does something besides giving values."""
    if isinstance(binding, Check) or (isinstance(binding, CallExtern) and not binding.is_pure):
        return True
    return any(has_effect(b) for body in bodies(binding) for b in body.bindings)


class _Live:
    """What is used by what was passed, in a walk from the end."""

    def __init__(self, binders: dict[Var, Value]) -> None:
        self.binders = binders
        self.used: set[Value | Var] = set()

    def values(self, values: Iterable[Value]) -> None:
        """These values are used, and so are the variables of their types."""
        for value in values:
            if value not in self.used:
                self.used.add(value)
                self.variables(bound_variables(value))

    def variables(self, variables: Iterable[Var]) -> None:
        for var in variables:
            if var not in self.used:
                self.used.add(var)
                if var in self.binders:
                    self.values([self.binders[var]])

    def exprs(self, exprs: Iterable[Expr]) -> None:
        for e in postorder(*exprs):
            if isinstance(e, Var):
                self.variables([e])
            elif isinstance(e, Load):
                self.values([e.buffer])

    def sequence(self, bindings: Sequence[Binding]) -> tuple[Binding, ...]:
        """Those of the bindings that are needed."""
        kept: list[Binding] = []
        for binding in reversed(bindings):
            defined = binding.variables if isinstance(binding, Dims) else binding.outputs
            if has_effect(binding) or not self.used.isdisjoint(defined):
                kept.append(self.binding(binding))
        return tuple(reversed(kept))

    def binding(self, b: Binding) -> Binding:
        """`b`, without what nothing uses of it; what it uses itself is used from now on."""
        if isinstance(b, Branch):
            b = self.branch(b)
        elif isinstance(b, Loop):
            b = self.loop(b)
        elif isinstance(b, (Apply, CallExtern)):
            self.exprs(attr_exprs(b.attrs))
        if isinstance(b, (CallProgram, CallExtern)):
            self.exprs(o for o in b.operands if isinstance(o, Expr))
        elif isinstance(b, Dims):
            self.exprs(b.values)
        elif isinstance(b, Check):
            self.exprs([b.condition])
        if not isinstance(b, MatchShape):  # what it binds, only it needs
            self.variables(v for o in b.outputs for v in bound_variables(o))
        self.values(b.inputs)
        return b

    def body(self, body: Body, results: tuple[Value, ...]) -> Body:
        self.values(results)
        bindings = self.sequence(body.bindings)
        if len(results) == len(body.results) and _same(bindings, body.bindings):
            return body
        return replace(body, bindings=bindings, results=results)

    def branch(self, b: Branch) -> Branch:
        keep = [k for k, r in enumerate(b.results) if r in self.used]
        results = tuple(b.results[k] for k in keep)
        then, orelse = (
            self.body(body, tuple(body.results[k] for k in keep)) for body in (b.then, b.orelse)
        )
        if len(keep) == len(b.results) and then is b.then and orelse is b.orelse:
            return b
        return replace(b, results=results, then=then, orelse=orelse)

    def loop(self, b: Loop) -> Loop:
        """A loop with the states that are used after it, or by an iteration for those that are."""
        states = len(b.initial)
        going = int(b.has_condition)
        if b.trip is not None:
            self.exprs([b.trip])
        scans = [k for k in range(states, len(b.results)) if b.results[k] in self.used]
        kept = {k for k in range(states) if b.results[k] in self.used}
        while True:
            keep = [*sorted(kept), *scans]
            results = (
                *b.body.results[:going],
                *(b.body.results[going + k] for k in keep),
            )
            body = self.body(b.body, results)
            more = {k for k in range(states) if b.body.params[k] in self.used} - kept
            if not more:
                break
            kept |= more
        if len(keep) == len(b.results) and body is b.body:
            return b
        return replace(
            b,
            results=tuple(b.results[k] for k in keep),
            initial=tuple(b.initial[k] for k in sorted(kept)),
            body=replace(body, params=tuple(b.body.params[k] for k in sorted(kept))),
        )


def _same(a: Sequence[Binding], b: Sequence[Binding]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
