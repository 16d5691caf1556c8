"""Writes to positions that a tensor holds, against ONNX."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference, random
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

REDUCTIONS = ("none", "add", "mul", "max", "min")


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, -1])
def test_scatter_elements(axis, reduction, native):
    rng = np.random.default_rng(0)
    x, new = random(rng, (3, 4), "int32"), random(rng, (3, 4), "int32")
    at = rng.integers(-3, 3, (3, 4))
    got = compute("scatter_elements", x, at, new, axis=axis, reduction=reduction, native=native)
    expected = onnx_reference("ScatterElements", x, at, new, axis=axis, reduction=reduction)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("outer", "length"), [((5,), 1), ((2, 2), 2), ((), 1), ((0,), 1)])
def test_scatter_nd(outer, length, reduction, symbolic):
    rng = np.random.default_rng(1)
    x = random(rng, (3, 3, 2))
    at = rng.integers(-3, 3, (*outer, length))
    new = random(rng, (*outer, *x.shape[length:]))
    if symbolic:
        got = compute("scatter_nd", x, at, new, reduction=reduction)
    else:
        got = compute("scatter_nd", x, at, new, reduction=reduction, native=True)
    expected = x.copy()
    combine = {
        "none": lambda a, b: b,
        "add": np.add,
        "mul": np.multiply,
        "max": np.maximum,
        "min": np.minimum,
    }[reduction]
    for i in np.ndindex(*outer):
        place = tuple(at[i])
        expected[place] = combine(expected[place], new[i])
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("circular", [False, True])
@pytest.mark.parametrize("starts", [None, (1, 0), (3, 2)])
def test_tensor_scatter(starts, circular):
    rng = np.random.default_rng(2)
    cache, update = random(rng, (2, 1, 4, 3)), random(rng, (2, 1, 2, 3))
    at = None if starts is None else np.array(starts)
    got = compute("tensor_scatter", cache, update, at, circular=circular)
    expected = cache.copy()
    for b in range(2):
        for k in range(2):
            place = (0 if at is None else at[b]) + k
            if circular or place < 4:
                expected[b, :, place % 4] = update[b, :, k]
    np.testing.assert_array_equal(got, expected)


def test_operands_that_do_not_fit():
    x, at = placeholder((3, 4)), placeholder((3, 4), "int64")
    for name, operands, attrs, error in [
        ("scatter_elements", [x, x, x], {}, DTypeError),
        ("scatter_elements", [x, at, placeholder((3, 4), "int8")], {}, DTypeError),
        ("scatter_elements", [x, at, placeholder((3, 3))], {}, ShapeError),
        ("scatter_elements", [x, at, x], {"reduction": "xor"}, ShapeError),
        ("scatter_elements", [x, at, x], {"axis": 2}, ShapeError),
        ("scatter_nd", [x, at, x], {}, ShapeError),
    ]:
        with pytest.raises(error):
            OPERATORS[name](operands, attrs)
