"""Softmax and its kin against their formulas in float64."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference
from ops.oracles import FLOATS, assert_close, assert_same, small
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder


def softmax(x, axis):
    power = np.exp(x - x.max(axis=axis, keepdims=True))
    return power / power.sum(axis=axis, keepdims=True)


def log_softmax(x, axis):
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax(dtype, axis):
    x = small(np.random.default_rng(0), (3, 7, 2), dtype)
    wide = x.astype(np.float64)
    ulps = 16 if dtype in ("float32", "float64") else 1
    assert_close(compute("softmax", x, axis=axis), softmax(wide, axis), ulps=ulps)
    want = log_softmax(wide, axis)
    assert_close(
        compute("log_softmax", x, axis=axis), want, ulps=ulps, scale=np.maximum(abs(want), 1)
    )


@pytest.mark.parametrize("symbolic", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_natively(axis, symbolic):
    x = small(np.random.default_rng(1), (5, 37), "float32") * 20
    wide = x.astype(np.float64)
    got = compute("softmax", x, axis=axis, native=True, symbolic=symbolic)
    assert_close(got, softmax(wide, axis), ulps=64)
    got = compute("log_softmax", x, axis=axis, native=True, symbolic=symbolic)
    want = log_softmax(wide, axis)
    assert_close(got, want, ulps=16, scale=np.maximum(abs(want), 1))


def test_large_and_infinite():
    x = np.array([[1000, 1000], [-np.inf, 0], [np.nan, 1], [-1e30, -1e30]], np.float32)
    nan = np.nan
    want = np.array([[0.5, 0.5], [0, 1], [nan, nan], [0.5, 0.5]], np.float32)
    assert_same(compute("softmax", x), want)
    assert_same(compute("log_softmax", x[1:2]), np.array([[-np.inf, 0]], np.float32))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "hardmax"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1,), (2, 1)])
def test_few_elements(name, shape):
    x = np.zeros(shape, np.float32)
    want = np.full(shape, 0 if name == "log_softmax" else 1 / max(shape[-1], 1), np.float32)
    assert_same(compute(name, x), want)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_hardmax(axis, native):
    x = np.round(small(np.random.default_rng(2), (3, 4, 5), "float32"))
    got = compute("hardmax", x, axis=axis, native=native)
    assert_same(got, onnx_reference("Hardmax", x, axis=axis))


def test_wrong_operands():
    with pytest.raises(DTypeError):
        OPERATORS["softmax"]([placeholder((3,), "int32")], {})
    with pytest.raises(ShapeError):
        OPERATORS["softmax"]([placeholder(())], {})
    with pytest.raises(ShapeError):
        OPERATORS["hardmax"]([placeholder((3,))], {"axis": 1})
