"""Non-maximum suppression: the boxes that no better one of their class covers."""

from __future__ import annotations

from typing import Final, no_type_check

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.ir import Buffer, DType, Expr, ExprLike, Kind, Stmt, TensorProgram, as_expr, seq
from tensorsmith.ops.indexing import check_extents
from tensorsmith.ops.movement import reshape
from tensorsmith.ops.operands import check_rank, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.sort import order_of
from tensorsmith.ops.statements import filled, inlined, store
from tensorsmith.te import Tensor


def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    most_overlap: Tensor | None = None,
    least_score: Tensor | None = None,
    *,
    most: ExprLike = 0,
    has_centers: bool = False,
) -> tuple[Tensor, Tensor]:
    """For each batch and class the boxes in order of their scores that no chosen one covers.

    boxes: (batch, count, 4), each two corners (y, x, y, x), or with `has_centers` (x, y, width,
    height). scores: (batch, classes, count). most: how many of a class are chosen at most.
    most_overlap: the share of the union that two may have in common (0 if None). least_score: what
    a score must be above, if given. Both have one element.
    Returns rows (batch, class, box), int64, as many as there may be and zeros beyond those found;
    and how many there are, an int64 scalar: a slice of so many rows is the result.
    Source: ONNX, NonMaxSuppression.
    """
    type_ = one_dtype("non_max_suppression", Kind.FLOAT, boxes, scores)
    check_rank("non_max_suppression", boxes, 3, 3)
    check_rank("non_max_suppression", scores, 3, 3)
    check_extents(boxes.shape[2], 4, "a box has 4 numbers")
    check_extents(boxes.shape[0], scores.shape[0], "batches of non_max_suppression")
    check_extents(boxes.shape[1], scores.shape[2], "non_max_suppression takes one score a box")
    batch, classes, count = scores.shape
    limit = T.max(T.min(as_expr(most), count), 0)

    def threshold(value: Tensor | None, otherwise: Expr) -> Tensor:
        if value is None:
            return te.compute((1,), lambda i: otherwise, "threshold")
        return te.compute((1,), lambda i: T.cast(value[(0,) * value.rank], type_), "threshold")

    overlap = threshold(most_overlap, as_expr(0.0, type_))
    score = threshold(least_score, type_("-inf"))
    bound = te.compute((1,), lambda i: T.cast(limit, "int64"), "limit")
    order = reshape(order_of(scores, 2, descending=True), shape=scores.shape)

    def program() -> TensorProgram:
        return _program(type_, has_centers=has_centers, takes_all=least_score is None)

    def body(*buffers: Buffer) -> Stmt:
        if any(e is as_expr(0) for b in buffers for e in b.shape):
            return seq(filled(buffers[-2], 0), store(buffers[-1], 0, 0))
        return inlined(program(), *buffers)

    rows = batch * classes * limit
    chosen, number = te.extern(
        body,
        [boxes, scores, order, overlap, score, bound],
        [((rows, 3), "int64"), ((1,), "int64")],
        "suppressed",
    )
    return chosen, te.compute((), lambda: number[0], "count")


def _ends(boxes: Buffer, b: Expr, k: Expr, d: int, *, has_centers: bool) -> tuple[Expr, Expr]:
    """The lower and the upper end of a box along a dimension."""
    first, second = boxes[b, k, as_expr(d)], boxes[b, k, as_expr(d + 2)]
    if has_centers:
        return first - second / 2.0, first + second / 2.0
    return T.min(first, second), T.max(first, second)


def _covers(boxes: Buffer, at: tuple[Expr, Expr, Expr], most: Expr, *, has_centers: bool) -> Expr:
    """Whether two boxes of a batch have more in common than `most` of their union."""
    b, j, k = at
    common = areas = None
    for d in range(2):
        low, high = _ends(boxes, b, j, d, has_centers=has_centers)
        other_low, other_high = _ends(boxes, b, k, d, has_centers=has_centers)
        shared = T.max(T.min(high, other_high) - T.max(low, other_low), 0.0)
        common = shared if common is None else common * shared
        spans = (high - low, other_high - other_low)
        areas = spans if areas is None else (areas[0] * spans[0], areas[1] * spans[1])
    assert common is not None
    assert areas is not None
    union = areas[0] + areas[1] - common
    is_real = (common > 0.0) & (areas[0] > 0.0) & (areas[1] > 0.0) & (union > 0.0)
    return is_real & (common / union > most)


def _program(type_: DType, *, has_centers: bool, takes_all: bool) -> TensorProgram:
    """The boxes of each class in the order of their scores, each against those chosen before."""
    batch, classes, count, found = T.dims("batch classes count found", min=0)

    def covers(boxes: Buffer, b: Expr, j: Expr, k: Expr, most: Expr) -> Expr:
        return _covers(
            boxes, (b, T.cast(j, "index"), T.cast(k, "index")), most, has_centers=has_centers
        )

    def is_enough(score: Expr, least: Expr) -> Expr:
        return as_expr(True) if takes_all else score > least

    @T.program
    @no_type_check  # a script, which is parsed
    def suppress(  # noqa: PLR0917 - its buffers
        boxes: T.Buffer((batch, count, 4), type_),
        scores: T.Buffer((batch, classes, count), type_),
        order: T.Buffer((batch, classes, count), "int64"),
        overlap: T.Buffer((1,), type_),
        score: T.Buffer((1,), type_),
        limit: T.Buffer((1,), "int64"),
        chosen: T.Buffer((found, 3), "int64"),
        number: T.Buffer((1,), "int64"),
    ) -> None:
        start = T.alloc((1,), "int64")
        place = T.alloc((1,), "index")
        keeps = T.alloc((1,), "bool")
        for i in range(found):
            for k in range(3):
                chosen[i, k] = T.int64(0)
        number[0] = T.int64(0)
        for b in range(batch):
            for c in range(classes):
                start[0] = number[0]
                place[0] = 0
                while place[0] < count and number[0] - start[0] < limit[0]:
                    keeps[0] = is_enough(scores[b, c, order[b, c, place[0]]], score[0])
                    for k in range(T.index(start[0]), T.index(number[0])):
                        if keeps[0] and covers(
                            boxes, b, order[b, c, place[0]], chosen[k, 2], overlap[0]
                        ):
                            keeps[0] = False
                    if keeps[0]:
                        chosen[number[0], 0] = T.int64(b)
                        chosen[number[0], 1] = T.int64(c)
                        chosen[number[0], 2] = order[b, c, place[0]]
                        number[0] = number[0] + T.int64(1)
                    place[0] = place[0] + 1

    made: TensorProgram = suppress
    return made


OPERATORS: Final[tuple[Operator, ...]] = operators(non_max_suppression)
