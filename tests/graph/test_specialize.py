"""Functions for given sizes."""

import pytest
from hypothesis import strategies as st

from graph.passes import floats, ops_of, results_of
from strategies.cases import fast_and_slow
from strategies.graphs import LARGEST_EXTENT, elements, graphs, same_results
from tensorsmith import ir
from tensorsmith.errors import ShapeError
from tensorsmith.graph.simplify import simplify
from tensorsmith.graph.specialize import specialize
from tensorsmith.ir import IRModule, Var, as_expr, substitute
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.ops.interpret import interpret_graph
from tensorsmith.verify import problems


def results_stay(data):
    graph = data.draw(graphs())
    sizes = {v.name: data.draw(st.integers(v.low or 0, LARGEST_EXTENT)) for v in graph.dims}
    given = {name: n for name, n in sizes.items() if data.draw(st.booleans())}
    values = {v: as_expr(sizes[v.name]) for v in graph.dims}
    args = [
        data.draw(elements(tuple(int(substitute(e, values).value) for e in p.shape), p.dtype.name))
        for p in graph.params
    ]
    module = IRModule.of(graph)
    special = specialize(module, given)
    assert problems(special) == []
    assert not {v.name for v in special.graph("main").dims} & given.keys()
    left, right = (interpret_graph(m, "main", args) for m in (module, special))
    assert same_results(left, right)


test_results_stay, test_results_stay_slow = fast_and_slow(results_stay, fast=80)


def function():
    b = GraphBuilder(OPERATORS)
    n, m = Var("n", low=1, multiple_of=2), Var("m", low=1, high=9)
    x = b.param("x", (n, m), "float32")
    b.emit(ir.Check(ir.Lt(n, ir.const(5)), "n is small"))
    return b.function("main", [b("reshape", b.elements([n, m]), shape=(2, 1)), x])


def test_shape_arithmetic_is_known_then() -> None:
    module = simplify(specialize(IRModule.of(function()), {"n": 4, "m": 3}))
    assert ops_of(module.graph("main").body) == ["Constant"]
    assert results_of(module.graph("main"), floats(4, 3))[0].tolist() == [[4], [3]]
    with pytest.raises(ShapeError, match="'x' is to have shape"):
        results_of(module.graph("main"), floats(2, 3))


def test_what_cannot_be() -> None:
    module = IRModule.of(function())
    assert specialize(module, {}) is module
    cases = {
        "k": (1, "main has no dimension 'k'\n  try: one of 'n', 'm'"),
        "n": (
            -1,
            (
                "the dimension 'n' of main cannot be -1\n"
                "  because: it is at least 1 and a multiple of 2"
            ),
        ),
        "m": (10, "the dimension 'm' of main cannot be 10\n  because: it is at most 9"),
    }
    for name, (size, text) in cases.items():
        with pytest.raises(ShapeError) as caught:
            specialize(module, {name: size})
        assert str(caught.value) == text
