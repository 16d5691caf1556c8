"""What is known of small integer tensors: shape arithmetic as expressions over dimensions."""

import numpy as np
import pytest

from tensorsmith.arith import Analyzer
from tensorsmith.ir import Const, Var, const, substitute
from tensorsmith.ops import OPERATORS, GraphBuilder

OPERATIONS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.floor_divide,
    "mod": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "pow": np.power,
}


def builder_of(sizes):
    """A builder, the tensor that holds dimensions of these sizes, and what stands for what."""
    builder = GraphBuilder(OPERATORS)
    dims = [Var(f"n{k}", low=1) for k in range(len(sizes))]
    builder.param("x", dims, "float32")
    shape = builder.elements(dims)
    return builder, shape, dict(zip(dims, map(const, sizes), strict=True))


def numbers(exprs, sizes):
    """The values of expressions over dimensions."""
    found = [Analyzer().simplify(substitute(e, sizes)) for e in exprs]
    assert all(isinstance(e, Const) for e in found), found
    return [e.value for e in found]


@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic_on_dimensions(name):
    sizes = np.array([5, 8, 3])
    builder, shape, dims = builder_of(sizes)
    other = np.array([2, 3, 2])
    result = builder.integers(builder(name, shape, builder.constant(other)))
    assert numbers(result, dims) == OPERATIONS[name](sizes, other).tolist()


@pytest.mark.parametrize("name", ["reduce_prod", "reduce_sum", "reduce_max", "reduce_min"])
def test_reductions_of_dimensions(name):
    sizes = np.array([5, 8, 3])
    builder, shape, dims = builder_of(sizes)
    (result,) = builder.integers(builder(name, shape, axes=(0,), keep_dims=False))
    function = getattr(np, name.removeprefix("reduce_"))
    assert numbers([result], dims) == [function(sizes)]


def test_a_choice_by_a_comparison():
    builder, shape, dims = builder_of([5, 8])
    minus = builder.constant(np.array([-1, -1]))
    is_five = builder("equal", shape, builder.constant(np.array([5, 5])))
    assert numbers(builder.integers(builder("where", is_five, minus, shape)), dims) == [-1, 8]


def test_constants_go_through_floats():
    """As models write scaled sizes: to float32, times a factor, rounded, and back."""
    builder = GraphBuilder(OPERATORS)
    sizes = builder("cast", builder.constant(np.array([7, 4])), dtype="float32")
    scaled = builder("mul", sizes, builder.constant(np.array([1.5, 0.5], np.float32)))
    result = builder("cast", builder("floor", scaled), dtype="int64")
    assert builder.integers(result) == (const(10), const(2))
    array = builder.array(builder("sqrt", builder("cast", result, dtype="float64")))
    np.testing.assert_array_equal(array, np.sqrt([10.0, 2.0]))


def test_constants_wrap():
    builder = GraphBuilder(OPERATORS)
    big = builder.constant(np.array([2**62, -3]))
    product = builder.array(builder("mul", big, builder.constant(np.array([4, 2**62]))))
    assert product.tolist() == [0, 2**62]
    power = builder.array(builder("pow", big, builder.constant(np.array([2, 3]))))
    assert power.tolist() == [0, -27]


def test_a_division_by_zero_is_known_to_be_0():
    builder = GraphBuilder(OPERATORS)
    zero = builder.constant(np.array([0]))
    assert builder.integers(builder("div", builder.constant(np.array([3])), zero)) == (const(0),)
