"""Operators of constants: little work is interpreted, much is compiled."""

import numpy as np
import pytest

from tensorsmith.compiler import evaluate
from tensorsmith.graph.simplify import simplify
from tensorsmith.ir import IRModule
from tensorsmith.ops import OPERATORS, GraphBuilder


@pytest.mark.parametrize("worth", [0, 1 << 40], ids=["compiled", "interpreted"])
def test_both_ways_give_the_same(worth, monkeypatch) -> None:
    monkeypatch.setattr(evaluate, "WORTH_COMPILING", worth)
    a = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    (found,) = evaluate.evaluate_natively(OPERATORS["transpose"], [a], {"axes": (1, 0)})
    np.testing.assert_array_equal(found, a.T)
    (found,) = evaluate.evaluate_natively(OPERATORS["mul"], [a.T, a.T], {})
    np.testing.assert_array_equal(found, a.T * a.T)


def test_large_weights_are_turned_before() -> None:
    b = GraphBuilder(OPERATORS)
    weight = np.random.default_rng(0).standard_normal((1500, 1500)).astype(np.float32)
    turned = b("transpose", b.constant(weight), axes=(1, 0))
    module = simplify(
        IRModule.of(b.function("main", [turned])), evaluate=evaluate.evaluate_natively
    )
    (constant,) = module.graph("main").body
    np.testing.assert_array_equal(constant.data, weight.T)
