"""The distinct elements of a tensor, or its distinct slices along an axis."""

from __future__ import annotations

from typing import Final, no_type_check

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.ir import Buffer, DType, Expr, ExprLike, Kind, Stmt, TensorProgram, as_expr, seq
from tensorsmith.ops.gather import gather, held
from tensorsmith.ops.indexing import product
from tensorsmith.ops.movement import reshape, transpose
from tensorsmith.ops.operands import as_axis, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.sort import precedes
from tensorsmith.ops.statements import inlined
from tensorsmith.te import Tensor


def _sorted_rows(type_: DType) -> TensorProgram:
    """The positions of rows in lexicographic order: runs of 1, 2, 4, ... are merged."""
    n, width = T.dims("n width", min=0)
    before = precedes(type_)

    @T.program
    @no_type_check  # a script, which is parsed
    def sort_rows(X: T.Buffer((n, width), type_), order: T.Buffer((n,), "int64")) -> None:
        scratch = T.alloc((n,), "int64")
        run = T.alloc((1,), "index")
        begin = T.alloc((1,), "index")
        left = T.alloc((1,), "index")
        right = T.alloc((1,), "index")
        column = T.alloc((1,), "index")
        less = T.alloc((1,), "bool")
        for i in range(n):
            order[i] = T.int64(i)
        run[0] = 1
        while run[0] < n:
            begin[0] = 0
            while begin[0] < n:
                left[0] = begin[0]
                right[0] = T.min(begin[0] + run[0], n)
                for i in range(begin[0], T.min(begin[0] + 2 * run[0], n)):
                    less[0] = False
                    if left[0] >= T.min(begin[0] + run[0], n):
                        less[0] = True
                    elif right[0] < T.min(begin[0] + 2 * run[0], n):
                        column[0] = 0
                        while column[0] < width:
                            if before(X[order[right[0]], column[0]], X[order[left[0]], column[0]]):
                                less[0] = True
                                column[0] = width
                            elif before(
                                X[order[left[0]], column[0]], X[order[right[0]], column[0]]
                            ):
                                column[0] = width
                            else:
                                column[0] = column[0] + 1
                    if less[0]:
                        scratch[i] = order[right[0]]
                        right[0] = right[0] + 1
                    else:
                        scratch[i] = order[left[0]]
                        left[0] = left[0] + 1
                begin[0] = begin[0] + 2 * run[0]
            for i in range(n):
                order[i] = scratch[i]
            run[0] = 2 * run[0]

    made: TensorProgram = sort_rows
    return made


def _number_groups(*, is_sorted: bool) -> TensorProgram:
    """Of rows in order, some the first of equals: where each group begins, which one a row is of,
    and how many rows it has."""
    n, count = T.dims("n count", min=0)

    @T.program
    @no_type_check  # a script, which is parsed
    def number_groups(
        order: T.Buffer((n,), "int64"),
        starts: T.Buffer((n,), "bool"),
        first: T.Buffer((count,), "int64"),
        inverse: T.Buffer((n,), "int64"),
        counts: T.Buffer((count,), "int64"),
    ) -> None:
        number = T.alloc((n,), "int64")
        place = T.alloc((n,), "int64")
        seen = T.alloc((1,), "int64")
        seen[0] = T.int64(-1)
        for i in range(n):
            if starts[i]:
                seen[0] = seen[0] + T.int64(1)
            place[order[i]] = seen[0]
            number[i] = T.int64(i) if is_sorted else T.int64(-1)
        for k in range(count):
            counts[k] = T.int64(0)
        seen[0] = T.int64(0)
        for i in range(n):
            if number[place[i]] < 0:
                number[place[i]] = seen[0]
                seen[0] = seen[0] + T.int64(1)
            inverse[i] = number[place[i]]
            if inverse[i] < T.int64(count):
                if counts[inverse[i]] == 0:
                    first[inverse[i]] = T.int64(i)
                counts[inverse[i]] = counts[inverse[i]] + T.int64(1)

    made: TensorProgram = number_groups
    return made


def _as_rows(x: Tensor, axis: int | None) -> Tensor:
    """What is told apart as the rows of a matrix."""
    if axis is None:
        return reshape(x, shape=(product(x.shape), 1))
    order = (axis, *(d for d in range(x.rank) if d != axis))
    moved = x if axis == 0 else transpose(x, axes=order)
    return reshape(moved, shape=(moved.shape[0], product(moved.shape[1:])))


def _grouped(x: Tensor, axis: int | None) -> tuple[Tensor, Tensor]:
    """The order of the rows, and whether each in that order differs from the one before."""
    one_dtype("unique", Kind.NUMBER | Kind.BOOL, x)
    rows = _as_rows(x, None if axis is None else as_axis("unique", axis, x.rank))
    n, width = rows.shape

    def body(elements: Buffer, order: Buffer) -> Stmt:
        if n is as_expr(0):
            return seq()
        return inlined(_sorted_rows(x.dtype), elements, order)

    order = te.extern(body, [rows], ((n,), "int64"), "order")
    before, column = precedes(x.dtype), te.reduce_axis(width, "column")

    def differs(i: Expr) -> te.Reduce:
        last, here = (rows[held(order[k], n), column] for k in (T.max(i - 1, 0), i))
        return te.any(before(last, here), axis=column)

    changes = te.compute((n,), differs, "changes")
    return order, te.compute((n,), lambda i: T.equal(i, 0) | changes[i], "starts")


def unique_count(x: Tensor, *, axis: int | None = None) -> Tensor:
    """How many distinct elements `x` has (or slices along `axis`): an int64 scalar.

    NaN equals itself here.
    """
    _, starts = _grouped(x, axis)
    i = te.reduce_axis(starts.shape[0], "i")
    return te.compute((), lambda: te.sum(T.cast(starts[i], "int64"), axis=i), "unique_count")


def unique(
    x: Tensor, *, count: ExprLike, axis: int | None = None, is_sorted: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The distinct elements of `x` (or slices along `axis`), in order or as they first occur.

    count: how many there are, as `unique_count` tells.
    Returns them, where each first occurs, which of them each element is, and how often each occurs.
    """
    order, starts = _grouped(x, axis)
    n, most = order.shape[0], as_expr(count)

    def body(*buffers: Buffer) -> Stmt:
        if most is as_expr(0):
            return seq()
        return inlined(_number_groups(is_sorted=is_sorted), *buffers)

    first, inverse, counts = te.extern(
        body,
        [order, starts],
        [((most,), "int64"), ((n,), "int64"), ((most,), "int64")],
        "unique",
    )
    source = reshape(x, shape=(product(x.shape),)) if axis is None else x
    values = gather(source, first, axis=axis or 0)
    return values, first, inverse, counts


OPERATORS: Final[tuple[Operator, ...]] = operators(unique_count, unique)
