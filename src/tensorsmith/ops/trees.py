"""Ensembles of decision trees."""

from __future__ import annotations

from typing import Final, no_type_check

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.errors import ShapeError
from tensorsmith.ir import Buffer, DType, Expr, Kind, Stmt, TensorProgram, as_expr, seq
from tensorsmith.ops.gather import held
from tensorsmith.ops.indexing import check_extents, check_positions
from tensorsmith.ops.operands import check_rank, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.statements import inlined
from tensorsmith.te import Tensor

COMPARISONS: Final = ("<=", "<", ">=", ">", "==", "!=")
"""How a node compares a feature with its threshold, by number."""

AGGREGATES: Final = ("sum", "average", "min", "max")
"""What becomes of the weights that the trees give."""

COLUMNS: Final = 7
"""Of a node: feature, comparison, the node if it holds, the node if not, whether a NaN goes where
it holds, the first of the weights of a leaf (-1 for an inner node), and how many it has."""


def tree_ensemble(
    x: Tensor,
    nodes: Tensor,
    thresholds: Tensor,
    roots: Tensor,
    *leaves: Tensor,
    targets: int,
    aggregate: str = "sum",
) -> Tensor:
    """(rows, targets): the weights of the leaves that each row of `x` (rows, features) comes to.

    nodes: (nodes, 7), int64, see `COLUMNS`; the comparison is the number of one of `COMPARISONS`.
    thresholds: one a node, of the type of `x`. roots: the first node of each tree. leaves: the
    targets (int64) and the weights (of the type of `x`) of the leaves, one after the other.
    aggregate: of `AGGREGATES`. The numbers of nodes and targets are taken as checked.
    """
    if len(leaves) != 2:
        raise ShapeError("a tree ensemble takes the targets and the weights of leaves")
    type_ = one_dtype("tree_ensemble", Kind.FLOAT, x, thresholds, leaves[1])
    one_dtype("tree_ensemble", Kind.INT, nodes, roots, leaves[0])
    if aggregate not in AGGREGATES:
        raise ShapeError(f"trees have no aggregate {aggregate!r}", try_=f"one of {AGGREGATES}")
    check_rank("tree_ensemble", x, 2, 2)
    check_rank("tree_ensemble", nodes, 2, 2)
    check_extents(nodes.shape[1], COLUMNS, "a node has seven numbers")
    check_positions(x.shape[1], x.shape[:1], "tree_ensemble")
    for other, like in ((thresholds, nodes), (leaves[1], leaves[0])):
        check_rank("tree_ensemble", other, 1, 1)
        check_extents(other.shape[0], like.shape[0], "tree_ensemble of tables that do not fit")

    def body(*buffers: Buffer) -> Stmt:
        if any(e is as_expr(0) for b in buffers for e in b.shape):
            return seq()
        return inlined(_program(type_, aggregate), *buffers)

    return te.extern(
        body,
        [x, nodes, thresholds, roots, *leaves],
        ((x.shape[0], targets), type_),
        "tree_ensemble",
    )


def _compared(number: Expr, value: Expr, threshold: Expr) -> Expr:
    """Whether a comparison holds."""
    results = (
        value <= threshold,
        value < threshold,
        value >= threshold,
        value > threshold,
        T.equal(value, threshold),
        T.not_equal(value, threshold),
    )
    chosen = results[-1]
    for k in range(len(results) - 2, -1, -1):
        chosen = T.select(T.equal(number, k), results[k], chosen)
    return chosen


def _program(type_: DType, aggregate: str) -> TensorProgram:
    """Each row down each tree, and the weights of the leaf combined with what is there."""
    rows, features, count, trees, weights, targets = T.dims(
        "rows features count trees weights targets", min=0
    )
    start = {"min": type_("inf"), "max": type_("-inf")}.get(aggregate, type_(0.0))

    def combined(old: Expr, new: Expr) -> Expr:
        if aggregate in ("min", "max"):
            return T.min(old, new) if aggregate == "min" else T.max(old, new)
        return old + new

    def finished(value: Expr, trees: Expr) -> Expr:
        if aggregate == "average":
            return value / T.cast(trees, type_)
        if aggregate == "sum":
            return value
        return T.select(T.equal(value, start), type_(0.0), value)

    @T.program
    @no_type_check  # a script, which is parsed
    def walk(  # noqa: PLR0917 - its buffers
        x: T.Buffer((rows, features), type_),
        nodes: T.Buffer((count, COLUMNS), "int64"),
        thresholds: T.Buffer((count,), type_),
        roots: T.Buffer((trees,), "int64"),
        leaf_targets: T.Buffer((weights,), "int64"),
        leaf_weights: T.Buffer((weights,), type_),
        out: T.Buffer((rows, targets), type_),
    ) -> None:
        node = T.alloc((1,), "int64")
        holds = T.alloc((1,), "bool")
        depth = T.alloc((1,), "index")
        value = T.alloc((1,), type_)
        for r in range(rows):
            for k in range(targets):
                out[r, k] = start
            for t in range(trees):
                node[0] = roots[t]
                depth[0] = 0
                while nodes[node[0], 5] < 0 and depth[0] < count:
                    value[0] = x[r, held(nodes[node[0], 0], features)]
                    holds[0] = _compared(nodes[node[0], 1], value[0], thresholds[node[0]])
                    if T.isnan(value[0]) and nodes[node[0], 4] != 0:
                        holds[0] = True
                    depth[0] = depth[0] + 1
                    node[0] = T.select(holds[0], nodes[node[0], 2], nodes[node[0], 3])
                for k in range(
                    T.index(nodes[node[0], 5]), T.index(nodes[node[0], 5] + nodes[node[0], 6])
                ):
                    out[r, leaf_targets[k]] = combined(out[r, leaf_targets[k]], leaf_weights[k])
            for k in range(targets):
                out[r, k] = finished(out[r, k], trees)

    made: TensorProgram = walk
    return made


OPERATORS: Final[tuple[Operator, ...]] = operators(tree_ensemble)
