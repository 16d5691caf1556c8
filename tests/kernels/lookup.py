"""Kernels whose subscripts are data: gather, scatter-add, embedding, histogram."""

import numpy as np

from kernels.kernel import EPSILON, Expected, Kernel, normal
from tensorsmith import script as T
from tensorsmith import te

n = T.dim("n")
m = T.dim("m")
k = T.dim("k", min=0)
t = T.dim("t")

BINS = 8


@T.program
def gather(
    X: T.Buffer((n, m), "float32"),
    place: T.Buffer((k,), "int64"),
    Y: T.Buffer((k, m), "float32"),
):
    for i, j in T.grid(k, m):
        with T.block("Y"):
            vi, vj = T.remap("SS", i, j)
            Y[vi, vj] = X[place[vi], vj]


@T.program
def scatter_add(
    X: T.Buffer((n, m), "float32"),
    place: T.Buffer((k,), "int32"),
    U: T.Buffer((k, m), "float32"),
    Y: T.Buffer((n, m), "float32"),
):
    for i, j in T.grid(n, m):
        with T.block("copy"):
            vi, vj = T.remap("SS", i, j)
            Y[vi, vj] = X[vi, vj]
    for i, j in T.grid(k, m):
        with T.block("add"):
            vi, vj = T.remap("OS", i, j)
            Y[place[vi], vj] += U[vi, vj]


@T.program
def embedding(
    table: T.Buffer((n, m), "float32"),
    token: T.Buffer((k, t), "int32"),
    Y: T.Buffer((k, t, m), "float32"),
):
    for i, s, j in T.grid(k, t, m):
        with T.block("Y"):
            vi, vs, vj = T.remap("SSS", i, s, j)
            row = token[vi, vs]
            Y[vi, vs, vj] = table[row, vj] if row >= 0 else 0.0


@T.program
def histogram(X: T.Buffer((k,), "float32"), count: T.Buffer((BINS,), "int32")):
    for i in range(BINS):
        with T.block("zero"):
            vi = T.remap("S", i)
            count[vi] = 0
    for i in range(k):
        with T.block("count"):
            vi = T.remap("O", i)
            place = T.min(T.max(T.int32(X[vi] * BINS), 0), BINS - 1)
            count[place] += 1


def gather_te():
    X, place = te.placeholder((n, m), name="X"), te.placeholder((k,), "int64", "place")
    Y = te.compute((k, m), lambda i, j: X[place[i], j], "Y")
    return te.program([X, place], Y, "gather")


def scatter_add_te():
    X, place = te.placeholder((n, m), name="X"), te.placeholder((k,), "int32", "place")
    U = te.placeholder((k, m), name="U")
    p = te.reduce_axis(k, "p")
    update = te.compute(
        (n, m),
        lambda i, j: te.sum(U[p, j], axis=p, where=T.equal(T.cast(place[p], "index"), i)),
        "update",
    )
    Y = te.compute((n, m), lambda i, j: X[i, j] + update[i, j], "Y")
    return te.program([X, place, U], Y, "scatter_add")


def embedding_te():
    table, token = te.placeholder((n, m), name="table"), te.placeholder((k, t), "int32", "token")

    def element(i, s, j):
        row = token[i, s]
        return T.select(row >= 0, table[row, j], 0.0)

    return te.program([table, token], te.compute((k, t, m), element, "Y"), "embedding")


def histogram_te():
    X = te.placeholder((k,), name="X")
    p = te.reduce_axis(k, "p")
    place = te.compute(
        (k,), lambda i: T.min(T.max(T.cast(X[i] * BINS, "int32"), 0), BINS - 1), "place"
    )
    count = te.compute(
        (BINS,),
        lambda i: te.sum(T.const(1, "int32"), axis=p, where=T.equal(place[p], T.cast(i, "int32"))),
        "count",
    )
    return te.program([X], count, "histogram")


def scatter_add_reference(x, place, u):
    """Each element sums at most k + 1 numbers."""
    value, scale = x.astype(np.float64), np.abs(x.astype(np.float64))
    np.add.at(value, place, u.astype(np.float64))
    np.add.at(scale, place, np.abs(u.astype(np.float64)))
    return (Expected(value, (len(u) + 1) * EPSILON * scale),)


def embedding_reference(table, token):
    return (Expected(np.where(token[..., None] >= 0, table[token], 0)),)


def histogram_reference(x):
    """Multiplying by a power of two is exact, so the bins are NumPy's to the bit."""
    inside = np.clip(x, 0, np.nextafter(np.float32(1), np.float32(0)))
    return (Expected(np.histogram(inside, BINS, (0, 1))[0].astype(np.int32)),)


SIZES = {"n": (1, 3, 8), "m": (1, 5), "k": (0, 1, 7)}

KERNELS = (
    Kernel(
        "gather",
        gather,
        gather_te(),
        SIZES,
        lambda rng, s: [normal(rng, s["n"], s["m"]), rng.integers(0, s["n"], s["k"])],
        lambda x, place: (Expected(x[place]),),
    ),
    Kernel(
        "scatter_add",
        scatter_add,
        scatter_add_te(),
        SIZES,
        lambda rng, s: [
            normal(rng, s["n"], s["m"]),
            rng.integers(0, s["n"], s["k"], dtype=np.int32),
            normal(rng, s["k"], s["m"]),
        ],
        scatter_add_reference,
    ),
    Kernel(
        "embedding",
        embedding,
        embedding_te(),
        {**SIZES, "t": (1, 3)},
        lambda rng, s: [
            normal(rng, s["n"], s["m"]),
            rng.integers(-1, s["n"], (s["k"], s["t"]), dtype=np.int32),
        ],
        embedding_reference,
    ),
    Kernel(
        "histogram",
        histogram,
        histogram_te(),
        {"k": (0, 1, 50)},
        lambda rng, s: [(rng.random(s["k"], dtype=np.float32) * 1.4 - 0.2).astype(np.float32)],
        histogram_reference,
        ("int32",),
    ),
)
