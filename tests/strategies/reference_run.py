"""A second opinion on what a program does: runs it statement by statement, one point at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from strategies.reference import Value, evaluate_expr, to_numpy
from tensorsmith.ir import (
    Alloc,
    Assert,
    Bind,
    Block,
    Buffer,
    Expr,
    For,
    If,
    Invoke,
    IRModule,
    IterKind,
    Region,
    Seq,
    Stmt,
    Store,
    Var,
    While,
)

Array = np.ndarray[Any, np.dtype[Any]]


def run(module: IRModule, name: str, args: Sequence[object]) -> None:
    """Call a function of `module`; arrays that it writes are changed in place.

    Dimensions must stand alone as an extent of some parameter. Local buffers start with garbage.
    """
    program = module[name]
    run = _Run(module)
    for param, arg in zip(program.params, args, strict=True):
        if isinstance(param, Var):
            run.variables[param] = arg  # type: ignore[assignment]
            continue
        assert isinstance(arg, np.ndarray)
        run.buffers[param] = arg
        for extent, size in zip(param.shape, arg.shape, strict=True):
            if isinstance(extent, Var):
                run.variables.setdefault(extent, size)
    run.stmt(program.body)


class _Run:
    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.variables: dict[Var, Value] = {}
        self.buffers: dict[Buffer, Array] = {}

    def value(self, e: Expr) -> Value:
        return evaluate_expr(e, self.variables, self.buffers)

    def whole(self, e: Expr) -> int:
        return int(self.value(e))

    def stmt(self, s: Stmt) -> None:
        match s:
            case Seq():
                for part in s.stmts:
                    self.stmt(part)
            case Store():
                at = tuple(map(self.whole, s.indices))
                array = self.buffers[s.buffer]
                if any(not 0 <= i < n for i, n in zip(at, array.shape, strict=True)):
                    raise IndexError(at)
                array[at] = to_numpy(self.value(s.value), s.buffer.dtype)
            case Bind():
                self.variables[s.var] = self.value(s.value)
            case Alloc():
                self.buffers[s.buffer] = self.garbage(s.buffer)
            case Assert():
                if not self.value(s.condition):
                    raise AssertionError(s.message)
            case If():
                if self.value(s.condition):
                    self.stmt(s.then)
                elif s.orelse is not None:
                    self.stmt(s.orelse)
            case While():
                while self.value(s.condition):
                    self.stmt(s.body)
            case For():
                start = self.whole(s.start)
                for i in range(start, start + self.whole(s.extent)):
                    self.variables[s.var] = i
                    self.stmt(s.body)
            case Block():
                self.block(s)
            case Invoke():
                run(self.module, s.callee, [self.argument(a) for a in s.args])

    def garbage(self, buffer: Buffer) -> Array:
        shape = tuple(map(self.whole, buffer.shape))
        return np.full(shape, 99).astype(buffer.dtype.numpy)

    def block(self, block: Block) -> None:
        if not self.value(block.predicate):
            return
        bound = [self.whole(it.binding) for it in block.iters]
        first = True
        for it, value in zip(block.iters, bound, strict=True):
            start = self.whole(it.start)
            assert start <= value < start + self.whole(it.extent)
            self.variables[it.var] = value
            first = first and (it.kind is not IterKind.REDUCE or value == start)
        if first and block.init is not None:
            self.stmt(block.init)
        self.stmt(block.body)

    def argument(self, arg: Expr | Region) -> object:
        if isinstance(arg, Expr):
            return self.value(arg)
        spans = ((self.whole(start), self.whole(extent)) for start, extent in arg.ranges)
        return self.buffers[arg.buffer][tuple(slice(a, a + n) for a, n in spans)]
