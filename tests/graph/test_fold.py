"""Constant folding: what is known is computed before, in bounds."""

import numpy as np
import pytest

from graph.passes import after, check_pass, floats, ops_of, results_of
from strategies.cases import fast_and_slow
from tensorsmith import ir
from tensorsmith.graph.fold import SMALL, fold_constants
from tensorsmith.ir import Buffer, Cast, IRModule, Load, Var, const
from tensorsmith.ir.dtype import index
from tensorsmith.ops import OPERATORS, GraphBuilder

n, m = Var("n", low=0), Var("m", low=0)


def results_stay(data):
    check_pass(fold_constants, data)


test_results_stay, test_results_stay_slow = fast_and_slow(results_stay, fast=120)


def start():
    b = GraphBuilder(OPERATORS)
    return b, b.param("x", (n,), "float32")


def test_operators_of_constants() -> None:
    b, x = start()
    w = b.constant(floats(3, 4))
    turned = b("mul", b("transpose", w, axes=(1, 0)), b.scalar(2.0, "float32"))
    made = after(fold_constants, b.function("main", [turned, b("neg", x)]))
    assert set(ops_of(made.body)) == {"Constant", "neg"}
    np.testing.assert_array_equal(results_of(made, floats(2))[0], floats(3, 4).T * 2)


def test_shapes_that_dimensions_decide_stay() -> None:
    b, x = start()
    made = b.function("main", [b("expand", b.constant(floats(1)), shape=(n,)), x])
    module = IRModule.of(made)
    assert fold_constants(module) is module


def test_what_grows_stays() -> None:
    b, _ = start()
    one = b.scalar(1.0, "float32")
    large = b("expand", one, shape=(1 << 40,))
    medium = b("expand", one, shape=(SMALL // 4 + 1,))
    small = b("expand", one, shape=(SMALL // 4,))
    made = after(fold_constants, b.function("main", [large, medium, small]))
    assert ops_of(made.body) == ["Constant", "expand", "expand", "Constant"]


def test_the_budget_is_for_all_results_together() -> None:
    b, _ = start()
    parts = [b.constant(floats(SMALL // 4 + 1, seed=k)) for k in range(4)]
    doubled = [b("tile", p, repeats=(2,)) for p in parts]
    module = IRModule.of(b.function("main", [*doubled, b("neg", parts[0])]))
    made = fold_constants(module, budget=5 * SMALL).graph("main")
    assert ops_of(made.body).count("tile") == 2
    assert "neg" not in ops_of(made.body)  # takes no more memory than the model has


def test_much_work_is_for_an_evaluator_that_is_given() -> None:
    b, _ = start()
    module = IRModule.of(b.function("main", [b("matmul", *[b.constant(floats(600, 600))] * 2)]))
    assert fold_constants(module) is module
    made = fold_constants(module, evaluate=lambda _, arrays, __: [arrays[0] @ arrays[1]])
    assert ops_of(made.graph("main").body) == ["Constant", "Constant"]


def test_an_operator_that_fails_stays() -> None:
    b, _ = start()
    table = b.constant(floats(3))
    made = b.function("main", [b("gather", table, b.constant(np.array([7])))])
    module = IRModule.of(made)
    found = fold_constants(module).graph("main")
    assert ops_of(found.body) in (["Constant", "Constant", "gather"], ["Constant"] * 3)


def test_numbers_that_constants_hold_stand_in_types() -> None:
    b, x = start()
    count = b.constant(np.array([2, 3]))
    k, j = Var("k", low=0), Var("j", low=4)
    b.emit(ir.Dims((k, j), tuple(Cast(Load(count, (const(i),)), index) for i in (0, 1))))
    wide = b("expand", x, shape=(k, n))
    made = after(fold_constants, b.function("main", [b("neg", wide)]))
    assert ops_of(made.body) == ["Constant", "Dims", "expand", "neg"]
    assert made.body[1].variables == (j,)  # its facts do not hold
    assert made.results[0].shape == (const(2), n)
    assert made.body[2].attrs["shape"] == (const(2), n)


def test_checks_that_hold_go() -> None:
    b, x = start()
    held = b.constant(np.array(3))
    k = Var("k", low=0)
    b.emit(ir.Dims((k,), (Cast(Load(held, ()), index),)))
    b.emit(ir.Check(ir.Lt(k, const(5)), "less"))
    b.emit(ir.Check(ir.Lt(k, n), "unknown"))
    b.emit(ir.Check(ir.Lt(k, const(1)), "fails"))
    made = after(fold_constants, b.function("main", [x]))
    assert [c.message for c in made.body if isinstance(c, ir.Check)] == ["unknown", "fails"]


@pytest.mark.parametrize("taken", [True, False])
def test_branches_whose_side_is_known(taken) -> None:
    b, x = start()
    then, orelse = (b.body(lambda op=op: [b(op, x)]) for op in ("exp", "neg"))
    k = Var("k", low=0)
    r = Buffer("r", (k,))
    b.emit(ir.Branch((r,), b.constant(np.array(taken)), then, orelse))
    made = after(fold_constants, b.function("main", [b("abs", r)]))
    assert ops_of(made.body) == ["Constant", "exp" if taken else "neg", "abs"]
    assert made.results[0].shape == (n,)


def test_a_known_side_of_another_shape_is_matched() -> None:
    b, x = start()
    y = b.param("y", (m,), "float32")
    bodies = (ir.Body((), (), (v,)) for v in (y, x))
    r = Buffer("r", (n,))
    b.emit(ir.Branch((r,), b.constant(np.array(True)), *bodies))
    made = after(fold_constants, b.function("main", [b("abs", r)]))
    assert ops_of(made.body) == ["Constant", "MatchShape", "abs"]


def test_loops_that_do_not_begin() -> None:
    b, x = start()
    k, times = Var("k", low=0), Var("times", low=0)
    state = Buffer("state", (n,))
    body = b.body(lambda: [b("neg", state), b.scalar(1.0, "float32")], [state])
    last, scan = Buffer("last", (k,)), Buffer("scan", (times,))
    b.emit(ir.Loop((last, scan), const(0), None, (x,), body))
    made = after(fold_constants, b.function("main", [last, b("neg", scan), b.elements([k])]))
    assert made.results[0] is x
    found = results_of(made, floats(5))
    assert found[1].shape == (0,)
    assert found[2].tolist() == [5]


def test_another_view_of_a_constant() -> None:
    b, x = start()
    c = b.constant(floats(2, 3))
    k = Var("k", low=0)
    b.emit(ir.MatchShape(Buffer("y", (2, k)), c))
    flat = Buffer("flat", (k * 2,))
    b.emit(ir.Alias(flat, c))
    made = after(fold_constants, b.function("main", [flat, x, b.elements([k])]))
    assert set(ops_of(made.body)) == {"Constant"}
    np.testing.assert_array_equal(results_of(made, floats(1))[0], floats(2, 3).reshape(-1))
