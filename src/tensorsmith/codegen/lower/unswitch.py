"""Conditions that are the same in all iterations of a loop are asked before it, and once.

What guards a block stands innermost, as ``for k: for lane: if tile < n: ...``, and would be asked
for each copy of an unrolled loop.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import and_

from tensorsmith.arith.analyzer import conjuncts
from tensorsmith.codegen.lower.tree import is_free
from tensorsmith.ir import Alloc, Expr, For, If, LoopKind, Seq, Stmt, TensorProgram, free_vars, seq
from tensorsmith.ir.rewrite import children, with_children

_LEFT = (LoopKind.SERIAL, LoopKind.VECTORIZED, LoopKind.UNROLLED)
"""Loops that a condition may leave: threads are not to be handed out under one."""


def unswitch_loops(program: TensorProgram) -> TensorProgram:
    """Move conditions without an else out of the loops that they do not depend on, and make one of
    neighbours with the same condition.

    Before: no blocks. After: the same. Cost: linear in the program.
    """
    body = _stmt(program.body)
    return program if body is program.body else replace(program, body=body)


def _stmt(s: Stmt) -> Stmt:
    s = with_children(s, tuple(_stmt(c) for c in children(s)))
    if isinstance(s, Seq):
        return _merged(s)
    if isinstance(s, For) and s.kind in _LEFT:
        return _left(s)
    return s


def _left(s: For) -> Stmt:
    """The loop under that part of the condition of its body which does not need its variable."""
    parts = s.body.stmts if isinstance(s.body, Seq) else (s.body,)
    others = [x for x in parts if not isinstance(x, Alloc)]
    if len(others) != 1 or not isinstance(guard := others[0], If) or guard.orelse is not None:
        return s
    fixed, moving = _divided(s, guard.condition)
    if not fixed:
        return s
    inner = replace(guard, condition=reduce(and_, moving)) if moving else guard.then
    body = seq(*(inner if x is guard else x for x in parts))
    return replace(guard, condition=reduce(and_, fixed), then=replace(s, body=body))


def _divided(s: For, condition: Expr) -> tuple[list[Expr], list[Expr]]:
    """The parts of a condition that can be asked before the loop, and the others."""
    parts = conjuncts(condition)
    if not all(map(is_free, parts)):  # one may be what lets the next be asked
        return [], parts
    fixed = [c for c in parts if s.var not in free_vars(c)]
    return fixed, [c for c in parts if s.var in free_vars(c)]


def _merged(s: Seq) -> Stmt:
    """The statements with neighbours under one condition made one."""
    kept: list[Stmt] = []
    for x in s.stmts:
        last = kept[-1] if kept else None
        if isinstance(x, If) and isinstance(last, If) and _can_join(last, x):
            kept[-1] = replace(last, then=_stmt(seq(last.then, x.then)))
        else:
            kept.append(x)
    return s if len(kept) == len(s.stmts) else seq(*kept)


def _can_join(a: If, b: If) -> bool:
    same = a.condition is b.condition and a.orelse is None and b.orelse is None
    return same and is_free(a.condition)
