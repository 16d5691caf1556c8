"""Walking lowered statements with what is known at each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tensorsmith.arith import Analyzer
from tensorsmith.errors import ArithError
from tensorsmith.ir import (
    Bind,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    For,
    If,
    Load,
    Seq,
    Stmt,
    TensorProgram,
    TruncDiv,
    TruncMod,
    equal,
    postorder,
    seq,
)
from tensorsmith.ir.rewrite import children, with_children

Change = Callable[[Stmt, Analyzer], Stmt | None]


def map_scopes(program: TensorProgram, change: Change) -> TensorProgram:
    """The program with statements changed from the inside out: each becomes ``change(it, facts)``,
    unless that is None. `facts` has what the loops and conditions around tell."""
    body = _Walk(change).stmt(program.body)
    return program if body is program.body else replace(program, body=body)


class _Walk:
    def __init__(self, change: Change) -> None:
        self.change = change
        self.facts = Analyzer()

    def stmt(self, s: Stmt) -> Stmt:
        new = self.inside(s)
        changed = self.change(new, self.facts)
        return new if changed is None else changed

    def inside(self, s: Stmt) -> Stmt:
        if isinstance(s, For):
            with self.facts.scope():
                try:
                    self.facts.bind(s.var, s.start, s.extent)
                except ArithError:  # it never runs
                    return s
                return with_children(s, (self.stmt(s.body),))
        if isinstance(s, If):
            parts = [self.under(s, s.then, holds=True)]
            if s.orelse is not None:
                parts.append(self.under(s, s.orelse, holds=False))
            return with_children(s, tuple(parts))
        if isinstance(s, Seq):
            with self.facts.scope():
                new = tuple(self.in_sequence(x) for x in s.stmts)
            same = all(a is b for a, b in zip(new, s.stmts, strict=True))
            return s if same else seq(*new)
        return with_children(s, tuple(self.stmt(c) for c in children(s)))

    def in_sequence(self, s: Stmt) -> Stmt:
        new = self.stmt(s)
        if isinstance(s, Bind) and s.value.dtype.is_index and not loads_anything(s.value):
            self.facts.learn(equal(s.var, s.value))
        return new

    def under(self, s: If, part: Stmt, *, holds: bool) -> Stmt:
        with self.facts.scope():
            self.facts.learn(s.condition if holds else ~s.condition)
            return self.stmt(part)


def loads_anything(e: Expr) -> bool:
    """Whether the value of `e` depends on memory."""
    return any(isinstance(x, Load) for x in postorder(e))


def is_free(e: Expr) -> bool:
    """Whether `e` can be evaluated anywhere and any number of times: it neither loads nor fails."""
    return not any(isinstance(x, Load) or may_fail(x) for x in postorder(e))


def may_fail(e: Expr) -> bool:
    """Whether `e` is a division that may be by 0, for all that is known of its variables wherever
    they appear."""
    if not isinstance(e, (FloorDiv, FloorMod, TruncDiv, TruncMod)):
        return False
    divisor = e.args[1]
    if isinstance(divisor, Const):
        return divisor.value == 0
    return Analyzer().bounds(divisor).contains(0)
