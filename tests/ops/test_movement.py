"""Operators that move elements, against NumPy."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference, random
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ir import FloorDiv, FloorMod, Var, postorder
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

RESHAPES = [
    ((), (1, 1)),
    ((1, 1), ()),
    ((6,), (2, 3)),
    ((2, 3), (6,)),
    ((2, 3, 4), (6, 4)),
    ((2, 12, 5), (2, 3, 4, 5)),
    ((4, 6), (6, 4)),
    ((2, 6), (4, 3)),
    ((1, 5, 1), (5,)),
    ((7, 2, 3, 5), (7, 1, 6, 5)),
    ((2, 3, 5), (5, 3, 2)),
    ((0, 3), (3, 0)),
    ((0, 3), (0,)),
]


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize(("old", "new"), RESHAPES)
def test_reshape(old, new, symbolic):
    x = np.arange(np.prod(old), dtype=np.int32).reshape(old)
    np.testing.assert_array_equal(
        compute("reshape", x, symbolic=symbolic, shape=new), x.reshape(new)
    )


def test_a_reshape_splits_and_merges_dimensions_apart_from_the_others():
    b, s = Var("b", low=1), Var("s", low=1)
    x = placeholder((b, s, 768))
    (heads,) = OPERATORS["reshape"]([x], {"shape": (b, s, 12, 64)})
    (value,) = heads.definition.values
    assert not any(isinstance(e, (FloorDiv, FloorMod)) for e in postorder(value))
    (back,) = OPERATORS["reshape"]([heads], {"shape": (b * s, 768)})
    divisors = {e.args[1] for e in postorder(*back.definition.values) if isinstance(e, FloorDiv)}
    assert {repr(d) for d in divisors} == {"s", "64"}


def test_a_reshape_to_another_number_of_elements_is_refused():
    with pytest.raises(ShapeError, match="keeps the number"):
        OPERATORS["reshape"]([placeholder((2, 3))], {"shape": (7,)})


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize(
    ("name", "attrs", "expected"),
    [
        ("copy", {}, lambda x: x),
        ("transpose", {"axes": (2, 0, 1)}, lambda x: x.transpose(2, 0, 1)),
        ("transpose", {"axes": (0, -1, 1)}, lambda x: x.transpose(0, 2, 1)),
        ("flip", {"axes": (0, -1)}, lambda x: x[::-1, :, ::-1]),
        ("expand_dims", {"axes": (0, -1)}, lambda x: x[None, ..., None]),
        ("tile", {"repeats": (2, 1, 3)}, lambda x: np.tile(x, (2, 1, 3))),
        ("tile", {"repeats": (1, 0, 1)}, lambda x: np.tile(x, (1, 0, 1))),
        ("flatten", {"axis": 2}, lambda x: x.reshape(x.shape[0] * x.shape[1], x.shape[2])),
        ("flatten", {"axis": 0}, lambda x: x.reshape(1, x.size)),
    ],
)
def test_moves(name, attrs, expected, symbolic, native):
    rng = np.random.default_rng(0)
    for shape in [(2, 3, 5), (1, 1, 7)] if native else [(2, 3, 5), (0, 2, 3), (1, 1, 2)]:
        x = random(rng, shape)
        got = compute(name, x, symbolic=symbolic, native=native, **attrs)
        np.testing.assert_array_equal(got, expected(x))


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize("dtype", ["float32", "bool", "int8", "float8_e4m3fn", "bfloat16"])
def test_concat_and_stack(dtype, symbolic):
    rng = np.random.default_rng(1)
    parts = [random(rng, (2, n, 3), dtype) for n in (1, 0, 4)]
    got = compute("concat", *parts, axis=-2, symbolic=symbolic)
    np.testing.assert_array_equal(got, np.concatenate(parts, 1))
    same = [random(rng, (2, 3), dtype) for _ in range(3)]
    for axis in (0, 1, 2, -1):
        got = compute("stack", *same, axis=axis, symbolic=symbolic)
        np.testing.assert_array_equal(got, np.stack(same, axis))


def test_squeeze():
    x = np.arange(6).reshape(1, 6, 1)
    np.testing.assert_array_equal(compute("squeeze", x, axes=(0, -1)), x[0, :, 0])
    np.testing.assert_array_equal(compute("squeeze", x, axes=(0,), symbolic=True), x[0])
    with pytest.raises(ShapeError, match="not 1"):
        compute("squeeze", x, axes=(1,))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_and_back(mode):
    x = random(np.random.default_rng(2), (2, 12, 3, 2))
    got = compute("depth_to_space", x, block=2, mode=mode)
    np.testing.assert_array_equal(got, onnx_reference("DepthToSpace", x, blocksize=2, mode=mode))
    np.testing.assert_array_equal(compute("space_to_depth", got, block=2, mode=mode), x)


@pytest.mark.parametrize(("batch", "time"), [(1, 0), (0, 1)])
def test_reverse_sequence(batch, time):
    x = random(np.random.default_rng(3), (4, 4, 2))
    lengths = np.array([1, 4, 2, 3])
    got = compute("reverse_sequence", x, lengths, batch_axis=batch, time_axis=time)
    expected = onnx_reference("ReverseSequence", x, lengths, batch_axis=batch, time_axis=time)
    np.testing.assert_array_equal(got, expected)


def test_operands_that_do_not_fit():
    a, b = placeholder((2, 3)), placeholder((2, 4))
    for name, operands, attrs in [
        ("transpose", [a], {"axes": (0,)}),
        ("transpose", [a], {"axes": (0, 0)}),
        ("flip", [a], {"axes": (2,)}),
        ("concat", [a, b], {"axis": 0}),
        ("concat", [], {"axis": 0}),
        ("concat", [a, placeholder((2,))], {"axis": 0}),
        ("tile", [a], {"repeats": (1,)}),
        ("depth_to_space", [placeholder((1, 3, 2, 2))], {"block": 2}),
    ]:
        with pytest.raises(ShapeError):
            OPERATORS[name](operands, attrs)
    with pytest.raises(DTypeError):
        OPERATORS["concat"]([a, placeholder((2, 3), "int8")], {"axis": 0})
