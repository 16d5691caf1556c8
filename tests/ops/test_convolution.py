"""Convolutions against PyTorch and ONNX."""

import numpy as np
import pytest
import torch

from ops.evaluation import WAYS, compute, onnx_reference, random
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ir import Var
from tensorsmith.ops import OPERATORS
from tensorsmith.ops.windows import same_pads
from tensorsmith.te import placeholder

IMAGES = {(0, 0), (0, 2), (0, 3), (0, 4)}
"""The dimensions of a batch of images but for the channels."""

CASES = [
    # image, weight, strides, dilations, pads, groups
    ((1, 2, 5), (3, 2, 3), (1,), (1,), (1, 1), 1),
    ((2, 3, 5, 6), (4, 3, 3, 2), (2, 1), (1, 2), (1, 0, 2, 1), 1),
    ((1, 4, 5, 4), (6, 2, 2, 2), (1, 1), (1, 1), (0, 0, 0, 0), 2),
    ((1, 3, 4, 5), (3, 1, 3, 3), (1, 2), (1, 1), (1, 1, 1, 1), 3),
    ((1, 3, 4, 5), (6, 1, 3, 1), (1, 2), (1, 1), (1, 0, 1, 0), 3),
    ((1, 3, 4, 4), (2, 3, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 1),
    ((1, 2, 3, 4, 3), (2, 2, 2, 3, 1), (1, 1, 2), (1, 1, 1), (0, 1, 0, 1, 1, 0), 1),
]


def close(got, expected, terms):
    """Equal up to the rounding of so many terms of size around 1."""
    scale = np.abs(np.asarray(expected, np.float64)).max(initial=1) + terms**0.5
    assert got.dtype == expected.dtype
    limit = terms * np.finfo(np.float32).eps * scale
    np.testing.assert_allclose(
        got.astype(np.float64), expected.astype(np.float64), rtol=0, atol=limit
    )


@pytest.mark.parametrize("symbolic", [(), IMAGES], ids=["constant", "symbolic"])
@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}*{c[1]}")
def test_conv(case, native, symbolic):
    image, weight, strides, dilations, pads, groups = case
    rng = np.random.default_rng(0)
    x, w, b = random(rng, image), random(rng, weight), random(rng, weight[:1])
    attrs = {"strides": strides, "dilations": dilations, "pads": pads, "groups": groups}
    got = compute("conv", x, w, b, native=native, symbolic=symbolic, **attrs)
    expected = onnx_reference(
        "Conv", x, w, b, strides=strides, dilations=dilations, pads=pads, group=groups
    )
    close(got, expected, np.prod(weight[1:]) + 1)


def test_conv_of_narrow_floats_sums_in_float32():
    rng = np.random.default_rng(1)
    x, w = random(rng, (1, 64, 3), "float16"), random(rng, (2, 64, 3), "float16")
    expected = torch.conv1d(torch.tensor(x).double(), torch.tensor(w).double()).numpy()
    got = compute("conv", x, w)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, expected, rtol=2**-11, atol=1e-3)


def test_a_symbolic_image_gives_symbolic_windows():
    h = Var("h", low=1)
    x, w = placeholder((1, 3, h, 224)), placeholder((8, 3, 7, 7))
    pads = same_pads((h, x.shape[3]), (7, 7), (2, 2))
    (got,) = OPERATORS["conv"]([x, w], {"strides": (2, 2), "pads": pads})
    assert repr(got.shape[3]) == "112"
    (got,) = OPERATORS["conv"]([x, w], {"strides": (2, 2), "pads": (3, 3, 3, 3)})
    assert repr(got.shape[2]) == "(h + 1) // 2"


@pytest.mark.parametrize("points", ["none", "scalar", "channels"])
def test_conv_integer(points):
    rng = np.random.default_rng(4)
    x, w = random(rng, (1, 2, 4, 5), "uint8", 0, 256), random(rng, (3, 2, 2, 3), "int8")
    x_zero = None if points == "none" else np.array(7, np.uint8)
    w_zero = {"none": None, "scalar": np.array([3], np.int8), "channels": random(rng, 3, "int8")}
    got = compute("conv_integer", x, w, x_zero, w_zero[points], pads=(1, 0, 0, 1))
    wide = x.astype(np.float64) - (0 if x_zero is None else 7)
    weight = w.astype(np.float64)
    if points != "none":
        weight = weight - w_zero[points].reshape(-1, 1, 1, 1)
    padded = np.pad(wide, ((0, 0), (0, 0), (1, 0), (0, 1)))
    expected = torch.conv2d(torch.tensor(padded), torch.tensor(weight)).numpy()
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("groups", "offset_groups"), [(1, 1), (2, 1), (1, 2)])
def test_deform_conv(groups, offset_groups):
    rng = np.random.default_rng(5)
    x, w = random(rng, (1, 2, 4, 5)), random(rng, (2, 2 // groups, 2, 2))
    offset, mask = (
        random(rng, (1, offset_groups * 8, 4, 4)),
        random(rng, (1, offset_groups * 4, 4, 4)),
    )
    b = random(rng, (2,))
    pads = (1, 0, 0, 0)
    got = compute(
        "deform_conv", x, w, offset, b, mask, pads=pads, groups=groups, offset_groups=offset_groups
    )
    expected = onnx_reference(
        "DeformConv", x, w, offset, b, mask, pads=pads, group=groups, offset_group=offset_groups
    )
    close(got, expected, 64)


def test_operands_that_do_not_fit():
    x, w = placeholder((1, 3, 5, 5)), placeholder((4, 3, 3, 3))
    for operands, attrs in [
        ([x, placeholder((4, 2, 3, 3))], {}),
        ([x, w], {"groups": 2}),
        ([x, placeholder((4, 3, 3))], {}),
        ([x, w], {"strides": (1,)}),
        ([x, w], {"pads": (1, 1)}),
        ([x, w, placeholder((3,))], {}),
    ]:
        with pytest.raises(ShapeError):
            OPERATORS["conv"](operands, attrs)
    with pytest.raises(DTypeError):
        OPERATORS["conv"]([x, placeholder((4, 3, 3, 3), "float16")], {})
