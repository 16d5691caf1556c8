"""Orders against NumPy, and selections against NumPy."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, random
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16", "bool", "uint64"])
def test_sort(dtype, axis, native):
    rng = np.random.default_rng(0)
    x = random(rng, (3, 5, 4), dtype, 0, 4)
    values, at = compute("sort", x, axis=axis, native=native)
    expected = np.argsort(x, axis=axis, kind="stable")
    np.testing.assert_array_equal(at, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis))


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [0, 1, 3, 7])
def test_top_k(k, largest, symbolic):
    x = random(np.random.default_rng(1), (2, 7, 3), "int32", 0, 5)
    values, at = compute("top_k", x, k=k, axis=1, largest=largest, symbolic=symbolic)
    key = -x if largest else x
    expected = np.argsort(key, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(at, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))


@pytest.mark.parametrize("order", ["random", "rising", "falling", "equal"])
@pytest.mark.parametrize("k", [1, 2, 31, 64])
def test_the_first_of_many(k, order):
    x = random(np.random.default_rng(3), (3, 200), "float32", 0, 40)
    x = {"random": x, "rising": np.sort(x), "falling": -np.sort(-x), "equal": 0 * x}[order]
    values, at = compute("top_k", x, k=k, native=True)
    expected = np.argsort(-x, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(at, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))


def test_nan_is_the_greatest():
    x = np.array([1, np.nan, -np.inf, np.inf, np.nan], np.float32)
    _, at = compute("sort", x)
    assert at.tolist() == [2, 0, 3, 1, 4]
    _, at = compute("top_k", x, k=3)
    assert at.tolist() == [1, 4, 3]


def test_sorting_nothing():
    values, at = compute("sort", np.zeros((0, 3), np.float32), axis=0)
    assert values.shape == at.shape == (0, 3)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("shape", [(), (7,), (2, 3, 4), (0, 3)])
@pytest.mark.parametrize("dtype", ["float32", "bool", "int16"])
def test_nonzero(dtype, shape, native):
    x = np.asarray(random(np.random.default_rng(2), shape, dtype, 0, 2))
    count = int(compute("nonzero_count", x, native=native))
    assert count == np.count_nonzero(x)
    got = compute("nonzero", x, count=count, native=native)
    np.testing.assert_array_equal(got, np.array(np.nonzero(np.atleast_1d(x)))[: x.ndim])


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("length", [2, 3])
def test_compress(axis, length):
    x = random(np.random.default_rng(3), (3, 3, 4))
    condition = np.array([False, True, True][:length])
    count = int(compute("compress_count", condition))
    got = compute("compress", x, condition, count=count, axis=axis)
    np.testing.assert_array_equal(got, np.compress(condition, x, axis))


def test_operands_that_do_not_fit():
    x = placeholder((3, 4))
    with pytest.raises(ShapeError):
        OPERATORS["top_k"]([x], {"k": 5})
    with pytest.raises(ShapeError):
        OPERATORS["sort"]([x], {"axis": 2})
    with pytest.raises(DTypeError):
        OPERATORS["compress"]([x, x], {"count": 1})
