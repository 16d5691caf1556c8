"""What profiles say that kernels cost."""

import numpy as np
import pytest

from tensorsmith.compiler import compile
from tensorsmith.ir import IRModule, Var
from tensorsmith.ops import OPERATORS, GraphBuilder


@pytest.mark.parametrize("height", [28, Var("height", low=4)], ids=["known", "unknown"])
def test_operations_are_those_that_the_model_is_written_with(height):
    """Minimal filtering takes fewer, and is as fast as its time says."""
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (1, 64, height, 28), "float32")
    weight = b.constant(np.ones((64, 64, 3, 3), np.float32))
    module = IRModule.of(b.function("main", [b("conv", x, weight, pads=(1, 1, 1, 1))]))
    image = np.ones((1, 64, 28, 28), np.float32)
    found = [
        list(compile(module, threads=1, winograd=w).profile(image, repeats=1).kernels)
        for w in (True, False)
    ]
    assert any("winograd" in k.name for k in found[0])
    for kernels in found:
        most = max(k.flops for k in kernels if k.flops is not None)
        assert most == pytest.approx(2 * 9 * 64 * 64 * 28 * 28, rel=0.01)
