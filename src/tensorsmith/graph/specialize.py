"""A function for given sizes of its dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.graph.substitution import Substitution
from tensorsmith.ir import IRModule, Var, const
from tensorsmith.ir.graph import GraphFunction


def specialize(module: IRModule, sizes: Mapping[str, int], *, entry: str = "main") -> IRModule:
    """Let the dimensions of `entry` with these names have these sizes, in all types and attributes.

    What is known then is found by `tensorsmith.graph.simplify`. Raises ShapeError if there is no
    such dimension, or if its facts do not allow the size. Gives `module` itself for no sizes.

    >>> from tensorsmith.ops import OPERATORS, GraphBuilder
    >>> b = GraphBuilder(OPERATORS)
    >>> x = b.param("x", (Var("batch", low=1), 8), "float32")
    >>> module = IRModule.of(b.function("main", [b("flatten", x, axis=0)]))
    >>> specialize(module, {"batch": 4}).graph("main").results
    (reshape: Buffer((1, 32), 'float32'),)
    """
    if not sizes:
        return module
    graph = module.graph(entry)
    replaced = Substitution(Analyzer().simplify)
    for name, size in sizes.items():
        variables = [v for v in graph.dims if v.name == name]
        if not variables:
            known = ", ".join(dict.fromkeys(repr(v.name) for v in graph.dims)) or "none"
            raise ShapeError(f"{entry} has no dimension {name!r}", try_=f"one of {known}")
        for var in variables:
            _check(graph, var, size)
            replaced.variables[var] = const(size)
    params = replaced.defined(graph.params)
    body = tuple(map(replaced.binding, graph.body))
    results = tuple(map(replaced.value, graph.results))
    return module.with_function(replace(graph, params=params, body=body, results=results))


def _check(graph: GraphFunction, var: Var, size: int) -> None:
    facts = []
    if var.low is not None and size < var.low:
        facts.append(f"at least {var.low}")
    if var.high is not None and size > var.high:
        facts.append(f"at most {var.high}")
    if size % var.multiple_of:
        facts.append(f"a multiple of {var.multiple_of}")
    if facts:
        raise ShapeError(
            f"the dimension {var.name!r} of {graph.name} cannot be {size}",
            because=f"it is {' and '.join(facts)}",
        )
