"""Quantization against ONNX, and products of quantized tensors against exact integers."""

import ml_dtypes
import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference, onnx_runtime, random
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

TYPES = ["uint8", "int8", "uint16", "int16", "int4", "uint4"]
GRANULARITIES = ["tensor", "axis", "block"]


def parameters(rng, shape, granularity, dtype):
    """Scales and zero points for a tensor of this shape, and the attributes that say so."""
    size, attrs = {
        "tensor": ((), {}),
        "axis": (shape[1:2], {"axis": 1}),
        "block": ((shape[0], -(-shape[1] // 2), shape[2]), {"axis": 1, "block_size": 2}),
    }[granularity]
    scale = rng.uniform(0.05, 0.2, size).astype(np.float32)
    low = 0 if dtype.startswith("u") else -3
    zero = (
        random(rng, size, dtype, low, 5) if size else np.array(3, getattr(ml_dtypes, dtype, dtype))
    )
    return scale, zero, attrs


def ours(attrs):
    return {"block" if k == "block_size" else k: v for k, v in attrs.items()}


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("dtype", TYPES)
def test_quantize_and_back(dtype, granularity, native):
    rng = np.random.default_rng(0)
    x = random(rng, (2, 5, 3))
    scale, zero, attrs = parameters(rng, x.shape, granularity, dtype)
    got = compute("quantize_linear", x, scale, zero, native=native, **ours(attrs))
    expected = onnx_reference("QuantizeLinear", x, scale, zero, **attrs)
    np.testing.assert_array_equal(got, expected)
    back = compute("dequantize_linear", got, scale, zero, native=native, **ours(attrs))
    np.testing.assert_array_equal(
        back, onnx_reference("DequantizeLinear", got, scale, zero, **attrs)
    )


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("saturate", [True, False])
def test_quantize_to_small_floats(dtype, saturate):
    x = np.array([[0.1, -3, 1e3, 1e9, -1e9]], np.float32)
    scale = np.array(0.5, np.float32)
    zero = np.zeros((), getattr(ml_dtypes, dtype))
    got = compute("quantize_linear", x, scale, zero, saturate=saturate)
    expected = onnx_reference("QuantizeLinear", x, scale, zero, saturate=int(saturate))
    np.testing.assert_array_equal(got.astype(np.float32), expected.astype(np.float32))
    back = compute("dequantize_linear", got, scale)
    np.testing.assert_array_equal(back, got.astype(np.float32) * scale)


def test_the_type_without_a_zero_point():
    x, scale = np.array([[-9, 1, 300]], np.float32), np.array([2.0], np.float32)
    assert compute("quantize_linear", x, scale).tolist() == [[0, 0, 150]]
    assert compute("quantize_linear", x, scale, dtype="int8").tolist() == [[-4, 0, 127]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_scales(dtype):
    rng = np.random.default_rng(1)
    x, scale = random(rng, (3, 4), dtype), np.array(0.07, getattr(ml_dtypes, dtype, dtype))
    zero = np.array(2, np.int8)
    got = compute("quantize_linear", x, scale, zero)
    expected = np.clip(np.rint((x / scale).astype(np.float32)) + 2, -128, 127)
    np.testing.assert_array_equal(got, expected)
    back = compute("dequantize_linear", got, scale, zero)
    assert back.dtype == scale.dtype
    exact = (got.astype(np.float32) - 2) * scale.astype(np.float32)
    np.testing.assert_array_equal(back, exact.astype(scale.dtype))


@pytest.mark.parametrize("x", [[0.5, -1, 3], [2, 5], [0, 0], [-4, -1]])
def test_dynamic_quantization(x):
    x = np.array(x, np.float32)
    got = compute("dynamic_quantize_linear", x)
    for a, b in zip(got, onnx_reference("DynamicQuantizeLinear", x, outputs=3), strict=True):
        np.testing.assert_array_equal(a, b)


def scalar(value, dtype="float32"):
    return np.array(value, dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_qlinear_matmul(dtype):
    rng = np.random.default_rng(2)
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    a, b = random(rng, (2, 3, 5), dtype, low, high), random(rng, (5, 4), dtype, low, high)
    given = (a, scalar(0.01), scalar(3, dtype), b, scalar(0.02), scalar(1, dtype))
    given = (*given, scalar(0.1), scalar(7, dtype))
    total = compute("matmul_integer", a, b, given[2], given[5])
    got = compute("requantize", total, given[1], given[4], *given[6:])
    np.testing.assert_array_equal(got, onnx_reference("QLinearMatMul", *given))


@pytest.mark.parametrize("per_channel", [False, True])
def test_qlinear_conv(per_channel):
    rng = np.random.default_rng(3)
    x, w = random(rng, (1, 2, 4, 4), "uint8", 0, 256), random(rng, (3, 2, 2, 2), "int8", -128, 128)
    w_scale = rng.uniform(0.01, 0.02, 3).astype(np.float32) if per_channel else scalar(0.013)
    w_zero = np.zeros(3, np.int8) if per_channel else scalar(2, "int8")
    bias = random(rng, 3, "int32", -500, 500)
    given = (x, scalar(0.02), scalar(120, "uint8"), w, w_scale, w_zero)
    given = (*given, scalar(0.05), scalar(100, "uint8"), bias)
    total = compute("conv_integer", x, w, given[2], w_zero, pads=(1, 0, 0, 1))
    total += bias.reshape(1, -1, 1, 1)
    got = compute("requantize", total, given[1], w_scale, *given[6:8])
    if per_channel:
        expected = onnx_runtime("QLinearConv", *given, pads=(1, 0, 0, 1), opset=21)
        np.testing.assert_array_equal(got, expected)
    wide = np.pad(x.astype(np.int64) - 120, ((0, 0), (0, 0), (1, 0), (0, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (2, 2), (2, 3))
    weight = w.astype(np.int64) - w_zero.reshape(-1, 1, 1, 1)
    total = np.einsum("nchwij,mcij->nmhw", windows, weight) + bias.reshape(1, -1, 1, 1)
    ratio = (np.float32(0.02) * w_scale / np.float32(0.05)).reshape(1, -1, 1, 1)
    exact = np.clip(np.rint(total * ratio.astype(np.float64)) + 100, 0, 255)
    np.testing.assert_array_equal(got, exact)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("zeros", [None, "packed", "floats"])
@pytest.mark.parametrize("bits", [4, 8])
def test_matmul_nbits(bits, zeros, native):
    rng = np.random.default_rng(4)
    depth, columns, block = 40, 3, 16
    blocks, each = -(-depth // block), 8 // bits
    digits = rng.integers(0, 1 << bits, (columns, blocks * block)).astype(np.uint8)
    packed = sum(digits[:, k::each] << (bits * k) for k in range(each)).astype(np.uint8)
    packed = packed.reshape(columns, blocks, block // each)
    scales = rng.uniform(0.5, 1.5, (columns, blocks)).astype(np.float32)
    points = rng.integers(0, 1 << bits, (columns, blocks + blocks % each)).astype(np.uint8)
    zero, exact = None, np.full((columns, blocks), 1 << (bits - 1))
    if zeros == "packed":
        zero = sum(points[:, k::each] << (bits * k) for k in range(each)).astype(np.uint8)
        exact = points[:, :blocks]
    elif zeros == "floats":
        zero = exact = points[:, :blocks].astype(np.float32)
    a = random(rng, (2, depth))
    got = compute(
        "matmul_nbits", a, packed, scales, zero,
        depth=depth, columns=columns, bits=bits, block=block, native=native,
    )  # fmt: skip
    whole = digits - np.repeat(exact, block, 1).astype(np.float64)
    matrix = (whole * np.repeat(scales, block, 1))[:, :depth]
    limit = depth * np.finfo(np.float32).eps * (np.abs(a) @ np.abs(matrix.T)).max()
    np.testing.assert_allclose(got, a @ matrix.T, rtol=0, atol=limit)


def test_operands_that_do_not_fit():
    x, scale = placeholder((2, 5, 3)), placeholder((4,))
    with pytest.raises(ShapeError):
        OPERATORS["quantize_linear"]([x, scale], {})
    with pytest.raises(ShapeError):
        OPERATORS["quantize_linear"]([x, scale], {"axis": 3})
    with pytest.raises(ShapeError):
        OPERATORS["quantize_linear"]([x, scale], {"block": 2})
    with pytest.raises(DTypeError):
        OPERATORS["dequantize_linear"]([x, placeholder(())], {})
    with pytest.raises(ShapeError):
        OPERATORS["matmul_nbits"](
            [placeholder((2, 32)), placeholder((4, 2, 16), "uint8"), placeholder((4, 1))],
            {"depth": 32, "columns": 4},
        )
