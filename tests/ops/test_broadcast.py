"""Broadcasting over constant and symbolic dimensions."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.evaluation import WAYS, compute
from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.ir import Const, Var, const, substitute
from tensorsmith.ops import OPERATORS
from tensorsmith.ops.broadcast import broadcast_index, broadcast_shapes
from tensorsmith.ops.requirements import collecting
from tensorsmith.te import placeholder

shapes = st.lists(st.integers(0, 3), max_size=3)


def constants(shape):
    return tuple(map(const, shape))


@given(st.lists(shapes, max_size=3))
def test_constant_shapes_are_those_of_numpy(given_shapes):
    try:
        want = np.broadcast_shapes(*map(tuple, given_shapes))
    except ValueError:
        with pytest.raises(ShapeError):
            broadcast_shapes(*map(constants, given_shapes))
        return
    assert broadcast_shapes(*map(constants, given_shapes)) == constants(want)


@given(shapes, shapes)
def test_symbolic_shapes_agree_with_numpy_where_requirements_hold(left, right):
    """The shape and the requirements, made for any extents, are right for these."""
    dims = [Var(f"d{k}", low=0) for k in range(len(left) + len(right))]
    values = {d: const(n) for d, n in zip(dims, (*left, *right), strict=True)}
    with collecting() as required:
        whole = broadcast_shapes(dims[: len(left)], dims[len(left) :])

    def value(e):
        found = Analyzer().simplify(substitute(e, values))
        assert isinstance(found, Const), e
        return found.value

    try:
        want = np.broadcast_shapes(tuple(left), tuple(right))
    except ValueError:
        assert not all(value(c) for c in required)
        return
    assert all(value(c) for c in required)
    assert tuple(value(e) for e in whole) == want


@pytest.mark.parametrize("native", WAYS)
def test_elements_of_symbolic_shapes(native):
    rng = np.random.default_rng(0)
    sizes = [(1, 3), (2, 3), (2, 1), (3,), (1,), (), (0, 3), (1, 0), (2, 0)]
    for a, b in itertools.product(sizes, repeat=2):
        if native and (a, b) not in (((1, 3), (2, 1)), ((1, 0), (2, 1)), ((3,), (2, 3))):
            continue
        x, y = rng.standard_normal(a, np.float32), rng.standard_normal(b, np.float32)
        try:
            want = x + y
        except ValueError:
            continue
        np.testing.assert_array_equal(compute("add", x, y, symbolic=True, native=native), want)


def test_same_dimensions_need_no_requirement():
    n, m = Var("n", low=1), Var("m", low=1)
    with collecting() as required:
        assert broadcast_shapes((n, m), (m,), (const(1), m)) == (n, m)
    assert not required
    i = (Var("i"), Var("j"))
    assert broadcast_index((m,), (n, m), i) == (i[1],)
    assert broadcast_index((const(1), m), (n, m), i) == (const(0), i[1])


def test_a_large_extent_decides():
    n, m = Var("n", low=2), Var("m", low=1)
    assert broadcast_shapes((n,), (m,)) == (n,)
    with pytest.raises(ShapeError):
        broadcast_shapes((Var("p", low=4),), (const(3),))


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize(
    ("shape", "to"), [((3, 1), (3, 4)), ((3,), (2, 3)), ((), (2,)), ((2, 3), (1,)), ((0,), (1,))]
)
def test_expand(shape, to, symbolic):
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    got = compute("expand", x, shape=to, symbolic=symbolic)
    np.testing.assert_array_equal(got, x * np.ones(to, np.float32))


def test_expand_to_a_shape_that_does_not_fit():
    with pytest.raises(ShapeError, match="do not broadcast"):
        OPERATORS["expand"]([placeholder((3,))], {"shape": (4,)})
