"""Activation functions against their formulas in float64."""

import numpy as np
import pytest
import torch

from ops.evaluation import compute, onnx_reference
from ops.oracles import FLOATS, SHAPES, anything, assert_close, assert_same, small
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


def erf(x):
    return torch.special.erf(torch.from_numpy(np.array(x))).numpy()


FORMULAS = {
    "relu": ({}, lambda x: np.maximum(x, 0)),
    "leaky_relu": ({"alpha": 0.25}, lambda x: np.where(x < 0, x * 0.25, x)),
    "thresholded_relu": ({"alpha": 0.5}, lambda x: np.where(x > 0.5, x, 0)),
    "hard_sigmoid": ({"alpha": 0.25, "beta": 0.5}, lambda x: np.clip(x * 0.25 + 0.5, 0, 1)),
    "hard_swish": ({}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "shrink": (
        {"bias": 0.25, "lambd": 1.0},
        lambda x: np.where(x < -1, x + 0.25, np.where(x > 1, x - 0.25, 0)),
    ),
    "sigmoid": ({}, sigmoid),
    "softplus": ({}, softplus),
    "log_sigmoid": ({}, lambda x: -softplus(-x)),
    "softsign": ({}, lambda x: x / (1 + abs(x))),
    "elu": ({"alpha": 0.5}, lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "celu": ({"alpha": 2.0}, lambda x: np.maximum(x, 0) + np.minimum(0, 2 * np.expm1(x / 2))),
    "selu": (
        {"alpha": 1.5, "gamma": 2.0},
        lambda x: 2 * np.where(x > 0, x, 1.5 * np.expm1(x)),
    ),
    "mish": ({}, lambda x: x * np.tanh(softplus(x))),
    "swish": ({"alpha": 1.5}, lambda x: x * sigmoid(1.5 * x)),
    "gelu": ({}, lambda x: 0.5 * x * (1 + erf(x * np.sqrt(0.5)))),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name, dtype):
    rng = np.random.default_rng(0)
    attrs, formula = FORMULAS[name]
    for shape in SHAPES:
        x = anything(rng, shape, dtype)
        with np.errstate(all="ignore"):
            want = formula(x.astype(np.float64))
        # Functions that fall to 0 by cancellation err like their argument does.
        with np.errstate(all="ignore"):
            scale = np.where(np.isfinite(want), np.maximum(abs(want), 0.25), want)
        assert_close(compute(name, x, **attrs), want, scale=scale)


@pytest.mark.parametrize("name", ["relu", "gelu", "mish", "selu"])
def test_formulas_natively(name):
    attrs, formula = FORMULAS[name]
    x = anything(np.random.default_rng(1), (5, 13), "float32")
    with np.errstate(all="ignore"):
        want = formula(x.astype(np.float64))
        scale = np.where(np.isfinite(want), np.maximum(abs(want), 0.25), want)
    assert_close(compute(name, x, native=True, symbolic=True, **attrs), want, scale=scale)


ONNX = {
    "selu": ("Selu", {}),
    "elu": ("Elu", {}),
    "hard_sigmoid": ("HardSigmoid", {}),
    "leaky_relu": ("LeakyRelu", {}),
    "thresholded_relu": ("ThresholdedRelu", {}),
    "shrink": ("Shrink", {}),
    "swish": ("Swish", {"opset": 24}),
    "celu": ("Celu", {}),
}


@pytest.mark.parametrize("name", ONNX)
def test_defaults_are_those_of_onnx(name):
    x = np.linspace(-4, 4, 33, dtype=np.float32)
    op, attrs = ONNX[name]
    np.testing.assert_allclose(
        compute(name, x), onnx_reference(op, x, **attrs), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("is_tanh", [False, True])
def test_gelu(is_tanh):
    x = np.linspace(-6, 6, 97, dtype=np.float32)
    approximate = "tanh" if is_tanh else "none"
    want = torch.nn.functional.gelu(torch.from_numpy(x).double(), approximate=approximate)
    scale = np.maximum(abs(want.numpy()), 0.25)
    assert_close(compute("gelu", x, is_tanh=is_tanh), want.numpy(), scale=scale)


def test_softplus_does_not_overflow():
    x = np.array([-1000, -80, 80, 1000], np.float32)
    assert_close(compute("softplus", x), softplus(x.astype(np.float64)))
    assert_close(compute("log_sigmoid", x), -softplus(-x.astype(np.float64)))


@pytest.mark.parametrize("dtype", ["int32", "uint64", "float16", "float64"])
@pytest.mark.parametrize("slope", [(), (5,), (3, 1), (1, 5)])
def test_prelu(slope, dtype):
    rng = np.random.default_rng(2)
    x, s = small(rng, (2, 3, 5), dtype), small(rng, slope, dtype)
    number = x.astype(np.float64)
    want = np.where(number < 0, number * s.astype(np.float64), number)
    if dtype.startswith("float"):
        assert_close(compute("prelu", x, s), want, ulps=1)
    else:
        assert_same(compute("prelu", x, s), want.astype(dtype))


def test_swiglu():
    rng = np.random.default_rng(3)
    gate, value = small(rng, (3, 7), "float32"), small(rng, (3, 7), "float32")
    want = onnx_reference("SwiGLU", gate, value, opset=28, alpha=1.5)
    np.testing.assert_allclose(
        compute("swiglu", gate, value, alpha=1.5), want, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_relu_of_integers(dtype):
    x = anything(np.random.default_rng(4), (13,), dtype)
    assert_same(compute("relu", x), np.maximum(x, 0))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_shrink_of_integers(dtype):
    x = np.arange(0 if dtype == "uint8" else -4, 5).astype(dtype)
    assert_same(
        compute("shrink", x, bias=1.5, lambd=1.5),
        onnx_reference("Shrink", x, bias=1.5, lambd=1.5),
    )


def test_wrong_operands():
    with pytest.raises(DTypeError):
        OPERATORS["sigmoid"]([placeholder((3,), "int32")], {})
    with pytest.raises(DTypeError):
        OPERATORS["relu"]([placeholder((3,), "uint8")], {})
    for slope in [(2, 3), (4,)]:
        with pytest.raises(ShapeError):
            OPERATORS["prelu"]([placeholder((3,)), placeholder(slope)], {})
