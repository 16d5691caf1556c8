"""Operators on images with channels in blocks, against the same ones on plain images."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.evaluation import WAYS, compute, random
from tensorsmith.errors import ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder


def blocked(x, block):
    """Images (n, c, *image) with their channels in blocks; plain, if `block` is 0."""
    if not block:
        return x
    apart = x.reshape(x.shape[0], x.shape[1] // block, block, *x.shape[2:])
    return np.ascontiguousarray(np.moveaxis(apart, 2, -1))


def close(got, expected, terms):
    """Equal up to the rounding of sums of so many terms in another order."""
    assert got.dtype == expected.dtype
    limit = terms * np.finfo(np.float32).eps * (np.abs(expected).max(initial=1) + terms**0.5)
    np.testing.assert_allclose(got, expected, rtol=0, atol=limit)


@st.composite
def windows(draw, rank):
    """An image that the windows fit in, a kernel, and how the windows move."""
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilations = [draw(st.integers(1, 2)) for _ in range(rank)]
    pads = [draw(st.integers(0, 2)) for _ in range(2 * rank)]
    image = [
        max(1, (k - 1) * d + 1 - pads[n] - pads[n + rank]) + draw(st.integers(0, 4))
        for n, (k, d) in enumerate(zip(kernel, dilations, strict=True))
    ]
    strides = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    return image, kernel, {"strides": strides, "dilations": tuple(dilations), "pads": tuple(pads)}


@st.composite
def convolutions(draw):
    """The shapes of an image and a weight, blocks before and after (0: plain), and attributes."""
    image, kernel, attrs = draw(windows(draw(st.integers(1, 3))))
    before, after = draw(st.sampled_from([0, 2, 3])), draw(st.sampled_from([0, 2, 4]))
    groups = draw(st.integers(1, 3))
    if draw(st.booleans()) and groups > 1:  # each channel alone
        groups, before = groups * max(after, 1), after
        depth = each = 1
    else:
        depth, each = (max(b, 1) * draw(st.integers(1, 2)) for b in (before, after))
    x = (draw(st.integers(1, 2)), groups * depth, *image)
    return x, (groups * each, depth, *kernel), before, after, {**attrs, "groups": groups}


def check_convolution(case, *, has_bias, symbolic=(), native=False):
    shape, weight, before, after, attrs = case
    rng = np.random.default_rng(0)
    x, w = random(rng, shape), random(rng, weight)
    b = random(rng, weight[:1]) if has_bias else None
    expected = blocked(compute("conv", x, w, b, **attrs), after)
    attrs |= {"symbolic": symbolic, "native": native}
    got = compute("blocked_conv", blocked(x, before), w, b, block=after, **attrs)
    close(got, expected, np.prod(weight[1:]) + 1)


@given(convolutions(), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_blocked_conv(case, has_bias, is_symbolic):
    symbolic = {(0, 0), *((0, 2 + d) for d in range(len(case[0]) - 2))} if is_symbolic else ()
    check_convolution(case, has_bias=has_bias, symbolic=symbolic)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize(
    "case",
    [
        ((1, 3, 9, 8), (32, 3, 3, 3), 0, 16, {"strides": (2, 2), "pads": (1, 1, 1, 1)}),
        ((2, 32, 5, 7), (16, 32, 1, 1), 16, 16, {}),
        ((1, 16, 6, 5), (24, 16, 3, 3), 16, 8, {"pads": (1, 1, 1, 1)}),
        ((1, 32, 6, 5), (32, 1, 3, 3), 16, 16, {"pads": (1, 1, 1, 1), "groups": 32}),
        ((1, 32, 6, 5), (32, 16, 3, 3), 8, 8, {"pads": (1, 0, 1, 0), "groups": 2}),
    ],
    ids=lambda c: f"{c[0]}*{c[1]}",
)
def test_blocked_conv_of_usual_sizes(case, native):
    check_convolution(case, has_bias=True, native=native)


def test_blocked_conv_of_narrow_floats_sums_in_float32():
    rng = np.random.default_rng(1)
    x, w = random(rng, (1, 64, 3), "float16"), random(rng, (2, 64, 3), "float16")
    got = compute("blocked_conv", blocked(x, 8), w, block=2)
    np.testing.assert_allclose(got, blocked(compute("conv", x, w), 2), rtol=2**-10, atol=1e-3)


def test_convolutions_that_blocks_do_not_fit():
    w = placeholder((8, 4, 3, 3))
    for x, weight, attrs in [
        ((1, 2, 5, 5, 2), w, {"block": 3}),
        ((1, 2, 5, 5, 2), w, {"block": -2}),
        ((1, 2, 5, 5, 3), w, {"block": 2}),
        ((1, 4, 5), w, {"block": 2}),
        ((1, 1, 1, 5, 5, 4), w, {"block": 2}),
        ((1, 2, 5, 5, 4), placeholder((8, 1, 3, 3)), {"block": 2, "groups": 8}),
        ((1, 2, 5, 5, 4), w, {"block": 8, "groups": 2}),
    ]:
        with pytest.raises(ShapeError):
            OPERATORS["blocked_conv"]([placeholder(x), weight], attrs)


@given(st.data(), st.booleans())
@settings(max_examples=30, deadline=None)
def test_blocked_conv_transpose(data, is_symbolic):
    draw = data.draw
    rank, groups = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    before, after = draw(st.sampled_from([0, 2, 3])), draw(st.sampled_from([0, 2, 4]))
    depth, each = (max(b, 1) * draw(st.integers(1, 2)) for b in (before, after))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    rng = np.random.default_rng(3)
    x = random(rng, (2, groups * depth, *(draw(st.integers(1, 4)) for _ in kernel)))
    w, b = random(rng, (groups * depth, each, *kernel)), random(rng, groups * each)
    attrs = {"strides": kernel, "groups": groups}
    expected = blocked(compute("conv_transpose", x, w, b, **attrs), after)
    symbolic = {(0, 0), *((0, 2 + d) for d in range(rank))} if is_symbolic else ()
    attrs |= {"symbolic": symbolic, "block": after}
    close(compute("conv_transpose", blocked(x, before), w, b, **attrs), expected, depth + 1)


def test_blocked_windows_that_overlap():
    x, w = placeholder((1, 2, 5, 5, 2)), placeholder((4, 8, 3, 3))
    for attrs in ({}, {"block": 4}, {"strides": (2, 2)}, {"strides": (3, 3), "pads": (1, 0, 0, 0)}):
        with pytest.raises(ShapeError):
            OPERATORS["conv_transpose"]([x, w], attrs)


@given(st.data(), st.sampled_from(["max_pool", "average_pool", "lp_pool"]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_blocked_pools(data, op, is_symbolic):
    rank = data.draw(st.integers(1, 3))
    image, kernel, attrs = data.draw(windows(rank))
    attrs |= {"kernel": tuple(kernel), "ceil": data.draw(st.booleans())}
    if op == "average_pool":
        attrs["count_pads"] = data.draw(st.booleans())
    block = data.draw(st.sampled_from([1, 2, 4]))
    x = random(np.random.default_rng(2), (2, block * data.draw(st.integers(1, 2)), *image))
    expected = blocked(compute(op, x, **attrs), block)
    symbolic = {(0, 0), *((0, 2 + d) for d in range(rank))} if is_symbolic else ()
    got = compute(op, blocked(x, block), symbolic=symbolic, blocked=True, **attrs)
    np.testing.assert_array_equal(got, expected)
