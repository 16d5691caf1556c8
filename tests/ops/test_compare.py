"""Comparisons, tests of elements, logic and bits, against NumPy."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference
from ops.oracles import FLOATS, INTEGERS, SHAPES, anything, assert_same, is_float
from tensorsmith.errors import DTypeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

COMPARISONS = {
    "equal": np.equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}
STORAGE = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]


def wide(x):
    return x.astype(np.float64) if is_float(x.dtype.name) else x


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name, native):
    rng = np.random.default_rng(0)
    for dtype in ["float32"] if native else [*INTEGERS, *FLOATS]:
        a, b = anything(rng, (3, 1, 5), dtype), anything(rng, (4, 1), dtype)
        a[0, 0, :2] = b[:2, 0]  # some are equal
        assert_same(compute(name, a, b, native=native), COMPARISONS[name](wide(a), wide(b)))


@pytest.mark.parametrize("shape", SHAPES)
def test_logic(shape):
    rng = np.random.default_rng(1)
    a, b = anything(rng, shape, "bool"), anything(rng, shape, "bool")
    for name in ("and", "or", "xor"):
        want = np.asarray(getattr(np, f"logical_{name}")(a, b))
        assert_same(compute(f"logical_{name}", a, b), want)
    assert_same(compute("logical_not", a), np.asarray(~a))
    assert_same(compute("equal", a, b), np.asarray(a == b))


@pytest.mark.parametrize("dtype", [*FLOATS, *STORAGE])
def test_nan_and_infinity(dtype):
    x = anything(np.random.default_rng(2), (11,), dtype)
    number = x.astype(np.float64)
    assert_same(compute("is_nan", x), np.isnan(number))
    for negative in (False, True):
        for positive in (False, True):
            want = (np.isposinf(number) & positive) | (np.isneginf(number) & negative)
            assert_same(compute("is_inf", x, negative=negative, positive=positive), want)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits(dtype, native):
    rng = np.random.default_rng(3)
    a, b = anything(rng, (3, 1), dtype), anything(rng, (1, 7), dtype)
    assert_same(compute("bitwise_and", a, b, native=native), a & b)
    if native:
        return
    assert_same(compute("bitwise_or", a, b), a | b)
    assert_same(compute("bitwise_xor", a, b), a ^ b)
    assert_same(compute("bitwise_not", a), ~a)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts(dtype):
    bits = np.iinfo(dtype).bits
    a = anything(np.random.default_rng(4), (9, 1), dtype)
    b = np.array([0, 1, bits - 1, bits, bits + 1]).astype(dtype)
    count = np.minimum(b.astype(np.uint64), np.uint64(bits - 1)).astype(dtype)
    over = b.astype(np.int64) >= bits
    right = np.where(over, np.where(a < 0, -1, 0).astype(dtype), a >> count)
    assert_same(compute("shift_left", a, b), np.where(over, np.zeros_like(a), a << count))
    assert_same(compute("shift_right", a, b), right)


def test_negative_counts_of_shifts():
    a, b = np.array([5, -5], np.int8), np.array([-1, -1], np.int8)
    assert compute("shift_left", a, b).tolist() == [0, 0]
    assert compute("shift_right", a, b).tolist() == [0, -1]
    want = onnx_reference("BitShift", a, b, opset=28, direction="RIGHT")
    assert compute("shift_right", a, b).tolist() == want.tolist()


@pytest.mark.parametrize(
    ("name", "dtypes"),
    [
        ("less", ["bool", "bool"]),
        ("logical_and", ["int8", "int8"]),
        ("is_nan", ["int8"]),
        ("bitwise_and", ["float32", "float32"]),
        ("bitwise_not", ["bool"]),
        ("equal", ["int8", "uint8"]),
    ],
)
def test_wrong_types(name, dtypes):
    with pytest.raises(DTypeError, match=name):
        OPERATORS[name]([placeholder((2,), t) for t in dtypes], {})
