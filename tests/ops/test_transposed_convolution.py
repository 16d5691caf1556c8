"""Transposed convolutions against ONNX."""

import numpy as np
import pytest

from ops.evaluation import compute, onnx_reference, onnx_runtime, random

IMAGES = {(0, 0), (0, 2), (0, 3), (0, 4)}
"""The dimensions of a batch of images but for the channels."""


def close(got, expected, terms):
    """Equal up to the rounding of so many terms of size around 1."""
    scale = np.abs(np.asarray(expected, np.float64)).max(initial=1) + terms**0.5
    assert got.dtype == expected.dtype
    limit = terms * np.finfo(np.float32).eps * scale
    np.testing.assert_allclose(
        got.astype(np.float64), expected.astype(np.float64), rtol=0, atol=limit
    )


@pytest.mark.parametrize("symbolic", [(), IMAGES], ids=["constant", "symbolic"])
@pytest.mark.parametrize(
    ("image", "weight", "attrs"),
    [
        ((1, 2, 4), (2, 3, 3), {}),
        ((2, 3, 3, 4), (3, 2, 3, 2), {"strides": (2, 3), "pads": (1, 0, 0, 1)}),
        ((1, 4, 3, 3), (4, 2, 2, 2), {"strides": (2, 2), "groups": 2, "output_padding": (1, 0)}),
        ((1, 1, 3, 3), (1, 1, 2, 2), {"dilations": (2, 3)}),
        ((1, 1, 2, 3, 2), (1, 2, 2, 1, 3), {"strides": (1, 2, 1)}),
        ((2, 3, 3, 4), (3, 2, 2, 3), {"strides": (2, 3)}),
        ((1, 4, 3, 2), (4, 3, 2, 2), {"strides": (2, 2), "groups": 2}),
    ],
)
def test_conv_transpose(image, weight, attrs, symbolic):
    rng = np.random.default_rng(2)
    groups = attrs.get("groups", 1)
    x, w, b = random(rng, image), random(rng, weight), random(rng, (weight[1] * groups,))
    got = compute("conv_transpose", x, w, b, symbolic=symbolic, **attrs)
    names = {"groups": "group"}
    expected = onnx_runtime(
        "ConvTranspose", x, w, b, **{names.get(k, k): v for k, v in attrs.items()}
    )
    close(got, expected, weight[0] * np.prod(weight[2:]) + 1)


@pytest.mark.parametrize(
    "attrs", [{}, {"strides": (2, 1), "pads": (1, 0, 1, 1)}, {"dilations": (1, 2)}]
)
def test_col2im(attrs):
    shape = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), **attrs}
    image, block = (5, 6), (2, 3)
    counts = [
        (
            image[d]
            + shape["pads"][d]
            + shape["pads"][d + 2]
            - (block[d] - 1) * shape["dilations"][d]
            - 1
        )
        // shape["strides"][d]
        + 1
        for d in range(2)
    ]
    x = random(np.random.default_rng(3), (2, 3 * 6, int(np.prod(counts))))
    got = compute("col2im", x, image=image, block=block, **attrs)
    expected = onnx_reference("Col2Im", x, np.array(image), np.array(block), **attrs)
    close(got, expected, 6)
