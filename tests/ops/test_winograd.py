"""Minimal filtering: its maps in rationals, and the operator against the plain convolution."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.evaluation import WAYS, compute, random
from ops.test_channels import blocked
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.ops.winograd import POINTS, TAPS, maps
from tensorsmith.te import placeholder

numbers = st.fractions(-9, 9, max_denominator=7)


def times(matrix, values):
    return [sum(f * v for f, v in zip(row, values, strict=True)) for row in matrix]


@pytest.mark.parametrize("tile", POINTS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_maps_are_exact(tile, data):
    image = data.draw(st.lists(numbers, min_size=tile + 2, max_size=tile + 2))
    kernel = data.draw(st.lists(numbers, min_size=TAPS, max_size=TAPS))
    made = maps(tile)
    points = zip(times(made.image, image), times(made.kernel, kernel), strict=True)
    got = times(made.result, [a * b for a, b in points])
    assert got == [sum(image[at + k] * kernel[k] for k in range(TAPS)) for at in range(tile)]


@pytest.mark.parametrize("tile", POINTS)
def test_factors_of_images_and_results_are_floats(tile):
    made = maps(tile)
    for row in (*made.image, *made.result):
        assert all(Fraction(float(np.float32(f))) == f for f in row)


def convolved(x, w, b, pads):
    """The convolution in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), pads[0::2], pads[1::2]))
    high, wide = (max(0, e - TAPS + 1) for e in padded.shape[2:])
    more = np.pad(padded, ((0, 0), (0, 0), (0, TAPS), (0, TAPS)))
    windows = np.lib.stride_tricks.sliding_window_view(more, w.shape[2:], (2, 3))
    windows = windows[:, :, :high, :wide]
    sums = np.einsum("nchwij,mcij->nmhw", windows, w.astype(np.float64), optimize=True)
    return sums + b[:, None, None]


def near(got, x, w, b, pads):
    """Equal to the exact convolution, up to what rounding may do: see the documentation."""
    exact = convolved(x, w, b, pads)
    limit = 5e-6 * max(np.abs(exact).max(initial=0), 1)
    np.testing.assert_allclose(got, blocked(exact, got.shape[-1]), rtol=0, atol=limit)


@st.composite
def convolutions(draw):
    """An image, a weight, blocks before and after, padding, and a tile."""
    before, after = draw(st.sampled_from([2, 3])), draw(st.sampled_from([2, 4]))
    pads = tuple(draw(st.integers(0, 2)) for _ in range(4))
    image = [
        max(0, 2 - pads[d] - pads[d + 2]) + draw(st.sampled_from([0, 1, 2, 3, 5, 7, 11]))
        for d in range(2)
    ]
    shape = (draw(st.integers(1, 2)), before * draw(st.integers(1, 2)), *image)
    weight = (after * draw(st.integers(1, 2)), shape[1], 3, 3)
    return shape, weight, before, after, pads, draw(st.sampled_from(sorted(POINTS)))


@given(convolutions(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_like_conv(case, is_symbolic):
    shape, weight, before, after, pads, tile = case
    rng = np.random.default_rng(0)
    x, w, b = random(rng, shape), random(rng, weight), random(rng, weight[:1])
    symbolic = {(0, 0), (0, 2), (0, 3)} if is_symbolic else ()
    given_ = blocked(x, before)
    attrs = {"block": after, "pads": pads, "tile": tile}
    near(compute("winograd_conv", given_, w, b, symbolic=symbolic, **attrs), x, w, b, pads)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("tile", POINTS)
@pytest.mark.parametrize("size", [(0, 5), (1, 1), (9, 13)])
def test_sizes(size, tile, native):
    rng = np.random.default_rng(1)
    x, w, b = random(rng, (2, 16, *size)), random(rng, (32, 16, 3, 3)), random(rng, (32,))
    pads = (1, 1, 1, 1)
    got = compute(
        "winograd_conv", blocked(x, 8), w, b, block=16, pads=pads, tile=tile, native=native
    )
    near(got, x, w, b, pads)


def test_what_it_does_not_take():
    conv = OPERATORS["winograd_conv"]
    x, w = placeholder((1, 2, 8, 8, 4)), placeholder((4, 8, 3, 3))
    with pytest.raises(ShapeError, match="no tiles of 3"):
        conv([x, w], {"block": 4, "tile": 3})
    with pytest.raises(ShapeError, match="taps"):
        conv([x, placeholder((4, 8, 5, 5))], {"block": 4})
    with pytest.raises(ShapeError, match="channels"):
        conv([x, placeholder((4, 6, 3, 3))], {"block": 4})
    with pytest.raises(DTypeError, match="float32"):
        conv([placeholder((1, 2, 8, 8, 4), "float64"), w], {"block": 4})
