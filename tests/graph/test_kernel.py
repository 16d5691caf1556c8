"""Kernels: their dimensions, their names, what is written into them."""

from __future__ import annotations

import numpy as np
import pytest

from graph.running import lowered, run_lowered
from tensorsmith.errors import EvaluationError
from tensorsmith.graph.extents import kernel_extents
from tensorsmith.graph.kernel import kernel_name
from tensorsmith.graph.legalize import legalize
from tensorsmith.ir import Const, IRModule, Var
from tensorsmith.ir.graph import Apply, CallProgram
from tensorsmith.ops import OPERATORS, GraphBuilder


def applied(b: GraphBuilder, *results) -> list[Apply]:
    """The operators of a function."""
    return [a for a in b.function("main", list(results)).body if isinstance(a, Apply)]


def test_an_extent_that_is_an_expression_is_a_variable_to_a_kernel() -> None:
    b = GraphBuilder(OPERATORS)
    extent = (Var("n", low=5) + 3) // 4
    x, y = b.param("x", (7, extent), "float32"), b.param("y", (extent,), "float32")
    chosen = kernel_extents(applied(b, b("add", x, y)))
    assert list(chosen) == [extent]
    (variable,) = chosen.values()
    assert isinstance(variable, Var)
    assert variable.low == 2


def test_an_expression_stays_where_its_dimensions_are_needed() -> None:
    b = GraphBuilder(OPERATORS)
    n = Var("n", low=1)
    x, y = b.param("x", (n,), "float32"), b.param("y", (n * 2,), "float32")
    assert not kernel_extents(applied(b, b("concat", x, y, axis=0)))
    a, c = np.arange(3, dtype=np.float32), np.arange(6, dtype=np.float32)
    (found,) = run_lowered(b.function("main", [b("concat", x, y, axis=0)]), a, c)
    np.testing.assert_array_equal(found, np.concatenate([a, c]))


def test_kernels_over_different_expressions_are_one() -> None:
    b = GraphBuilder(OPERATORS)
    n, m = Var("n", low=0), Var("m", low=0)
    x, y = b.param("x", (n // 2 + 1, 7), "float32"), b.param("y", (m // 3 + 1, 7), "float32")
    results = [b("softmax", v, axis=-1) for v in (x, y)]
    module = legalize(IRModule.of(b.function("main", results)))
    assert list(module.programs) == ["softmax_1"]


def test_extents_that_must_be_equal_are_checked() -> None:
    b = GraphBuilder(OPERATORS)
    n, m = Var("n", low=2), Var("m", low=2)
    x, y = b.param("x", (n, 3), "float32"), b.param("y", (m, 3), "float32")
    graph = b.function("main", [b("exp", b("add", x, y))])
    a = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(run_lowered(graph, a, a.copy())[0], np.exp(a + a))
    with pytest.raises(EvaluationError):
        run_lowered(graph, a, np.ones((3, 3), np.float32))


def test_constants_of_one_element_stand_in_kernels() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (4,), "float32")
    half = b.constant(np.array([[0.5]], np.float32))
    graph = b.function("main", [b("mul", x, b("add", half, b.scalar(1.0, "float32")))])
    _, host = lowered(graph)
    assert not host.has_weights
    (found,) = run_lowered(graph, np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(found, [np.arange(4, dtype=np.float32) * 1.5])


def test_a_product_of_a_tensor_with_itself() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (3, 3), "float32")
    a = np.arange(9, dtype=np.float32).reshape(3, 3)
    (found,) = run_lowered(b.function("main", [b("matmul", x, x)]), a)
    np.testing.assert_array_equal(found, a @ a)


def test_names() -> None:
    assert kernel_name(["exp"], ()) == "exp_1"
    assert kernel_name(["matmul", "add"], {"fused_matmul_add_1"}) == "fused_matmul_add_2"
    assert kernel_name(list("abcdefg"), ()) == "fused_a_b_c_d_g_1"


def test_operands_that_only_give_shapes_are_not_read() -> None:
    b = GraphBuilder(OPERATORS)
    n = Var("n", low=0)
    x, y = b.param("x", (n, 2), "float32"), b.param("y", (3,), "float32")
    graph = b.function("main", [b("expand", y, shape=(*x.shape[:1], 3)), b("exp", x)])
    calls = [
        c for c in legalize(IRModule.of(graph)).graph("main").body if isinstance(c, CallProgram)
    ]
    (expand,) = (c for c in calls if c.callee.startswith("expand"))
    assert all(isinstance(e, Const) for o in expand.inputs for e in o.shape)
    found = run_lowered(graph, np.ones((4, 2), np.float32), np.arange(3, dtype=np.float32))
    np.testing.assert_array_equal(found[0], np.tile(np.arange(3, dtype=np.float32), (4, 1)))
