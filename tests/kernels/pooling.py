"""Maxima and means of windows, NCHW."""

import numpy as np

from kernels.kernel import EPSILON, Expected, Kernel, normal
from tensorsmith import script as T
from tensorsmith import te

n = T.dim("n", min=0)
c = T.dim("c")
h = T.dim("h", min=2)
w = T.dim("w", min=2)


@T.program
def max_pool2d(
    X: T.Buffer((n, c, h, w), "float32"),
    Y: T.Buffer((n, c, h // 2, w // 2), "float32"),
):
    for b, f, y, x, r, s in T.grid(n, c, h // 2, w // 2, 2, 2):
        with T.block("Y"):
            vb, vf, vy, vx, vr, vs = T.remap("SSSSRR", b, f, y, x, r, s)
            with T.init():
                Y[vb, vf, vy, vx] = T.float32("-inf")
            Y[vb, vf, vy, vx] = T.max(Y[vb, vf, vy, vx], X[vb, vf, vy * 2 + vr, vx * 2 + vs])


@T.program
def average_pool2d(
    X: T.Buffer((n, c, h, w), "float32"),
    Y: T.Buffer((n, c, h - 1, w - 1), "float32"),
):
    total = T.alloc((n, c, h - 1, w - 1), "float32")
    for b, f, y, x, r, s in T.grid(n, c, h - 1, w - 1, 2, 2):
        with T.block("total"):
            vb, vf, vy, vx, vr, vs = T.remap("SSSSRR", b, f, y, x, r, s)
            with T.init():
                total[vb, vf, vy, vx] = 0.0
            total[vb, vf, vy, vx] += X[vb, vf, vy + vr, vx + vs]
    for b, f, y, x in T.grid(n, c, h - 1, w - 1):
        with T.block("Y"):
            vb, vf, vy, vx = T.remap("SSSS", b, f, y, x)
            Y[vb, vf, vy, vx] = total[vb, vf, vy, vx] / 4.0


def max_pool2d_te():
    X = te.placeholder((n, c, h, w), name="X")
    r, s = te.reduce_axis(2, "r"), te.reduce_axis(2, "s")
    Y = te.compute(
        (n, c, h // 2, w // 2),
        lambda b, f, y, x: te.max(X[b, f, y * 2 + r, x * 2 + s], axis=(r, s)),
        "Y",
    )
    return te.program([X], Y, "max_pool2d")


def average_pool2d_te():
    X = te.placeholder((n, c, h, w), name="X")
    r, s = te.reduce_axis(2, "r"), te.reduce_axis(2, "s")
    shape = (n, c, h - 1, w - 1)
    total = te.compute(
        shape, lambda b, f, y, x: te.sum(X[b, f, y + r, x + s], axis=(r, s)), "total"
    )
    Y = te.compute(shape, lambda *i: total[i] / 4.0, "Y")
    return te.program([X], Y, "average_pool2d")


def windows(x, stride):
    """The four corners of each window of side 2, along a new last axis."""
    rows, cols = x.shape[2] - 1, x.shape[3] - 1
    return np.stack(
        [x[:, :, r : rows + r : stride, s : cols + s : stride] for r in (0, 1) for s in (0, 1)],
        axis=-1,
    )


def average(x):
    """Three sums round, the division by 4 does not: three times EPSILON / 2 of the magnitudes."""
    corners = windows(x.astype(np.float64), 1)
    return (Expected(corners.mean(-1), 1.5 * EPSILON * np.abs(corners).mean(-1)),)


def plane(rng, s):
    return [normal(rng, s["n"], s["c"], s["h"], s["w"])]


SIZES = {"n": (0, 1, 3), "c": (1, 2), "h": (2, 3, 7), "w": (2, 5, 8)}

KERNELS = (
    Kernel(
        "max_pool2d",
        max_pool2d,
        max_pool2d_te(),
        SIZES,
        plane,
        lambda x: (Expected(windows(x, 2).max(-1)),),
    ),
    Kernel("average_pool2d", average_pool2d, average_pool2d_te(), SIZES, plane, average),
)
