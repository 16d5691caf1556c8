"""Normalisations against their formulas in float64, and ONNX."""

import numpy as np
import pytest

from ops.evaluation import compute, onnx_reference, onnx_runtime
from ops.oracles import FLOATS, assert_close, small
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

CHANNELS = (slice(None), None, None)
MODES = [
    pytest.param({}, id="interpreted"),
    pytest.param({"symbolic": True}, id="symbolic"),
    pytest.param({"native": True}, id="native", marks=pytest.mark.slow),
]


def wide(*arrays):
    return [a.astype(np.float64) for a in arrays]


def standard(x, axes, epsilon=1e-5):
    mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon)


def close(got, want):
    assert_close(got, want, ulps=16 if got.itemsize > 2 else 1.5, scale=np.maximum(abs(want), 1))


def operands(rng, dtype, *shapes):
    return [small(rng, s, dtype) for s in shapes]


@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_layer_norm(dtype, axis):
    rng = np.random.default_rng(0)
    x, scale, bias = operands(rng, dtype, (3, 4, 7), (3, 4, 7)[axis:], (7,))
    axes = tuple(range(axis % 3, 3))
    want = standard(x.astype(np.float64), axes) * scale.astype(np.float64)
    close(compute("layer_norm", x, scale, axis=axis), want)
    got, mean, factor = compute("layer_norm", x, scale, bias, axis=axis, with_statistics=True)
    close(got, want + bias.astype(np.float64))
    assert mean.dtype == factor.dtype == np.float32
    number = x.astype(np.float64)
    close(mean, number.mean(axis=axes, keepdims=True))
    close(factor, 1 / np.sqrt(number.var(axis=axes, keepdims=True) + 1e-5))


@pytest.mark.parametrize("mode", [*MODES[:2], {"native": True}])
def test_layer_norm_modes(mode):
    x, scale, bias = operands(np.random.default_rng(1), "float32", (5, 37), (37,), (37,))
    n, s, b = wide(x, scale, bias)
    close(compute("layer_norm", x, scale, bias, **mode), standard(n, -1) * s + b)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_rms_norm(dtype, mode):
    x, scale = operands(np.random.default_rng(2), dtype, (3, 4, 7), (7,))
    n, s = wide(x, scale)
    want = n / np.sqrt((n * n).mean(axis=-1, keepdims=True) + 1e-5) * s
    close(compute("rms_norm", x, scale, **mode), want)


def test_rms_norm_has_the_type_of_the_scale():
    x, scale = small(np.random.default_rng(3), (3, 7), "float16"), np.ones(7, np.float32)
    assert compute("rms_norm", x, scale).dtype == np.float32


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("per_group", [False, True])
@pytest.mark.parametrize("groups", [1, 3, 6])
def test_group_norm(groups, per_group, mode):
    rng = np.random.default_rng(4)
    size = groups if per_group else 6
    x, scale, bias = operands(rng, "float32", (2, 6, 5, 3), (size,), (size,))
    n, s, b = wide(x, scale, bias)
    grouped = standard(n.reshape(2, groups, -1), -1).reshape(n.shape)
    s, b = (np.repeat(p, 6 // size)[CHANNELS] for p in (s, b))
    if mode.get("symbolic"):
        mode = {"symbolic": {(0, 0), (0, 2), (0, 3)}}
    close(compute("group_norm", x, scale, bias, groups=groups, **mode), grouped * s + b)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_instance_norm(dtype, mode):
    x, scale, bias = operands(np.random.default_rng(5), dtype, (2, 3, 5, 7), (3,), (3,))
    n, s, b = wide(x, scale, bias)
    want = standard(n, (2, 3)) * s[CHANNELS] + b[CHANNELS]
    close(compute("instance_norm", x, scale, bias, **mode), want)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_batch_norm(dtype, mode):
    rng = np.random.default_rng(6)
    x, scale, bias, mean, variance = operands(rng, dtype, (2, 3, 5, 7), *[(3,)] * 4)
    variance = abs(variance) + variance.dtype.type(0.5)
    n, s, b, m, v = (a if a.ndim > 1 else a[CHANNELS] for a in wide(x, scale, bias, mean, variance))
    want = (n - m) / np.sqrt(v + 1e-5) * s + b
    scale_of = {"float16": 1, "bfloat16": 1}.get(dtype, 4)
    got = compute("batch_norm", x, scale, bias, mean, variance, **mode)
    assert_close(got, want, ulps=4 * scale_of, scale=abs(n) + abs(m) + abs(want))


def test_batch_norm_of_few_axes():
    rng = np.random.default_rng(7)
    x, scale, bias, mean = operands(rng, "float32", (4, 3), (3,), (3,), (3,))
    variance = np.ones(3, np.float32)
    want = onnx_runtime("BatchNormalization", x, scale, bias, mean, variance, opset=15)
    np.testing.assert_allclose(
        compute("batch_norm", x, scale, bias, mean, variance), want, rtol=1e-5, atol=1e-5
    )
    x, *rest = operands(rng, "float32", (5,), (1,), (1,), (1,))
    got = compute("batch_norm", x, *rest, np.ones(1, np.float32))
    s, b, m = rest
    np.testing.assert_allclose(got, (x - m) / np.sqrt(1 + 1e-5) * s + b, rtol=1e-5, atol=1e-5)


def test_batch_norm_by_places():
    """Parameters for each place of all axes but the first: not spatial, as ONNX once called it."""
    x, s, b, m = operands(np.random.default_rng(8), "float32", (2, 3, 4), *[(3, 4)] * 3)
    got = compute("batch_norm", x, s, b, m, np.ones((3, 4), np.float32))
    np.testing.assert_allclose(got, (x - m) / np.sqrt(1 + 1e-5) * s + b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_batch_norm_in_training(mode):
    rng = np.random.default_rng(9)
    operands_ = operands(rng, "float32", (2, 3, 5, 7), *[(3,)] * 4)
    n, s, b, m, v = wide(*operands_)
    got = compute("batch_norm_training", *operands_, momentum=0.75, **mode)
    own = n.mean(axis=(0, 2, 3)), n.var(axis=(0, 2, 3))
    close(got[0], standard(n, (0, 2, 3)) * s[CHANNELS] + b[CHANNELS])
    close(got[1], m * 0.75 + own[0] * 0.25)
    close(got[2], v * 0.75 + own[1] * 0.25)
    close(got[3], own[0])
    close(got[4], own[1])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, -1])
def test_lp_norm(axis, p, mode):
    x = small(np.random.default_rng(10), (3, 5, 7), "float32")
    x[:, 0, 0] = 0
    x[0, 1] = 0
    n = x.astype(np.float64)
    norm = np.linalg.norm(n, p, axis, keepdims=True)
    want = np.where(norm == 0, 0, n / np.where(norm == 0, 1, norm))
    close(compute("lp_norm", x, axis=axis, p=p, **mode), want)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_lrn(size, mode):
    x = small(np.random.default_rng(11), (2, 5, 3, 4), "float32")
    want = onnx_runtime("LRN", x, size=size, alpha=0.25, beta=0.5, bias=2.0) if size % 2 else None
    got = compute("lrn", x, size=size, alpha=0.25, beta=0.5, bias=2.0, **mode)
    n = x.astype(np.float64)
    low, high = (size - 1) // 2, size // 2
    sums = [(n[:, max(0, c - low) : c + high + 1] ** 2).sum(axis=1) for c in range(5)]
    close(got, n / np.sqrt(2.0 + 0.25 / size * np.stack(sums, 1)))
    if want is not None:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("beta", [0.25, 0.5, 0.75, 0.6])
def test_lrn_by_any_power(beta):
    x = small(np.random.default_rng(12), (1, 4, 3), "float32")
    n = x.astype(np.float64)
    got = compute("lrn", x, size=1, alpha=3.0, beta=beta, bias=0.5)
    close(got, n / (0.5 + 3.0 * n**2) ** beta)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axes", [(0, 2, 3), (1,), (-1, 0)])
def test_mean_variance_norm(axes, mode):
    x = small(np.random.default_rng(12), (2, 3, 4, 5), "float32")
    got = compute("mean_variance_norm", x, axes=axes, **mode)
    n = x.astype(np.float64)
    want = (n - n.mean(axis=axes, keepdims=True)) / (n.std(axis=axes, keepdims=True) + 1e-9)
    close(got, want)
    reference = onnx_reference("MeanVarianceNormalization", x, opset=13, axes=list(axes))
    np.testing.assert_allclose(got, reference, rtol=1e-4, atol=1e-4)


def test_variance_does_not_cancel():
    x = (1e4 + np.random.default_rng(13).standard_normal((2, 64))).astype(np.float32)
    got = compute("layer_norm", x, np.ones(64, np.float32))
    # The mean is rounded to a unit of 1e4.
    assert abs(got - standard(x.astype(np.float64), -1)).max() < 2e-3


def test_nothing():
    x, s = np.empty((0, 4), np.float32), np.ones(4, np.float32)
    assert compute("layer_norm", x, s).shape == (0, 4)
    assert compute("layer_norm", np.empty((4, 0), np.float32), s[:0]).shape == (4, 0)
    assert compute("batch_norm", x, s, s, s, s).shape == (0, 4)


@pytest.mark.parametrize(
    ("name", "shapes", "attrs"),
    [
        ("layer_norm", [(2, 3), (2,)], {}),
        ("layer_norm", [(2, 3), (1, 2, 3)], {}),
        ("rms_norm", [(2, 3), (4,)], {}),
        ("group_norm", [(2, 6, 4), (6,), (6,)], {"groups": 4}),
        ("group_norm", [(2, 6, 4), (6,), (1, 6)], {"groups": 3}),
        ("instance_norm", [(2, 3, 4), (4,), (3,)], {}),
        ("instance_norm", [(2, 3), (3,), (3,)], {}),
        ("batch_norm", [(2, 3, 4), *[(4,)] * 4], {}),
        ("batch_norm", [(2, 3, 4), (3, 4), (3,), (3,), (3,)], {}),
        ("lp_norm", [(2, 3)], {"p": 3}),
        ("lrn", [(2,)], {"size": 3}),
        ("mean_variance_norm", [(2, 3)], {}),
    ],
)
def test_wrong_shapes(name, shapes, attrs):
    with pytest.raises(ShapeError):
        OPERATORS[name]([placeholder(s) for s in shapes], attrs)


def test_wrong_types():
    with pytest.raises(DTypeError):
        OPERATORS["layer_norm"]([placeholder((2, 3), "int32"), placeholder((3,))], {})
