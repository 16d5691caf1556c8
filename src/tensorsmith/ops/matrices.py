"""Matrices, in the last two axes: triangles, determinants."""

from __future__ import annotations

from typing import Final

from tensorsmith import te
from tensorsmith.errors import ShapeError
from tensorsmith.ir import (
    INTRINSICS,
    Const,
    Eq,
    Expr,
    ExprLike,
    Kind,
    Le,
    Lt,
    Neg,
    Select,
    as_expr,
    const,
)
from tensorsmith.ops.cast import cast_element
from tensorsmith.ops.operands import check_rank, computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor


def trilu(x: Tensor, *, k: ExprLike = 0, upper: bool = True) -> Tensor:
    """The upper or lower triangle of matrices, from the `k`-th diagonal on, and 0 elsewhere."""
    type_ = one_dtype("trilu", Kind.ANY & ~Kind.HANDLE, x)
    check_rank("trilu", x, 2)
    shift = as_expr(k)
    zero = cast_element(const(False, "bool"), type_)

    def element(*i: Expr) -> Expr:
        row, column = i[-2], i[-1]
        kept = Le(row + shift, column) if upper else Le(column, row + shift)
        return Select(kept, x[i], zero)

    return te.compute(x.shape, element, "trilu")


def det(x: Tensor) -> Tensor:
    """The determinant of square matrices, by elimination with row exchanges.

    Narrow floats are computed in float32. Raises ShapeError if the matrices are not square.
    """
    type_ = one_dtype("det", Kind.FLOAT, x)
    check_rank("det", x, 2)
    rows, columns = x.shape[-2:]
    if rows is not columns and isinstance(rows, Const) and isinstance(columns, Const):
        raise ShapeError("det takes square matrices", given=repr(x))
    inner = computed_in(type_)
    batch = x.shape[:-2]
    one = as_expr(1.0, inner)
    start = te.compute(x.shape, lambda *i: converted(x[i], inner), "matrix")
    sign = te.compute(batch, lambda *_: one, "sign")
    matrices, signs = te.scan(rows, _eliminate, (start, sign), "elimination")
    k = te.reduce_axis(rows, "k")
    product = te.compute(
        batch, lambda *i: te.prod(matrices[(k.var, *i, k.var, k.var)], axis=k), "diagonal"
    )

    def element(*i: Expr) -> Expr:
        last = Select(Lt(const(0), rows), signs[(rows - 1, *i)], one)
        return converted(product[i] * last, type_)

    return te.compute(batch, element, "det")


def _eliminate(t: Expr, matrix: Tensor, sign: Tensor) -> tuple[Tensor, Tensor]:
    """Bring the largest element of column `t` to row `t`, and make those below it 0."""
    *batch, rows, _ = matrix.shape
    k = te.reduce_axis(rows, "k")
    magnitude = INTRINSICS["abs"]
    lowest = as_expr(-1.0, matrix.dtype)

    def candidates(*i: Expr) -> te.ReduceMany:
        value = magnitude(matrix[(*i, k.var, t)])
        return te.argmax(Select(Le(t, k.var), value, lowest), axis=k)

    _, pivot = te.compute(batch, candidates, "pivot")

    def element(*i: Expr) -> Expr:
        *b, row, column = i
        chosen = converted(pivot[tuple(b)], t.dtype)
        at = Select(Eq(row, t), chosen, Select(Eq(row, chosen), t, row))
        old = matrix[(*b, at, column)]
        divisor = matrix[(*b, chosen, t)]
        is_zero = Eq(divisor, as_expr(0.0, divisor.dtype))
        factor = Select(is_zero, divisor, matrix[(*b, at, t)] / divisor)
        return Select(Lt(t, row), old - factor * matrix[(*b, chosen, column)], old)

    def exchanged(*i: Expr) -> Expr:
        return Select(Eq(converted(pivot[i], t.dtype), t), sign[i], Neg(sign[i]))

    return (
        te.compute(matrix.shape, element, "eliminated"),
        te.compute(batch, exchanged, "exchanged"),
    )


OPERATORS: Final[tuple[Operator, ...]] = operators(trilu, det)
