"""Batches of nothing give results of nothing, of the right shape."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute


def floats(*shape):
    return np.ones(shape, np.float32)


CASES = {
    "conv": ((floats(0, 3, 5, 5), floats(4, 3, 3, 3), floats(4)), {}, (0, 4, 3, 3)),
    "conv_transpose": ((floats(0, 3, 5), floats(3, 2, 3)), {}, (0, 2, 7)),
    "max_pool": ((floats(0, 3, 5),), {"kernel": (2,)}, (0, 3, 4)),
    "average_pool": ((floats(0, 3, 5),), {"kernel": (2,), "pads": (1, 1)}, (0, 3, 6)),
    "attention": ((floats(0, 2, 3, 4),) * 3, {}, (0, 2, 3, 4)),
    "lstm": (
        (floats(3, 0, 2), floats(1, 8, 2), floats(1, 8, 2)),
        {},
        [(3, 1, 0, 2), (1, 0, 2), (1, 0, 2)],
    ),
    "resize": ((floats(0, 4),), {"shape": (0, 8), "mode": "linear"}, (0, 8)),
    "pad": ((floats(0, 4),), {"before": (1, 1), "after": (0, 0)}, (1, 5)),
    "gather": ((floats(3, 4), np.zeros((0, 2), np.int64)), {}, (0, 2, 4)),
    "gather_elements": ((floats(3, 4), np.zeros((0, 4), np.int64)), {}, (0, 4)),
    "scatter_nd": ((floats(3), np.zeros((0, 1), np.int64), floats(0)), {}, (3,)),
    "sort": ((floats(0, 4),), {}, [(0, 4), (0, 4)]),
    "top_k": ((floats(0, 4),), {"k": 2}, [(0, 2), (0, 2)]),
    "concat": ((floats(0, 4), floats(0, 3)), {"axis": 1}, (0, 7)),
    "depth_to_space": ((floats(0, 4, 2, 2),), {"block": 2}, (0, 1, 4, 4)),
    "quantize_linear": ((floats(0, 4), floats()), {}, (0, 4)),
    "dft": ((floats(0, 4, 1),), {}, (0, 4, 2)),
    "grid_sample": ((floats(0, 2, 3, 3), floats(0, 4, 4, 2)), {}, (0, 2, 4, 4)),
    "roi_align": (
        (floats(1, 2, 3, 3), floats(0, 4), np.zeros(0, np.int64)),
        {"pooled": (2, 2)},
        (0, 2, 2, 2),
    ),
    "non_max_suppression": ((floats(0, 3, 4), floats(0, 2, 3)), {"most": 2}, [(0, 3), ()]),
    "matmul_nbits": (
        (floats(0, 16), np.zeros((3, 1, 8), np.uint8), floats(3)),
        {"depth": 16, "columns": 3, "block": 16},
        (0, 3),
    ),
    "tree_ensemble": (
        (
            floats(0, 2),
            np.array([[0, 0, 0, 0, 0, 0, 1]]),
            floats(1),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
            floats(1),
        ),
        {"targets": 1},
        (0, 1),
    ),
}


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize("name", CASES)
def test_empty_batches(name, symbolic, native):
    operands, attrs, shape = CASES[name]
    dims = {(k, d) for k, o in enumerate(operands) for d, n in enumerate(o.shape) if n == 0}
    got = compute(name, *operands, symbolic=dims if symbolic else False, native=native, **attrs)
    if isinstance(shape, list):
        assert [a.shape for a in got] == shape
    else:
        assert got.shape == shape
