"""Steps of optimisers against ONNX."""

import numpy as np
import pytest

from ops.evaluation import compute, onnx_reference, random
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

TRAINING = "ai.onnx.preview.training"
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


def given(count, step):
    rng = np.random.default_rng(0)
    tensors = [random(rng, (3, 4)) for _ in range(count)]
    tensors[-1] = np.abs(tensors[-1])
    return np.array(0.1, np.float32), np.array(step), *tensors


@pytest.mark.parametrize("step", [0, 3])
def test_adagrad(step):
    operands = given(3, step)
    got = compute("adagrad", *operands, decay=0.1, epsilon=1e-5, penalty=0.01)
    expected = onnx_reference(
        "Adagrad", *operands, outputs=2, opset=1, domain=TRAINING,
        decay_factor=0.1, epsilon=1e-5, norm_coefficient=0.01,
    )  # fmt: skip
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, **TOLERANCE)


@pytest.mark.parametrize("step", [0, 3])
def test_adam(step):
    operands = given(4, step)
    attrs = {"alpha": 0.8, "beta": 0.9, "epsilon": 1e-3}
    got = compute("adam", *operands, penalty=0.02, penalty_after=0.01, **attrs)
    expected = onnx_reference(
        "Adam", *operands, outputs=3, opset=1, domain=TRAINING,
        norm_coefficient=0.02, norm_coefficient_post=0.01, **attrs,
    )  # fmt: skip
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, **TOLERANCE)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("step", [0, 3])
def test_momentum(step, nesterov):
    operands = given(3, step)
    got = compute("momentum", *operands, alpha=0.9, beta=0.7, penalty=0.1, is_nesterov=nesterov)
    expected = onnx_reference(
        "Momentum", *operands, outputs=2, opset=1, domain=TRAINING, alpha=0.9, beta=0.7,
        norm_coefficient=0.1, mode="nesterov" if nesterov else "standard",
    )  # fmt: skip
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, **TOLERANCE)


def test_operands_that_do_not_fit():
    rate, step, x = placeholder(()), placeholder((), "int64"), placeholder((2, 3))
    with pytest.raises(ShapeError):
        OPERATORS["adagrad"]([rate, step, x, x], {})
    with pytest.raises(ShapeError):
        OPERATORS["adagrad"]([rate, step, x, x, placeholder((2, 4))], {})
    with pytest.raises(DTypeError):
        OPERATORS["momentum"]([rate, rate, x, x, x], {"alpha": 1.0, "beta": 1.0})
