"""Powers of mixed types against NumPy."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference
from ops.oracles import FLOATS, INTEGERS, anything, assert_close, assert_same, small
from tensorsmith.errors import DTypeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder


@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_of_floats(dtype):
    rng = np.random.default_rng(0)
    a, b = anything(rng, (13, 1), dtype), anything(rng, (1, 11), dtype)
    with np.errstate(all="ignore"):
        want = np.power(a.astype(np.float64), b.astype(np.float64))
    assert_close(compute("pow", a, b), want)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("other", ["int8", "int32", "uint64", "float16", "float64"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_exponents_of_another_type(dtype, other, native):
    if native and (dtype != "float32" or other not in ("int32", "float64")):
        return
    rng = np.random.default_rng(1)
    a, b = small(rng, (7, 1), dtype), small(rng, (1, 5), other)
    with np.errstate(all="ignore"):
        want = np.power(a.astype(np.float64), b.astype(np.float64))
    assert_close(compute("pow", a, b, native=native), want)


def test_odd_exponents_stay_odd():
    b = np.array([2**24 + 1, 2**24, -(2**31) + 1], np.int32)
    got = compute("pow", np.full(3, -1, np.float32), b)
    assert got.tolist() == [-1, 1, -1]
    b = np.array([2**53 + 1, 2**62], np.int64)
    assert compute("pow", np.full(2, -1.0), b).tolist() == [-1, 1]


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("other", ["uint8", "int32", "int64"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers_of_integers_wrap(dtype, other, native):
    if native and (dtype, other) not in (("int32", "int32"), ("int64", "uint8")):
        return
    bits = np.iinfo(dtype).bits
    a = np.array([0, 1, 2, 3, 7, 10, *(() if dtype[0] == "u" else (-1, -2, -3))], dtype)
    b = np.array([0, 1, 2, 5, bits - 1, bits, *(() if other == "uint8" else (-1, -2))], other)
    exact = [[power(int(x), int(y)) % (1 << bits) for y in b] for x in a]
    want = np.array(exact, object).astype(np.uint64).astype(dtype)
    assert_same(compute("pow", a[:, None], b[None, :], native=native), want)


def power(x, y):
    if y >= 0:
        return x**y
    return {1: 1, -1: 1 if y % 2 == 0 else -1}.get(x, 0)


def test_large_exponents_of_integers():
    a, b = (
        np.array([2, -1, -1, 1, 0, 6], np.int32),
        np.array([200, 201, 202, 9999, 99, 33], np.int32),
    )
    assert compute("pow", a, b).tolist() == [0, -1, 1, 1, 0, 0]


def test_integers_to_floats():
    a, b = np.array([4, 9, 2], np.int64), np.array([0.5, 1.5, -1], np.float32)
    assert_same(compute("pow", a, b), onnx_reference("Pow", a, b, opset=15))


def test_wrong_types():
    with pytest.raises(DTypeError):
        OPERATORS["pow"]([placeholder((2,), "bool"), placeholder((2,))], {})
