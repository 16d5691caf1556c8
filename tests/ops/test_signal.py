"""Transforms and windows against NumPy and ONNX."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference, random
from tensorsmith.errors import ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder


def parts(z):
    return np.stack([z.real, z.imag], -1)


def close(got, expected, n):
    """Equal up to what rounding does to sums of n terms."""
    assert got.shape == expected.shape
    scale = np.abs(expected).max(initial=1)
    limit = 8 * (n + 1) * np.finfo(got.dtype).eps * scale
    np.testing.assert_allclose(got, expected, rtol=0, atol=limit)


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_dft(n, dtype, symbolic):
    x = random(np.random.default_rng(0), (2, n, 3, 2), dtype)
    z = x[..., 0] + 1j * x[..., 1]
    sizes = {(0, 1)} if symbolic else False
    close(compute("dft", x, axis=1, symbolic=sizes), parts(np.fft.fft(z, axis=1)), n)
    got = compute("dft", x, axis=1, inverse=True, symbolic=sizes)
    close(got, parts(np.fft.ifft(z, axis=1)), n)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("n", [33, 36, 64, 37])
def test_lengths_that_are_split(n, native):
    x = random(np.random.default_rng(1), (1, n, 1))
    close(compute("dft", x, native=native), parts(np.fft.fft(x[..., 0])), n)


def test_a_transform_that_is_split_twice():
    n = 33 * 32 * 3
    x = random(np.random.default_rng(2), (1, n, 1))
    close(compute("dft", x, native=True), parts(np.fft.fft(x[..., 0])), n)


@pytest.mark.parametrize("length", [None, 4, 9, 10])
def test_onesided_and_lengths(length):
    x = random(np.random.default_rng(3), (2, 6, 1))
    got = compute("dft", x, length=length, onesided=True)
    close(got, parts(np.fft.rfft(x[..., 0], length)), 10)
    spectrum = random(np.random.default_rng(4), (2, 6, 2))
    back = compute("dft", spectrum, length=length, onesided=True, inverse=True)
    z = spectrum[..., 0] + 1j * spectrum[..., 1]
    close(back, np.fft.irfft(z, length)[..., None], 10)


@pytest.mark.parametrize("onesided", [False, True])
@pytest.mark.parametrize("has_window", [False, True])
def test_stft(has_window, onesided):
    rng = np.random.default_rng(5)
    x = random(rng, (2, 20, 1))
    window = random(rng, (6,)) if has_window else None
    got = compute("stft", x, window, step=3, length=6, onesided=onesided)
    given = (x, np.array(3), window, np.array(6))
    close(got, onnx_reference("STFT", *given, onesided=int(onesided), opset=17), 6)


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("kind", ["Hann", "Hamming", "Blackman"])
def test_windows(kind, periodic):
    got = compute("window", kind=kind.lower(), size=7, periodic=periodic)
    expected = onnx_reference(f"{kind}Window", np.array(7), periodic=int(periodic), opset=17)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)
    assert compute("window", kind=kind.lower(), size=3, dtype="float64").dtype == np.float64


def test_mel_weight_matrix():
    given = (5, 32, 8000, 10.0, 3000.0)
    got = compute("mel_weight_matrix", bins=5, length=32, rate=8000, lower=10.0, upper=3000.0)
    expected = onnx_reference(
        "MelWeightMatrix", *(np.array(v, np.int64) for v in given[:3]),
        *(np.array(v, np.float32) for v in given[3:]), opset=17,
    )  # fmt: skip
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)


def test_operands_that_do_not_fit():
    with pytest.raises(ShapeError):
        OPERATORS["dft"]([placeholder((2, 4, 3))], {})
    with pytest.raises(ShapeError):
        OPERATORS["dft"]([placeholder((2, 4, 2))], {"axis": -1})
    with pytest.raises(ShapeError):
        OPERATORS["stft"]([placeholder((2, 9, 1)), placeholder((3,))], {"step": 1, "length": 4})
    with pytest.raises(ShapeError):
        OPERATORS["window"]([], {"kind": "square", "size": 3})
