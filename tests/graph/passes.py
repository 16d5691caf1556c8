"""How a pass over graph functions is tested: what they compute stays what it was."""

import numpy as np

from strategies.graphs import graph_arguments, graphs, same_results
from tensorsmith.ir import IRModule
from tensorsmith.ops.interpret import interpret_graph
from tensorsmith.verify import problems


def check_pass(apply, data, *, is_idempotent=True):
    """A random function computes the same, bit by bit, after the pass.

    is_idempotent: the pass finds nothing to do in what it has made.
    """
    module = IRModule.of(data.draw(graphs()))
    args = data.draw(graph_arguments(module.graph("main")))
    after = apply(module)
    assert problems(after) == []
    left, right = (interpret_graph(which, "main", args) for which in (module, after))
    assert same_results(left, right), (left, right)
    assert not is_idempotent or apply(after) is after


def results_of(graph, *args):
    """What a function gives."""
    return interpret_graph(IRModule.of(graph), graph, args)


def after(apply, graph):
    """The function after the pass, which finds nothing more to do."""
    module = apply(IRModule.of(graph))
    assert problems(module) == []
    assert apply(module) is module
    return module.graph(graph.name)


def ops_of(bindings):
    """The operators and other kinds of bindings, in order."""
    return [getattr(b, "op", type(b).__name__) for b in bindings]


def floats(*shape, seed=0):
    """Random float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
