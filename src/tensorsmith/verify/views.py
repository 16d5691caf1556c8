"""Views: a buffer in the memory of another one, or at an address."""

from __future__ import annotations

from tensorsmith.ir.buffer import Buffer
from tensorsmith.ir.dtype import int64
from tensorsmith.ir.expr import Const, Expr, as_expr
from tensorsmith.ir.stmt import ZERO, View
from tensorsmith.verify.context import Context
from tensorsmith.verify.errors import ViewError
from tensorsmith.verify.types import check_index


def check_view(context: Context, stmt: View) -> None:
    """The source is dense or an address, and what is known of sizes and offsets fits."""
    name = stmt.buffer.name
    if not check_index(context, stmt.offset, f"the offset of the view {name!r}"):
        return
    offset = context.resolve(stmt.offset)
    if isinstance(stmt.source, Buffer):
        if not _is_dense(context, stmt, stmt.source):
            return
        _check_inside(context, stmt, offset, _end(context, stmt.source, ZERO))
    elif stmt.source.dtype is not int64:
        context.report(
            ViewError,
            f"the view {name!r} is at an address of type {stmt.source.dtype}, and it must be int64",
            given=f"{stmt.source!r}",
        )
    step = max(stmt.buffer.align, stmt.buffer.dtype.bytes)
    if isinstance(offset, Const) and int(offset.value) % step:
        context.report(
            ViewError,
            f"the view {name!r} is at byte {offset!r}, which is no multiple of {step}",
            because=f"the elements of a {stmt.buffer!r} are aligned to {step} bytes",
        )


def _is_dense(context: Context, stmt: View, source: Buffer) -> bool:
    if source.strides is None and source.layout is None and source.offset is ZERO:
        return True
    context.report(
        ViewError,
        f"{stmt.buffer.name!r} is a view of {source.name!r}, which does not lie in one piece",
        given=f"its strides are {source.strides!r}, its layout is {source.layout!r}",
        try_="a dense buffer, such as one of bytes",
    )
    return False


def _check_inside(context: Context, stmt: View, offset: Expr, size: Expr | None) -> None:
    """Report a view that leaves its source, where that is plain to see.

    Arenas have thousands of views and sizes of many terms, so nothing is proven here.
    """
    end = _end(context, stmt.buffer, offset)
    is_outside = isinstance(offset, Const) and int(offset.value) < 0
    if isinstance(end, Const) and isinstance(size, Const):
        is_outside = is_outside or int(end.value) > int(size.value)
    if is_outside and stmt.source is not stmt.buffer:
        assert isinstance(stmt.source, Buffer)
        context.report(
            ViewError,
            f"the view {stmt.buffer.name!r} leaves {stmt.source.name!r}",
            given=f"bytes {offset!r} to {end!r} of {size!r}",
        )


def _end(context: Context, buffer: Buffer, offset: Expr) -> Expr | None:
    """The byte after the last one of a dense view, if that is a constant."""
    if buffer.strides is not None or buffer.layout is not None:
        return None
    total = 1
    for extent in buffer.shape:
        size = context.resolve(extent)
        if not isinstance(size, Const):
            return None
        total *= int(size.value)
    if not isinstance(offset, Const):
        return None
    return as_expr(int(offset.value) + total * buffer.dtype.bytes)
