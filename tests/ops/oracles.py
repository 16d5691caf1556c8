"""Comparisons of results with values in float64, and arguments that are out of the ordinary."""

import ml_dtypes
import numpy as np

FLOATS = ["float16", "bfloat16", "float32", "float64"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = [*SIGNED, *UNSIGNED]
SHAPES = [(), (0,), (1,), (7,), (2, 0, 3), (2, 3, 5)]


def numpy_type(name):
    """The NumPy dtype that `name` names, of ml_dtypes too."""
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def is_float(name):
    return "float" in name


def anything(rng, shape, dtype):
    """Integers from all over the type, with its ends and 0; floats with NaN, infinities and -0."""
    type_ = numpy_type(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if is_float(dtype):
        x = (rng.standard_normal(shape) * 3).astype(type_)
        special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0], type_)
    else:
        info = ml_dtypes.iinfo(type_)
        low, high = int(info.min), int(info.max)
        if info.bits < 8:
            x = rng.integers(low, high + 1, shape).astype(np.int8).astype(type_)
        else:
            x = rng.integers(low, high, shape, type_, endpoint=True)
        special = np.array([type_.type(n) for n in (low, high, 0, 1, max(low, -1))])
    x = np.array(x, type_)
    flat = x.reshape(-1)
    places = rng.permutation(flat.size)[: len(special)]
    flat[places] = special[: len(places)]
    return flat.reshape(shape)


def small(rng, shape, dtype):
    """Small numbers, so that sums and products stay within the type."""
    if is_float(dtype):
        return rng.standard_normal(shape).astype(numpy_type(dtype))
    low = 0 if dtype.startswith("u") else -3
    return rng.integers(low, 4, shape).astype(numpy_type(dtype))


def assert_close(got, want, ulps=4.0, scale=None):
    """`got` is `want`, of float64, but for `ulps` units in the last place of its own type.

    scale: what the units are taken at, where results come from larger numbers; `want` by default.
    """
    want = np.asarray(want, np.float64)
    assert got.shape == want.shape, (got.shape, want.shape)
    info = ml_dtypes.finfo(got.dtype)
    number = got.astype(np.float64)
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype).astype(np.float64)
        unit = np.abs(want if scale is None else scale) * float(info.eps)
        unit = np.maximum(unit, float(info.smallest_subnormal))
        near = np.abs(number - want) <= ulps * unit
    same = (number == rounded) | (np.isnan(number) & np.isnan(rounded))
    # A denormal result may be flushed by the oracle or ours in 16-bit steps, so units count there.
    wrong = ~(same | near)
    assert not wrong.any(), (number[wrong][:5], want[wrong][:5])


def assert_same(got, want):
    """The same elements, types and shapes; NaN equals NaN."""
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    assert got.shape == want.shape, (got.shape, want.shape)
    if got.dtype.kind in "biu" or "int" in got.dtype.name:
        wide = np.uint64 if got.dtype == np.uint64 else np.int64
        np.testing.assert_array_equal(got.astype(wide), want.astype(wide))
    else:
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
