"""Integers over 0, where ONNX says nothing: 0, as in NumPy, in tensors as in shape arithmetic."""

import numpy as np
import pytest

import tensorsmith
from frontend.onnx.running import parse, run


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32"])
@pytest.mark.parametrize("op", ["Div(x, y)", "Mod(x, y)", "Mod<fmod = 1>(x, y)"])
def test_elements(dtype, op):
    model = parse(f"g ({dtype}[n] x, {dtype}[n] y) => ({dtype}[n] z) {{ z = {op} }}")
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.array([5, least, most, 0, 7], dtype)
    y = np.array([0, 0, 0, 0, 2], dtype)
    expected = np.array([0, 0, 0, 0, 3 if op[0] == "D" else 1], dtype)
    np.testing.assert_array_equal(run(model, x, y)[0], expected)
    np.testing.assert_array_equal(tensorsmith.compile(model)(x, y), expected)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_the_least_number_over_minus_one_wraps(dtype):
    model = parse(f"g ({dtype}[n] x, {dtype}[n] y) => ({dtype}[n] z) {{ z = Div(x, y) }}")
    x, y = np.array([np.iinfo(dtype).min], dtype), np.array([-1], dtype)
    np.testing.assert_array_equal(run(model, x, y)[0], x)
    np.testing.assert_array_equal(tensorsmith.compile(model)(x, y), x)


@pytest.mark.parametrize("op", ["Div", "Mod"])
@pytest.mark.parametrize("zero", ["Constant<value_ints = [0]>()", "Sub(s, s)"])
def test_shape_arithmetic(op, zero):
    text = f"g (float[n] x) => (int64[1] y) {{ s = Shape(x) z = {zero} y = {op}(s, z) }}"
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(run(parse(text), x)[0], [0])
    np.testing.assert_array_equal(tensorsmith.compile(parse(text))(x), [0])
