"""Stencils on a plane whose border stays as it is."""

import numpy as np

from kernels.kernel import EPSILON, Expected, Kernel, normal
from tensorsmith import script as T
from tensorsmith import te

h = T.dim("h", min=3)
w = T.dim("w", min=3)

STEPS = 5


@T.program
def five_point(X: T.Buffer((h, w), "float32"), Y: T.Buffer((h, w), "float32")):
    for i, j in T.grid(h, w):
        with T.block("border"):
            vi, vj = T.remap("SS", i, j)
            if vi == 0 or vi == h - 1 or vj == 0 or vj == w - 1:
                Y[vi, vj] = X[vi, vj]
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            with T.block("interior"):
                vi = T.spatial(h - 2, i, start=1)
                vj = T.spatial(w - 2, j, start=1)
                around = X[vi - 1, vj] + X[vi + 1, vj] + X[vi, vj - 1] + X[vi, vj + 1]
                Y[vi, vj] = 0.5 * X[vi, vj] + 0.125 * around


@T.program
def jacobi(X: T.Buffer((h, w), "float32"), Y: T.Buffer((h, w), "float32")):
    U = T.alloc((2, h, w), "float32")
    for s, i, j in T.grid(2, h, w):
        with T.block("start"):
            vs, vi, vj = T.remap("SSS", s, i, j)
            U[vs, vi, vj] = X[vi, vj]
    for t in range(STEPS):
        for i, j in T.grid(h - 2, w - 2):
            with T.block("step"):
                vt, vi, vj = T.remap("OSS", t, i, j)
                now = vt % 2
                above = U[now, vi, vj + 1] + U[now, vi + 2, vj + 1]
                beside = U[now, vi + 1, vj] + U[now, vi + 1, vj + 2]
                U[1 - now, vi + 1, vj + 1] = 0.25 * (above + beside)
    for i, j in T.grid(h, w):
        with T.block("Y"):
            vi, vj = T.remap("SS", i, j)
            Y[vi, vj] = U[STEPS % 2, vi, vj]


def is_inside(i, j):
    return (i > 0) & (i < h - 1) & (j > 0) & (j < w - 1)


def around(X, i, j):
    return X[i - 1, j] + X[i + 1, j] + X[i, j - 1] + X[i, j + 1]


def five_point_te():
    X = te.placeholder((h, w), name="X")

    def element(i, j):
        inside = 0.5 * X[i, j] + 0.125 * around(X, i, j)
        return T.select(is_inside(i, j), inside, X[i, j])

    return te.program([X], te.compute((h, w), element, "Y"), "five_point")


def jacobi_te():
    X = te.placeholder((h, w), name="X")

    def step(_, U):
        return te.compute(
            (h, w),
            lambda i, j: T.select(is_inside(i, j), 0.25 * around(U, i, j), U[i, j]),
            "step",
        )

    U = te.scan(STEPS, step, X, "U")
    return te.program([X], te.compute((h, w), lambda i, j: U[STEPS - 1, i, j], "Y"), "jacobi")


def relax(x, centre):
    """``centre`` parts of each inner element and the rest of the mean of its neighbours."""
    y = x.copy()
    mean = (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) / 4
    y[1:-1, 1:-1] = centre * x[1:-1, 1:-1] + (1 - centre) * mean
    return y


def five_point_reference(x):
    """Four sums round, of numbers that together are no larger than the largest element."""
    x = x.astype(np.float64)
    return (Expected(relax(x, 0.5), 2 * EPSILON * np.abs(x).max()),)


def jacobi_reference(x):
    """A step rounds three sums, and does not enlarge the errors of those before."""
    y = x.astype(np.float64)
    for _ in range(STEPS):
        y = relax(y, 0.0)
    return (Expected(y, STEPS * 1.5 * EPSILON * np.abs(x).max()),)


SIZES = {"h": (3, 5, 8), "w": (3, 4, 7)}


def plane(rng, s):
    return [normal(rng, s["h"], s["w"])]


KERNELS = (
    Kernel("five_point", five_point, five_point_te(), SIZES, plane, five_point_reference),
    Kernel("jacobi", jacobi, jacobi_te(), SIZES, plane, jacobi_reference),
)
