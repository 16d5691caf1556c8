"""Conversions between NumPy forms of the dtypes: each rounds once, as the language says.

NumPy and ml_dtypes convert some pairs of types by way of a third (float64 to bfloat16 through
float32), which rounds twice. The functions here avoid that by *rounding to odd* in the step
between: Boldo and Melquiond, 'Emulation of a FMA and correctly rounded sums', IEEE Trans.
Computers 2008.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np

from tensorsmith.ir.dtype import DType, Kind

Value: TypeAlias = Any
"""A scalar or an array of scalars: Python int (``index``), Python or NumPy bool, NumPy number."""

_INDEX: Final = int(Kind.INDEX)
_UINT: Final = int(Kind.UINT)
_DIRECT: Final = frozenset({"float64", "float32", "float16"})
"""What NumPy converts float64 to with one rounding."""


@cache
def carrier(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype that values of `dtype` are computed in; 8 bits for narrower integers."""
    if dtype.flag & Kind.BITS and dtype.bits < 8:
        return np.dtype(np.int8 if dtype.flag & Kind.INT else np.uint8)
    assert dtype.numpy is not None
    return dtype.numpy


def wrap(x: Value, dtype: DType) -> Value:
    """`x`, a number of the carrier of a fixed-width integer type, modulo ``2**bits``."""
    if dtype.bits >= 8:
        return x
    one = x.dtype.type(1)
    low = x & x.dtype.type((1 << dtype.bits) - 1)
    if dtype.flag & _UINT:
        return low
    sign = one << x.dtype.type(dtype.bits - 1)
    return (low ^ sign) - sign


def constant(value: float, dtype: DType) -> Value:
    """A Python number as a value of `dtype`."""
    if dtype.flag & _INDEX:
        return int(value)
    if dtype.flag & Kind.BOOL:
        return bool(value)
    return carrier(dtype).type(value)


def widen(x: Value) -> Value:
    """A float of any type as a float64: exact."""
    if not hasattr(x, "astype"):
        return np.float64(x)
    return x.astype(np.float64)


def narrow(x: Value, dtype: DType) -> Value:
    """A float64 rounded to nearest even in the float type `dtype`."""
    target = carrier(dtype)
    if target.name in _DIRECT:
        return x.astype(target)
    return _float32_to_odd(x).astype(target)


def _float32_to_odd(x: Value) -> Value:
    """float64 to float32: inexact values become the neighbour with an odd last bit."""
    near = np.asarray(x.astype(np.float32))
    back = near.astype(np.float64)
    inexact = (back != x) & np.isfinite(x)
    bits = near.view(np.uint32)
    below = np.where(np.abs(back) > np.abs(x), bits - np.uint32(1), bits)  # towards zero
    odd = np.where(inexact, below | np.uint32(1), bits)
    return odd.view(np.float32)[()]


def int_to_float(x: Value, dtype: DType) -> Value:
    """An integer of any type, rounded to nearest even in the float type `dtype`."""
    values = np.asarray(x)
    if carrier(dtype).name in ("float64", "float32"):
        return values.astype(carrier(dtype))[()]
    negative = values < 0
    unsigned = values.astype(np.uint64)
    magnitude = np.where(negative, np.uint64(0) - unsigned, unsigned)
    low = magnitude & np.uint64(0x7FF)
    high = magnitude - low
    sticky = np.where(low != 0, high | np.uint64(0x800), high)  # 53 bits, rounded to odd
    exact = np.where(magnitude < np.uint64(1 << 53), magnitude, sticky).astype(np.float64)
    return narrow(np.where(negative, -exact, exact)[()], dtype)


def float_to_int(x: Value, dtype: DType) -> Value:
    """A float64 rounded towards zero in an integer type; saturates, and NaN gives 0."""
    values = np.trunc(np.asarray(x))
    low, high = dtype.min_value, dtype.max_value
    below, above = values < float(low), values >= float(high + 1)
    inside = np.where(below | above | np.isnan(values), 0.0, values)
    unsigned = dtype.flag & Kind.UINT
    whole = inside.astype(np.uint64 if unsigned else np.int64)
    whole = np.where(below, whole.dtype.type(low), np.where(above, whole.dtype.type(high), whole))
    if dtype.flag & _INDEX:
        return as_index(whole)
    return whole.astype(carrier(dtype))[()]


def int_to_int(x: Value, dtype: DType) -> Value:
    """An integer of any type modulo ``2**bits`` in a fixed-width type."""
    wide = np.asarray(x)
    return wrap(wide.astype(carrier(dtype))[()], dtype)


def choose(condition: Value, a: Value, b: Value) -> Value:
    """`a` where the condition holds and `b` elsewhere; a scalar if all of them are."""
    chosen: Value = np.where(condition, a, b)
    return chosen[()]


def as_index(x: Value) -> Value:
    """int64 scalars as Python ints; arrays as they are."""
    return int(x) if np.ndim(x) == 0 else x
