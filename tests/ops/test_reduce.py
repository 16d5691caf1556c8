"""Reductions and running sums against NumPy and ONNX."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference
from ops.oracles import (
    FLOATS,
    INTEGERS,
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

SUMS = {
    "reduce_sum": lambda x, **k: x.sum(**k),
    "reduce_prod": lambda x, **k: x.prod(**k),
    "reduce_mean": lambda x, **k: x.mean(**k),
    "reduce_l1": lambda x, **k: abs(x).sum(**k),
    "reduce_l2": lambda x, **k: np.sqrt((x * x).sum(**k)),
    "reduce_sum_square": lambda x, **k: (x * x).sum(**k),
}
LOGARITHMS = {
    "reduce_log_sum": lambda x, **k: np.log(abs(x).sum(**k)),
    "reduce_log_sum_exp": lambda x, **k: np.log(np.exp(x).sum(**k)),
}
AXES = [None, (0,), (1,), (-1,), (0, 2), (0, 1, 2), ()]


def axis_of(axes):
    return tuple(range(3)) if axes is None else axes


@pytest.mark.parametrize("keep_dims", [True, False])
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("name", [*SUMS, *LOGARITHMS])
def test_axes(name, axes, keep_dims):
    x = small(np.random.default_rng(0), (2, 3, 5), "float64")
    given = abs(x) if name == "reduce_log_sum" else x
    want = (SUMS | LOGARITHMS)[name](x, axis=axis_of(axes), keepdims=keep_dims)
    got = compute(name, given, axes=axes, keep_dims=keep_dims)
    assert_close(got, want, ulps=60, scale=np.maximum(abs(want), 1))


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 11), (2, 1, 13)])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*SUMS, *LOGARITHMS])
def test_types(name, dtype, shape):
    x = small(np.random.default_rng(1), shape, dtype)
    given = abs(x) if name == "reduce_log_sum" else x
    wide = x.astype(np.float64)
    want = (SUMS | LOGARITHMS)[name](wide, axis=(-1,), keepdims=True)
    with np.errstate(all="ignore"):
        scale = np.maximum(abs(want), abs(wide).sum(axis=-1, keepdims=True))
    # Narrow floats are summed in float32, and rounded once.
    ulps = shape[-1] if dtype in ("float32", "float64") else 1
    assert_close(compute(name, given, axes=(-1,)), want, ulps=ulps, scale=scale)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["reduce_sum", "reduce_prod", "reduce_sum_square", "reduce_l1"])
def test_integers_wrap(name, dtype):
    x = anything(np.random.default_rng(2), (3, 7), dtype)
    with np.errstate(all="ignore"):
        magnitude = x if dtype.startswith("u") else abs(x)
        want = {
            "reduce_sum": lambda: x.sum(1, dtype=dtype),
            "reduce_prod": lambda: x.prod(1, dtype=dtype),
            "reduce_sum_square": lambda: (x * x).sum(1, dtype=dtype),
            "reduce_l1": lambda: magnitude.sum(1, dtype=dtype),
        }[name]()
    assert_same(compute(name, x, axes=(1,), keep_dims=False), want)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_means_and_norms_of_integers(dtype):
    x = np.array([[-7, 2, 0], [3, 4, 12]], dtype)
    assert compute("reduce_mean", x, axes=(1,)).tolist() == [[-1], [6]]
    assert compute("reduce_l2", x, axes=(1,)).tolist() == [[7], [13]]
    assert compute("reduce_log_sum", abs(x), axes=(1,)).tolist() == [[2], [2]]
    assert compute("reduce_log_sum_exp", x, axes=(1,)).tolist() == [[2], [12]]


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("name", ["reduce_max", "reduce_min"])
def test_extremes(name, native):
    rng = np.random.default_rng(3)
    function = np.max if name == "reduce_max" else np.min
    for dtype in ["float32"] if native else ["bool", *INTEGERS, *FLOATS]:
        x = anything(rng, (3, 5, 4), dtype)  # with one NaN
        wide = x.astype(np.float64) if is_float(dtype) else x
        want = function(wide, axis=(0, 2), keepdims=True).astype(x.dtype)
        assert_same(compute(name, x, axes=(0, 2), native=native), want)


EMPTY = {
    "reduce_sum": 0,
    "reduce_prod": 1,
    "reduce_l1": 0,
    "reduce_l2": 0,
    "reduce_sum_square": 0,
    "reduce_mean": np.nan,
    "reduce_max": -np.inf,
    "reduce_min": np.inf,
    "reduce_log_sum": -np.inf,
    "reduce_log_sum_exp": -np.inf,
}


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize("name", EMPTY)
def test_nothing(name, symbolic):
    x = np.empty((2, 0, 3), np.float32)
    got = compute(name, x, axes=(1,), symbolic=symbolic)
    assert_same(got, np.full((2, 1, 3), EMPTY[name], np.float32))
    assert compute(name, x, axes=(2,), symbolic=symbolic).shape == (2, 0, 1)


@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool"])
def test_extremes_of_nothing(dtype):
    x = np.empty((0, 2), dtype)
    low, high = (False, True) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    assert compute("reduce_max", x, axes=(0,)).tolist() == [[low, low]]
    assert compute("reduce_min", x, axes=(0,)).tolist() == [[high, high]]


def test_bools():
    x = np.random.default_rng(4).integers(0, 2, (4, 3)).astype(bool)
    assert_same(compute("reduce_any", x, axes=(1,)), x.any(1, keepdims=True))
    assert_same(compute("reduce_all", x, axes=(0,), keep_dims=False), x.all(0))


def test_logarithms_of_infinite_sums():
    inf = np.inf
    x = np.array([[-inf, -inf], [inf, 1], [1000, 1000], [-1000, -inf]], np.float32)
    want = np.array([[-inf], [inf], [1000 + np.log(2)], [-1000]])
    assert_close(compute("reduce_log_sum_exp", x, axes=(1,)), want)


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(name, last, native):
    rng = np.random.default_rng(5)
    op = "ArgMax" if name == "argmax" else "ArgMin"
    for dtype in ["float32"] if native else ["int8", "uint64", "int32", "float16", "float64"]:
        for axis in (0, 1, -1):
            x = small(rng, (3, 5, 4), dtype)
            x = np.round(x) if is_float(dtype) else x  # so that some are equal
            got = compute(
                name, x, axis=axis, keep_dims=axis == 0, select_last_index=last, native=native
            )
            attrs = {"axis": axis, "keepdims": int(axis == 0), "select_last_index": int(last)}
            assert_same(got, onnx_reference(op, x, opset=13, **attrs))


def test_position_of_nan():
    x = np.array([[1, np.nan, 2, np.nan], [np.inf, 1, 0, 3]], np.float32)
    assert compute("argmax", x, axis=1, keep_dims=False).tolist() == [1, 0]
    assert compute("argmin", x, axis=1, keep_dims=False).tolist() == [1, 2]
    last = compute("argmax", x, axis=1, keep_dims=False, select_last_index=True)
    assert last.tolist() == [3, 0]


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(("name", "op"), [("cumsum", "CumSum"), ("cumprod", "CumProd")])
def test_running(name, op, exclusive, reverse, native):
    rng = np.random.default_rng(6)
    attrs = {"exclusive": int(exclusive), "reverse": int(reverse), "opset": 26}
    for axis in (0,) if native else (0, 1, -1):
        x = small(rng, (3, 5, 2), "float32")
        want = onnx_reference(op, x, np.array(axis), **attrs)
        got = compute(
            name, x, axis=axis, exclusive=exclusive, reverse=reverse, symbolic=True, native=native
        )
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "uint64", "float16", "bfloat16", "float64"])
def test_running_types(dtype):
    x = small(np.random.default_rng(7), (17,), dtype)
    wide = x.astype(np.float64)
    want = np.cumsum(wide)
    got = compute("cumsum", x)
    assert got.dtype == numpy_type(dtype)
    if is_float(dtype):
        assert_close(got, want, scale=np.cumsum(abs(wide)), ulps=1 if got.itemsize == 2 else 17)
    else:
        assert_same(got, want.astype(dtype))


def test_running_sum_of_nothing():
    assert compute("cumsum", np.empty((0, 3), np.float32)).shape == (0, 3)
    assert compute("cumsum", np.empty((3, 0), np.float32), symbolic=True).shape == (3, 0)


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "attrs", "error"),
    [
        ("reduce_sum", (2, 3), "float32", {"axes": (2,)}, ShapeError),
        ("reduce_sum", (2, 3), "float32", {"axes": (0, -2)}, ShapeError),
        ("reduce_sum", (2, 3), "bool", {}, DTypeError),
        ("reduce_log_sum", (2, 3), "bool", {}, DTypeError),
        ("reduce_any", (2, 3), "int32", {}, DTypeError),
        ("argmax", (2, 0), "float32", {"axis": 1}, ShapeError),
        ("argmax", (), "float32", {}, ShapeError),
        ("cumsum", (2,), "bool", {}, DTypeError),
        ("cumsum", (2,), "float32", {"axis": 1}, ShapeError),
    ],
)
def test_wrong_operands(name, shape, dtype, attrs, error):
    with pytest.raises(error):
        OPERATORS[name]([placeholder(shape, dtype)], attrs)
