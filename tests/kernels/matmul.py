"""Products of matrices."""

import numpy as np

from kernels.kernel import EPSILON, Expected, Kernel, normal
from tensorsmith import script as T
from tensorsmith import te

b = T.dim("b", min=0)
n = T.dim("n")
m = T.dim("m")
k = T.dim("k")


@T.program
def matmul(
    A: T.Buffer((n, k), "float32"),
    B: T.Buffer((k, m), "float32"),
    C: T.Buffer((n, m), "float32"),
):
    for i, j, p in T.grid(n, m, k):
        with T.block("C"):
            vi, vj, vp = T.remap("SSR", i, j, p)
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] += A[vi, vp] * B[vp, vj]


@T.program
def batched_matmul(
    A: T.Buffer((b, n, k), "float32"),
    B: T.Buffer((b, k, m), "float32"),
    C: T.Buffer((b, n, m), "float32"),
):
    for s, i, j, p in T.grid(b, n, m, k):
        with T.block("C"):
            vs, vi, vj, vp = T.remap("SSSR", s, i, j, p)
            with T.init():
                C[vs, vi, vj] = 0.0
            C[vs, vi, vj] += A[vs, vi, vp] * B[vs, vp, vj]


@T.program
def transposed_matmul(
    A: T.Buffer((k, n), "float32"),
    B: T.Buffer((m, k), "float32"),
    C: T.Buffer((n, m), "float32"),
):
    for i, j, p in T.grid(n, m, k):
        with T.block("C"):
            vi, vj, vp = T.remap("SSR", i, j, p)
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] += A[vp, vi] * B[vj, vp]


def matmul_te():
    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    p = te.reduce_axis(k, "p")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, p] * B[p, j], axis=p), "C")
    return te.program([A, B], C, "matmul")


def batched_matmul_te():
    A, B = te.placeholder((b, n, k), name="A"), te.placeholder((b, k, m), name="B")
    p = te.reduce_axis(k, "p")
    C = te.compute((b, n, m), lambda s, i, j: te.sum(A[s, i, p] * B[s, p, j], axis=p), "C")
    return te.program([A, B], C, "batched_matmul")


def transposed_matmul_te():
    A, B = te.placeholder((k, n), name="A"), te.placeholder((m, k), name="B")
    p = te.reduce_axis(k, "p")
    C = te.compute((n, m), lambda i, j: te.sum(A[p, i] * B[j, p], axis=p), "C")
    return te.program([A, B], C, "transposed_matmul")


def product(x: np.ndarray, y: np.ndarray) -> Expected:
    """``x @ y``. Summing k products rounds 2k times, each by at most EPSILON / 2 of the sum of
    their magnitudes (Higham, Accuracy and Stability, 2002, 3.1)."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    return Expected(x @ y, x.shape[-1] * EPSILON * (np.abs(x) @ np.abs(y)))


SIZES = {"n": (1, 3, 8), "m": (1, 5, 7), "k": (1, 2, 11)}

KERNELS = (
    Kernel(
        "matmul",
        matmul,
        matmul_te(),
        SIZES,
        lambda rng, s: [normal(rng, s["n"], s["k"]), normal(rng, s["k"], s["m"])],
        lambda x, y: (product(x, y),),
    ),
    Kernel(
        "batched_matmul",
        batched_matmul,
        batched_matmul_te(),
        {"b": (0, 1, 3), **SIZES},
        lambda rng, s: [
            normal(rng, s["b"], s["n"], s["k"]),
            normal(rng, s["b"], s["k"], s["m"]),
        ],
        lambda x, y: (product(x, y),),
    ),
    Kernel(
        "transposed_matmul",
        transposed_matmul,
        transposed_matmul_te(),
        SIZES,
        lambda rng, s: [normal(rng, s["k"], s["n"]), normal(rng, s["m"], s["k"])],
        lambda x, y: (product(x.T, y.T),),
    ),
)
