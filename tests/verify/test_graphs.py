"""Graph functions that the verifier accepts."""

from strategies.cases import fast_and_slow
from strategies.graphs import graphs
from tensorsmith.ir import IRModule
from tensorsmith.verify import problems


def random_graphs_are_accepted(data):
    assert problems(IRModule.of(data.draw(graphs()))) == []


test_random_graphs_are_accepted, test_random_graphs_are_accepted_slow = fast_and_slow(
    random_graphs_are_accepted, fast=80
)
