"""Look-ups by position, against NumPy and ONNX."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference, random
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ir import Var
from tensorsmith.ops import OPERATORS
from tensorsmith.ops.requirements import collecting
from tensorsmith.te import placeholder


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,)])
def test_gather(axis, shape, symbolic, native):
    rng = np.random.default_rng(0)
    x = random(rng, (2, 3, 5))
    at = rng.integers(-x.shape[axis], x.shape[axis], shape)
    got = compute("gather", x, at, axis=axis, symbolic=symbolic, native=native)
    np.testing.assert_array_equal(got, np.take(x, at, axis))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(axis):
    rng = np.random.default_rng(1)
    x = random(rng, (3, 4, 5), "int8")
    for shape in [(2, 3, 4), (3, 4, 5)]:
        at = rng.integers(-3, 3, shape).astype(np.int32)
        got = compute("gather_elements", x, at, axis=axis)
        part = tuple(slice(None) if d == axis % 3 else slice(n) for d, n in enumerate(shape))
        np.testing.assert_array_equal(got, np.take_along_axis(x[part], at, axis))


@pytest.mark.parametrize(
    ("shape", "at_shape", "batch"),
    [((2, 3, 4), (5, 2), 0), ((2, 3, 4), (2, 5, 1), 1), ((2, 3, 4), (2, 3, 1), 2), ((3,), (1,), 0)],
)
def test_gather_nd(shape, at_shape, batch):
    rng = np.random.default_rng(2)
    x = random(rng, shape)
    at = rng.integers(0, 2, at_shape)
    got = compute("gather_nd", x, at, batch_dims=batch)
    expected = onnx_reference("GatherND", x, at, batch_dims=batch)
    np.testing.assert_array_equal(got, expected)


def test_array_feature_extractor():
    x = random(np.random.default_rng(3), (3, 5))
    at = np.array([[4, 0, 1]])
    np.testing.assert_array_equal(compute("array_feature_extractor", x, at), x[:, [4, 0, 1]])
    np.testing.assert_array_equal(compute("array_feature_extractor", x[0], at), x[:1, [4, 0, 1]])


def test_operands_that_do_not_fit():
    x, at = placeholder((2, 3)), placeholder((2,), "int64")
    with pytest.raises(DTypeError):
        OPERATORS["gather"]([x, x], {})
    with pytest.raises(ShapeError):
        OPERATORS["gather"]([x, at], {"axis": 2})
    with pytest.raises(ShapeError):
        OPERATORS["gather_elements"]([x, at], {})
    with pytest.raises(ShapeError):
        OPERATORS["gather_nd"]([x, placeholder((2, 3), "int64")], {})


def test_nothing_is_read_from_an_empty_axis():
    empty, at = placeholder((0, 3)), placeholder((2,), "int64")
    with pytest.raises(ShapeError, match="no elements"):
        OPERATORS["gather"]([empty, at], {})
    with collecting() as required:
        OPERATORS["gather"]([placeholder((Var("n", low=0), 3)), at], {})
    assert [repr(e) for e in required] == ["1 <= n"]
    assert compute("gather", np.zeros((0, 3)), np.zeros((0, 2), np.int64)).shape == (0, 2, 3)
