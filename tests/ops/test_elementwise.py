"""Arithmetic on elements against NumPy."""

import numpy as np
import pytest
import torch

from ops.evaluation import WAYS, compute
from ops.oracles import (
    FLOATS,
    INTEGERS,
    SHAPES,
    anything,
    assert_close,
    assert_same,
    is_float,
    numpy_type,
    small,
)
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder


def special(function):
    """A function of torch that NumPy lacks."""
    return lambda x: function(torch.from_numpy(np.array(x))).numpy()


FUNCTIONS = {
    **{n: getattr(np, n) for n in ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh")},
    **{n: getattr(np, f"arc{n[1:]}") for n in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "tanh": np.tanh,
    "erf": special(torch.special.erf),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
}
ROUNDINGS = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.round}
MIXED = [((2, 3, 5), (2, 3, 5)), ((4, 1, 5), (3, 1)), ((), (7,)), ((0, 3), (1,)), ((1,), (2, 1))]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, dtype):
    rng = np.random.default_rng(0)
    x = anything(rng, (29,), dtype)
    with np.errstate(all="ignore"):
        want = FUNCTIONS[name](x.astype(np.float64))
    assert_close(compute(name, x), want)


@pytest.mark.parametrize("name", ["exp", "acosh", "reciprocal"])
def test_functions_natively(name):
    x = anything(np.random.default_rng(1), (3, 11), "float32")
    with np.errstate(all="ignore"):
        want = FUNCTIONS[name](x.astype(np.float64))
    assert_close(compute(name, x, native=True, symbolic=True), want)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ROUNDINGS)
def test_roundings(name, dtype):
    x = np.concatenate([np.arange(-4, 5) / 2, [np.nan, np.inf, -0.3]]).astype(numpy_type(dtype))
    assert_same(compute(name, x), ROUNDINGS[name](x.astype(np.float64)).astype(x.dtype))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_signs(dtype, shape):
    x = anything(np.random.default_rng(2), shape, dtype)
    with np.errstate(all="ignore"):
        assert_same(compute("abs", x), np.asarray(abs(x)))
        if not dtype.startswith("u"):
            assert_same(compute("neg", x), np.asarray(-x))
    wide = x.astype(np.float64) if is_float(dtype) else x
    assert_same(compute("sign", x), np.asarray(np.sign(wide)).astype(x.dtype))


BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


@pytest.mark.parametrize("shapes", MIXED, ids=str)
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("name", BINARY)
def test_sums_and_products(name, dtype, shapes):
    rng = np.random.default_rng(3)
    a, b = (anything(rng, s, dtype) for s in shapes)
    with np.errstate(all="ignore"):
        assert_same(compute(name, a, b), np.asarray(BINARY[name](a, b), a.dtype))


@pytest.mark.parametrize("name", [*BINARY, "div", "mod", "min"])
@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("shapes", [((4, 1, 5), (3, 1)), ((2, 1), (1, 2)), ((3,), (2, 3))], ids=str)
def test_broadcasting_of_unknown_extents(name, shapes, native):
    rng = np.random.default_rng(4)
    a, b = (small(rng, s, "float32") + np.float32(0.125) for s in shapes)
    operation = {"div": np.divide, "mod": np.mod, "min": np.minimum} | BINARY
    got = compute(name, a, b, symbolic=True, native=native)
    assert_same(got, operation[name](a, b))


def test_erf_of_integers():
    x = np.array([-9, -1, 0, 1, 9], np.int32)
    assert_same(compute("erf", x), np.array([-1, 0, 0, 0, 1], np.int32))


def divisions(dtype):
    """Dividends, and divisors with 0 and -1, in all combinations."""
    info = np.iinfo(dtype)
    a = np.array([info.min, info.max, 0, 1, 7, *((-1, -7, -8) if info.min else ())], dtype)
    b = np.array([0, 1, 2, 3, info.max, *((-1, -3, info.min) if info.min else ())], dtype)
    return a[:, None], b[None, :]


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_divisions(dtype, native):
    a, b = divisions(dtype)
    exact = [[(int(x), int(y)) for y in b[0]] for x in a[:, 0]]

    def wrapped(function):
        rows = [[function(x, y) if y else 0 for x, y in row] for row in exact]
        bits = np.array(rows, object) % (1 << np.iinfo(dtype).bits)
        return bits.astype(np.uint64).astype(dtype)

    def quotient(x, y):
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

    assert_same(compute("div", a, b, native=native), wrapped(quotient))
    assert_same(compute("mod", a, b, native=native), wrapped(lambda x, y: x % y))
    got = compute("fmod", a, b, native=native)
    assert_same(got, wrapped(lambda x, y: x - quotient(x, y) * y))


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_divisions(dtype, native):
    rng = np.random.default_rng(5)
    a, b = anything(rng, (13, 1), dtype), anything(rng, (1, 11), dtype)
    with np.errstate(all="ignore"):
        assert_same(compute("div", a, b, native=native), np.asarray(a / b))
        wide = (a.astype(np.float64), b.astype(np.float64))
        assert_same(compute("fmod", a, b, native=native), np.fmod(*wide).astype(a.dtype))
        got, want = compute("mod", a, b, native=native), np.mod(*wide)
    # The sum of remainder and divisor rounds.
    assert_close(got, want, ulps=1, scale=np.where(np.isfinite(wide[1]), wide[1], 0))
    zero = want == 0
    assert (np.signbit(got[zero].astype(np.float32)) == np.signbit(want[zero])).all()


@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_variadic(dtype, number):
    rng = np.random.default_rng(6)
    shapes = [(3, 5), (5,), (1, 1), (3, 1)][:number]
    xs = [anything(rng, s, dtype) for s in shapes]
    wide = [x.astype(np.float64) if is_float(dtype) else x for x in xs]
    whole = np.broadcast_shapes(*shapes)
    for name, function in (("min", np.minimum), ("max", np.maximum)):
        want = np.broadcast_to(wide[0], whole)
        for x in wide[1:]:
            want = function(want, x)
        assert_same(compute(name, *xs), want.astype(xs[0].dtype))
    if is_float(dtype):
        xs = [small(rng, s, dtype) for s in shapes]
        total = sum(np.broadcast_to(x.astype(np.float64), whole) for x in xs)
        scale = sum(np.broadcast_to(abs(x.astype(np.float64)), whole) for x in xs)
        assert_close(compute("sum", *xs), total, scale=scale)
        assert_close(compute("mean", *xs), total / number, scale=scale)


@pytest.mark.parametrize("bounds", [(-1, 2), (None, 1), (0, None), (None, None), (2, -1)])
@pytest.mark.parametrize("dtype", ["int8", "int64", "float16", "float32", "float64"])
def test_clip(dtype, bounds):
    x = anything(np.random.default_rng(7), (3, 5), dtype)
    low, high = (None if b is None else np.array(b, dtype) for b in bounds)
    want = x
    want = want if low is None else np.maximum(want, low)
    want = want if high is None else np.minimum(want, high)
    assert_same(compute("clip", x, low, high), want)


@pytest.mark.parametrize("dtype", ["bool", "int4", "uint8", "float16", "float8_e5m2", "float64"])
def test_where(dtype):
    rng = np.random.default_rng(8)
    c = rng.integers(0, 2, (3, 1)).astype(bool)
    a, b = (anything(rng, s, dtype) for s in ((3, 4), (4,)))
    got = compute("where", c, a, b)
    assert_same(got, np.where(c, a.view(np.uint8), b.view(np.uint8)).view(a.dtype)) if (
        a.itemsize == 1
    ) else assert_same(got, np.where(c, a, b))


WRONG = {
    "types that differ": ("add", ["float32", "float64"], DTypeError),
    "bools": ("add", ["bool", "bool"], DTypeError),
    "an integer": ("exp", ["int32"], DTypeError),
    "an unsigned number": ("neg", ["uint8"], DTypeError),
    "a condition that is none": ("where", ["int8", "int8", "int8"], DTypeError),
    "storage floats": ("mul", ["float8_e5m2", "float8_e5m2"], DTypeError),
    "a bound of another type": ("clip", ["int8", "int16"], DTypeError),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_types(case):
    name, types, error = WRONG[case]
    with pytest.raises(error):
        OPERATORS[name]([placeholder((3,), t) for t in types], {})


def test_wrong_shapes():
    with pytest.raises(ShapeError, match="do not broadcast"):
        OPERATORS["add"]([placeholder((3,)), placeholder((4,))], {})
    with pytest.raises(ShapeError):
        OPERATORS["max"]([], {})
