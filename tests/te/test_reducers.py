"""Each reducer against NumPy, and the laws that let its points be combined in any order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.evaluate import interpret

FLOATS = ("float32", "float64")
INTEGERS = ("int8", "int32", "int64", "uint8", "uint64")


def numpy_dtype(name):
    return np.dtype("bool" if name == "bool" else name)


def reduced(reduction, x, *more, dtypes, where=None):
    """The rows of `x` reduced along the last axis by a program."""
    X = te.placeholder(x.shape, x.dtype.name, "X")
    k = te.reduce_axis(x.shape[1], "k")
    predicate = None if where is None else where(k)
    result = te.compute((x.shape[0],), lambda i: reduction(X[i, k], axis=k, where=predicate), "Y")
    tensors = result if isinstance(result, tuple) else (result,)
    outputs = [np.full(x.shape[0], 77, numpy_dtype(d)) for d in dtypes]
    interpret(te.program([X], tensors, "reduced"), x, *more, *outputs)
    return outputs if isinstance(result, tuple) else outputs[0]


def some(dtype, shape=(3, 7), seed=0):
    rng = np.random.default_rng(seed)
    kind = numpy_dtype(dtype)
    if kind.kind == "f":
        return rng.integers(-8, 9, shape).astype(kind)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    return rng.integers(0, 256, shape).astype(kind)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("name", ["sum", "prod", "min", "max"])
def test_numbers(name, dtype):
    x = some(dtype)
    with np.errstate(over="ignore"):
        expected = getattr(np, name)(x, axis=1, **({"dtype": x.dtype} if name[0] in "sp" else {}))
    np.testing.assert_array_equal(reduced(getattr(te, name), x, dtypes=[dtype]), expected)


@pytest.mark.parametrize("name", ["any", "all"])
def test_bools(name):
    x = some("bool", (40, 3))
    np.testing.assert_array_equal(
        reduced(getattr(te, name), x, dtypes=["bool"]), getattr(np, name)(x, axis=1)
    )


@pytest.mark.parametrize("name", ["argmin", "argmax"])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_positions_of_extremes(name, dtype):
    x = some(dtype, (20, 6)) // 32
    value, place = reduced(getattr(te, name), x, dtypes=[dtype, "int64"])
    np.testing.assert_array_equal(place, getattr(np, name)(x, axis=1))
    np.testing.assert_array_equal(value, x[np.arange(20), place])


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_first_nan_is_the_extreme_as_in_numpy(name):
    x = np.array(
        [
            [1, np.nan, 2, np.nan],
            [np.inf, -np.inf, np.nan, 0],
            [-np.inf, -np.inf, np.inf, np.inf],
            [-0.0, 0.0, 0.0, -0.0],
        ],
        np.float32,
    )
    _, place = reduced(getattr(te, name), x, dtypes=["float32", "int64"])
    np.testing.assert_array_equal(place, getattr(np, name)(x, axis=1))


@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes_hand_nan_on(name):
    x = np.array([[1, np.nan, 2], [3, 4, 5]], np.float32)
    np.testing.assert_array_equal(
        reduced(getattr(te, name), x, dtypes=["float32"]), getattr(np, name)(x, axis=1)
    )


@pytest.mark.parametrize("name", ["min", "max"])
def test_identity_of_extremes_is_the_far_end_of_the_type(name):
    """Each row holds only the value that the identity has, or the other end."""
    for dtype in ("int8", "uint8", "int64", "float32"):
        kind = np.dtype(dtype)
        ends = [-np.inf, np.inf] if kind.kind == "f" else [np.iinfo(kind).min, np.iinfo(kind).max]
        x = np.array([[e, e] for e in ends], kind)
        np.testing.assert_array_equal(reduced(getattr(te, name), x, dtypes=[dtype]), x[:, 0])


@pytest.mark.parametrize(
    ("name", "identity"), [("sum", 0), ("prod", 1), ("min", 127), ("max", -128)]
)
def test_where_leaves_points_out(name, identity):
    x = some("int8")
    got = reduced(getattr(te, name), x, dtypes=["int8"], where=lambda k: k % 2 < 1)
    with np.errstate(over="ignore"):
        expected = getattr(np, name)(
            x[:, ::2], axis=1, **({"dtype": x.dtype} if name[0] in "sp" else {})
        )
    np.testing.assert_array_equal(got, expected)
    none = reduced(getattr(te, name), x, dtypes=["int8"], where=lambda k: k < 0)
    np.testing.assert_array_equal(none, np.full(3, identity, np.int8))


def test_where_guards_an_access():
    x = np.arange(5, dtype=np.int32)
    X, k = te.placeholder((5,), "int32", "X"), te.reduce_axis(5, "k")
    Y = te.compute((5,), lambda i: te.sum(X[i - k], axis=k, where=i >= k), "Y")
    y = np.empty(5, np.int32)
    interpret(te.program([X], Y), x, y)
    np.testing.assert_array_equal(y, np.cumsum(x))


def test_over_no_points_it_is_the_identity():
    n = T.dim("n", min=0)
    X, k = te.placeholder((n,), name="X"), te.reduce_axis(n, "k")
    best = te.compute((), lambda: te.argmax(X[k], axis=k), "best")
    total = te.compute((), lambda: te.sum(X[k], axis=k), "total")
    value, place, sum_ = np.zeros((), "f4"), np.zeros((), "i8"), np.ones((), "f4")
    program = te.program([X], [*best, total])
    interpret(program, np.zeros(0, "f4"), value, place, sum_)
    assert (value, place, sum_) == (-np.inf, np.iinfo(np.int64).max, 0)
    interpret(program, np.array([3, 5], "f4"), value, place, sum_)
    assert (value, place, sum_) == (5, 1, 8)


def test_position_over_several_axes_is_row_major_from_their_starts():
    x = np.random.default_rng(5).permutation(24).reshape(4, 6).astype(np.int32)
    X = te.placeholder((4, 6), "int32", "X")
    a, b = te.reduce_axis(3, "a", start=1), te.reduce_axis(4, "b", start=2)
    value, place = te.compute((), lambda: te.argmax(X[a, b], axis=(a, b), dtype="int32"), "best")
    got, at = np.zeros((), np.int32), np.zeros((), np.int32)
    interpret(te.program([X], [value, place]), x, got, at)
    assert (got, at) == (x[1:4, 2:6].max(), x[1:4, 2:6].argmax())


def test_reductions_of_one_compute_share_their_points():
    x = np.array([3, -1, 4, 1, -5], np.int32)
    X, k = te.placeholder((5,), "int32", "X"), te.reduce_axis(5, "k")

    def element():
        return te.sum(X[k], k), te.max(X[k], k), te.argmin(X[k], k)

    total, most, least, place = te.compute((), element, "stats")
    outputs = [np.zeros((), t.dtype.numpy) for t in (total, most, least, place)]
    program = te.program([X], [total, most, least, place])
    interpret(program, x, *outputs)
    assert [int(o) for o in outputs] == [2, 4, -5, 4]
    assert program.script().count("T.block") == 1


def complex_product():
    return te.reducer(
        lambda a, b: (a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]),
        (1, 0),
        "complex_product",
    )


def test_reducer_over_tuples():
    rng = np.random.default_rng(0)
    re, im = rng.integers(-3, 4, (2, 5)), rng.integers(-3, 4, (2, 5))
    R, J = te.placeholder((2, 5), "int64", "R"), te.placeholder((2, 5), "int64", "J")
    k = te.reduce_axis(5, "k")
    outputs = te.compute((2,), lambda i: complex_product()((R[i, k], J[i, k]), axis=k), "P")
    got = np.zeros(2, "i8"), np.zeros(2, "i8")
    interpret(te.program([R, J], outputs), re, im, *got)
    np.testing.assert_array_equal(got[0] + 1j * got[1], np.prod(re + 1j * im, axis=1))


def test_reducer_of_one_value():
    gcd_free = te.reducer(lambda a, b: a ^ b, 0, "xor")
    x = some("int32")
    got = reduced(gcd_free, x, dtypes=["int32"])
    np.testing.assert_array_equal(got, np.bitwise_xor.reduce(x, axis=1))


# --- Laws ------------------------------------------------------------------------------------

VALUES = st.sampled_from([-np.inf, -2.5, -0.0, 0.0, 1.0, np.inf, np.nan])
PAIRS = st.tuples(VALUES, st.integers(0, 3))


def combiner(reducer, dtypes):
    """The reducer's combine as a function of NumPy values, by the interpreter."""
    n = len(dtypes)
    sides = [[te.placeholder((), d, f"{s}{i}") for i, d in enumerate(dtypes)] for s in "ab"]
    loads = [tuple(t[()] for t in side) for side in sides]
    result = te.compute((), lambda: tuple(reducer.combined(*loads)), "c")
    program = te.program([*sides[0], *sides[1]], result)

    def combine(a, b):
        outputs = [np.zeros((), d) for d in dtypes]
        args = [np.asarray(v, d) for v, d in zip((*a, *b), (*dtypes, *dtypes), strict=True)]
        interpret(program, *args, *outputs)
        return tuple(o[()] for o in outputs)

    assert n == len(result)
    return combine


COMBINE = {
    name: combiner(getattr(te.reduce, f"_{name.upper()}"), ("float32", "int64"))
    for name in ("argmin", "argmax")
}


def same(a, b):
    return all(x == y or (x != x and y != y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", COMBINE)
@given(a=PAIRS, b=PAIRS, c=PAIRS)
def test_extremes_combine_in_any_order(name, a, b, c):
    combine = COMBINE[name]
    if a[1] != b[1]:
        assert same(combine(a, b), combine(b, a))
    assert same(combine(combine(a, b), c), combine(a, combine(b, c)))


@pytest.mark.parametrize("name", COMBINE)
@given(a=PAIRS)
def test_identity_of_extremes_changes_nothing(name, a):
    identity = (np.inf if name == "argmin" else -np.inf, np.iinfo(np.int64).max)
    combine = COMBINE[name]
    assert same(combine(identity, a), a)
    assert same(combine(a, identity), a)
