"""Operators of symbolic dimensions compute what those of constant ones do.

Either every dimension is a variable, or those of the first operand are, beside constants that they
have to agree with.
"""

import numpy as np
import pytest

from ops.evaluation import compute, random

RNG = np.random.default_rng(0)


def floats(*shape):
    return random(RNG, shape)


def numbers(high, *shape, dtype=np.int64):
    return RNG.integers(0, high, shape).astype(dtype)


CASES = {
    "conv": ((floats(1, 3, 5, 4), floats(2, 3, 3, 3), floats(2)), {"pads": (1, 1, 1, 1)}),
    "conv-groups": ((floats(1, 4, 5, 4), floats(6, 2, 3, 3), floats(6)), {"groups": 2}),
    "conv-depthwise": ((floats(1, 3, 5, 4), floats(3, 1, 3, 3), floats(3)), {"groups": 3}),
    "conv_transpose": ((floats(1, 3, 5), floats(3, 2, 3)), {"strides": (2,)}),
    "deform_conv": ((floats(1, 2, 4, 5), floats(2, 2, 2, 2), floats(1, 8, 3, 4)), {}),
    "lstm": ((floats(4, 3, 2), floats(1, 20, 2), floats(1, 20, 5), floats(1, 40)), {}),
    "gru": ((floats(4, 3, 2), floats(1, 15, 2), floats(1, 15, 5), floats(1, 30)), {}),
    "attention": ((floats(2, 4, 3, 8), floats(2, 4, 5, 8), floats(2, 4, 5, 6)), {}),
    "attention-groups": ((floats(2, 4, 3, 8), floats(2, 2, 5, 8), floats(2, 2, 5, 6)), {}),
    "rotary_embedding": ((floats(2, 3, 4, 8), floats(7, 4), floats(7, 4), numbers(7, 2, 4)), {}),
    "linear_attention": (
        (floats(1, 4, 3, 2), floats(1, 2, 3, 2), floats(1, 2, 3, 3)),
        {"rule": "linear"},
    ),
    "gather": ((floats(3, 4), numbers(3, 2, 2)), {}),
    "scatter_elements": ((floats(3, 4), numbers(3, 2, 4), floats(2, 4)), {}),
    "tensor_scatter": ((floats(2, 1, 4, 3), floats(2, 1, 2, 3), numbers(3, 2)), {}),
    "quantize_linear": (
        (floats(2, 3, 4), np.abs(floats(3)), numbers(3, 3, dtype=np.int8)),
        {},
    ),
    "matmul_nbits": (
        (floats(2, 32), numbers(255, 3, 1, 16, dtype=np.uint8), floats(3)),
        {"depth": 32, "columns": 3},
    ),
    "grid_sample": ((floats(2, 3, 4, 5), floats(2, 3, 3, 2)), {}),
    "roi_align": (
        (floats(2, 3, 4, 5), np.abs(floats(2, 4)), numbers(2, 2)),
        {"pooled": (2, 2), "sampling": 2},
    ),
    "non_max_suppression": ((floats(1, 4, 4), floats(1, 2, 4)), {"most": 2}),
    "compress": ((floats(3, 4), np.array([True, False, True])), {"count": 2, "axis": 0}),
    "unique": ((floats(5),), {"count": 5}),
    "resize": ((floats(1, 2, 4, 5),), {"shape": (1, 2, 7, 3), "mode": "linear"}),
    "stft": ((floats(2, 20, 1), floats(6)), {"step": 3, "length": 6}),
    "depth_to_space": ((floats(1, 8, 2, 3),), {"block": 2}),
    "space_to_depth": ((floats(1, 2, 4, 6),), {"block": 2}),
    "reverse_sequence": ((floats(4, 3, 2), numbers(4, 3)), {}),
    "max_unpool": ((floats(1, 1, 2, 2), numbers(16, 1, 1, 2, 2)), {"shape": (1, 1, 4, 4)}),
    "center_crop_pad": ((floats(5, 6),), {"shape": (3, 8)}),
    "top_k": ((floats(3, 7),), {"k": 3}),
}


@pytest.mark.parametrize("of", ["all", "first"])
@pytest.mark.parametrize("case", CASES)
def test_symbolic_dimensions(case, of):
    operands, attrs = CASES[case]
    name = case.partition("-")[0]
    dims = True if of == "all" else {(0, d) for d in range(operands[0].ndim)}
    expected = compute(name, *operands, **attrs)
    got = compute(name, *operands, symbolic=dims, **attrs)
    pairs = zip(got, expected, strict=True) if isinstance(got, tuple) else [(got, expected)]
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
