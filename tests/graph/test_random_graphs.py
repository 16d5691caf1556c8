"""Random graph functions: host programs compute what the interpreter of graphs does."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph.running import lowered, run_host
from strategies.graphs import graph_arguments, graphs, same_results
from tensorsmith.compiler import compile
from tensorsmith.errors import EvaluationError, ShapeError
from tensorsmith.ir import GraphFunction, IRModule
from tensorsmith.ops.interpret import interpret_graph


def expected(graph: GraphFunction, args: list[np.ndarray]) -> list[np.ndarray] | None:
    """What the function gives; None where a check fails."""
    try:
        return interpret_graph(IRModule.of(graph), graph, args)
    except (EvaluationError, ShapeError):
        return None


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_hosts_compute_what_graphs_say(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    args = data.draw(graph_arguments(graph))
    wanted = expected(graph, args)
    module, host = lowered(graph)
    try:
        found = run_host(module, host, graph, args)
    except EvaluationError:
        assert wanted is None
        return
    assert wanted is not None
    assert same_results(found, wanted)


@given(st.data())
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_compiled_models_compute_what_graphs_say(data: st.DataObject) -> None:
    graph = data.draw(graphs(most_steps=6))
    args = data.draw(graph_arguments(graph))
    wanted = expected(graph, args)
    model = compile(IRModule.of(graph), threads=1)
    try:
        found = model(*args)
    except (EvaluationError, ShapeError):
        assert wanted is None
        return
    assert wanted is not None
    assert same_results(found if isinstance(found, tuple) else (found,), wanted)
