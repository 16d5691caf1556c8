"""Functions that have one right result: fma, fmod, those of integers."""

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from codegen.llvm.math.compiled import Compiled, compiled
from codegen.llvm.math.reference import floats
from tensorsmith.codegen.llvm.math import math_function
from tensorsmith.errors import DTypeError
from tensorsmith.ir.dtype import bfloat16, dtype, float32, int32
from tensorsmith.ir.intrinsic import INTRINSICS

TYPES = ["float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def triples(type_name, count):
    """Operands of fma: random bits; and such that the sum cancels, or nearly does."""
    rng = np.random.default_rng(3)
    a, b, c = (floats(rng, count, type_name) for _ in range(3))
    size = min(x.size for x in (a, b, c))
    near = [rng.normal(0, 1, count).astype(type_name) for _ in range(2)]
    scale = 2.0 ** rng.integers(-70, 70, count)
    product = -(near[0] * near[1])
    close = (product * (1 + scale.astype(type_name) * np.finfo(type_name).eps)).astype(type_name)
    tiny = np.finfo(type_name).smallest_normal
    halves = np.array([tiny, -tiny, 0.0, -0.0, 1.0, 1.5, np.inf, -np.inf, np.nan], type_name)
    grid = [np.array(g) for g in zip(*itertools.product(halves, repeat=3), strict=True)]
    return tuple(
        np.concatenate([x[:size], y, z])
        for x, y, z in zip((a, b, c), (*near, close), grid, strict=True)
    )


def exact_fma(a, b, c):
    """In f64, for finite numbers whose sum is not 0."""
    value = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def test_fma_of_f64_without_the_instruction_is_exact():
    with np.errstate(all="ignore"):
        a, b, c = triples("float64", 4000)
        chosen = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a * b + c != 0)
    a, b, c = a[chosen], b[chosen], c[chosen]
    got = compiled("fma", "float64", 4, fma=False)(a, b, c)
    np.testing.assert_array_equal(got, list(map(exact_fma, a, b, c)))


@pytest.mark.parametrize("type_name", TYPES)
def test_fma_without_the_instruction_is_that_of_the_machine(type_name):
    with np.errstate(all="ignore"):
        args = triples(type_name, 200_000)
    got = compiled("fma", type_name, 4, fma=False)(*args)
    want = compiled("fma", type_name, 4, fma=True)(*args)
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("type_name", TYPES)
def test_fmod_is_exact(type_name, fma, lanes):
    rng = np.random.default_rng(4)
    a, b = floats(rng, 20_000, type_name), floats(rng, 20_000, type_name)
    size = min(a.size, b.size)
    x = np.concatenate([a[:size], rng.uniform(-1000, 1000, 20_000).astype(type_name)])
    y = np.concatenate([b[:size], rng.uniform(-7, 7, 20_000).astype(type_name)])
    got = compiled("fmod", type_name, lanes, fma=fma)(x, y)
    want = np.fmod(x, y)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def integers(type_name):
    info = np.iinfo(type_name)
    edges = np.array([info.min, info.max, 0, 1, 2, info.max - 1], type_name)
    random = np.random.default_rng(5).integers(info.min, info.max, 500, type_name, endpoint=True)
    shifts = np.arange(500) % info.bits
    return np.concatenate([edges, random, random >> shifts.astype(type_name)])


def counted(name, value, bits):
    pattern = int(value) & ((1 << bits) - 1)
    if name == "popcount":
        return pattern.bit_count()
    if name == "clz":
        return bits - pattern.bit_length()
    return (pattern & -pattern).bit_length() - 1 if pattern else bits


@pytest.mark.parametrize("type_name", INTEGERS)
@pytest.mark.parametrize("name", ["popcount", "clz", "ctz"])
def test_counts_of_bits(name, type_name):
    x = integers(type_name)
    bits = np.iinfo(type_name).bits
    assert compiled(name, type_name, 8)(x).tolist() == [counted(name, v, bits) for v in x]


@pytest.mark.parametrize("type_name", INTEGERS[:4])
def test_magnitude_of_integers_wraps(type_name):
    x = integers(type_name)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(compiled("abs", type_name, 8)(x), np.abs(x))


@pytest.mark.parametrize("type_name", ["int2", "int4", "uint2", "uint4"])
@pytest.mark.parametrize("name", ["popcount", "clz", "ctz", "abs"])
def test_narrow_integers_lie_in_bytes(name, type_name):
    narrow = dtype(type_name)
    if not INTRINSICS[name].takes & narrow.kind:
        pytest.skip("not for unsigned")
    raw = "uint8" if type_name.startswith("u") else "int8"
    x = np.arange(narrow.min_value, narrow.max_value + 1).astype(raw)
    got = Compiled(math_function(name, narrow, 4), (raw,), raw, 4)(x)
    if name == "abs":
        want = np.abs(x).astype(getattr(ml_dtypes, type_name)).astype(raw).tolist()
    else:
        want = [counted(name, v, narrow.bits) for v in x]
    assert got.tolist() == want


@pytest.mark.parametrize(("name", "kind"), [("exp", int32), ("exp", bfloat16), ("clz", float32)])
def test_types_without_a_function_are_refused(name, kind):
    with pytest.raises(DTypeError, match=f"there is no {name} of {kind.name}"):
        math_function(name, kind, 8)
