"""Copies of statements with other buffers and variables, as inlining a program needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from tensorsmith.ir.buffer import Buffer, IndexMap, Region
from tensorsmith.ir.expr import Expr, Load, Var, transform
from tensorsmith.ir.stmt import (
    Alloc,
    Assert,
    Bind,
    Block,
    For,
    If,
    Invoke,
    Iter,
    Seq,
    Stmt,
    Store,
    View,
    While,
)


def instantiate(
    stmt: Stmt,
    variables: Mapping[Var, Expr] | None = None,
    buffers: Mapping[Buffer, Buffer] | None = None,
) -> Stmt:
    """A copy of `stmt` with these variables and buffers replaced.

    What the statement defines itself (loop variables, iterators, bindings, allocations) is new in
    the copy, so that it may stand beside the original in one program. Replacements are taken as
    they are; a buffer must have the rank and dtype of the one it replaces.
    """
    return _Copy(dict(variables or {}), dict(buffers or {})).stmt(stmt)


class _Copy:
    """One copy under way: what stands for each variable and buffer so far."""

    def __init__(self, variables: dict[Var, Expr], buffers: dict[Buffer, Buffer]) -> None:
        self.variables: dict[Expr, Expr] = dict(variables.items())
        self.buffers = buffers
        self.cache: dict[Expr, Expr] = {}
        """Stays valid: a variable is defined before its uses, and once."""

    def expr(self, e: Expr) -> Expr:
        return transform(e, self._change, self.cache)

    def _change(self, e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in self.buffers:
            return Load(self.buffers[e.buffer], e.indices)
        return self.variables.get(e)

    def exprs(self, values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(self.expr(e) for e in values)

    def new_var(self, var: Var) -> Var:
        new = var.renamed(var.name)
        self.variables[var] = new
        return new

    def buffer(self, buffer: Buffer) -> Buffer:
        return self.buffers.get(buffer, buffer)

    def region(self, region: Region) -> Region:
        ranges = ((self.expr(start), self.expr(extent)) for start, extent in region.ranges)
        return Region(self.buffer(region.buffer), ranges)

    def regions(self, regions: tuple[Region, ...] | None) -> tuple[Region, ...] | None:
        return None if regions is None else tuple(self.region(r) for r in regions)

    def new_buffer(self, buffer: Buffer) -> Buffer:
        layout = buffer.layout
        new = buffer.replace(
            shape=self.exprs(buffer.shape),
            strides=None if buffer.strides is None else self.exprs(buffer.strides),
            offset=self.expr(buffer.offset),
            layout=layout and IndexMap(layout.inputs, self.exprs(layout.outputs)),
        )
        self.buffers[buffer] = new
        return new

    def stmt(self, stmt: Stmt) -> Stmt:
        copied: Stmt = _COPIES[type(stmt)](self, stmt)
        return copied

    def seq(self, s: Seq) -> Stmt:
        return replace(s, stmts=tuple(self.stmt(child) for child in s.stmts))

    def store(self, s: Store) -> Stmt:
        buffer = self.buffer(s.buffer)
        return replace(s, buffer=buffer, indices=self.exprs(s.indices), value=self.expr(s.value))

    def bind(self, s: Bind) -> Stmt:
        value = self.expr(s.value)
        return replace(s, var=self.new_var(s.var), value=value)

    def alloc(self, s: Alloc) -> Stmt:
        return replace(s, buffer=self.new_buffer(s.buffer))

    def view(self, s: View) -> Stmt:
        source = self.expr(s.source) if isinstance(s.source, Expr) else self.buffer(s.source)
        offset = self.expr(s.offset)
        return replace(s, buffer=self.new_buffer(s.buffer), source=source, offset=offset)

    def check(self, s: Assert) -> Stmt:
        return replace(s, condition=self.expr(s.condition))

    def invoke(self, s: Invoke) -> Stmt:
        args = (self.region(a) if isinstance(a, Region) else self.expr(a) for a in s.args)
        return replace(s, args=tuple(args))

    def if_(self, s: If) -> Stmt:
        orelse = None if s.orelse is None else self.stmt(s.orelse)
        return replace(s, condition=self.expr(s.condition), then=self.stmt(s.then), orelse=orelse)

    def while_(self, s: While) -> Stmt:
        return replace(s, condition=self.expr(s.condition), body=self.stmt(s.body))

    def for_(self, s: For) -> Stmt:
        start, extent = self.expr(s.start), self.expr(s.extent)
        var = self.new_var(s.var)
        return replace(s, var=var, start=start, extent=extent, body=self.stmt(s.body))

    def block(self, s: Block) -> Stmt:
        predicate = self.expr(s.predicate)
        iters = tuple(self.iter(i) for i in s.iters)
        return replace(
            s,
            iters=iters,
            predicate=predicate,
            init=None if s.init is None else self.stmt(s.init),
            body=self.stmt(s.body),
            reads=self.regions(s.reads),
            writes=self.regions(s.writes),
        )

    def iter(self, i: Iter) -> Iter:
        binding, start, extent = self.expr(i.binding), self.expr(i.start), self.expr(i.extent)
        return replace(i, var=self.new_var(i.var), binding=binding, start=start, extent=extent)


_COPIES: Final[dict[type[Stmt], Callable[[_Copy, Any], Stmt]]] = {
    Seq: _Copy.seq,
    Store: _Copy.store,
    Bind: _Copy.bind,
    Alloc: _Copy.alloc,
    View: _Copy.view,
    Assert: _Copy.check,
    Invoke: _Copy.invoke,
    If: _Copy.if_,
    While: _Copy.while_,
    For: _Copy.for_,
    Block: _Copy.block,
}
