"""Operators that look elements up by positions in another tensor.

A negative position counts from the end. One outside of the axis is moved to the nearest within: the
operands of a compiled model cannot make it read memory that is not theirs.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.ir import And, Const, Expr, ExprLike, Kind, Select, select
from tensorsmith.ir.expr import equal
from tensorsmith.ops.indexing import (
    check_extents,
    check_integer,
    check_positions,
    clamped,
    from_end,
    product,
    zero,
)
from tensorsmith.ops.operands import as_axis, check_rank
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.reduce import reduced
from tensorsmith.ops.requirements import require
from tensorsmith.te import Tensor


def held(position: ExprLike, extent: Expr) -> Expr:
    """The position within an axis that a number names: negative ones count from the end."""
    return clamped(from_end(position, extent), extent)


def gather(x: Tensor, positions: Tensor, *, axis: int = 0) -> Tensor:
    """The slices of `x` at `positions` along `axis`, whose shape takes the place of the axis."""
    check_integer(positions, "the positions of gather")
    along = as_axis("gather", axis, x.rank)
    check_positions(x.shape[along], positions.shape, "gather")
    shape = (*x.shape[:along], *positions.shape, *x.shape[along + 1 :])
    stop = along + positions.rank

    def element(*i: Expr) -> Expr:
        at = held(positions[i[along:stop]], x.shape[along])
        return x[(*i[:along], at, *i[stop:])]

    return te.compute(shape, element, "gather")


def farthest_position(positions: Tensor, *, by_column: bool = False) -> Tensor:
    """The greatest of `positions`, counted from the end for negative ones: -1 as 0, -2 as 1.

    All of them lie within an axis if this one does. by_column: one for each index of the last axis.
    """
    check_integer(positions, "the positions of farthest_position")
    check_rank("farthest_position by column", positions, 1 if by_column else 0)
    over = range(positions.rank - by_column)

    def counted(position: Expr, *_: Expr) -> Expr:
        if position.dtype.kind is Kind.UINT:
            return position
        return select(position < 0, -1 - position, position)

    return reduced(te.max, positions, over, keep_dims=False, function=counted, name="farthest")


def gather_elements(x: Tensor, positions: Tensor, *, axis: int = 0) -> Tensor:
    """At each index of `positions` the element of `x` there, but for the axis, which it says."""
    check_integer(positions, "the positions of gather_elements")
    along = as_axis("gather_elements", axis, x.rank)
    check_positions(x.shape[along], positions.shape, "gather_elements")
    check_rank("gather_elements with positions of another rank: it", positions, x.rank, x.rank)
    larger = [
        d
        for d, (size, extent) in enumerate(zip(positions.shape, x.shape, strict=True))
        if d != along and Analyzer().prove(size <= extent) is not True
    ]
    for d in larger:
        require(
            (positions.shape[d] <= x.shape[d]) | equal(product(positions.shape), 0),
            f"gather_elements takes no more positions than elements along axis {d}",
        )

    def element(*i: Expr) -> Expr:
        at = list(i)
        at[along] = held(positions[i], x.shape[along])
        inside = [i[d] < x.shape[d] for d in larger]
        return Select(reduce(And, inside), x[tuple(at)], zero(x.dtype)) if inside else x[tuple(at)]

    return te.compute(positions.shape, element, "gather_elements")


def gather_nd(x: Tensor, positions: Tensor, *, batch_dims: int = 0) -> Tensor:
    """The slices of `x` at tuples of positions, the last dimension of `positions`.

    batch_dims: leading dimensions that both have in common.
    Raises ShapeError if the last extent is not constant, or above the rank of `x`.
    """
    check_integer(positions, "the positions of gather_nd")
    check_rank("gather_nd: positions", positions, batch_dims + 1)
    last = positions.shape[-1]
    if not isinstance(last, Const) or int(last.value) + batch_dims > x.rank:
        raise ShapeError(
            "gather_nd wants tuples of a known number of positions, at most one an axis",
            given=f"{positions!r} of {x!r}",
        )
    for d in range(batch_dims):
        check_extents(x.shape[d], positions.shape[d], "gather_nd of batches that differ")
    length, outer = int(last.value), positions.rank - 1
    for extent in x.shape[batch_dims : batch_dims + length]:
        check_positions(extent, positions.shape, "gather_nd")
    shape = (*positions.shape[:-1], *x.shape[batch_dims + length :])

    def element(*i: Expr) -> Expr:
        at = [held(positions[(*i[:outer], k)], x.shape[batch_dims + k]) for k in range(length)]
        return x[(*i[:batch_dims], *at, *i[outer:])]

    return te.compute(shape, element, "gather_nd")


def array_feature_extractor(x: Tensor, positions: Tensor) -> Tensor:
    """The columns at `positions` (all its elements, in order) of the last axis of `x`.

    A vector is taken as a matrix of one row. Source: ONNX-ML, ArrayFeatureExtractor.
    """
    check_integer(positions, "the positions of array_feature_extractor")
    check_rank("array_feature_extractor", x, 1)
    check_rank("array_feature_extractor: positions", positions, 1)
    count = positions.shape[-1]
    check_positions(x.shape[-1], positions.shape, "array_feature_extractor")
    first = (0,) * (positions.rank - 1)
    rows = x.shape[:-1] or (1,)

    def element(*i: Expr) -> Expr:
        at = held(positions[(*first, i[-1])], x.shape[-1])
        return x[(*(i[:-1] if x.rank > 1 else ()), at)]

    return te.compute((*rows, count), element, "array_feature_extractor")


OPERATORS: Final[tuple[Operator, ...]] = operators(
    farthest_position, gather, gather_elements, gather_nd, array_feature_extractor
)
