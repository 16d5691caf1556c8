"""Casts between all element types against the ONNX reference."""

import warnings

import numpy as np
import pytest
from onnx.helper import np_dtype_to_tensor_dtype
from onnx.reference.ops.op_cast import cast_to

from ops.evaluation import WAYS, compute
from ops.oracles import assert_same, is_float, numpy_type
from tensorsmith.errors import DTypeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

SATURATING = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]
STORAGE = [*SATURATING, "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "float8_e8m0fnu"]
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)]
TYPES = ["bool", *INTEGERS, "float16", "bfloat16", "float32", "float64", *STORAGE]
PAIRS = [
    *(("float32", t) for t in ("uint8", "int4", "float16", *SATURATING, "float4_e2m1fn", "bool")),
    *(("int4", t) for t in ("int64", "uint2", "float16", "float8_e5m2", "bool")),
    *((s, "float32") for s in ("uint4", "float4_e2m1fn", "float6_e3m2fn", "float8_e8m0fnu")),
    ("float64", "float8_e8m0fnu"),
]
RANGE = np.concatenate([np.arange(-9, 17), [0.25, 0.5, 1.5, 2.5, -0.5, -1.5, 100.7, 448, 470]])
SPECIAL = np.array([np.nan, np.inf, -np.inf, 1e5, -0.0, 1e-40, 3e38, -3.9, 6.5, 240.5], np.float32)


def numbers(dtype):
    """Numbers of a type, among them the special ones of floats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = RANGE.astype(np.float32).astype(numpy_type(dtype))
        if is_float(dtype):
            found = np.concatenate([found, SPECIAL.astype(numpy_type(dtype))])
    return found


def reference(x, dtype, *, saturate=True, round_mode="up"):
    """What ONNX says; where it has no conversion, by way of a type that holds all numbers."""
    target = np_dtype_to_tensor_dtype(numpy_type(dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return cast_to(x, target, saturate, round_mode)
        except TypeError:
            wide = np.float32 if is_float(x.dtype.name) else np.int32
            return cast_to(x.astype(wide), target, saturate, round_mode)


def check(x, dtype, *, native=False, **attrs):
    if is_float(x.dtype.name) and "int" in dtype:  # beyond the integers NumPy gives anything
        number = x.astype(np.float64)
        defined = np.isfinite(number) & (abs(number) < 2**31)
        x = x[defined & (number >= 0)] if dtype == "uint64" else x[defined]
    assert_same(
        compute("cast", x, dtype=dtype, native=native, **attrs), reference(x, dtype, **attrs)
    )


@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("source", TYPES)
def test_cast(source, target):
    if source != target:  # which changes nothing
        check(numbers(source), target)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_cast_natively(source, target):
    check(numbers(source), target, native=True)


@pytest.mark.parametrize("target", SATURATING)
@pytest.mark.parametrize("source", ["int8", "int64", "float16", "float32", "float64"])
def test_what_is_too_large(source, target):
    check(numbers(source), target, saturate=False)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("round_mode", ["up", "down", "nearest"])
def test_powers_of_two(round_mode, saturate, native):
    x = np.concatenate([numbers("float32"), np.float32(2.0) ** np.arange(-126, 128, 7) * 1.25])
    check(
        x.astype(np.float32),
        "float8_e8m0fnu",
        native=native,
        saturate=saturate,
        round_mode=round_mode,
    )


def test_integers_wrap_and_fractions_go():
    x = np.array([-1.9, 255.9, 256.5, 300.0], np.float32)
    assert compute("cast", x, dtype="uint8").tolist() == [255, 255, 0, 44]
    assert compute("cast", np.array([2.0, np.nan]), dtype="bool").tolist() == [True, True]


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float32", "int32"),
        ("uint64", "float64"),
        ("bfloat16", "float16"),
        ("int8", "uint8"),
        ("uint8", "float8_e4m3fn"),
        ("bool", "uint8"),
        ("float32", "float32"),
    ],
)
def test_bitcast(source, target, native):
    size = numpy_type(source).itemsize
    high = 2 if source == "bool" else 256
    raw = np.random.default_rng(0).integers(0, high, (3, 5 * size), np.uint8)
    x = raw.view(numpy_type(source))
    if source == "float32":
        x = np.random.default_rng(1).standard_normal((3, 5), np.float32)  # no signalling NaN
    got = compute("bitcast", x, dtype=target, native=native)
    assert got.dtype == numpy_type(target)
    if source == "bfloat16":
        quiet = np.isnan(x.astype(np.float32))
        got, x = got[~quiet], x[~quiet]
    assert_same(got, x.view(numpy_type(target)))


def test_bitcast_of_narrow_types():
    x = np.arange(-8, 8).astype(numpy_type("int4"))
    low = x.astype(np.int8).view(np.uint8) & 15
    assert compute("bitcast", x, dtype="uint4").astype(np.uint8).tolist() == low.tolist()
    for native in (False, True):
        got = compute("bitcast", x, dtype="float4_e2m1fn", native=native)
        assert_same(got, low.view(numpy_type("float4_e2m1fn")))


def test_wrong_operands():
    with pytest.raises(DTypeError, match="bits"):
        OPERATORS["bitcast"]([placeholder((3,), "float32")], {"dtype": "int64"})
    with pytest.raises(DTypeError):
        OPERATORS["cast"]([placeholder((3,))], {"dtype": "float128"})
    attrs = {"dtype": "float8_e8m0fnu", "round_mode": "sideways"}
    with pytest.raises(DTypeError, match="sideways"):
        OPERATORS["cast"]([placeholder((3,))], attrs)
