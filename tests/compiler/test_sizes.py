"""Models that are compiled for given sizes."""

import numpy as np
import pytest

from tensorsmith.compiler import compile
from tensorsmith.errors import ShapeError
from tensorsmith.ir import IRModule, Var
from tensorsmith.ops import OPERATORS, GraphBuilder


def doubled() -> IRModule:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (Var("batch", low=1), Var("length", low=1)), "float32")
    return IRModule.of(b.function("main", [b("add", x, x)]))


def test_a_size_that_is_given() -> None:
    model = compile(doubled(), sizes={"batch": 2}, threads=1)
    assert [str(i) for i in model.inputs] == ["x: float32[2, length]"]
    a = np.ones((2, 5), np.float32)
    np.testing.assert_array_equal(model(a), a + a)
    with pytest.raises(ShapeError):
        model(np.ones((3, 5), np.float32))


def test_a_dimension_that_is_not_there() -> None:
    with pytest.raises(ShapeError, match="main has no dimension 'width'"):
        compile(doubled(), sizes={"width": 2})
