"""Softmax, layer norm and RMS norm over the last axis."""

import numpy as np

from kernels.kernel import EPSILON, Expected, Kernel, normal
from tensorsmith import script as T
from tensorsmith import te

n = T.dim("n", min=0)
m = T.dim("m")

TINY = 1e-5
"""Added to variances, as is usual."""


@T.program
def softmax(X: T.Buffer((n, m), "float32"), Y: T.Buffer((n, m), "float32")):
    largest = T.alloc((n,), "float32")
    total = T.alloc((n,), "float32")
    power = T.alloc((n, m), "float32")
    for i, k in T.grid(n, m):
        with T.block("largest"):
            vi, vk = T.remap("SR", i, k)
            with T.init():
                largest[vi] = T.float32("-inf")
            largest[vi] = T.max(largest[vi], X[vi, vk])
    for i, j in T.grid(n, m):
        with T.block("power"):
            vi, vj = T.remap("SS", i, j)
            power[vi, vj] = T.exp(X[vi, vj] - largest[vi])
    for i, k in T.grid(n, m):
        with T.block("total"):
            vi, vk = T.remap("SR", i, k)
            with T.init():
                total[vi] = 0.0
            total[vi] += power[vi, vk]
    for i, j in T.grid(n, m):
        with T.block("Y"):
            vi, vj = T.remap("SS", i, j)
            Y[vi, vj] = power[vi, vj] / total[vi]


@T.program
def layer_norm(
    X: T.Buffer((n, m), "float32"),
    gain: T.Buffer((m,), "float32"),
    shift: T.Buffer((m,), "float32"),
    Y: T.Buffer((n, m), "float32"),
):
    mean = T.alloc((n,), "float32")
    variance = T.alloc((n,), "float32")
    for i in range(n):
        for k in range(m):
            with T.block("sum"):
                vi, vk = T.remap("SR", i, k)
                with T.init():
                    mean[vi] = 0.0
                mean[vi] += X[vi, vk]
        with T.block("mean"):
            vi = T.remap("S", i)
            mean[vi] /= T.float32(m)
    for i, k in T.grid(n, m):
        with T.block("variance"):
            vi, vk = T.remap("SR", i, k)
            with T.init():
                variance[vi] = 0.0
            variance[vi] += (X[vi, vk] - mean[vi]) * (X[vi, vk] - mean[vi])
    for i, j in T.grid(n, m):
        with T.block("Y"):
            vi, vj = T.remap("SS", i, j)
            scale = T.rsqrt(variance[vi] / T.float32(m) + TINY)
            Y[vi, vj] = (X[vi, vj] - mean[vi]) * scale * gain[vj] + shift[vj]


@T.program
def rms_norm(
    X: T.Buffer((n, m), "float32"),
    gain: T.Buffer((m,), "float32"),
    Y: T.Buffer((n, m), "float32"),
):
    squares = T.alloc((n,), "float32")
    for i, k in T.grid(n, m):
        with T.block("squares"):
            vi, vk = T.remap("SR", i, k)
            with T.init():
                squares[vi] = 0.0
            squares[vi] += X[vi, vk] * X[vi, vk]
    for i, j in T.grid(n, m):
        with T.block("Y"):
            vi, vj = T.remap("SS", i, j)
            Y[vi, vj] = X[vi, vj] * T.rsqrt(squares[vi] / T.float32(m) + TINY) * gain[vj]


def softmax_of(X):
    """The softmax of a tensor over its last axis."""
    k = te.reduce_axis(X.shape[-1], "k")
    outer = X.shape[:-1]
    largest = te.compute(outer, lambda *i: te.max(X[(*i, k)], axis=k), "largest")
    power = te.compute(X.shape, lambda *i: T.exp(X[i] - largest[i[:-1]]), "power")
    total = te.compute(outer, lambda *i: te.sum(power[(*i, k)], axis=k), "total")
    return te.compute(X.shape, lambda *i: power[i] / total[i[:-1]], "softmax")


def softmax_te():
    X = te.placeholder((n, m), name="X")
    return te.program([X], softmax_of(X), "softmax")


def layer_norm_te():
    X = te.placeholder((n, m), name="X")
    gain, shift = te.placeholder((m,), name="gain"), te.placeholder((m,), name="shift")
    k = te.reduce_axis(m, "k")
    total = te.compute((n,), lambda i: te.sum(X[i, k], axis=k), "total")
    centred = te.compute((n, m), lambda i, j: X[i, j] - total[i] / T.cast(m, "float32"), "centred")
    squares = te.compute((n,), lambda i: te.sum(centred[i, k] * centred[i, k], axis=k), "squares")
    scale = te.compute((n,), lambda i: T.rsqrt(squares[i] / T.cast(m, "float32") + TINY), "scale")
    Y = te.compute((n, m), lambda i, j: centred[i, j] * scale[i] * gain[j] + shift[j], "Y")
    return te.program([X, gain, shift], Y, "layer_norm")


def rms_norm_te():
    X, gain = te.placeholder((n, m), name="X"), te.placeholder((m,), name="gain")
    k = te.reduce_axis(m, "k")
    squares = te.compute((n,), lambda i: te.sum(X[i, k] * X[i, k], axis=k), "squares")
    scale = te.compute((n,), lambda i: T.rsqrt(squares[i] / T.cast(m, "float32") + TINY), "scale")
    Y = te.compute((n, m), lambda i, j: X[i, j] * scale[i] * gain[j], "Y")
    return te.program([X, gain], Y, "rms_norm")


def expected_softmax(x):
    """Softmax, and the bound of its relative error.

    An exponential is off by 3 EPSILON (NumPy's own bound is 2.5 units in the last place) and by the
    rounding of its argument; the sum of m of them by m * EPSILON / 2, the quotient by EPSILON / 2.
    """
    x = x.astype(np.float64)
    below = x - x.max(-1, keepdims=True)
    power = np.exp(below)
    value = power / power.sum(-1, keepdims=True)
    depth = np.abs(below).max(-1, keepdims=True)
    return value, (x.shape[-1] + 8 + 2 * depth) * EPSILON


def softmax_reference(x):
    value, relative = expected_softmax(x)
    return (Expected(value, value * relative),)


def layer_norm_reference(x, gain, shift):
    """The mean is off by m * EPSILON of the mean magnitude, in the numerator and, squared and
    summed, in the variance; the remaining operations round once each."""
    x, gain, shift = (a.astype(np.float64) for a in (x, gain, shift))
    length = x.shape[-1]
    centred = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(-1, keepdims=True) + TINY)
    mean_error = (length + 1) * EPSILON * np.abs(x).mean(-1, keepdims=True)
    normalised = centred / spread
    error = 2 * mean_error / spread + EPSILON * np.abs(normalised)
    error += np.abs(normalised) * ((length + 6) * EPSILON + 2 * mean_error / spread)
    value = normalised * gain + shift
    rounding = 2 * EPSILON * (np.abs(normalised * gain) + np.abs(shift))
    return (Expected(value, error * np.abs(gain) + rounding),)


def rms_norm_reference(x, gain):
    """All terms are positive, so that m + 8 roundings make a relative error of as many EPSILON."""
    x, gain = x.astype(np.float64), gain.astype(np.float64)
    value = x / np.sqrt((x**2).mean(-1, keepdims=True) + TINY) * gain
    return (Expected(value, np.abs(value) * (x.shape[-1] + 8) * EPSILON),)


SIZES = {"n": (0, 1, 4), "m": (1, 2, 13)}

KERNELS = (
    Kernel(
        "softmax",
        softmax,
        softmax_te(),
        SIZES,
        lambda rng, s: [normal(rng, s["n"], s["m"]) * 8],
        softmax_reference,
    ),
    Kernel(
        "layer_norm",
        layer_norm,
        layer_norm_te(),
        SIZES,
        lambda rng, s: [normal(rng, s["n"], s["m"]), normal(rng, s["m"]), normal(rng, s["m"])],
        layer_norm_reference,
    ),
    Kernel(
        "rms_norm",
        rms_norm,
        rms_norm_te(),
        SIZES,
        lambda rng, s: [normal(rng, s["n"], s["m"]), normal(rng, s["m"])],
        rms_norm_reference,
    ),
)
