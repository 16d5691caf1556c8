"""The text of random graph functions parses back to an equal one, which computes the same."""

from strategies.cases import fast_and_slow
from strategies.graphs import graph_arguments, graphs, same_results
from tensorsmith.ir import IRModule
from tensorsmith.ir.graph_text import constants_of
from tensorsmith.ir.structural import diff, structural_hash
from tensorsmith.ops.interpret import interpret_graph
from tensorsmith.script import parse_module


def graphs_come_back(data):
    module = IRModule.of(data.draw(graphs()))
    text = module.script()
    back = parse_module(text, constants=constants_of(module))
    assert diff(module, back) is None
    assert structural_hash(module) == structural_hash(back)
    assert back.script() == text
    args = data.draw(graph_arguments(module.graph("main")))
    left, right = (interpret_graph(which, "main", args) for which in (module, back))
    assert same_results(left, right)


test_graphs_come_back, test_graphs_come_back_slow = fast_and_slow(graphs_come_back, fast=80)
