"""The walk over a program, which asks every rule at its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import Expr, Not, Var
from tensorsmith.ir.module import IRModule, TensorProgram
from tensorsmith.ir.stmt import (
    Alloc,
    Assert,
    Attrs,
    Bind,
    Block,
    For,
    If,
    Invoke,
    Seq,
    Stmt,
    Store,
    View,
    While,
)
from tensorsmith.verify.blocks import check_bindings, check_regions
from tensorsmith.verify.bounds import check_loads, check_point, check_region
from tensorsmith.verify.buffers import check_buffer, check_extent, check_loop
from tensorsmith.verify.calls import check_call, check_name, check_nesting
from tensorsmith.verify.context import Context, Role
from tensorsmith.verify.errors import VerifyError
from tensorsmith.verify.reductions import check_reduction
from tensorsmith.verify.scoping import check_symbol, check_uses, define
from tensorsmith.verify.types import (
    check_bind,
    check_condition,
    check_index,
    check_index_var,
    check_store,
)
from tensorsmith.verify.views import check_view


def check_program(program: TensorProgram, module: IRModule) -> list[VerifyError]:
    """The problems of one program, in order of the text."""
    context = Context(program, module)
    check_name(context)
    _parameters(context)
    if check_nesting(context):
        _attrs(context, program.attrs)
        _visit(context, program.body)
    return context.problems


def _parameters(context: Context) -> None:
    program = context.program
    for param in program.params:
        define(context, param, Role.PARAMETER)
        if isinstance(param, Var):
            context.data_dependent.add(param)
    for dim in program.dims:
        define(context, dim, Role.DIMENSION)
    for buffer in program.buffers:
        _buffer(context, buffer)


def _buffer(context: Context, buffer: Buffer) -> None:
    """Check a buffer where it is defined."""
    _evaluate(context, buffer.shape)
    _evaluate(context, (*(buffer.strides or ()), buffer.offset))
    if buffer.layout is not None:
        with context.scope():
            for v in buffer.layout.inputs:
                context.visible.setdefault(v, context.visible[buffer])
            check_uses(context, buffer.layout.outputs)
    check_buffer(context, buffer)


def _visit(context: Context, stmt: Stmt) -> None:
    with context.at(stmt):
        _VISITORS[type(stmt)](context, stmt)


def _evaluate(context: Context, exprs: Iterable[Expr]) -> None:
    """Check expressions where they are evaluated."""
    exprs = tuple(exprs)
    check_uses(context, exprs)
    check_loads(context, exprs)


def _attrs(context: Context, attrs: Attrs) -> None:
    check_uses(context, [v for v in attrs.values() if isinstance(v, Expr)])


def _seq(context: Context, stmt: Seq) -> None:
    with context.scope():
        for part in stmt.stmts:
            _visit(context, part)


def _store(context: Context, stmt: Store) -> None:
    check_symbol(context, stmt.buffer)
    _evaluate(context, (*stmt.indices, stmt.value))
    if check_store(context, stmt) and not context.unreachable:
        check_point(context, stmt.buffer, stmt.indices)
    context.written.add(stmt.buffer)


def _bind(context: Context, stmt: Bind) -> None:
    _evaluate(context, (stmt.value,))
    check_bind(context, stmt)
    define(context, stmt.var, Role.BINDING)
    if stmt.var.dtype is stmt.value.dtype:
        context.bind_value(stmt.var, stmt.value)


def _alloc(context: Context, stmt: Alloc) -> None:
    define(context, stmt.buffer, Role.ALLOCATION)
    _buffer(context, stmt.buffer)


def _view(context: Context, stmt: View) -> None:
    if isinstance(stmt.source, Buffer):
        check_symbol(context, stmt.source)
    else:
        _evaluate(context, (stmt.source,))
    _evaluate(context, (stmt.offset,))
    define(context, stmt.buffer, Role.VIEW)
    _buffer(context, stmt.buffer)
    check_view(context, stmt)
    context.written.add(stmt.buffer)


def _assert(context: Context, stmt: Assert) -> None:
    _evaluate(context, (stmt.condition,))
    if check_condition(context, stmt.condition, "an assert"):
        context.assume(stmt.condition)


def _invoke(context: Context, stmt: Invoke) -> None:
    for arg in stmt.args:
        if isinstance(arg, Region):
            _region(context, arg)
        else:
            _evaluate(context, (arg,))
    check_call(context, stmt)
    context.written.update(a.buffer for a in stmt.args if isinstance(a, Region))


def _region(context: Context, region: Region) -> None:
    name = region.buffer.name
    check_symbol(context, region.buffer)
    for axis, (start, extent) in enumerate(region.ranges):
        _evaluate(context, (start, extent))
        check_index(context, start, f"the start of the range of dimension {axis} of {name!r}")
        check_index(context, extent, f"the extent of the range of dimension {axis} of {name!r}")
    check_region(context, region)


def _if(context: Context, stmt: If) -> None:
    _evaluate(context, (stmt.condition,))
    fits = check_condition(context, stmt.condition, "an if")
    with context.scope():
        if fits:
            context.assume_around(stmt.condition)
        _visit(context, stmt.then)
    if stmt.orelse is not None:
        with context.scope():
            if fits:
                context.assume_around(Not(stmt.condition))
            _visit(context, stmt.orelse)


def _while(context: Context, stmt: While) -> None:
    _evaluate(context, (stmt.condition,))
    with context.scope():
        context.loops, context.conditions = (), ()
        if check_condition(context, stmt.condition, "a while"):
            context.assume(stmt.condition)
        _visit(context, stmt.body)


def _for(context: Context, stmt: For) -> None:
    _evaluate(context, (stmt.start, stmt.extent))
    _attrs(context, stmt.attrs)
    name = stmt.var.name
    fits = [
        check_index_var(context, stmt.var, "the loop variable"),
        check_index(context, stmt.start, f"the start of the loop over {name!r}"),
        check_index(context, stmt.extent, f"the extent of the loop over {name!r}"),
    ]
    with context.scope():
        define(context, stmt.var, Role.LOOP)
        if all(fits):
            check_loop(context, stmt)
            context.bind_range(stmt.var, stmt.start, stmt.extent)
            context.loops = (*context.loops, stmt)
        _visit(context, stmt.body)


def _block(context: Context, block: Block) -> None:
    fits = check_condition(context, block.predicate, f"block {block.name!r}")
    check_uses(context, [block.predicate, *(it.binding for it in block.iters)])
    check_loads(context, (block.predicate,))
    with context.scope():
        if fits:
            context.assume(block.predicate)
        check_loads(context, [it.binding for it in block.iters])
    fits = _iterator_types(context, block) and fits
    if fits and not context.unreachable:
        check_bindings(context, block)
    check_reduction(context, block)
    with context.scope():
        context.block_names.append(block.name)
        context.loops, context.conditions = (), ()
        _inside(context, block, fits=fits)
        context.block_names.pop()


def _iterator_types(context: Context, block: Block) -> bool:
    fits = []
    for it in block.iters:
        name = f"the iterator {it.var.name!r}"
        fits += [
            check_index_var(context, it.var, "the iterator"),
            check_index(context, it.binding, f"the binding of {name}"),
            check_index(context, it.start, f"the start of {name}"),
            check_index(context, it.extent, f"the extent of {name}"),
        ]
    return all(fits)


def _inside(context: Context, block: Block, *, fits: bool) -> None:
    """The inside of a block, in terms of its iterators."""
    for it in block.iters:
        _evaluate(context, (it.start, it.extent))
    for it in block.iters:
        define(context, it.var, Role.ITERATOR)
        if fits:
            start, extent = context.resolve(it.start), context.resolve(it.extent)
            check_extent(context, extent, f"the iterator {it.var.name!r}")
            context.bind_range(it.var, it.start, it.extent)
            context.iterator_ranges[it.var] = start, extent
    _attrs(context, block.attrs)
    for region in (*(block.reads or ()), *(block.writes or ())):
        _region(context, region)
    if fits and not (block.reads is None and block.writes is None):
        check_regions(context, block)
    if block.init is not None:
        with context.scope():
            _visit(context, block.init)
    with context.scope():
        _visit(context, block.body)


_VISITORS: Final[dict[type[Stmt], Callable[..., None]]] = {
    Seq: _seq,
    Store: _store,
    Bind: _bind,
    Alloc: _alloc,
    View: _view,
    Assert: _assert,
    Invoke: _invoke,
    If: _if,
    While: _while,
    For: _for,
    Block: _block,
}
