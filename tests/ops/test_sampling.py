"""Grids, regions of interest and suppression against ONNX."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference, onnx_runtime, random
from tensorsmith.errors import ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample(mode, padding, align):
    rng = np.random.default_rng(0)
    x = random(rng, (2, 2, 4, 5))
    grid = rng.uniform(-1.6, 1.6, (2, 3, 4, 2)).astype(np.float32)
    got = compute("grid_sample", x, grid, mode=mode, padding=padding, align_corners=align)
    expected = onnx_reference(
        "GridSample", x, grid, mode=mode, padding_mode=padding, align_corners=int(align), opset=20
    )
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("padding", ["zeros", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_grid_sample_in_three_dimensions(mode, padding, native):
    rng = np.random.default_rng(1)
    x = random(rng, (1, 2, 3, 4, 2))
    grid = rng.uniform(-1.3, 1.3, (1, 2, 2, 3, 3)).astype(np.float32)
    got = compute("grid_sample", x, grid, mode=mode, padding=padding, native=native)
    expected = onnx_reference("GridSample", x, grid, mode=mode, padding_mode=padding, opset=20)
    np.testing.assert_allclose(got, expected, **TOLERANCE)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("image", [(3, 4), (2, 3, 5)])
def test_affine_grid(image, align):
    rank = len(image)
    theta = random(np.random.default_rng(2), (2, rank, rank + 1))
    got = compute("affine_grid", theta, image=image, align_corners=align)
    size = np.array([2, 1, *image])
    expected = onnx_reference("AffineGrid", theta, size, align_corners=int(align), opset=20)
    np.testing.assert_allclose(got, expected, **TOLERANCE)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("half_pixel", [False, True])
@pytest.mark.parametrize("sampling", [0, 2])
def test_roi_align(sampling, half_pixel, mode, native):
    x = random(np.random.default_rng(3), (2, 2, 6, 7))
    rois = np.array([[0, 0, 9, 7], [2, 1, 7, 12], [3, 3, 3.2, 3.1], [-3, -2, 1, 1]], np.float32)
    images = np.array([0, 1, 1, 0])
    attrs = {"pooled": (2, 3), "sampling": sampling, "scale": 0.5, "mode": mode}
    got = compute("roi_align", x, rois, images, half_pixel=half_pixel, native=native, **attrs)
    expected = onnx_reference(
        "RoiAlign", x, rois, images, output_height=2, output_width=3, sampling_ratio=sampling,
        spatial_scale=0.5, mode=mode, opset=16,
        coordinate_transformation_mode="half_pixel" if half_pixel else "output_half_pixel",
    )  # fmt: skip
    np.testing.assert_allclose(got, expected, **TOLERANCE)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("has_centers", [False, True])
@pytest.mark.parametrize(
    ("most", "overlap", "score"), [(3, 0.3, 0.2), (9, 0.5, None), (0, 0.5, 0.1), (2, None, None)]
)
def test_non_max_suppression(most, overlap, score, has_centers, native):
    rng = np.random.default_rng(4)
    corners = rng.uniform(0, 1, (2, 8, 4)).astype(np.float32)
    scores = rng.uniform(0, 1, (2, 3, 8)).astype(np.float32).round(1)
    limits = [None if v is None else np.array([v], np.float32) for v in (overlap, score)]
    rows, count = compute(
        "non_max_suppression", corners, scores, *limits,
        most=most, has_centers=has_centers, native=native,
    )  # fmt: skip
    expected = onnx_runtime(
        "NonMaxSuppression", corners, scores, np.array([most]), *limits,
        opset=11, center_point_box=int(has_centers),
    )  # fmt: skip
    np.testing.assert_array_equal(rows[: int(count)], expected)
    assert not rows[int(count) :].any()


def test_operands_that_do_not_fit():
    x, grid = placeholder((1, 2, 4, 4)), placeholder((1, 3, 3, 2))
    with pytest.raises(ShapeError):
        OPERATORS["grid_sample"]([x, grid], {"mode": "quintic"})
    with pytest.raises(ShapeError):
        OPERATORS["grid_sample"]([x, placeholder((1, 3, 3, 3))], {})
    with pytest.raises(ShapeError):
        OPERATORS["roi_align"](
            [x, placeholder((2, 5)), placeholder((2,), "int64")], {"pooled": (1, 1)}
        )
    with pytest.raises(ShapeError):
        OPERATORS["non_max_suppression"]([placeholder((1, 3, 4)), placeholder((1, 1, 4))], {})
