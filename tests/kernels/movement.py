"""Kernels that only move data."""

import numpy as np

from kernels.kernel import Expected, Kernel, normal
from tensorsmith import script as T
from tensorsmith import te

n = T.dim("n", min=0)
p = T.dim("p")
q = T.dim("q")
h = T.dim("h", min=3)

WIDTH = 6
"""The width of im2col's pictures: known, so that its index arithmetic is affine."""
COLUMNS = WIDTH - 2


@T.program
def transpose(X: T.Buffer((n, p, q), "float32"), Y: T.Buffer((q, n, p), "float32")):
    for i, j, k in T.grid(q, n, p):
        with T.block("Y"):
            vi, vj, vk = T.remap("SSS", i, j, k)
            Y[vi, vj, vk] = X[vj, vk, vi]


@T.program
def concat(
    X: T.Buffer((n, p), "int32"),
    Y: T.Buffer((n, q), "int32"),
    Z: T.Buffer((n, p + q), "int32"),
):
    for i, j in T.grid(n, p):
        with T.block("left"):
            vi, vj = T.remap("SS", i, j)
            Z[vi, vj] = X[vi, vj]
    for i, j in T.grid(n, q):
        with T.block("right"):
            vi, vj = T.remap("SS", i, j)
            Z[vi, p + vj] = Y[vi, vj]


@T.program
def im2col(
    X: T.Buffer((n, p, h, WIDTH), "float32"),
    Y: T.Buffer((n, p * 9, (h - 2) * COLUMNS), "float32"),
):
    for b, c, r, s, y, x in T.grid(n, p, 3, 3, h - 2, COLUMNS):
        with T.block("Y"):
            vb, vc, vr, vs, vy, vx = T.remap("SSSSSS", b, c, r, s, y, x)
            Y[vb, vc * 9 + vr * 3 + vs, vy * COLUMNS + vx] = X[vb, vc, vy + vr, vx + vs]


def transpose_te():
    X = te.placeholder((n, p, q), name="X")
    return te.program([X], te.compute((q, n, p), lambda i, j, k: X[j, k, i], "Y"), "transpose")


def concat_te():
    X, Y = te.placeholder((n, p), "int32", "X"), te.placeholder((n, q), "int32", "Y")
    Z = te.compute((n, p + q), lambda i, j: T.select(j < p, X[i, j], Y[i, j - p]), "Z")
    return te.program([X, Y], Z, "concat")


def im2col_te():
    X = te.placeholder((n, p, h, WIDTH), name="X")
    Y = te.compute(
        (n, p * 9, (h - 2) * COLUMNS),
        lambda b, i, j: X[b, i // 9, j // COLUMNS + i // 3 % 3, j % COLUMNS + i % 3],
        "Y",
    )
    return te.program([X], Y, "im2col")


def im2col_reference(x):
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    batch, channels, rows, columns = windows.shape[:4]
    moved = windows.transpose(0, 1, 4, 5, 2, 3)
    return (Expected(moved.reshape(batch, channels * 9, rows * columns)),)


KERNELS = (
    Kernel(
        "transpose",
        transpose,
        transpose_te(),
        {"n": (0, 1, 3), "p": (1, 5), "q": (1, 4)},
        lambda rng, s: [normal(rng, s["n"], s["p"], s["q"])],
        lambda x: (Expected(x.transpose(2, 0, 1)),),
    ),
    Kernel(
        "concat",
        concat,
        concat_te(),
        {"n": (0, 1, 3), "p": (1, 5), "q": (1, 2)},
        lambda rng, s: [
            rng.integers(-9, 9, (s["n"], s["p"]), dtype=np.int32),
            rng.integers(-9, 9, (s["n"], s["q"]), dtype=np.int32),
        ],
        lambda x, y: (Expected(np.concatenate([x, y], 1)),),
        ("int32",),
    ),
    Kernel(
        "im2col",
        im2col,
        im2col_te(),
        {"n": (0, 1, 2), "p": (1, 2), "h": (3, 5)},
        lambda rng, s: [normal(rng, s["n"], s["p"], s["h"], WIDTH)],
        im2col_reference,
    ),
)
