"""Running sums, sorting, and places of extremes."""

import numpy as np

from kernels.kernel import EPSILON, Expected, Kernel, normal
from tensorsmith import script as T
from tensorsmith import te

n = T.dim("n")
m = T.dim("m")
rows = T.dim("rows", min=0)

LENGTH = 8
TOP = 3


def bitonic_network(length):
    """The comparators of a bitonic sorter, in order; the first of a pair is to come out first.

    Batcher, Sorting networks and their applications, 1968. length: a power of 2.
    """
    pairs = []
    run = 2
    while run <= length:
        distance = run // 2
        while distance:
            for i in range(length):
                j = i ^ distance
                if j > i:
                    pairs.append((i, j) if i & run == 0 else (j, i))
            distance //= 2
        run *= 2
    return pairs


NETWORK = bitonic_network(LENGTH)


@T.program
def cumulative_sum(X: T.Buffer((n, m), "float32"), Y: T.Buffer((n, m), "float32")):
    for t, j in T.grid(n, m):
        with T.block("Y"):
            vt, vj = T.remap("OS", t, j)
            Y[vt, vj] = T.select(vt == 0, 0.0, Y[vt - 1, vj]) + X[vt, vj]


@T.program
def top_k(
    X: T.Buffer((rows, LENGTH), "float32"),
    values: T.Buffer((rows, TOP), "float32"),
    positions: T.Buffer((rows, TOP), "int32"),
):
    for r in range(rows):
        with T.block("sorted"):
            vr = T.remap("S", r)
            key = T.alloc((LENGTH,), "float32", scope="local")
            place = T.alloc((LENGTH,), "int32", scope="local")
            for i in range(LENGTH):
                key[i] = X[vr, i]
                place[i] = T.int32(i)
            for first, second in NETWORK:
                a = key[first]
                b = key[second]
                p = place[first]
                q = place[second]
                if a < b or (a == b and q < p):
                    key[first] = b
                    key[second] = a
                    place[first] = q
                    place[second] = p
            for i in range(TOP):
                values[vr, i] = key[i]
                positions[vr, i] = place[i]


@T.program
def argmax(
    X: T.Buffer((n, m), "float32"),
    value: T.Buffer((n,), "float32"),
    place: T.Buffer((n,), "int64"),
):
    for i, k in T.grid(n, m):
        with T.block("argmax"):
            vi, vk = T.remap("SR", i, k)
            with T.init():
                value[vi] = T.float32("-inf")
                place[vi] = T.int64(9223372036854775807)
            x = X[vi, vk]
            before = T.int64(vk) < place[vi]
            both_nan = T.isnan(x) and T.isnan(value[vi])
            better = x > value[vi] or (T.isnan(x) and not T.isnan(value[vi]))
            if better or (before and (x == value[vi] or both_nan)):
                value[vi] = x
                place[vi] = T.int64(vk)


def cumulative_sum_te():
    X = te.placeholder((n, m), name="X")
    zero = te.compute((m,), lambda j: 0.0, "zero")
    Y = te.scan(n, lambda t, s: te.compute((m,), lambda j: s[j] + X[t, j]), zero, "Y")
    return te.program([X], Y, "cumulative_sum")


def top_k_te():
    """Odd-even transposition: step t compares the neighbours (i, i + 1) with i + t even."""
    X = te.placeholder((rows, LENGTH), name="X")
    shape = X.shape
    start = te.compute(shape, lambda r, i: X[r, i], "start")
    place = te.compute(shape, lambda r, i: T.cast(i, "int32"), "place")

    def step(t, key, place):
        def origin(r, i):
            is_first = T.equal((i + t) % 2, 0)
            takes_next = is_first & (i + 1 < LENGTH) & (key[r, i] < key[r, i + 1])
            takes_last = ~is_first & (i > 0) & (key[r, i - 1] < key[r, i])
            return T.select(takes_next, i + 1, T.select(takes_last, i - 1, i))

        source = te.compute(shape, origin, "source")
        return te.compute(
            shape, lambda r, i: (key[r, source[r, i]], place[r, source[r, i]]), "exchanged"
        )

    keys, places = te.scan(LENGTH, step, (start, place), "sorted")
    values = te.compute((rows, TOP), lambda r, i: keys[LENGTH - 1, r, i], "values")
    positions = te.compute((rows, TOP), lambda r, i: places[LENGTH - 1, r, i], "positions")
    return te.program([X], [values, positions], "top_k")


def argmax_te():
    X = te.placeholder((n, m), name="X")
    k = te.reduce_axis(m, "k")
    value, place = te.compute((n,), lambda i: te.argmax(X[i, k], axis=k), "argmax")
    return te.program([X], [value, place], "argmax")


def cumulative_sum_reference(x):
    """The sum of t elements rounds t times, by EPSILON / 2 of the magnitudes each."""
    x = x.astype(np.float64)
    return (Expected(np.cumsum(x, 0), len(x) * EPSILON * np.cumsum(np.abs(x), 0)),)


def top_k_reference(x):
    """By a stable sort of the negated keys: ties keep the order of their places."""
    places = np.argsort(-x, axis=1, kind="stable")[:, :TOP]
    return Expected(np.take_along_axis(x, places, 1)), Expected(places.astype(np.int32))


def argmax_reference(x):
    places = np.argmax(x, axis=1)
    return Expected(np.take_along_axis(x, places[:, None], 1)[:, 0]), Expected(places)


def with_ties(rng, *shape):
    """Few distinct numbers, so that many are equal."""
    return rng.integers(-3, 4, shape).astype(np.float32)


def with_ties_and_nans(rng, *shape):
    x = with_ties(rng, *shape)
    x[rng.random(shape) < 0.1] = np.nan
    x[rng.random(shape) < 0.2] = -np.inf
    return x


SIZES = {"n": (1, 3, 8), "m": (1, 2, 7)}

KERNELS = (
    Kernel(
        "cumulative_sum",
        cumulative_sum,
        cumulative_sum_te(),
        SIZES,
        lambda rng, s: [normal(rng, s["n"], s["m"])],
        cumulative_sum_reference,
    ),
    Kernel(
        "top_k",
        top_k,
        top_k_te(),
        {"rows": (0, 1, 5)},
        lambda rng, s: [with_ties(rng, s["rows"], LENGTH)],
        top_k_reference,
        ("float32", "int32"),
    ),
    Kernel(
        "argmax",
        argmax,
        argmax_te(),
        SIZES,
        lambda rng, s: [with_ties_and_nans(rng, s["n"], s["m"])],
        argmax_reference,
        ("float32", "int64"),
    ),
)
