"""Dead code: what nothing uses goes, what has an effect stays."""

import numpy as np

from graph.passes import after, check_pass, ops_of, results_of
from strategies.cases import fast_and_slow
from tensorsmith import ir
from tensorsmith.graph.dead_code import eliminate_dead_code
from tensorsmith.ir import Buffer, IRModule, Var, const
from tensorsmith.ops import OPERATORS, GraphBuilder

n = Var("n", low=0)


def results_stay(data):
    check_pass(eliminate_dead_code, data)


test_results_stay, test_results_stay_slow = fast_and_slow(results_stay, fast=80)


def start():
    b = GraphBuilder(OPERATORS)
    return b, b.param("x", (n,), "float32")


def test_unused_values_go_and_checks_stay() -> None:
    b, x = start()
    b("exp", b("neg", x))
    b.check(ir.Lt(n, const(9)), "n is small")
    used = b("abs", x)
    b.constant(np.zeros(3))
    made = after(eliminate_dead_code, b.function("main", [used]))
    assert ops_of(made.body) == ["Check", "abs"]


def test_nothing_dead_is_the_same_object() -> None:
    b, x = start()
    module = IRModule.of(b.function("main", [b("abs", b("neg", x))]))
    assert eliminate_dead_code(module) is module


def test_a_variable_keeps_what_binds_it() -> None:
    b, x = start()
    count = b.param("count", (), "int64")
    (k,) = b.integers(b("abs", count), low=0)
    b.integers(b("neg", count))
    one = b.constant(np.ones(1, np.float32))
    made = after(eliminate_dead_code, b.function("main", [b("expand", one, shape=(k,)), x]))
    assert ops_of(made.body) == ["abs", "Dims", "Constant", "expand"]
    b, x = start()
    m = Var("m", low=0)
    b.match(x, (m,))
    b.match(x, (n,))
    made = after(eliminate_dead_code, b.function("main", [b.elements([m])]))
    assert ops_of(made.body) == ["MatchShape", "from_elements"]


def test_results_of_branches() -> None:
    b, x = start()
    c = b.param("c", (), "bool")
    then, orelse = (b.body(lambda op=op: [b(op, x), b("exp", x)]) for op in ("neg", "abs"))
    r, s = Buffer("r", (n,)), Buffer("s", (n,))
    b.emit(ir.Branch((r, s), c, then, orelse))
    made = after(eliminate_dead_code, b.function("main", [r]))
    (branch,) = made.body
    assert branch.results == (r,)
    assert (ops_of(branch.then.bindings), ops_of(branch.orelse.bindings)) == (["neg"], ["abs"])


def test_states_of_loops() -> None:
    """State 0 is used after, 1 by an iteration for it, 2 for itself alone; the scan not at all."""
    b, x = start()
    states = [Buffer(f"s{k}", (n,)) for k in range(3)]

    def inside():
        first = b("add", states[0], states[1])
        return [first, b("neg", states[1]), b("exp", states[2]), first]

    body = b.body(inside, states)
    results = (*(Buffer(f"r{k}", (n,)) for k in range(3)), Buffer("scan", (3, n)))
    b.emit(ir.Loop(results, const(3), None, (x, x, x), body))
    graph = b.function("main", [results[0]])
    made = after(eliminate_dead_code, graph)
    (loop,) = made.body
    assert loop.results == results[:2]
    assert ops_of(loop.body.bindings) == ["add", "neg"]
    a = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(results_of(made, a)[0], results_of(graph, a)[0])


def test_effects_inside_of_bodies() -> None:
    b, x = start()
    c = b.param("c", (), "bool")
    log = ir.CallExtern((), "log", (x,), is_pure=False)
    inner = ir.Branch((), c, ir.Body((), (log,), ()), ir.Body((), (), ()))
    b.emit(ir.Loop((), const(2), None, (), ir.Body((), (inner,), ())))
    b.emit(ir.Loop((), const(2), None, (), ir.Body((), (), ())))
    made = after(eliminate_dead_code, b.function("main", [x]))
    assert ops_of(made.body) == ["Loop"]
