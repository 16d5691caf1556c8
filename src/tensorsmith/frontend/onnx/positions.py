"""Positions that a model looks elements up by: held against the axes that they are for.

Operators move a position outside of its axis to the nearest within, so that no operand reads memory
that is not the model's. ONNX says that it is an error: so what the model is given is looked at
before, in one pass, and what is known while reading is told then.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.frontend.onnx.node import Node
from tensorsmith.ir import And, Buffer, Const, Expr, as_expr
from tensorsmith.ir.graph import Check
from tensorsmith.ops.contents import exact
from tensorsmith.ops.indexing import as_index


def check_along(node: Node, x: Buffer, positions: Buffer, axis: int) -> None:
    """Have positions lie within an axis of `x`."""
    if -x.rank <= axis < x.rank:
        _check_all(node, positions, x.shape[axis : axis + 1 or None])


def check_tuples(node: Node, x: Buffer, positions: Buffer, batch_dims: int = 0) -> None:
    """Have the tuples of positions in the last axis lie within the axes of `x` from there on."""
    count = positions.shape[-1] if positions.rank else as_expr(0)
    if isinstance(count, Const) and 0 <= batch_dims <= x.rank - count.value:
        _check_all(node, positions, x.shape[batch_dims : batch_dims + int(count.value)])


def _check_all(node: Node, positions: Buffer, extents: Sequence[Expr]) -> None:
    """Have positions lie within axes: of one extent, or of one for each column of `positions`.

    A negative one counts from the end. Raises ShapeError for one that is known to lie outside.
    """
    if not positions.dtype.is_integer or not extents or _is_empty(positions):
        return  # the operator itself says what is wrong
    columns = _known(node, positions, len(extents))
    if columns is None:
        farthest = node("farthest_position", positions, by_column=len(extents) > 1)
        found = node.builder.integers(farthest, "position")
        for position, extent in zip(found, extents, strict=True):
            _check(node, position, position < extent, extent)
        return
    for column, extent in zip(columns, extents, strict=True):
        for position in column:
            inside = And(position < extent, position >= -extent)
            _check(node, position, inside, extent)


def _is_empty(positions: Buffer) -> bool:
    return any(isinstance(e, Const) and e.value == 0 for e in positions.shape)


def _known(node: Node, positions: Buffer, count: int) -> list[list[Expr]] | None:
    """For each of so many columns, the elements that are known to be in it; None if some are not.

    Of constants, only the least and the greatest.
    """
    array = node.builder.array(positions)
    if array is not None:
        flat = array.reshape(-1, count)
        bounds = zip(flat.min(axis=0).tolist(), flat.max(axis=0).tolist(), strict=True)
        return [[as_expr(low), as_expr(high)] for low, high in bounds]
    known = node.builder.contents(positions)
    if known is None:
        return None
    found = [exact(e) for e in known.flat]
    if any(e is None for e in found):
        return None
    return [[as_index(e) for e in found[k::count] if e is not None] for k in range(count)]


def _check(node: Node, position: Expr, condition: Expr, extent: Expr) -> None:
    what = f"the position {position!r}" if isinstance(position, Const) else "a position"
    message = f"{what} lies outside of an axis of {extent!r}"
    if node.scope.depth and node.builder.facts.prove(condition) is False:
        node.builder.emit(Check(condition, message, sources=node.builder.sources))
    else:  # what stands within a branch or loop need not run
        node.builder.check(condition, message)
