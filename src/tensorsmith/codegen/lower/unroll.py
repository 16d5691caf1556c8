"""Unrolled loops become copies of their body."""

from __future__ import annotations

from dataclasses import replace

from tensorsmith.arith import Analyzer
from tensorsmith.ir import Const, For, LoopKind, Seq, Stmt, TensorProgram, const, seq
from tensorsmith.ir.instantiate import instantiate
from tensorsmith.ir.rewrite import children, with_children

MOST_COPIES = 256
"""Copies beyond which a loop stays a loop."""


UNROLL_INSIDE = "pragma_unroll_explicit"
"""The annotation of a loop whose serial loops inside, of at most so many iterations, unroll."""


def unroll_loops(program: TensorProgram) -> TensorProgram:
    """Replace every unrolled loop of constant extent by its iterations, in order.

    Before: no blocks. After: the same, without unrolled loops of at most `MOST_COPIES` iterations.
    """
    return replace(program, body=_unroll(program.body, 0))


def _unroll(s: Stmt, most: int) -> Stmt:
    """`most`: iterations of serial loops that unroll here, too."""
    if isinstance(s, For) and s.kind is LoopKind.SERIAL and _is_at_most(s, most):
        s = replace(s, kind=LoopKind.UNROLLED)
    asked = s.attrs.get(UNROLL_INSIDE) if isinstance(s, For) else None
    inside = asked if isinstance(asked, int) else most
    s = with_children(s, tuple(_unroll(c, inside) for c in children(s)))
    if not isinstance(s, For) or s.kind is not LoopKind.UNROLLED:
        return s
    if not isinstance(s.extent, Const) or not 0 <= int(s.extent.value) <= MOST_COPIES:
        return replace(s, kind=LoopKind.SERIAL)
    copies = [_iteration(s, k) for k in range(int(s.extent.value))]
    return seq(*copies) if copies else Seq(())


def _is_at_most(loop: For, most: int) -> bool:
    return isinstance(loop.extent, Const) and int(loop.extent.value) <= most


def _iteration(loop: For, k: int) -> Stmt:
    value = Analyzer().simplify(loop.start + const(k))
    return instantiate(loop.body, {loop.var: value})
