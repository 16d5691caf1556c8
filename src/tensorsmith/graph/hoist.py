"""What every iteration of a loop computes alike is computed before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tensorsmith.ir import IRModule, Var, free_vars
from tensorsmith.ir.graph import (
    Alias,
    Apply,
    Binding,
    Body,
    Branch,
    Check,
    Constant,
    Dims,
    GraphFunction,
    Loop,
    MatchShape,
    Value,
)
from tensorsmith.ir.graph_text import bound_variables
from tensorsmith.ir.term_text import attr_exprs


def hoist_invariants(module: IRModule) -> IRModule:
    """Move operators and constants out of loops where nothing of an iteration is in them.

    They are computed then also for a loop that makes no iteration, which has no effect. Sides of
    branches keep what they compute, and so do loops what a check before it is about: it may be what
    makes the operator safe. Gives `module` itself if nothing moves.
    """
    graphs = {name: _function(graph) for name, graph in module.graphs.items()}
    if all(graphs[name] is graph for name, graph in module.graphs.items()):
        return module
    return replace(module, functions={**module.functions, **graphs})


def _function(graph: GraphFunction) -> GraphFunction:
    body = _sequence(graph.body)
    same = len(body) == len(graph.body) and all(
        a is b for a, b in zip(body, graph.body, strict=True)
    )
    return graph if same else replace(graph, body=body)


def _sequence(bindings: Iterable[Binding]) -> tuple[Binding, ...]:
    made: list[Binding] = []
    for b in bindings:
        if isinstance(b, Branch):
            then, orelse = _inside(b.then), _inside(b.orelse)
            same = then is b.then and orelse is b.orelse
            made.append(b if same else replace(b, then=then, orelse=orelse))
        elif isinstance(b, Loop):
            body = _inside(b.body)
            moved, kept = _divided(body)
            made.extend(moved)
            if moved:
                body = replace(body, bindings=kept)
            made.append(b if body is b.body else replace(b, body=body))
        else:
            made.append(b)
    return tuple(made)


def _inside(body: Body) -> Body:
    bindings = _sequence(body.bindings)
    same = len(bindings) == len(body.bindings) and all(
        a is b for a, b in zip(bindings, body.bindings, strict=True)
    )
    return body if same else replace(body, bindings=bindings)


def _divided(body: Body) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
    """What does not depend on an iteration, and the rest."""
    varies: set[Value | Var] = {*body.params, *body.variables}
    # Of the variables in the types of states, those that are bound outside vary not; but to tell
    # them apart is not worth it: what needs them is of a state's shape.
    varies.update(v for p in body.params for v in bound_variables(p))
    moved: list[Binding] = []
    kept: list[Binding] = []
    for b in body.bindings:
        if isinstance(b, (Constant, Apply, Alias)) and varies.isdisjoint(_needed(b)):
            moved.append(b)
            continue
        kept.append(b)
        if isinstance(b, Check):
            varies.update(free_vars(b.condition))
        elif isinstance(b, MatchShape):
            varies.update(bound_variables(b.operand))
        varies.update(b.outputs)
        varies.update(v for o in b.outputs for v in bound_variables(o) if _binds(b))
        if isinstance(b, Dims):
            varies.update(b.variables)
    return tuple(moved), tuple(kept)


def _binds(b: Binding) -> bool:
    """Whether variables in the types of results may have their values from `b`."""
    return not isinstance(b, (Constant, Apply, Alias, Dims))


def _needed(b: Constant | Apply | Alias) -> set[Value | Var]:
    """The values and variables that a binding uses."""
    found: set[Value | Var] = {*b.inputs}
    found.update(v for o in (*b.inputs, *b.outputs) for v in bound_variables(o))
    if isinstance(b, Apply):
        found.update(free_vars(*attr_exprs(b.attrs)))
    return found
