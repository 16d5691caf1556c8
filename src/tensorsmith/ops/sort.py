"""Orders: sorting along an axis, and the first of an order.

NaN counts as greater than every number. Equal elements keep their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, no_type_check

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.ir import Const, DType, Expr, ExprLike, Kind, Stmt, TensorProgram, as_expr, seq
from tensorsmith.ir.buffer import Buffer
from tensorsmith.ops.indexing import clamped, product
from tensorsmith.ops.movement import reshape, transpose
from tensorsmith.ops.operands import as_axis, one_dtype, widened
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.requirements import require
from tensorsmith.ops.statements import inlined
from tensorsmith.te import Tensor

Before = Callable[[Expr, Expr], Expr]
"""Whether one element comes before another one."""
PART_TO_SORT: Final = 2
"""Of how many elements one must be needed for it to pay to sort them all."""


def precedes(type_: DType, *, descending: bool = False) -> Before:
    """Whether an element comes strictly before another in the order of numbers, NaN as greatest."""

    def ascending(a: Expr, b: Expr) -> Expr:
        if type_.is_bool:
            return ~a & b
        x, y = widened(a), widened(b)
        if not x.dtype.is_float:
            return x < y
        return (x < y) | (T.isnan(y) & ~T.isnan(x))

    return (lambda a, b: ascending(b, a)) if descending else ascending


def merge_sort(type_: DType, before: Before) -> TensorProgram:
    """The positions of the elements of each row in order: runs of 1, 2, 4, ... are merged.

    before: of two elements, for types that compare.
    """
    rows, n = T.dims("rows n", min=0)

    @T.program
    @no_type_check  # a script, which is parsed
    def sort_rows(X: T.Buffer((rows, n), type_), order: T.Buffer((rows, n), "int64")) -> None:
        scratch = T.alloc((n,), "int64")
        run = T.alloc((1,), "index")
        begin = T.alloc((1,), "index")
        left = T.alloc((1,), "index")
        right = T.alloc((1,), "index")
        for r in range(rows):
            for i in range(n):
                order[r, i] = T.int64(i)
            run[0] = 1
            while run[0] < n:
                begin[0] = 0
                while begin[0] < n:
                    left[0] = begin[0]
                    right[0] = T.min(begin[0] + run[0], n)
                    for i in range(begin[0], T.min(begin[0] + 2 * run[0], n)):
                        if left[0] < T.min(begin[0] + run[0], n) and (
                            right[0] >= T.min(begin[0] + 2 * run[0], n)
                            or not before(X[r, order[r, right[0]]], X[r, order[r, left[0]]])
                        ):
                            scratch[i] = order[r, left[0]]
                            left[0] = left[0] + 1
                        else:
                            scratch[i] = order[r, right[0]]
                            right[0] = right[0] + 1
                    begin[0] = begin[0] + 2 * run[0]
                for i in range(n):
                    order[r, i] = scratch[i]
                run[0] = 2 * run[0]

    made: TensorProgram = sort_rows
    return made


def first_of_rows(type_: DType, before: Before) -> TensorProgram:
    """The positions of the first elements of each row in order, as many as `order` has columns.

    They are in a heap whose root is the last of them; what comes before the root takes its place.
    In the end the roots are taken off one by one. Each step of the loop may change the root, and
    lets what stands at `at` sink to where it belongs. Cost: rows * n * log(columns) at most.
    """
    rows, n, count = T.dims("rows n count", min=0)

    @T.program
    @no_type_check  # a script, which is parsed
    def first_rows(X: T.Buffer((rows, n), type_), order: T.Buffer((rows, count), "int64")) -> None:
        heap = T.alloc((count,), "int64")
        size = T.alloc((1,), "index")
        at = T.alloc((1,), "index")
        child = T.alloc((1,), "index")
        new = T.alloc((1,), "int64")
        for r in range(rows):
            for i in range(count):
                heap[i] = T.int64(i)
            size[0] = count
            if count > 0:
                for t in range(count // 2 + n):
                    at[0] = size[0]
                    if t < count // 2:
                        at[0] = count // 2 - 1 - t
                        new[0] = heap[at[0]]
                    elif t < count // 2 + n - count:
                        if before(X[r, t - count // 2 + count], X[r, heap[0]]):
                            at[0] = 0
                            new[0] = T.int64(t - count // 2 + count)
                    else:
                        size[0] = size[0] - 1
                        order[r, size[0]] = heap[0]
                        at[0] = 0
                        new[0] = heap[size[0]]
                    child[0] = 2 * at[0] + 1
                    while child[0] < size[0]:
                        if child[0] + 1 < size[0] and (
                            before(X[r, heap[child[0]]], X[r, heap[child[0] + 1]])
                            or (
                                not before(X[r, heap[child[0] + 1]], X[r, heap[child[0]]])
                                and heap[child[0]] < heap[child[0] + 1]
                            )
                        ):
                            child[0] = child[0] + 1
                        if before(X[r, new[0]], X[r, heap[child[0]]]) or (
                            not before(X[r, heap[child[0]]], X[r, new[0]])
                            and new[0] < heap[child[0]]
                        ):
                            heap[at[0]] = heap[child[0]]
                            at[0] = child[0]
                            child[0] = 2 * child[0] + 1
                        else:
                            child[0] = size[0]
                    if at[0] < size[0]:
                        heap[at[0]] = new[0]

    made: TensorProgram = first_rows
    return made


def _rows(x: Tensor, axis: int) -> tuple[Tensor, tuple[int, ...]]:
    """`x` as a matrix whose rows run along `axis`, and the order of axes that made it."""
    order = (*(d for d in range(x.rank) if d != axis), axis)
    moved = x if order == tuple(range(x.rank)) else transpose(x, axes=order)
    return reshape(moved, shape=(product(moved.shape[:-1]), moved.shape[-1])), order


def order_of(x: Tensor, axis: int, *, descending: bool, count: Expr | None = None) -> Tensor:
    """The positions along `axis` in order, for each row of the matrix of `_rows`: int64.

    count: how many of each row are needed; all by default. There may be more.
    """
    rows, _ = _rows(x, axis)
    before = precedes(x.dtype, descending=descending)
    extent = rows.shape[-1]
    if count is None or _is_most(count, extent):
        count, make = extent, merge_sort
    else:
        make = first_of_rows

    def body(elements: Buffer, order: Buffer) -> Stmt:
        if any(e is as_expr(0) for e in order.shape):
            return seq()
        return inlined(make(x.dtype, before), elements, order)

    return te.extern(body, [rows], ((*rows.shape[:-1], count), "int64"), "order")


def _is_most(count: Expr, extent: Expr) -> bool:
    """Whether so many elements are so great a part of all that sorting them all takes no longer."""
    if isinstance(count, Const) and isinstance(extent, Const):
        return int(count.value) * PART_TO_SORT >= int(extent.value)
    return count is extent


def _first(x: Tensor, axis: int, count: Expr, *, descending: bool) -> tuple[Tensor, Tensor]:
    """The first `count` elements along `axis` in order, and their positions."""
    order = order_of(x, axis, descending=descending, count=count)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    lead = [d for d in range(x.rank) if d != axis]

    def position(*i: Expr) -> Expr:
        row = as_expr(0)
        for number, d in enumerate(lead):
            row = row * x.shape[d] + i[d] if number else i[d]
        return order[row, clamped(i[axis], order.shape[-1])]

    at = te.compute(shape, position, "positions")

    def value(*i: Expr) -> Expr:
        return x[(*i[:axis], clamped(at[i], x.shape[axis]), *i[axis + 1 :])]

    return te.compute(shape, value, "values"), at


def sort(x: Tensor, *, axis: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """The elements of `x` in order along `axis`, and the positions they come from (int64)."""
    one_dtype("sort", Kind.NUMBER | Kind.BOOL | Kind.STORAGE, x)
    along = as_axis("sort", axis, x.rank)
    return _first(x, along, x.shape[along], descending=descending)


def top_k(x: Tensor, *, k: ExprLike, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` greatest (or least) elements along `axis` in order, and their positions (int64).

    k: at most the extent of the axis. Raises ShapeError if it is known to be more.
    """
    one_dtype("top_k", Kind.NUMBER | Kind.STORAGE, x)
    along = as_axis("top_k", axis, x.rank)
    count = as_expr(k)
    given = f"k={count!r} of {x!r}"
    require(count <= x.shape[along], "top_k of more elements than there are", given=given)
    return _first(x, along, count, descending=largest)


OPERATORS: Final[tuple[Operator, ...]] = operators(sort, top_k)
