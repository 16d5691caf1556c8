"""Triangles and determinants against NumPy."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute
from ops.oracles import anything, assert_close, assert_same, numpy_type, small
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

TYPES = ["bool", "int8", "uint64", "float16", "float64", "int4", "float8_e5m2"]


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("k", [-5, -2, 0, 1, 4])
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 3), (0, 3)])
def test_triangles(shape, k, native):
    rng = np.random.default_rng(0)
    for dtype in ["float32"] if native else TYPES:
        x = anything(rng, shape, dtype)
        raw = x.view(np.uint8) if x.itemsize == 1 else x
        for upper, function in ((True, np.triu), (False, np.tril)):
            got = compute("trilu", x, k=k, upper=upper, native=native)
            assert_same(got, function(raw, k).view(numpy_type(dtype)))


def near(x):
    """Determinants are sums of products; elimination errs like one of them per row."""
    return {"scale": np.maximum(abs(np.linalg.det(x)), np.prod(abs(x).sum(-1), -1)), "ulps": 16}


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4, 4), (2, 1, 5, 5)])
def test_determinants(shape, native, symbolic):
    x = small(np.random.default_rng(1), shape, "float32")
    wide = x.astype(np.float64)
    got = compute("det", x, native=native, symbolic=symbolic)
    assert_close(got, np.linalg.det(wide), **near(wide))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_determinants_of_other_types(dtype):
    x = small(np.random.default_rng(2), (3, 4, 4), dtype)
    wide = x.astype(np.float64)
    assert_close(compute("det", x), np.linalg.det(wide), **near(wide))


def test_special_determinants():
    exchange = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], np.float32)
    assert compute("det", exchange) == 1
    assert compute("det", exchange[[1, 0, 2]]) == -1
    assert compute("det", np.zeros((3, 3), np.float32)) == 0
    assert compute("det", np.ones((2, 2), np.float32)) == 0
    assert compute("det", np.empty((0, 0), np.float32)) == 1
    assert np.isnan(compute("det", np.full((2, 2), np.nan, np.float32)))


def test_wrong_operands():
    with pytest.raises(ShapeError):
        OPERATORS["det"]([placeholder((2, 3))], {})
    with pytest.raises(ShapeError):
        OPERATORS["trilu"]([placeholder((2,))], {})
    with pytest.raises(DTypeError):
        OPERATORS["det"]([placeholder((2, 2), "int32")], {})
