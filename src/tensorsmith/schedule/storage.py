"""How local buffers are stored: memory scope, element type, strides."""

from __future__ import annotations

from dataclasses import replace

from tensorsmith.arith import Analyzer
from tensorsmith.errors import DTypeError
from tensorsmith.ir import (
    Alloc,
    Block,
    Buffer,
    Cast,
    DType,
    Expr,
    Invoke,
    Load,
    Region,
    Stmt,
    Store,
    TensorProgram,
    as_expr,
    dtype,
    transform,
)
from tensorsmith.ir.rewrite import map_exprs, replace_buffers, statements, transform_stmt
from tensorsmith.schedule.copies import buffer_of
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.tree import find_block


def written_local(program: TensorProgram, name: str, which: int | str, primitive: str) -> Buffer:
    """A local buffer that a block writes. Raises ScheduleError if it is a parameter."""
    block = find_block(program, name).node
    assert isinstance(block, Block)
    buffer = buffer_of(block, which, written=True)
    if buffer in program.buffers:
        raise ScheduleError(
            f"{primitive}: {buffer.name!r} is a parameter",
            because="how it is stored is for the caller to say",
            try_="cache_write, for a local buffer",
            where=block.span,
        )
    return buffer


def set_scope(program: TensorProgram, name: str, which: int | str, scope: str) -> TensorProgram:
    """See `Schedule.set_scope`."""
    if not all(part.isidentifier() for part in scope.split(".")):
        raise ScheduleError(
            f"set_scope: {scope!r} is not the name of a memory",
            try_="'global', 'local', 'shared', or another name, with dots between its parts",
        )
    buffer = written_local(program, name, which, "set_scope")
    return _with_buffer(program, buffer, buffer.replace(scope=scope))


def _with_buffer(program: TensorProgram, old: Buffer, new: Buffer) -> TensorProgram:
    return replace(program, body=replace_buffers(program.body, {old: new}))


def storage_align(
    program: TensorProgram, name: str, which: int | str, axis: int, factor: int, offset: int
) -> TensorProgram:
    """See `Schedule.storage_align`."""
    buffer = written_local(program, name, which, "storage_align")
    if not -buffer.rank <= axis < buffer.rank:
        raise ScheduleError(f"storage_align: {buffer.name!r} has no dimension {axis}")
    if factor < 1 or not 0 <= offset < factor:
        raise ScheduleError(
            f"storage_align: a stride cannot be {offset} modulo {factor}",
            try_="a positive factor, and an offset from 0 to below it",
        )
    if buffer.layout is not None:
        raise ScheduleError(
            f"storage_align: {buffer.name!r} has a layout", because="it has no strides"
        )
    axis %= buffer.rank
    facts = Analyzer()
    strides: list[Expr] = []
    dense = as_expr(1)
    for d in reversed(range(buffer.rank)):
        if d == axis:
            dense = facts.simplify(dense + (offset - dense) % factor)
        strides.insert(0, dense)
        dense = facts.simplify(dense * buffer.shape[d])
    return _with_buffer(program, buffer, buffer.replace(strides=tuple(strides)))


def unsafe_set_dtype(
    program: TensorProgram, name: str, which: int | str, type_: DType | str
) -> TensorProgram:
    """See `Schedule.unsafe_set_dtype`."""
    buffer = written_local(program, name, which, "unsafe_set_dtype")
    try:
        new = buffer.replace(dtype=dtype(type_))
    except DTypeError as error:
        raise ScheduleError(f"unsafe_set_dtype: {error.what}") from None
    for s in statements(program.body):
        if isinstance(s, Invoke) and any(
            isinstance(a, Region) and a.buffer is buffer for a in s.args
        ):
            raise ScheduleError(
                f"unsafe_set_dtype: {buffer.name!r} is passed to {s.callee!r}",
                because="that expects elements of its own type",
                where=s.span,
            )

    def loads(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer is buffer:
            return _cast(Load(new, e.indices), buffer.dtype)
        return None

    def own(s: Stmt) -> Stmt | None:
        if isinstance(s, Store) and s.buffer is buffer:
            return replace(s, buffer=new, value=_cast(s.value, new.dtype))
        if isinstance(s, Alloc) and s.buffer is buffer:
            return replace(s, buffer=new)
        if isinstance(s, Block):
            return replace_regions(s, buffer, new)
        return None

    cache: dict[Expr, Expr] = {}
    body = map_exprs(program.body, lambda e: transform(e, loads, cache))
    return replace(program, body=transform_stmt(body, own))


def replace_regions(block: Block, old: Buffer, new: Buffer) -> Block:
    """The block with regions of `old` that are written out made regions of `new`."""

    def changed(regions: tuple[Region, ...] | None) -> tuple[Region, ...] | None:
        if regions is None:
            return None
        return tuple(Region(new, r.ranges) if r.buffer is old else r for r in regions)

    return replace(block, reads=changed(block.reads), writes=changed(block.writes))


def _cast(e: Expr, type_: DType) -> Expr:
    return e if e.dtype is type_ else Cast(e, type_)
