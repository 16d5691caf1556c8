"""Pieces of tensors, padding, and tensors made of indices, against NumPy and ONNX."""

import itertools

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference, onnx_runtime, random
from tensorsmith.arith import Analyzer
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ir import Var, as_expr, substitute
from tensorsmith.ops import OPERATORS
from tensorsmith.ops.slicing import slice_range
from tensorsmith.te import placeholder

ENDS = (None, 0, 1, 3, -1, -2, -9, 9)


@pytest.mark.parametrize("extent", [0, 1, 5])
@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_the_range_of_a_slice_is_that_of_python(extent, step):
    size, stride = Var("size", low=0), Var("stride")
    for start, stop in itertools.product(ENDS, ENDS):
        expected = range(*slice(start, stop, step).indices(extent))
        for by, of in [(step, extent), (step, size), (stride, size)]:
            values = {size: as_expr(extent), stride: as_expr(step)}
            begin, count = (
                Analyzer().simplify(substitute(e, values)) for e in slice_range(start, stop, by, of)
            )
            assert count.value == len(expected)
            if expected:
                assert begin.value == expected[0]


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize("native", WAYS)
def test_slices(symbolic, native):
    x = random(np.random.default_rng(0), (5, 6, 7))
    for where in [np.s_[1:4, ::2, ::-1], np.s_[:, 5:0:-2, 3:3], np.s_[4:, :6, 1:]]:
        parts = [s.indices(n) for s, n in zip(where, x.shape, strict=True)]
        attrs = {
            "starts": tuple(p[0] for p in parts),
            "extents": tuple(len(range(*p)) for p in parts),
            "steps": tuple(p[2] for p in parts),
        }
        got = compute("slice", x, symbolic=symbolic, native=native, **attrs)
        np.testing.assert_array_equal(got, x[where])


def test_a_slice_of_some_axes_of_symbolic_extent():
    n = Var("n", low=1)
    start, count = slice_range(1, -1, 1, n)
    (got,) = OPERATORS["slice"](
        [placeholder((3, n))], {"starts": (start,), "extents": (count,), "axes": (-1,)}
    )
    assert [repr(e) for e in got.shape] == ["3", "T.max(0, n - 2)"]


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize(
    ("shape", "before", "after"),
    [
        ((4, 5), (1, 2), (2, 0)),
        ((4, 5), (3, 0), (3, 4)),
        ((5, 4), (-1, 1), (2, -2)),
        ((2, 3), (0, 0), (0, 0)),
    ],
)
def test_pad(shape, before, after, mode, symbolic):
    x = random(np.random.default_rng(1), shape)
    symbolic = symbolic and (min(*before, *after) >= 0 or mode != "wrap")
    got = compute("pad", x, before=before, after=after, mode=mode, symbolic=symbolic)
    cut = tuple(
        slice(max(-b, 0), n - max(-a, 0)) for b, a, n in zip(before, after, shape, strict=True)
    )
    widths = [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
    if mode == "constant" or min(*before, *after) >= 0:
        np.testing.assert_array_equal(got, np.pad(x[cut], widths, mode=mode))
    else:
        pads = np.array([*before, *after])
        np.testing.assert_array_equal(got, onnx_runtime("Pad", x, pads, mode=mode, opset=19))


def test_pad_with_a_value():
    x = random(np.random.default_rng(2), (2, 3), "int8")
    got = compute("pad", x, np.array(7, np.int8), before=(1, 0), after=(0, 2))
    np.testing.assert_array_equal(got, np.pad(x, ((1, 0), (0, 2)), constant_values=7))
    with pytest.raises(DTypeError):
        compute("pad", x, np.array(7, np.int32), before=(1, 0), after=(0, 2))
    with pytest.raises(ShapeError):
        compute("pad", x, before=(1,), after=(0, 2))


@pytest.mark.parametrize(
    ("start", "stop", "step"), [(1, 9, 3), (5, -4, -2), (3, 3, 1), (2, 0, 1), (0, 7, 1)]
)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_range(start, stop, step, dtype):
    ends = [np.array(v, dtype) for v in (start, stop, step)]
    count = int(compute("range_count", *ends))
    got = compute("range", ends[0], ends[2], count=count)
    expected = np.arange(start, stop, step, dtype=dtype)
    np.testing.assert_array_equal(got, expected)


def test_full_and_eye():
    got = compute("full", np.array([3], np.int8), shape=(2, 0, 3))
    assert got.shape == (2, 0, 3)
    np.testing.assert_array_equal(
        compute("full", np.array([3], np.int8), shape=(2, 3)), np.full((2, 3), 3, np.int8)
    )
    for diagonal in (-1, 0, 2):
        got = compute("eye", shape=(3, 4), dtype="int32", diagonal=diagonal)
        np.testing.assert_array_equal(got, np.eye(3, 4, diagonal, dtype=np.int32))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["int64", "int32", "float32"])
def test_one_hot(axis, dtype):
    at = np.array([[1, -2, 0], [4, 9, -7]], dtype)
    values = np.array([2, 5], np.float32)
    got = compute("one_hot", at, values, depth=5, axis=axis)
    inside = (at >= -5) & (at < 5)
    wanted = np.where(inside, at % 5, 99)
    places = np.arange(5).reshape([5 if d == axis % 3 else 1 for d in range(3)])
    expected = np.where(np.expand_dims(wanted, axis) == places, 5, 2).astype(np.float32)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("shape", [(3, 4), (7, 9), (6, 3), (4, 8)])
def test_center_crop_pad(shape):
    x = random(np.random.default_rng(3), (5, 6))
    got = compute("center_crop_pad", x, shape=shape)
    np.testing.assert_array_equal(got, onnx_reference("CenterCropPad", x, np.array(shape)))
