"""Operators whose result is as large as the data say.

Each comes in two parts: ``x_count`` tells how many there are, a scalar, and ``x`` takes that number
as its attribute ``count``.
"""

from __future__ import annotations

from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.ir import Buffer, Expr, ExprLike, If, Kind, Stmt, as_expr, not_equal, seq
from tensorsmith.ops.gather import gather
from tensorsmith.ops.indexing import product, zero
from tensorsmith.ops.movement import reshape
from tensorsmith.ops.operands import as_axis, check_rank, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.statements import cell, filled, nest, store
from tensorsmith.te import Tensor


def _is_set(value: Expr) -> Expr:
    return value if value.dtype.is_bool else not_equal(value, zero(value.dtype))


def nonzero_count(x: Tensor) -> Tensor:
    """How many elements of `x` are not zero (or true): an int64 scalar."""
    one_dtype("nonzero", Kind.NUMBER | Kind.BOOL, x)
    flat = reshape(x, shape=(product(x.shape),))
    axis = te.reduce_axis(flat.shape[0], "i")
    return te.compute((), lambda: te.sum(T.cast(_is_set(flat[axis]), "int64"), axis=axis), "count")


def nonzero(x: Tensor, *, count: ExprLike) -> Tensor:
    """The indices of the elements that are not zero, in row-major order: (rank, count), int64."""
    one_dtype("nonzero", Kind.NUMBER | Kind.BOOL, x)
    most = as_expr(count)

    def body(elements: Buffer, found: Buffer) -> Stmt:
        start, number, advance = cell("number")

        def visit(*i: Expr) -> Stmt:
            at = [store(found, (d, number), T.cast(i[d], "int64")) for d in range(x.rank)]
            return If(_is_set(elements[i]) & (number < most), seq(*at, advance))

        return seq(filled(found, 0), start, nest(elements.shape, visit))

    return te.extern(body, [x], ((x.rank, most), "int64"), "nonzero")


def compress_count(condition: Tensor) -> Tensor:
    """How many elements of a row of conditions hold: an int64 scalar."""
    one_dtype("compress", Kind.BOOL, condition)
    check_rank("compress", condition, 1, 1)
    return nonzero_count(condition)


def compress(x: Tensor, condition: Tensor, *, count: ExprLike, axis: int | None = None) -> Tensor:
    """The slices of `x` along `axis` (of all in a row, if None) where `condition` holds."""
    one_dtype("compress", Kind.BOOL, condition)
    check_rank("compress", condition, 1, 1)
    source = reshape(x, shape=(product(x.shape),)) if axis is None else x
    along = as_axis("compress", axis or 0, source.rank)
    chosen = nonzero(condition, count=count)
    return gather(source, reshape(chosen, shape=(as_expr(count),)), axis=along)


OPERATORS: Final[tuple[Operator, ...]] = operators(nonzero_count, nonzero, compress_count, compress)
