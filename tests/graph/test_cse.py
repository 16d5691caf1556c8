"""Common subexpressions are computed once."""

import numpy as np

from graph.passes import after, check_pass, ops_of
from strategies.cases import fast_and_slow
from tensorsmith import ir
from tensorsmith.graph.cse import eliminate_common_subexpressions
from tensorsmith.ir import Buffer, Cast, IRModule, Load, Var, const
from tensorsmith.ir.dtype import index
from tensorsmith.ops import OPERATORS, GraphBuilder

n = Var("n", low=0)


def results_stay(data):
    check_pass(eliminate_common_subexpressions, data)


test_results_stay, test_results_stay_slow = fast_and_slow(results_stay, fast=80)


def start():
    b = GraphBuilder(OPERATORS)
    return b, b.param("x", (n,), "float32")


def test_equal_chains_become_one() -> None:
    b, x = start()
    left = b("exp", b("neg", x))
    right = b("exp", b("neg", x))
    made = after(
        eliminate_common_subexpressions, b.function("main", [b("add", left, right), right])
    )
    assert ops_of(made.body) == ["neg", "exp", "add"]
    assert made.body[-1].operands == (left, left)
    assert made.results[1] is left


def test_attributes_and_order_of_operands_count() -> None:
    b, x = start()
    y = b("neg", x)
    values = [
        b("softmax", x, axis=0),
        b("softmax", x, axis=-1),
        b("sub", x, y),
        b("sub", y, x),
        b("leaky_relu", x, alpha=1),
        b("leaky_relu", x, alpha=1.0),
    ]
    module = IRModule.of(b.function("main", values))
    assert eliminate_common_subexpressions(module) is module


def test_constants_of_equal_content() -> None:
    b, _x = start()
    data = np.ones(3, np.float32)
    kept = [b.constant(data), b.constant(data.copy()), b.constant(np.ones(3, np.int32))]
    made = after(eliminate_common_subexpressions, b.function("main", kept))
    assert made.results == (kept[0], kept[0], kept[2])


def test_constants_that_differ_in_one_element() -> None:
    b, _ = start()
    data = np.zeros((50, 40), np.float32)
    other = data.copy()
    other[7, 9] = 1
    turned = np.zeros((40, 50), np.float32).T
    kept = [b.constant(d) for d in (data, other, turned, np.negative(data))]
    made = after(eliminate_common_subexpressions, b.function("main", kept))
    assert made.results == (kept[0], kept[1], kept[0], kept[3])


def test_numbers_that_are_read_twice() -> None:
    b, _x = start()
    count = b.param("count", (), "int64")
    first, second, third = Var("k", low=0), Var("j", low=0), Var("i")
    for var in (first, second, third):
        b.emit(ir.Dims((var,), (Cast(Load(count, ()), index),)))
    one = b.constant(np.ones(1, np.float32))
    wide = [b("expand", one, shape=(var,)) for var in (first, second, third)]
    made = after(eliminate_common_subexpressions, b.function("main", wide))
    assert ops_of(made.body) == ["Dims", "Dims", "Constant", "expand", "expand"]
    assert made.results[0] is made.results[1]


def test_bodies_take_what_is_computed_outside_and_not_from_each_other() -> None:
    b, x = start()
    c = b.param("c", (), "bool")
    outside = b("exp", x)
    then, orelse = (b.body(lambda: [b("add", b("exp", x), b("neg", x))]) for _ in range(2))
    r = Buffer("r", (n,))
    b.emit(ir.Branch((r,), c, then, orelse))
    later = b("neg", x)
    made = after(eliminate_common_subexpressions, b.function("main", [r, outside, later]))
    branch = made.body[1]
    assert ops_of(made.body) == ["exp", "Branch", "neg"]
    assert ops_of(branch.then.bindings) == ops_of(branch.orelse.bindings) == ["neg", "add"]


def test_calls_of_programs() -> None:
    x, y, z = (Buffer(name, (4,)) for name in "xyz")
    a, out, i = Buffer("a", (4,)), Buffer("out", (4,)), Var("i")
    copy = ir.TensorProgram("copy", (a, out), ir.For(i, const(4), ir.Store(out, (i,), a[i])))
    calls = tuple(ir.CallProgram((r,), "copy", (x,)) for r in (y, z))
    module = IRModule.of(ir.GraphFunction("main", (x,), calls, (y, z)), copy)
    made = eliminate_common_subexpressions(module).graph("main")
    assert made.results == (y, y)
