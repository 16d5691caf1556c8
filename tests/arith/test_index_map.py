"""The algebra of index maps, against enumeration of small shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arith.enumeration import box, evaluate, rows
from tensorsmith.arith import Analyzer
from tensorsmith.arith.index_map import (
    compose,
    identity,
    inverse,
    inverse_with_padding,
    is_equal,
    is_identity,
    map_ranges,
    map_shape,
    permuted,
    tiled,
)
from tensorsmith.errors import ArithError, ShapeError
from tensorsmith.ir.buffer import IndexMap
from tensorsmith.ir.expr import Var, as_expr

n = Var("n", low=1)


def numbers(exprs) -> list[int]:
    return [int(evaluate(e, {})[0]) for e in exprs]


def images(index_map: IndexMap, shape):
    points = box({v: (0, extent) for v, extent in zip(index_map.inputs, shape, strict=True)})
    return rows([evaluate(o, points) for o in index_map.outputs])


@st.composite
def layouts(draw):
    """A permutation of tiled dimensions, and a shape for it."""
    rank = draw(st.integers(1, 3))
    shape = [draw(st.integers(1, 7)) for _ in range(rank)]
    tiles = {d: draw(st.integers(1, 8)) for d in draw(st.sets(st.integers(0, rank - 1)))}
    layout = tiled(rank, tiles)
    order = draw(st.permutations(range(len(layout.outputs))))
    return compose(permuted(order), layout), shape


def check_layout(layout: IndexMap, shape: list[int]) -> None:
    found = inverse_with_padding(layout, shape)
    box_shape = numbers(found.shape)
    assert numbers(map_shape(layout, shape)) == box_shape
    taken = images(layout, shape)
    whole = box({v: (0, e) for v, e in zip(found.inverse.inputs, box_shape, strict=True)})
    padding = evaluate(found.padding, whole)
    assert [row not in set(taken) for row in rows(list(whole.values()))] == padding.tolist()
    at = {v: values[~padding] for v, values in whole.items()}
    back = rows([evaluate(o, at) for o in found.inverse.outputs])
    points = rows(list(box(dict(enumerate((0, e) for e in shape))).values()))
    assert sorted(back) == points
    if padding.any():
        with pytest.raises(ArithError):
            inverse(layout, shape)
    else:
        assert is_identity(compose(inverse(layout, shape), layout, shape), shape)
        assert is_identity(compose(layout, inverse(layout, shape), box_shape), box_shape)
        assert math.prod(box_shape) == math.prod(shape)


@given(layouts())
@settings(max_examples=100)
def test_layouts_are_inverted_with_their_padding(case):
    check_layout(*case)


@pytest.mark.slow
@given(layouts())
@settings(max_examples=10_000)
def test_layouts_are_inverted_with_their_padding_many(case):
    check_layout(*case)


def test_tiles_that_do_not_divide_leave_padding():
    found = inverse_with_padding(IndexMap.of(lambda i: (i // 4, i % 4), 1), (14,))
    o0, o1 = found.inverse.inputs
    assert found.shape == (as_expr(4), as_expr(4))
    assert found.inverse.outputs == (o0 * 4 + o1,)
    assert found.padding is Analyzer().simplify(as_expr(14) <= o0 * 4 + o1)


def test_a_bijection_has_no_padding():
    found = inverse_with_padding(tiled(1, {0: 4}), (16,))
    assert found.padding is as_expr(False)


def test_symbolic_shapes():
    found = inverse_with_padding(tiled(1, {0: 4}), (n,))
    assert found.shape == ((n + 3) // 4, as_expr(4))
    channels = IndexMap.of(lambda b, c, y: (b, c // 8, y, c % 8), 3)
    assert map_shape(channels, (n, 64, n)) == (n, as_expr(8), n, as_expr(8))
    assert is_identity(compose(inverse(channels, (n, 64, n)), channels), (n, 64, n))


def test_compositions_are_simplified():
    there, back = permuted((2, 0, 1)), permuted((1, 2, 0))
    assert is_identity(compose(there, back))
    assert not is_identity(compose(there, there))
    flat = IndexMap.of(lambda i, j: (i * 8 + j,), 2)
    assert is_identity(compose(tiled(1, {0: 8}), flat, (4, 8)), (4, 8))
    assert not is_identity(compose(tiled(1, {0: 8}), flat))


def test_equality_ignores_names_and_ways_of_writing():
    a = IndexMap.of(lambda i, j: (i * 2 + j * 2,), 2)
    b = IndexMap.of(lambda x, y: ((x + y) * 2,), 2)
    assert is_equal(a, b)
    assert not is_equal(a, IndexMap.of(lambda x, y: ((x + y) * 3,), 2))
    assert not is_equal(a, identity(2))
    assert not is_equal(a, identity(1))


def test_equality_on_a_shape():
    wrapped = IndexMap.of(lambda i: (i % 16,), 1)
    assert is_identity(wrapped, (16,))
    assert not is_identity(wrapped, (17,))


def test_ranges_of_maps_that_are_no_bijections_cover():
    diagonal = IndexMap.of(lambda i, j: (i + j,), 2)
    assert map_ranges(diagonal, [(0, 4), (2, n)]) == ((as_expr(2), n + 3),)


@given(st.integers(0, 5), st.integers(1, 9), st.integers(1, 5), st.integers(1, 5))
def test_ranges_hold_the_images(start, extent, stride, period):
    index_map = IndexMap.of(lambda i: (i * stride % period, i // stride), 1)
    points = box({index_map.inputs[0]: (start, extent)})
    for output, (low, size) in zip(
        index_map.outputs, map_ranges(index_map, [(start, extent)]), strict=True
    ):
        values = evaluate(output, points)
        first, count = numbers((low, size))
        assert first <= np.min(values)
        assert np.max(values) < first + count


@pytest.mark.parametrize(
    ("index_map", "shape", "message"),
    [
        (IndexMap.of(lambda i, j: (i + j,), 2), (4, 4), "does not take each value"),
        (IndexMap.of(lambda i: (i // 2,), 1), (4,), "not all of it"),
        (IndexMap.of(lambda i: (i - 1,), 1), (4,), "may be negative"),
        (IndexMap.of(lambda i: (i // 4, i % 4), 1), (14,), "not divisible"),
    ],
)
def test_maps_without_an_inverse_say_why(index_map, shape, message):
    with pytest.raises(ArithError, match=message):
        inverse(index_map, shape)


def test_wrong_ranks_and_orders():
    with pytest.raises(ShapeError, match="takes 2 indices, and the shape has rank 1"):
        map_shape(identity(2), (4,))
    with pytest.raises(ShapeError, match="is not an order of 2 dimensions"):
        permuted((0, 0))
    with pytest.raises(ShapeError, match="there is no dimension 2 among 2"):
        tiled(2, {2: 4})
