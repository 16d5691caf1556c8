"""Fusion: what becomes one kernel, and that it computes the same."""

from __future__ import annotations

import numpy as np

from graph.models import (
    Weights,
    encoder,
    encoder_layer_of,
    layer_norm,
    layer_norm_of,
    residual_block,
)
from graph.running import lowered, run_lowered
from tensorsmith.graph.legalize import legalize
from tensorsmith.graph.move_up import move_up
from tensorsmith.ir import IRModule, Var
from tensorsmith.ir.graph import CallProgram
from tensorsmith.ops import OPERATORS, GraphBuilder


def kernels(b: GraphBuilder, *results) -> list[str]:
    """The kernels that a function calls, in order."""
    graph = b.function("main", list(results))
    body = legalize(IRModule.of(graph)).graph("main").body
    return [c.callee for c in body if isinstance(c, CallProgram)]


def test_an_encoder_layer_has_few_kernels() -> None:
    b, x = encoder(2, 4, 32)
    found = kernels(b, x)
    assert len(found) == 1 + 2 * 9, found
    graph = b.function("main", [x])
    random = np.random.default_rng(5)
    a = random.standard_normal((2, 5, 32)).astype(np.float32)
    allowed = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int64)
    (out,) = run_lowered(graph, a, allowed)
    weights = Weights()
    bias = (1.0 - allowed[:, None, None].astype(np.float32)) * -10000.0
    for _ in range(2):
        a = encoder_layer_of(a, bias, weights, 4, 32)
    np.testing.assert_allclose(out, a, rtol=2e-4, atol=2e-4)


def test_layer_norm_is_one_kernel() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (Var("n", low=1), 24), "float32")
    y = b.param("y", x.shape, "float32")
    weights = Weights()
    gamma, beta = weights(24), weights(24)
    total = b("add", x, y)
    normal = layer_norm(b, total, gamma, beta)
    assert len(kernels(b, normal, total)) == 1
    a, c = weights(3, 24), weights(3, 24)
    out, whole = run_lowered(b.function("main", [normal, total]), a, c)
    np.testing.assert_array_equal(whole, a + c)
    np.testing.assert_allclose(out, layer_norm_of(a + c, gamma, beta), rtol=1e-4, atol=1e-5)


def test_convolutions_take_what_follows_them() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (1, 4, 6, 6), "float32")
    y = residual_block(b, x, Weights(), 4)
    assert kernels(b, y) == ["fused_conv_relu_1", "fused_conv_add_relu_1"]


def test_a_contraction_has_one_result() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (8, 8), "float32")
    w = b.param("w", (8, 8), "float32")
    product = b("matmul", x, w)
    total = b("add", product, x)
    small = b("relu", total)
    found = kernels(b, b("exp", small), total)
    assert found == ["fused_matmul_add_1", "fused_relu_exp_1"]


def test_no_cycle_comes_about() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (8, 8), "float32")
    first = b("exp", x)
    product = b("matmul", first, first)
    last = b("add", first, product)
    assert kernels(b, last) == ["exp_1", "fused_matmul_add_1"]
    a = Weights()(8, 8)
    (out,) = run_lowered(b.function("main", [last]), a)
    np.testing.assert_allclose(out, np.exp(a) + np.exp(a) @ np.exp(a), rtol=1e-4)


def test_views_are_aliases() -> None:
    b = GraphBuilder(OPERATORS)
    n = Var("n", low=1)
    x = b.param("x", (n, 12), "float32")
    y = b("reshape", b("exp", x), shape=(n, 3, 4))
    z = b("reduce_sum", y, axes=(1,), keep_dims=False)
    last = b("expand_dims", z, axes=(0,))
    assert kernels(b, last) == ["exp_1", "reduce_sum_1"]
    a = Weights()(5, 12)
    (out,) = run_lowered(b.function("main", [last]), a)
    np.testing.assert_allclose(out, np.exp(a).reshape(5, 3, 4).sum(1)[None], rtol=1e-5)


def test_what_only_moves_is_taken_by_each_of_its_users() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (6, 4), "float32")
    w = b.param("w", (6, 3), "float32")
    turned = b("transpose", x, axes=(1, 0))
    results = [b("matmul", turned, w), b("exp", turned), b("reduce_sum", turned, axes=(1,))]
    found = kernels(b, *results)
    assert len(found) == 3
    a, c = Weights()(6, 4), Weights(1)(6, 3)
    out = run_lowered(b.function("main", results), a, c)
    for one, wanted in zip(out, (a.T @ c, np.exp(a.T), a.T.sum(1, keepdims=True)), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-6)


def test_equal_kernels_are_one_program() -> None:
    b, x = encoder(3, 4, 32)
    module, _ = lowered(b.function("main", [x]))
    calls = kernels(b, x)
    assert len(set(calls)) < len(calls)
    assert len(module.programs) == len(set(calls)) + 1


def test_a_product_takes_what_is_computed_of_constants_for_it_alone() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (Var("m", low=1), 6), "float32")
    w, scale = np.arange(-9, 9, dtype=np.int8).reshape(6, 3), Weights()(3)
    real = b("mul", b("cast", b.constant(w), dtype="float32"), b.constant(scale))
    one, two = b("matmul", x, real), b("matmul", b("exp", x), real)
    assert kernels(b, one) == ["fused_cast_mul_matmul_1"]
    assert kernels(b, one, two) == [
        *("fused_cast_mul_1", "matmul_1", "exp_1", "matmul_1"),
    ]
    a = Weights(1)(4, 6)
    (found,) = run_lowered(b.function("main", [one]), a)
    np.testing.assert_allclose(found, a @ (w * scale), rtol=1e-4, atol=1e-5)


def test_large_constants_do_not_grow() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (Var("m", low=1), 4096), "float32")
    w = b.constant(np.broadcast_to(np.int8(3), (4096, 2048)))
    y = b("matmul", x, b("cast", w, dtype="float32"))
    assert kernels(b, y) == ["cast_1", "matmul_1"]


def test_elementwise_operators_move_before_views() -> None:
    b = GraphBuilder(OPERATORS)
    n = Var("n", low=1)
    x, w = b.param("x", (n, 6), "float32"), b.param("w", (6, 8), "float32")
    parts = b("reshape", b("matmul", x, w), shape=(n, 2, 4))
    turned = b("transpose", parts, axes=(1, 0, 2))
    half = b("mul", b("exp", turned), b.scalar(0.5, "float32"))
    graph = b.function("main", [b("matmul", half, b("transpose", half, axes=(0, 2, 1)))])
    module = legalize(move_up(IRModule.of(graph)))
    calls = [c.callee for c in module.graph("main").body if isinstance(c, CallProgram)]
    assert calls[0] == "fused_matmul_exp_mul_1"
    assert len(calls) == 2
    a, c = Weights()(5, 6), Weights(1)(6, 8)
    found = run_lowered(move_up(IRModule.of(graph)).graph("main"), a, c)[0]
    wanted = (np.exp((a @ c).reshape(5, 2, 4).transpose(1, 0, 2)) * 0.5).astype(np.float32)
    np.testing.assert_allclose(found, wanted @ wanted.transpose(0, 2, 1), rtol=1e-4)


def test_what_others_read_does_not_move() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (4, 6), "float32")
    turned = b("transpose", b("exp", x), axes=(1, 0))
    module = IRModule.of(b.function("main", [b("neg", turned), turned]))
    assert move_up(module) is module
    turned = b("transpose", x, axes=(1, 0))
    module = IRModule.of(b.function("main", [b("neg", turned)]))
    assert move_up(module) is module


def test_products_with_weights_stay_apart() -> None:
    def chain(*, turned: bool, known: bool) -> list[str]:
        b = GraphBuilder(OPERATORS)
        x = b.param("x", (8, 16), "float32")
        makes = b.constant if known else (lambda data: b.param("w", data.shape, "float32"))
        weights = [makes(Weights()(16, 16)) for _ in range(2)]
        if turned:
            weights = [b("transpose", w, axes=(1, 0)) for w in weights]
        rows = b("softmax", b("matmul", x, weights[0]), axis=-1)
        return kernels(b, b("matmul", rows, weights[1]))

    for turned in (False, True):
        assert len(chain(turned=turned, known=False)) == 1
        assert len(chain(turned=turned, known=True)) > 1
