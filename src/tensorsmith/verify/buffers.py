"""Buffers and loops: extents, memory scopes, thread axes."""

from __future__ import annotations

import re
from typing import Final

from tensorsmith.ir.buffer import Buffer
from tensorsmith.ir.expr import Const, Expr, Var, free_vars
from tensorsmith.ir.stmt import For, LoopKind
from tensorsmith.verify.context import Context
from tensorsmith.verify.errors import (
    ExtentError,
    LoopExtentError,
    MemoryScopeError,
    ThreadAxisError,
)
from tensorsmith.verify.types import check_index

_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def check_buffer(context: Context, buffer: Buffer) -> None:
    """Extents are provably not negative, the memory scope is a name, the layout is of indices."""
    for axis, extent in enumerate(buffer.shape):
        size = context.resolve(extent)
        if context.prove(size >= 0) is not True:
            _report_extent(context, buffer, axis, size)
    if not _DOTTED.fullmatch(buffer.scope):
        context.report(
            MemoryScopeError,
            f"the scope {buffer.scope!r} of {buffer.name!r} is not a name",
            try_="'global', 'local', 'shared', or another name, with dots between its parts",
        )
    if buffer.layout is not None:
        for axis, e in enumerate((*buffer.layout.inputs, *buffer.layout.outputs)):
            side, at = ("input", axis) if axis < buffer.rank else ("output", axis - buffer.rank)
            check_index(context, e, f"{side} {at} of the layout of {buffer.name!r}")


def _report_extent(context: Context, buffer: Buffer, axis: int, extent: Expr) -> None:
    variables = free_vars(extent)
    way_out = None
    if isinstance(extent, Var):
        way_out = f'{extent.name} = T.dim("{extent.name}", min=1)'
    elif variables:
        way_out = f'a minimum for what it is made of, such as T.dim("{variables[0].name}", min=...)'
    context.report(
        ExtentError,
        f"dimension {axis} of {buffer.name!r} cannot be proven positive: {extent!r}",
        given=None if isinstance(extent, Const) else range_text(context, extent),
        because="an extent is at least 0, for all values that its variables may take",
        try_=way_out,
    )


def range_text(context: Context, e: Expr) -> str:
    """What is known of the values of `e`, in words."""
    bounds = context.analyzer.bounds(context.resolve(e))
    if bounds.low is None and bounds.high is None:
        return f"nothing is known of {e!r}"
    if bounds.low is None:
        return f"{e!r} is at most {bounds.high}"
    if bounds.high is None:
        return f"{e!r} is at least {bounds.low}"
    if bounds.low == bounds.high:
        return f"{e!r} is {bounds.low}"
    return f"{e!r} is between {bounds.low} and {bounds.high}"


def check_loop(context: Context, loop: For) -> None:
    """The extent is not negative, nor written as 0; the thread axis fits the kind."""
    extent = context.resolve(loop.extent)
    if isinstance(extent, Const) and extent.value == 0 and loop.span is not None:
        context.report(
            LoopExtentError,
            f"a 0-extent loop: {loop.var.name!r} takes no value",
            because="its body never runs",
            try_="remove it, or check its range",
        )
    else:
        check_extent(context, extent, f"the loop over {loop.var.name!r}")
    if loop.kind is LoopKind.THREAD:
        _check_thread_axis(context, loop)
    elif loop.thread is not None:
        context.report(
            ThreadAxisError,
            f"the {loop.kind.value} loop over {loop.var.name!r} names the axis {loop.thread!r}",
            because="only thread loops run on a hardware axis",
            try_=f'T.thread("{loop.thread}", extent)',
        )


def _check_thread_axis(context: Context, loop: For) -> None:
    if loop.thread is None or not _DOTTED.fullmatch(loop.thread):
        given = "no axis" if loop.thread is None else f"the axis {loop.thread!r}"
        context.report(
            ThreadAxisError,
            f"the thread loop over {loop.var.name!r} names {given}",
            because="a thread loop runs on a hardware axis, given by its name",
            try_='T.thread("threadIdx.x", extent)',
        )


def check_extent(context: Context, extent: Expr, of: str) -> None:
    """The extent `of` a loop or iterator is not provably negative."""
    if context.prove(extent < 0) is True:
        context.report(
            LoopExtentError,
            f"{of} has the negative extent {extent!r}",
            given=None if isinstance(extent, Const) else range_text(context, extent),
        )
