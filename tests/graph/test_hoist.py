"""What every iteration computes alike is computed before the loop."""

import numpy as np

from graph.passes import after, check_pass, floats, ops_of, results_of
from strategies.cases import fast_and_slow
from tensorsmith import ir
from tensorsmith.graph.hoist import hoist_invariants
from tensorsmith.ir import Buffer, Var, const
from tensorsmith.ops import OPERATORS, GraphBuilder

n, k = Var("n", low=0), Var("k", low=0)


def results_stay(data):
    check_pass(hoist_invariants, data)


test_results_stay, test_results_stay_slow = fast_and_slow(results_stay, fast=80)


def test_invariants_move_out_of_all_loops_around() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (n,), "float32")
    outer, inner, i = Buffer("s", (2,)), Buffer("t", (2,)), Var("i", low=0)

    def innermost():
        total = b("reduce_sum", b("exp", x), axes=(0,), keep_dims=False)
        place = b("from_elements", values=(i,), dtype="float32", is_scalar=True)
        both = b("add", b("mul", inner, total), b("mul", place, total))
        return [both]

    def around():
        r = Buffer("r", (2,))
        b.emit(ir.Loop((r,), const(2), None, (outer,), b.body(innermost, [inner], [i])))
        return [b("neg", r)]

    start = b.constant(np.ones(2, np.float32))
    last = Buffer("last", (2,))
    b.emit(ir.Loop((last,), const(3), None, (start,), b.body(around, [outer])))
    graph = b.function("main", [last])
    made = after(hoist_invariants, graph)
    assert ops_of(made.body) == ["Constant", "exp", "reduce_sum", "Loop"]
    (nested, _) = made.body[-1].body.bindings
    assert ops_of(nested.body.bindings) == ["from_elements", "mul", "mul", "add"]
    a = floats(3)
    np.testing.assert_array_equal(results_of(made, a)[0], results_of(graph, a)[0])


def test_what_has_the_shape_of_a_state_or_stands_in_a_branch_stays() -> None:
    b = GraphBuilder(OPERATORS)
    x, c = b.param("x", (1,), "float32"), b.param("c", (), "bool")
    state = Buffer("s", (k,))

    def inside():
        r = Buffer("r", (1,))
        sides = (b.body(lambda op=op: [b(op, x)]) for op in ("exp", "neg"))
        b.emit(ir.Branch((r,), c, *sides))
        return [b("add", state, b("expand", x, shape=(k,)))]

    last = Buffer("last", (Var("m", low=0),))
    b.emit(ir.Loop((last,), const(3), None, (x,), b.body(inside, [state])))
    graph = b.function("main", [last])
    assert after(hoist_invariants, graph) is graph


def test_what_a_check_is_about_stays_behind_it() -> None:
    b = GraphBuilder(OPERATORS)
    x, y = (b.param(name, (v, 2), "float32") for name, v in (("x", n), ("y", k)))
    state = Buffer("s", (2,))

    def inside():
        b.emit(ir.Check(ir.equal(n, k), "equal"))
        total = b("reduce_sum", b("mul", x, y), axes=(0,), keep_dims=False)
        return [b("add", state, total)]

    start = b.constant(np.ones(2, np.float32))
    last = Buffer("last", (2,))
    b.emit(ir.Loop((last,), const(3), None, (start,), b.body(inside, [state])))
    graph = b.function("main", [last])
    assert after(hoist_invariants, graph) is graph
