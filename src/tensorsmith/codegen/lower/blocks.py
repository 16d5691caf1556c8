"""Blocks become plain statements: bindings for iterators, conditions for init and predicate.

On the way everything is simplified under what the loops around tell: conditions that always hold
disappear, as do loops that never run, and loops that run once become their body.
"""

from __future__ import annotations

from dataclasses import replace

from tensorsmith.arith import Analyzer
from tensorsmith.codegen.lower.annotations import is_kept, with_annotations
from tensorsmith.codegen.lower.tree import is_free
from tensorsmith.errors import ArithError
from tensorsmith.ir import (
    Alloc,
    Assert,
    Bind,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Invoke,
    IterKind,
    Load,
    LoopKind,
    Region,
    Seq,
    Stmt,
    Store,
    TensorProgram,
    View,
    While,
    equal,
    seq,
    transform,
)
from tensorsmith.ir.stmt import TRUE

EMPTY = Seq(())


def lower_blocks(program: TensorProgram) -> TensorProgram:
    """The program without blocks, simplified.

    Before: any verified program. After: no `Block` is left; it computes the same.
    Cost: linear in the program. Returns a program that shares what did not change.
    """
    return replace(program, body=simplify_stmt(program.body, Analyzer()))


def simplify_stmt(s: Stmt, facts: Analyzer) -> Stmt:
    """`s` under `facts`: its expressions simplified, and what is never done left out."""
    return _Lower(facts).stmt(s)


class _Lower:
    """One program on its way. `values` has what stands for block iterators and unit loops."""

    def __init__(self, facts: Analyzer) -> None:
        self.facts = facts
        self.values: dict[Expr, Expr] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def expr(self, e: Expr) -> Expr:
        return self.facts.simplify(transform(e, self._change))

    def _change(self, e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in self.buffers:
            return Load(self.buffers[e.buffer], e.indices)
        return self.values.get(e)

    def exprs(self, values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(self.expr(e) for e in values)

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case Seq():
                return seq(*(self.stmt(x) for x in s.stmts))
            case Store():
                buffer = self.buffers.get(s.buffer, s.buffer)
                return replace(
                    s, buffer=buffer, indices=self.exprs(s.indices), value=self.expr(s.value)
                )
            case Bind():
                return self.binding(s)
            case Alloc():
                return replace(s, buffer=self.allocated(s.buffer))
            case View():
                source = s.source
                if isinstance(source, Expr):
                    source = self.expr(source)
                else:
                    source = self.buffers.get(source, source)
                offset = self.expr(s.offset)
                return replace(s, buffer=self.allocated(s.buffer), source=source, offset=offset)
            case Assert():
                condition = self.expr(s.condition)
                return EMPTY if condition is TRUE else replace(s, condition=condition)
            case Invoke():
                return replace(s, args=tuple(self.argument(a) for a in s.args))
            case If():
                return self.conditional(self.expr(s.condition), s)
            case While():
                return replace(s, condition=self.expr(s.condition), body=self.stmt(s.body))
            case For():
                return self.loop(s)
            case Block():
                return self.block(s)
        raise AssertionError(type(s))

    def binding(self, s: Bind) -> Stmt:
        """Names of index arithmetic and conditions give way to what they stand for, so that it can
        be reasoned with."""
        value = self.expr(s.value)
        if (value.dtype.is_index or value.dtype.is_bool) and is_free(value):
            self.values[s.var] = value
            return EMPTY
        return replace(s, value=value)

    def allocated(self, buffer: Buffer) -> Buffer:
        """The buffer with what its shape says in terms that are known here."""
        shape = self.exprs(buffer.shape)
        strides = None if buffer.strides is None else self.exprs(buffer.strides)
        if shape == buffer.shape and strides == buffer.strides:
            return buffer
        new = self.buffers[buffer] = buffer.replace(shape=shape, strides=strides)
        return new

    def argument(self, a: Expr | Region) -> Expr | Region:
        if isinstance(a, Expr):
            return self.expr(a)
        ranges = tuple((self.expr(start), self.expr(extent)) for start, extent in a.ranges)
        return Region(self.buffers.get(a.buffer, a.buffer), ranges)

    def under(self, condition: Expr, body: Stmt) -> Stmt:
        """`body` where `condition` holds; nothing if that is nowhere."""
        with self.facts.scope():
            try:
                self.facts.assume(condition)
            except ArithError:
                return EMPTY
            return self.stmt(body)

    def conditional(self, condition: Expr, s: If) -> Stmt:
        if isinstance(condition, Const):
            taken = s.then if condition.value else s.orelse
            return EMPTY if taken is None else self.stmt(taken)
        then = self.under(condition, s.then)
        orelse = None if s.orelse is None else self.under(~condition, s.orelse)
        if orelse is not None and is_empty(orelse):
            orelse = None
        if is_empty(then) and orelse is None:
            return EMPTY
        return replace(s, condition=condition, then=then, orelse=orelse)

    def loop(self, s: For) -> Stmt:
        start, extent = self.expr(s.start), self.expr(s.extent)
        if isinstance(extent, Const):
            if extent.value <= 0:
                return EMPTY
            if extent.value == 1 and s.kind is not LoopKind.THREAD and not is_kept(s):
                self.values[s.var] = start
                return self.stmt(s.body)
        with self.facts.scope():
            try:
                self.facts.bind(s.var, start, extent)
                body = self.stmt(s.body)
            except ArithError:  # the facts say that it never runs
                return EMPTY
        return EMPTY if is_empty(body) else replace(s, start=start, extent=extent, body=body)

    def block(self, s: Block) -> Stmt:
        predicate = self.expr(s.predicate)
        if isinstance(predicate, Const):
            return with_annotations(self.block_body(s), s.attrs) if predicate.value else EMPTY
        with self.facts.scope():
            try:
                self.facts.assume(predicate)
            except ArithError:
                return EMPTY
            body = with_annotations(self.block_body(s), s.attrs)
        return EMPTY if is_empty(body) else If(predicate, body, span=s.span)

    def block_body(self, s: Block) -> Stmt:
        first: Expr = TRUE
        for it in s.iters:
            binding = self.expr(it.binding)
            self.values[it.var] = binding
            if it.kind is IterKind.REDUCE:
                first = first & equal(binding, self.expr(it.start))
        if s.init is None:
            return self.stmt(s.body)
        init = self.conditional(self.facts.simplify(first), If(first, s.init, span=s.init.span))
        return seq(init, self.stmt(s.body))


def is_empty(s: Stmt) -> bool:
    """Whether the statement does nothing."""
    return all(isinstance(x, Alloc) for x in (s.stmts if isinstance(s, Seq) else (s,)))
