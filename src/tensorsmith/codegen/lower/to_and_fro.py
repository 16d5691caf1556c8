"""Loops that run to and fro: backwards in every other iteration of the loop around them.

What is larger than a cache and read in the same order again and again is never there when it is
needed: the last of it has driven out the first. Read backwards, it begins with what came last.
"""

from __future__ import annotations

from dataclasses import replace

from tensorsmith.codegen.lower.annotations import TO_AND_FRO
from tensorsmith.ir import (
    Bind,
    For,
    LoopKind,
    Select,
    Stmt,
    TensorProgram,
    Var,
    const,
    equal,
    seq,
)
from tensorsmith.ir.instantiate import instantiate
from tensorsmith.ir.rewrite import children, with_children


def turn_loops(program: TensorProgram) -> TensorProgram:
    """Turn every other run of the parallel loops that are annotated so.

    Before: no blocks. After: the same; a parallel loop may run in any order, so no value changes.
    """
    return replace(program, body=_turn(program.body, None))


def _turn(s: Stmt, around: Var | None) -> Stmt:
    """`around`: the variable of the innermost serial loop that `s` stands in."""
    repeats = isinstance(s, For) and s.kind is LoopKind.SERIAL and s.extent is not const(1)
    inside = s.var if isinstance(s, For) and repeats else around
    s = with_children(s, tuple(_turn(c, inside) for c in children(s)))
    if not isinstance(s, For) or not s.attrs.get(TO_AND_FRO):
        return s
    if s.kind is not LoopKind.PARALLEL or around is None:
        return s
    other = s.start + s.start + s.extent - 1 - s.var
    at = Var(f"{s.var.name}_at")
    value = Select(equal(around % 2, const(0)), s.var, other)
    return replace(s, body=seq(Bind(at, value), instantiate(s.body, {s.var: at})))
