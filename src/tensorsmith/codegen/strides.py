"""How the elements of a buffer follow each other in memory."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.ir import Buffer, Expr, as_expr


def dense_strides(shape: Sequence[Expr]) -> tuple[Expr, ...]:
    """The strides of a row-major array without gaps."""
    strides: list[Expr] = []
    total = as_expr(1)
    for extent in reversed(shape):
        strides.append(total)
        total = total * extent
    return tuple(reversed(strides))


def strides_of(buffer: Buffer) -> tuple[Expr, ...] | None:
    """Elements between neighbours in each dimension; None where a layout places the elements."""
    if buffer.layout is not None:
        return None
    return dense_strides(buffer.shape) if buffer.strides is None else buffer.strides
