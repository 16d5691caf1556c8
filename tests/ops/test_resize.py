"""Resizing against ONNX."""

import itertools

import numpy as np
import pytest

from ops.evaluation import compute, onnx_reference, random
from tensorsmith.errors import ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.ops.resize import NEAREST, TRANSFORMS
from tensorsmith.te import placeholder

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
PLAIN = [t for t in TRANSFORMS if t != "tf_crop_and_resize"]


def reference(x, shape, *, scales=None, roi=None, opset=19, **attrs):
    given = [roi, None, np.array(shape)] if scales is None else [roi, np.float32(scales)]
    return onnx_reference("Resize", x, *given, opset=opset, **attrs)


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize("transform", PLAIN)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sizes(mode, transform, symbolic):
    x = random(np.random.default_rng(0), (1, 2, 4, 5))
    for shape in [(1, 2, 7, 3), (1, 2, 8, 10), (1, 2, 1, 5)]:
        got = compute("resize", x, shape=shape, mode=mode, transform=transform, symbolic=symbolic)
        expected = reference(x, shape, mode=mode, coordinate_transformation_mode=transform)
        np.testing.assert_allclose(got, expected, **TOLERANCE)


@pytest.mark.parametrize(
    ("transform", "native"), [*((t, False) for t in PLAIN), ("half_pixel", True)]
)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_scales(mode, transform, native):
    x = random(np.random.default_rng(1), (1, 1, 5, 4))
    scales = (1.0, 1.0, 0.6, 2.3)
    shape = tuple(int(n * np.float32(s)) for n, s in zip(x.shape, scales, strict=True))
    factors = tuple(float(np.float32(s)) for s in scales)
    expected = reference(
        x, shape, scales=scales, mode=mode, coordinate_transformation_mode=transform
    )
    attrs = {"shape": shape, "mode": mode, "transform": transform, "native": native}
    np.testing.assert_allclose(
        compute("resize", x, factors=factors, **attrs), expected, **TOLERANCE
    )
    got = compute("resize", x, np.float32(scales), **attrs)
    np.testing.assert_allclose(got, expected, **TOLERANCE)


@pytest.mark.parametrize("nearest", NEAREST)
@pytest.mark.parametrize("transform", ["half_pixel", "asymmetric", "align_corners"])
def test_nearest(transform, nearest):
    x = np.arange(6, dtype=np.int32).reshape(1, 6)
    for shape in [(1, 9), (1, 4), (1, 12)]:
        got = compute("resize", x, shape=shape, transform=transform, nearest=nearest)
        expected = reference(
            x, shape, mode="nearest", coordinate_transformation_mode=transform, nearest_mode=nearest
        )
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [False, True])
def test_antialias(mode, exclude):
    x = random(np.random.default_rng(2), (1, 1, 9, 6))
    for shape in [(1, 1, 4, 2), (1, 1, 5, 12)]:
        attrs = {"mode": mode, "antialias": True}
        got = compute("resize", x, shape=shape, exclude_outside=exclude, **attrs)
        expected = reference(
            x, shape, mode=mode, antialias=1, exclude_outside=int(exclude),
            coordinate_transformation_mode="half_pixel",
        )  # fmt: skip
        np.testing.assert_allclose(got, expected, **TOLERANCE)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crop_and_resize(mode):
    x = random(np.random.default_rng(3), (1, 1, 5, 6))
    roi = np.array([0, 0, 0.4, -0.2, 1, 1, 0.8, 1.1], np.float32)
    shape = (1, 1, 3, 4)
    transform = "tf_crop_and_resize"
    attrs = {"mode": mode, "transform": transform, "extrapolation": 10.0}
    got = compute("resize", x, None, roi, shape=shape, **attrs)
    expected = reference(
        x, shape, roi=roi, mode=mode, coordinate_transformation_mode=transform,
        extrapolation_value=10.0,
    )  # fmt: skip
    np.testing.assert_allclose(got, expected, **TOLERANCE)


def test_axes_and_coefficient():
    x = random(np.random.default_rng(4), (2, 4, 3))
    for axes, a in itertools.product([(1, 2), (2, 0)], [-0.5, -0.75]):
        got = compute("resize", x, shape=(3, 5), axes=axes, mode="cubic", cubic=a)
        expected = reference(x, (3, 5), axes=axes, mode="cubic", cubic_coeff_a=a)
        np.testing.assert_allclose(got, expected, **TOLERANCE)


def test_integers_are_rounded():
    x = random(np.random.default_rng(5), (1, 7), "uint8", 0, 256)
    for mode in ("linear", "cubic"):
        got = compute("resize", x, shape=(1, 11), mode=mode)
        np.testing.assert_array_equal(got, reference(x, (1, 11), mode=mode))


def test_operands_that_do_not_fit():
    x = placeholder((1, 5))
    for attrs in [
        {"shape": (2,)},
        {"shape": (1, 2), "mode": "quintic"},
        {"shape": (1, 2), "transform": "none"},
        {"shape": (1, 2), "axes": (0, 0)},
    ]:
        with pytest.raises(ShapeError):
            OPERATORS["resize"]([x], attrs)
