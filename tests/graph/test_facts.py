"""What checks establish is used after them."""

import numpy as np

from graph.passes import after, check_pass, floats, ops_of, results_of
from strategies.cases import fast_and_slow
from tensorsmith import ir
from tensorsmith.graph.facts import use_facts
from tensorsmith.ir import Buffer, IRModule, Lt, Var, const, equal
from tensorsmith.ops import OPERATORS, GraphBuilder

n, m = Var("n", low=1), Var("m", low=1)


def results_stay(data):
    check_pass(use_facts, data)


test_results_stay, test_results_stay_slow = fast_and_slow(results_stay, fast=80)


def start():
    b = GraphBuilder(OPERATORS)
    return b, b.param("x", (n, m), "float32")


def test_a_check_is_made_once() -> None:
    b, x = start()
    for limit in (8, 9, 7):
        b.emit(ir.Check(Lt(n, const(limit)), f"less than {limit}"))
    made = after(use_facts, b.function("main", [x]))
    assert [c.message for c in made.body] == ["less than 8", "less than 7"]


def test_a_condition_whose_second_part_holds() -> None:
    b, x = start()
    b.emit(ir.Check(ir.Or(equal(n, 1), equal(n, n)), "holds"))
    assert after(use_facts, b.function("main", [x])).body == ()


def test_equal_dimensions_become_one() -> None:
    b, x = start()
    b.emit(ir.Check(equal(n, m), "square"))
    y = b("transpose", x, axes=(1, 0))
    made = after(use_facts, b.function("main", [b("neg", y)]))
    assert len({*made.results[0].shape}) == 1


def test_a_match_that_compares_nothing_is_its_operand() -> None:
    b, x = start()
    k = Var("k", low=1)
    y = b.match(x, (n, k))
    made = after(use_facts, b.function("main", [b("expand", y, shape=(k, n, k)), y]))
    assert ops_of(made.body) == ["expand"]
    assert made.body[0].attrs["shape"] == (m, n, m)
    assert made.results[1] is x
    assert results_of(made, floats(2, 3))[0].shape == (3, 2, 3)


def test_a_match_that_may_fail_stays() -> None:
    b, x = start()
    k = Var("k", low=2)
    y = b.match(x, (const(3), k))
    made = after(use_facts, b.function("main", [b("neg", y)]))
    assert ops_of(made.body) == ["MatchShape", "neg"]
    b.emit(ir.Check(Lt(n, const(5)), "follows"))
    made = after(use_facts, b.function("main", [b("neg", y)]))
    assert ops_of(made.body) == ["MatchShape", "neg", "Check", "neg"]


def test_a_check_of_what_a_match_has_compared_stays() -> None:
    b, x = start()
    b.match(x, (const(3), m))
    b.emit(ir.Check(equal(n, const(3)), "for kernels"))
    b.emit(ir.Check(equal(n, const(3)), "again"))
    made = after(use_facts, b.function("main", [b("neg", x)]))
    assert ops_of(made.body) == ["MatchShape", "Check", "neg"]


def test_nothing_known_is_the_same_object() -> None:
    b, x = start()
    b.emit(ir.Check(Lt(n, const(9)), "unknown"))
    module = IRModule.of(b.function("main", [b("neg", x)]))
    assert use_facts(module) is module


def test_what_holds_inside_ends_with_the_body() -> None:
    b, x = start()
    c = b.param("c", (), "bool")

    def checked():
        b.emit(ir.Check(Lt(n, const(5)), "inside"))
        return [b("neg", x)]

    r = Buffer("r", (n, m))
    b.emit(ir.Branch((r,), c, b.body(checked), b.body(lambda: [b("abs", x)])))
    b.emit(ir.Check(Lt(n, const(5)), "after"))
    made = after(use_facts, b.function("main", [r]))
    assert ops_of(made.body) == ["Branch", "Check"]
    np.testing.assert_array_equal(results_of(made, floats(2, 2), np.array(True))[0], -floats(2, 2))
