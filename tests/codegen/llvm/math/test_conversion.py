"""Narrow floats to and from f32 as ml_dtypes and NumPy convert them; packed integers."""

import functools

import ml_dtypes
import numpy as np
import pytest

from codegen.llvm.math.compiled import Compiled, engine_of_arrays
from tensorsmith.codegen.llvm.math import conversion, unpack

FORMATS = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3fn": ml_dtypes.float8_e4m3fn,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2": ml_dtypes.float8_e5m2,
    "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "e2m3fn": ml_dtypes.float6_e2m3fn,
    "e3m2fn": ml_dtypes.float6_e3m2fn,
    "e2m1fn": ml_dtypes.float4_e2m1fn,
}


def bits_type(name):
    return f"int{np.dtype(FORMATS[name]).itemsize * 8}"


def all_codes(name):
    """The bits of every number of the format."""
    codes = np.arange(1 << ml_dtypes.finfo(FORMATS[name]).bits)
    return codes.astype(bits_type(name).replace("int", "uint"))


@functools.cache
def widening(name, lanes):
    return Compiled(conversion(f"{name}_to_f32", lanes), (bits_type(name),), "float32", lanes)


@functools.cache
def narrowing(name, lanes):
    return Compiled(conversion(f"f32_to_{name}", lanes), ("float32",), bits_type(name), lanes)


def converted(x, format_name):
    with np.errstate(all="ignore"):
        return x.astype(FORMATS[format_name])


def differences(x, name, lanes=8):
    """The arguments for which the bits are not those that ml_dtypes gives."""
    got = narrowing(name, lanes)(x).view(FORMATS[name])
    want = converted(x, name)
    both_nan = np.isnan(got.astype(np.float32)) & np.isnan(want.astype(np.float32))
    raw = bits_type(name)
    return x[(got.view(raw) != want.view(raw)) & ~both_nan]


def near_ties(name):
    """Every number of the format, those halfway between them, and the neighbours of all these."""
    codes = all_codes(name)
    numbers = codes.view(FORMATS[name]).astype(np.float32)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    halfway = (numbers[1:].astype(np.float64) + numbers[:-1]) / 2
    centre = np.concatenate([numbers, halfway.astype(np.float32)])
    with np.errstate(over="ignore"):
        around = [np.nextafter(centre, np.float32(to)) for to in (-np.inf, np.inf)]
    return np.concatenate([centre, *around, -centre]).astype(np.float32)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", FORMATS)
def test_every_narrow_number_widens(name, lanes):
    raw = bits_type(name)
    codes = all_codes(name)
    want = codes.view(FORMATS[name]).astype(np.float32)
    got = widening(name, lanes)(codes.view(raw))
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    assert codes[~same].tolist() == []


@pytest.mark.parametrize("name", FORMATS)
def test_narrowing_rounds_to_nearest_even(name):
    assert differences(near_ties(name), name).tolist() == []


@pytest.mark.parametrize("name", FORMATS)
def test_narrowing_of_random_bits(name):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    assert differences(x, name).tolist() == []


@pytest.mark.parametrize("name", FORMATS)
def test_narrowing_of_special_values(name):
    tiny = np.float32(1e-45)
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, tiny, -tiny, 3e38, -3e38], np.float32)
    assert differences(x, name).tolist() == []


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_signalling_nan_becomes_quiet(name):
    signalling = np.array([0x7F800001, 0xFFA00000], np.uint32).view(np.float32)
    got = narrowing(name, 8)(signalling).view(np.uint16)
    quiet = 0x7E00 if name == "f16" else 0x7FC0
    assert ((got & quiet) == quiet).all()
    assert (got >> 15).tolist() == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_narrowing_of_every_f32(name):
    size = 1 << 24
    for start in range(0, 1 << 32, size):
        x = np.arange(start, start + size, dtype=np.uint32).view(np.float32)
        assert differences(x, name).tolist() == []


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("bits", [1, 2, 4])
def test_unpack_spreads_from_the_lowest_bits_on(bits, signed):
    lanes = 32
    count = lanes * bits // 8
    run = engine_of_arrays(unpack(bits, lanes, signed=signed), f"<{count} x i8>", f"<{lanes} x i8>")
    packed = np.random.default_rng(2).integers(0, 256, count, dtype=np.uint8)
    want = [(int(byte) >> k) & ((1 << bits) - 1) for byte in packed for k in range(0, 8, bits)]
    if signed:
        want = [v - (1 << bits) if v >> (bits - 1) else v for v in want]
    assert run(packed, np.empty(lanes, np.int8)).tolist() == want
