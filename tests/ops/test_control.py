"""Branches and loops made by the builder: types of results, and what they compute."""

import numpy as np
import pytest

from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ir import IRModule, Var, as_expr
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.ops.control import branch, loop
from tensorsmith.ops.interpret import interpret_graph

F = np.float32


def finished(builder, results):
    return IRModule.of(builder.function("main", results))


@pytest.fixture
def builder():
    return GraphBuilder(OPERATORS)


@pytest.mark.parametrize("condition", [True, False])
def test_sides_of_different_extents(builder, condition):
    n = Var("n", low=1)
    x, c = builder.param("x", (n, 3), "float32"), builder.param("c", (), "bool")
    (y,) = branch(
        builder, c, lambda: [builder("concat", x, x, axis=0)], lambda: [builder("neg", x)]
    )
    assert y.shape[0] is not n
    assert y.shape[1] is as_expr(3)
    value = np.arange(6, dtype=F).reshape(2, 3)
    (found,) = interpret_graph(finished(builder, [y]), "main", [value, np.array(condition)])
    expected = np.concatenate([value, value]) if condition else -value
    np.testing.assert_array_equal(found, expected)


def test_sides_that_do_not_go_together(builder):
    x, c = builder.param("x", (3,), "float32"), builder.param("c", (), "bool")
    with pytest.raises(ShapeError, match="as many results"):
        branch(builder, c, lambda: [x], list)
    with pytest.raises(ShapeError, match="have one rank"):
        branch(builder, c, lambda: [x], lambda: [builder("expand_dims", x, axes=(0,))])
    with pytest.raises(DTypeError, match="have one element type"):
        branch(builder, c, lambda: [x], lambda: [builder("cast", x, dtype="int32")])


def test_a_loop_with_states_and_scans(builder):
    n, m = Var("n", low=1), Var("m", low=0)
    x, count = builder.param("x", (n,), "float32"), builder.param("count", (m,), "bool")

    def make(number, states):
        doubled = builder("add", states[0], states[0])
        return None, [doubled], [states[0]]

    y, rows = loop(builder, count.shape[0], None, [x], make)
    assert y.shape == (n,)
    assert rows.shape == (m, n)
    value = np.arange(4, dtype=F)
    for trip in (0, 1, 3):
        given = [value, np.zeros(trip, bool)]
        last, seen = interpret_graph(finished(builder, [y, rows]), "main", given)
        np.testing.assert_array_equal(last, value * 2**trip)
        np.testing.assert_array_equal(
            seen, np.array([value * 2**k for k in range(trip)], F).reshape(trip, 4)
        )


def test_a_state_that_grows_gets_a_variable(builder):
    n = Var("n", low=1)
    x = builder.param("x", (n, 2), "float32")

    def make(number, states):
        return None, [builder("concat", states[0], x, axis=0)], []

    (y,) = loop(builder, as_expr(3), None, [x], make)
    assert y.shape[0] is not n
    assert y.shape[1] is as_expr(2)
    value = np.arange(4, dtype=F).reshape(2, 2)
    (found,) = interpret_graph(finished(builder, [y]), "main", [value])
    np.testing.assert_array_equal(found, np.tile(value, (4, 1)))


def test_states_keep_their_types(builder):
    x = builder.param("x", (3,), "float32")
    with pytest.raises(DTypeError, match="a state before and after an iteration"):
        loop(
            builder,
            as_expr(2),
            None,
            [x],
            lambda i, s: (None, [builder("cast", s[0], dtype="int8")], []),
        )
    with pytest.raises(ShapeError, match="ends an iteration with the states"):
        loop(builder, as_expr(2), None, [x], lambda i, s: (None, [], []))
