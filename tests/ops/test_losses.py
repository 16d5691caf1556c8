"""Losses against ONNX and torch."""

import numpy as np
import pytest
import torch
from onnx.reference.ops.op_softmax_cross_entropy_loss import softmaxcrossentropy

from ops.evaluation import compute
from ops.oracles import FLOATS, assert_close, small
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

SHAPES = [(5, 3), (2, 3, 4), (2, 3, 2, 5)]
IGNORED = [None, 1, -7]


def case(rng, shape, dtype, ignore_index, *, is_weighted):
    x = small(rng, shape, dtype)
    target = rng.integers(0, shape[1], (shape[0], *shape[2:]))
    if ignore_index is not None and ignore_index < 0:
        target[target == 1] = ignore_index
    weight = abs(small(rng, (shape[1],), dtype)) if is_weighted else None
    return x, target, weight


def torch_loss(function, x, target, weight, reduction, ignore_index):
    wide = [None if a is None else torch.from_numpy(a.astype(np.float64)) for a in (x, weight)]
    ignored = -100 if ignore_index is None else ignore_index
    found = function(
        wide[0], torch.from_numpy(target), wide[1], ignore_index=ignored, reduction=reduction
    )
    return found.numpy()


@pytest.mark.parametrize("ignore_index", IGNORED)
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("shape", SHAPES)
def test_losses(shape, reduction, is_weighted, ignore_index):
    rng = np.random.default_rng(0)
    x, target, weight = case(rng, shape, "float32", ignore_index, is_weighted=is_weighted)
    attrs = {"reduction": reduction, "ignore_index": ignore_index}
    functions = {
        "negative_log_likelihood": torch.nn.functional.nll_loss,
        "softmax_cross_entropy": torch.nn.functional.cross_entropy,
    }
    for name, function in functions.items():
        want = torch_loss(function, x, target, weight, reduction, ignore_index)
        assert_close(compute(name, x, target, weight, **attrs), want, ulps=64, scale=1 + abs(want))


@pytest.mark.parametrize("dtype", FLOATS)
def test_logarithms_of_probabilities(dtype):
    rng = np.random.default_rng(1)
    x, target, weight = case(rng, (2, 5, 3), dtype, None, is_weighted=True)
    loss, logs = compute("softmax_cross_entropy", x, target, weight, with_log_probabilities=True)
    wide = x.astype(np.float64), target, weight.astype(np.float64)
    want, want_logs = softmaxcrossentropy(*wide, get_log_prob=True)
    ulps = 16 if x.itemsize > 2 else 1
    assert_close(loss, want, ulps=ulps, scale=1 + abs(want))
    assert_close(logs, want_logs, ulps=ulps, scale=1 + abs(want_logs))


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
def test_losses_natively(symbolic):
    rng = np.random.default_rng(2)
    x, target, weight = case(rng, (5, 3, 7), "float32", 1, is_weighted=True)
    want = torch_loss(torch.nn.functional.cross_entropy, x, target, weight, "mean", 1)
    got = compute(
        "softmax_cross_entropy", x, target, weight, ignore_index=1, native=True, symbolic=symbolic
    )
    assert_close(got, want, ulps=64)


def test_targets_outside_read_nothing_outside():
    x = np.array([[1, 2, 3]], np.float32)
    for target, want in ((99, -3), (-99, -1)):
        got = compute("negative_log_likelihood", x, np.array([target]), reduction="sum")
        assert got == want


@pytest.mark.parametrize(
    ("shapes", "types", "attrs", "error"),
    [
        ([(5, 3), (5, 3)], ["float32", "int64"], {}, ShapeError),
        ([(5,), ()], ["float32", "int64"], {}, ShapeError),
        ([(5, 3), (5,)], ["float32", "int64"], {"reduction": "most"}, ShapeError),
        ([(5, 3), (5,)], ["float32", "float32"], {}, DTypeError),
        ([(5, 3), (5,), (3,)], ["float32", "int64", "float64"], {}, DTypeError),
        ([(5, 3), (4,)], ["float32", "int64"], {}, ShapeError),
        ([(5, 3), (5,), (4,)], ["float32", "int64", "float32"], {}, ShapeError),
    ],
)
def test_wrong_operands(shapes, types, attrs, error):
    tensors = [placeholder(s, t) for s, t in zip(shapes, types, strict=True)]
    with pytest.raises(error):
        OPERATORS["negative_log_likelihood"](tensors, attrs)
