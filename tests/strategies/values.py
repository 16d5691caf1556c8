"""Strategies for values, arrays and shapes."""

from __future__ import annotations

import functools
import math

import numpy as np
from hypothesis import strategies as st

from strategies.reference import Value, round_to
from tensorsmith.ir import DType, Kind

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]

SPECIAL_FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan, 65504.0, 3.4028234663852886e38,
    1.1754943508222875e-38, 1.401298464324817e-45, 5e-324, 6e-8, 1e308, 16777217.0, -2.5, 3.5,
)  # fmt: skip


@functools.cache
def scalar_values(type_: DType) -> st.SearchStrategy[Value]:
    """Any value of the dtype: small ones, extremes, special floats, and the rest."""
    if type_.flag & Kind.BOOL:
        return st.booleans()
    if type_.flag & Kind.INTEGER:
        low, high = type_.min_value, type_.max_value
        return st.one_of(
            st.integers(max(low, -8), min(high, 8)),
            st.sampled_from((low, high, high - 1, low + 1, high // 2)),
            st.integers(low, high),
        )
    return st.one_of(
        st.sampled_from(SPECIAL_FLOATS),
        st.integers(-64, 64).map(lambda k: k / 4),
        st.floats(width=32),
    ).map(lambda x: round_to(x, type_))


_EXTENTS = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 64, 127, 128)


def shapes(
    max_rank: int = 4, *, max_elements: int = 1 << 14, zero: bool = True
) -> st.SearchStrategy[tuple[int, ...]]:
    """A shape of at most `max_elements`: ones, primes, powers of two, now and then a large extent.

    zero: whether an extent may be 0.
    """
    extents = st.one_of(
        st.sampled_from(_EXTENTS), st.sampled_from((1, 0, 1021, 4096) if zero else (1, 1021, 4096))
    )
    lists = st.lists(extents, min_size=0, max_size=max_rank)
    return lists.map(tuple).filter(lambda shape: math.prod(shape) <= max_elements)


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...], type_: DType, *, whole: bool = True) -> Array:
    """An array of the dtype, made from one drawn seed so that it costs one draw at any size.

    whole: floats are whole numbers from -4 to 4, so that sums and products of a few are exact in
    every dtype; else any values, special ones among them.
    """
    assert type_.numpy is not None
    random = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    if type_.flag & Kind.BOOL:
        return random.integers(0, 2, shape).astype(np.bool_)
    if type_.flag & Kind.INTEGER:
        low, high = max(type_.min_value, -40), min(type_.max_value, 40)
        if not whole and type_.flag & Kind.BITS:
            low, high = max(type_.min_value, -(1 << 62)), min(type_.max_value, 1 << 62)
        return random.integers(low, high, shape, endpoint=True).astype(type_.numpy)
    numbers = random.integers(-4, 4, shape, endpoint=True).astype(np.float64)
    if not whole:
        numbers = numbers * random.random(shape)
        special = np.array(SPECIAL_FLOATS)[random.integers(0, len(SPECIAL_FLOATS), shape)]
        numbers = np.where(random.random(shape) < 0.1, special, numbers)
    with np.errstate(all="ignore"):
        return np.asarray(numbers).astype(np.float32).astype(type_.numpy)
