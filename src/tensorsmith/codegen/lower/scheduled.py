"""Whether a program says by itself all that LLVM's middle end would find out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeGuard

from tensorsmith.ir import (
    Const,
    For,
    LoopKind,
    Stmt,
    Store,
    TensorProgram,
    While,
    free_vars,
)
from tensorsmith.ir.buffer import GLOBAL
from tensorsmith.ir.rewrite import statements

SCHEDULED: Final = "scheduled"
"""The attribute of a lowered program that needs no more than registers for its buffers."""


def mark_scheduled(program: TensorProgram) -> TensorProgram:
    """Set the attribute `SCHEDULED` where it is so.

    A scheduled program has vectorised or unrolled loops, inside of every serial one; and none of
    its loops keeps a sum in memory that could be in a register. Before: loops that are unrolled are
    still there. After: the same.
    """
    if not any(isinstance(s, For) for s in statements(program.body)):
        return program
    is_scheduled = all(map(_is_explicit, _innermost(program.body))) and not any(
        isinstance(s, While) or (isinstance(s, For) and _accumulates(s))
        for s in statements(program.body)
    )
    return replace(program, attrs={**program.attrs, SCHEDULED: is_scheduled})


def _innermost(s: Stmt) -> Iterator[For]:
    """The loops without a loop inside; those that run once do not count."""
    for x in statements(s):
        if _repeats(x) and not any(map(_repeats, statements(x.body))):
            yield x


def _repeats(s: Stmt) -> TypeGuard[For]:
    return isinstance(s, For) and not (isinstance(s.extent, Const) and s.extent.value == 1)


def _is_explicit(loop: For) -> bool:
    return loop.kind in (LoopKind.VECTORIZED, LoopKind.UNROLLED) and isinstance(loop.extent, Const)


def _accumulates(loop: For) -> bool:
    """Whether a serial loop stores to the same element of a large buffer again and again."""
    if loop.kind is not LoopKind.SERIAL:
        return False
    return any(
        isinstance(s, Store)
        and s.buffer.scope == GLOBAL
        and loop.var not in free_vars(*s.indices)
        and not _moves(loop.body, s)
        for s in statements(loop.body)
    )


def _moves(body: Stmt, store: Store) -> bool:
    """Whether serial loops inside move the store to other elements."""
    return any(
        isinstance(x, For)
        and x.kind is LoopKind.SERIAL
        and x.var in free_vars(*store.indices)
        and any(s is store for s in statements(x))
        for x in statements(body)
    )


__all__ = ["SCHEDULED", "mark_scheduled"]
