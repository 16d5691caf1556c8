"""Compiled models against what NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest

from graph.models import Weights, encoder, encoder_layer_of, residual_block
from tensorsmith.compiler import compile, lower_model
from tensorsmith.errors import IRError
from tensorsmith.ir import IRModule, Var
from tensorsmith.ops import OPERATORS, GraphBuilder


def test_an_encoder_over_sizes_that_are_not_known() -> None:
    b, x = encoder(2, 4, 32)
    model = compile(IRModule.of(b.function("main", [x])), threads=1)
    assert [str(i) for i in model.inputs] == [
        "x: float32[batch, length, 32]",
        "allowed: int64[batch, length]",
    ]
    random = np.random.default_rng(5)
    for batch, length in ((1, 1), (2, 7), (1, 33)):
        a = random.standard_normal((batch, length, 32)).astype(np.float32)
        allowed = (random.random((batch, length)) < 0.8).astype(np.int64)
        out = model(a, allowed)
        weights = Weights()
        bias = (1.0 - allowed[:, None, None].astype(np.float32)) * -10000.0
        for _ in range(2):
            a = encoder_layer_of(a, bias, weights, 4, 32)
        np.testing.assert_allclose(out, a, rtol=2e-4, atol=2e-4)


def test_a_residual_block() -> None:
    torch = pytest.importorskip("torch")
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (Var("n", low=0), 8, 9, 7), "float32")
    y = residual_block(b, x, Weights(), 8)
    model = compile(IRModule.of(b.function("main", [y])), threads=2)
    for count in (0, 1, 3):
        a = Weights(7)(count, 8, 9, 7)
        weights = Weights()
        parts = [torch.from_numpy(weights(*s)) for s in [(8, 8, 3, 3), (8,)] * 2]
        value = torch.from_numpy(a)
        inner = torch.relu(torch.conv2d(value, parts[0], parts[1], padding=1))
        wanted = torch.relu(torch.conv2d(inner, parts[2], parts[3], padding=1) + value)
        np.testing.assert_allclose(model(a), wanted.numpy(), rtol=1e-4, atol=1e-4)


def test_results_have_the_names_that_the_model_gives() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (3,), "float32")
    graph = b.function("main", [b("exp", x), x, b("neg", x)])
    from dataclasses import replace

    model = compile(IRModule.of(replace(graph, attrs={"outputs": ("e", "same", "minus")})))
    a = np.arange(3, dtype=np.float32)
    found = model.run(a)
    assert list(found) == ["e", "same", "minus"]
    np.testing.assert_array_equal(found["same"], a)
    np.testing.assert_array_equal(found["minus"], -a)


def test_passes_are_observed() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (3,), "float32")
    seen = []
    made = lower_model(IRModule.of(b.function("main", [b("exp", x)])), observe=seen.append)
    assert [e.name for e in seen][-1] == "legalize"
    assert seen[-1].after.programs
    assert set(made.seconds) == {"passes", "host", "kernels"}


def test_a_module_without_the_entry() -> None:
    with pytest.raises(IRError, match="no graph function 'main'"):
        compile(IRModule.of())
