"""Pooling against the ONNX runtime and PyTorch."""

import itertools

import numpy as np
import pytest
import torch

from ops.evaluation import WAYS, compute, onnx_runtime, random
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

IMAGES = {(0, 0), (0, 2), (0, 3), (0, 4)}
"""The dimensions of a batch of images but for the channels."""

CASES = [
    # image, kernel, strides, dilations, pads, ceil
    ((1, 2, 5), (2,), (2,), (1,), (0, 0), False),
    ((2, 1, 5, 6), (2, 3), (1, 2), (1, 1), (1, 0, 0, 2), False),
    ((1, 2, 7, 5), (3, 2), (2, 2), (1, 1), (1, 1, 1, 1), True),
    ((1, 1, 6, 6), (2, 2), (3, 3), (2, 1), (0, 1, 1, 0), True),
    ((1, 1, 3, 4, 3), (2, 2, 2), (2, 1, 1), (1, 1, 1), (0, 0, 1, 1, 0, 0), False),
]


def attributes(case):
    _, kernel, strides, dilations, pads, ceil = case
    ours = {
        "kernel": kernel,
        "strides": strides,
        "dilations": dilations,
        "pads": pads,
        "ceil": ceil,
    }
    theirs = {
        "kernel_shape": kernel,
        "strides": strides,
        "dilations": dilations,
        "pads": pads,
        "ceil_mode": int(ceil),
    }
    return ours, theirs


@pytest.mark.parametrize("symbolic", [(), IMAGES], ids=["constant", "symbolic"])
@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}")
def test_max_pool(case, native, symbolic):
    x = random(np.random.default_rng(0), case[0])
    ours, theirs = attributes(case)
    expected, where = onnx_runtime("MaxPool", x, outputs=2, opset=22, **theirs)
    got = compute("max_pool", x, native=native, symbolic=symbolic, **ours)
    np.testing.assert_array_equal(got, expected)
    got, at = compute("max_pool_with_indices", x, native=native, symbolic=symbolic, **ours)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(at, where)


def test_max_pool_of_integers_with_column_major_indices():
    x = random(np.random.default_rng(1), (2, 2, 4, 5), "int8")
    got, at = compute("max_pool_with_indices", x, kernel=(2, 3), column_major=True)
    expected, where = onnx_runtime(
        "MaxPool", x, outputs=2, opset=12, kernel_shape=(2, 3), storage_order=1
    )
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(at, where)


@pytest.mark.parametrize("symbolic", [(), IMAGES], ids=["constant", "symbolic"])
@pytest.mark.parametrize("count_pads", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}")
def test_average_pool(case, count_pads, symbolic):
    x = random(np.random.default_rng(2), case[0])
    ours, theirs = attributes(case)
    got = compute("average_pool", x, count_pads=count_pads, symbolic=symbolic, **ours)
    expected = averages(x, case, count_pads=count_pads)
    assert got.shape == onnx_runtime("AveragePool", x, opset=22, **theirs).shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)


def averages(x, case, *, count_pads):
    """The means of windows by their definition."""
    image, kernel, strides, dilations, pads, ceil = case
    rank = len(kernel)
    counts = []
    for d in range(rank):
        room = image[2 + d] + pads[d] + pads[rank + d] - (kernel[d] - 1) * dilations[d] - 1
        count = (-(-room // strides[d]) if ceil else room // strides[d]) + 1
        if ceil and (count - 1) * strides[d] >= image[2 + d] + pads[d]:
            count -= 1
        counts.append(count)
    found = np.zeros((*image[:2], *counts))
    for at in itertools.product(*map(range, counts)):
        values, number = np.zeros(image[:2]), 0
        for tap in itertools.product(*map(range, kernel)):
            place = [at[d] * strides[d] + tap[d] * dilations[d] - pads[d] for d in range(rank)]
            inside = all(0 <= p < n for p, n in zip(place, image[2:], strict=True))
            if inside:
                values += x[(..., *place)]
            if inside or (
                count_pads and all(p < image[2 + d] + pads[rank + d] for d, p in enumerate(place))
            ):
                number += 1
        found[(..., *at)] = values / number
    return found


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pool(p):
    x = random(np.random.default_rng(3), (1, 2, 5, 6))
    got = compute("lp_pool", x, kernel=(2, 3), strides=(2, 1), pads=(1, 0, 0, 1), p=p)
    expected = onnx_runtime(
        "LpPool", x, opset=18, kernel_shape=(2, 3), strides=(2, 1), pads=(1, 0, 0, 1), p=p
    )
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_max_unpool():
    x = torch.tensor(random(np.random.default_rng(4), (2, 3, 4, 6)))
    values, at = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    expected = torch.nn.functional.max_unpool2d(values, at, 2).numpy()
    flat = at.numpy() + np.arange(6).reshape(2, 3, 1, 1) * 24
    got = compute("max_unpool", values.numpy(), flat, shape=(2, 3, 4, 6))
    np.testing.assert_array_equal(got, expected)


def test_max_roi_pool():
    x = random(np.random.default_rng(5), (2, 2, 6, 7))
    rois = np.array([[0, 0, 0, 5, 4], [1, 2, 1, 6, 5], [0, 3, 3, 3, 3]], np.float32)
    got = compute("max_roi_pool", x, rois, pooled=(2, 3))
    expected = onnx_runtime("MaxRoiPool", x, rois, opset=21, pooled_shape=(2, 3))
    np.testing.assert_array_equal(got, expected)


def test_operands_that_do_not_fit():
    x = placeholder((1, 3, 5, 5))
    with pytest.raises(ShapeError):
        OPERATORS["max_pool"]([x], {"kernel": (2,)})
    with pytest.raises(ShapeError):
        OPERATORS["average_pool"]([placeholder((3, 3))], {"kernel": ()})
    with pytest.raises(DTypeError):
        OPERATORS["average_pool"]([placeholder((1, 3, 5), "int32")], {"kernel": (2,)})
