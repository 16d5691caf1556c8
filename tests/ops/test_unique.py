"""Distinct elements against NumPy and ONNX."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, random


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("shape", [(5, 3), (1, 1), (7, 1)])
def test_unique(shape, axis, is_sorted, native):
    x = random(np.random.default_rng(0), shape, "float32").round()
    count = int(compute("unique_count", x, axis=axis, native=native))
    got = compute("unique", x, count=count, axis=axis, is_sorted=is_sorted, native=native)
    expected = distinct(x, axis, is_sorted=is_sorted)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def distinct(x, axis, *, is_sorted):
    """What NumPy finds, put in the order in which it first occurs if need be."""
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    order = np.arange(len(first)) if is_sorted else np.argsort(first)
    place = np.argsort(order)
    values = np.take(values, order, axis or 0)
    return values, first[order], place[inverse.reshape(-1)], counts[order]


def test_nothing_is_distinct():
    x = np.zeros((0,), np.float32)
    assert compute("unique_count", x) == 0
    assert [a.shape for a in compute("unique", x, count=0)] == [(0,)] * 4


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64"])
def test_types(dtype):
    x = random(np.random.default_rng(1), (11,), dtype, 0, 3)
    expected, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    got = compute("unique", x, count=len(expected))
    for a, b in zip(got, (expected, first, inverse, counts), strict=True):
        np.testing.assert_array_equal(a, b)
