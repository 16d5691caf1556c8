"""Vectorised loops get a constant number of lanes, and private buffers for each lane.

A loop whose extent is symbolic, or more than a few registers' worth, becomes a serial loop of full
vectors and a rest. The rest is a shorter vector where its length is known, else a masked one. A
loop whose body cannot be computed in lanes becomes serial.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tensorsmith.arith import Analyzer
from tensorsmith.codegen.lower.lanes import can_have_lanes
from tensorsmith.codegen.lower.tree import map_scopes
from tensorsmith.ir import (
    Alloc,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Load,
    LoopKind,
    Seq,
    Stmt,
    Store,
    TensorProgram,
    const,
    free_vars,
    postorder,
    seq,
    transform,
)
from tensorsmith.ir.dtype import DType
from tensorsmith.ir.instantiate import instantiate
from tensorsmith.ir.rewrite import (
    buffer_exprs,
    expressions,
    map_exprs,
    statements,
    transform_stmt,
)
from tensorsmith.ir.stmt import ZERO

MOST_REGISTERS: Final = 8
"""Registers that one value of a vectorised loop may take, beyond which the loop is stripped."""


def strip_vectors(program: TensorProgram, *, vector_bytes: int) -> TensorProgram:
    """Make vectorised loops have a constant extent that suits vectors of `vector_bytes`.

    Before: no blocks. After: every vectorised loop has between 2 lanes and `MOST_REGISTERS`
    registers, no allocations inside, and a body that can be computed in lanes.
    """

    def change(s: Stmt, facts: Analyzer) -> Stmt | None:
        if not isinstance(s, For) or s.kind is not LoopKind.VECTORIZED:
            return None
        return _strip(s, vector_bytes, facts)

    return map_scopes(program, change)


def _strip(s: For, vector_bytes: int, facts: Analyzer) -> Stmt:
    widest = max((e.bytes for e in _dtypes(s)), default=4)
    lanes = vector_bytes // max(widest, 1)
    if isinstance(s.extent, Const) and s.extent.value <= MOST_REGISTERS * lanes:
        return _one_vector(s, int(s.extent.value))
    if lanes < 2 or _in_lanes(s) is None:
        return replace(s, kind=LoopKind.SERIAL)
    many = facts.simplify(s.extent // lanes)
    rest = facts.simplify(s.extent % lanes)
    start = facts.simplify(s.start)
    outer, inner = s.var.renamed(s.var.name), s.var.renamed(f"{s.var.name}_lane")
    body = _at(s, start + outer * lanes + inner, facts)
    full = replace(s, var=inner, start=ZERO, extent=const(lanes), body=body)
    loop = For(outer, many, _one_vector(full, lanes), span=s.span)
    done = facts.simplify(start + many * lanes)
    return seq(loop, _rest(s, (done, rest), lanes, facts))


def _at(s: For, value: Expr, facts: Analyzer) -> Stmt:
    """A copy of the loop's body for this value of its variable."""
    return map_exprs(instantiate(s.body, {s.var: facts.simplify(value)}), facts.simplify)


def _rest(s: For, left: tuple[Expr, Expr], lanes: int, facts: Analyzer) -> Stmt:
    """The iterations that fill no vector: where they start, and how many they are."""
    start, rest = left
    lane = s.var.renamed(f"{s.var.name}_rest")
    body = _at(s, start + lane, facts)
    if isinstance(rest, Const):
        count = int(rest.value)
        short = replace(s, var=lane, start=ZERO, extent=rest, body=body)
        return _one_vector(short, count) if count else Seq(())
    masked = If(lane < rest, body, span=s.span)
    loop = replace(s, var=lane, start=ZERO, extent=const(lanes), body=masked)
    return If(rest > 0, _one_vector(loop, lanes), span=s.span)


def _one_vector(s: For, lanes: int) -> Stmt:
    """The loop as one vector, if it can be; else serial."""
    found = _in_lanes(s) if lanes > 1 else None
    if found is None:
        return replace(s, kind=LoopKind.SERIAL)
    buffers, loop = found
    return seq(*(Alloc(b, span=s.span) for b in buffers), loop)


def _in_lanes(s: For) -> tuple[list[Buffer], For] | None:
    """The loop and the buffers it needs before it; None if it cannot be computed in lanes.

    Each buffer that is allocated in the loop gets one more dimension: the lane.
    """
    buffers = [x.buffer for x in statements(s.body) if isinstance(x, Alloc)]
    inner = {x.var for x in statements(s) if isinstance(x, For)}
    for b in buffers:
        plain = b.strides is None and b.layout is None and b.offset is ZERO
        if not plain or inner.intersection(free_vars(*buffer_exprs(b))):
            return None
    private = {b: b.replace(shape=(*b.shape, s.extent)) for b in buffers}
    lane = s.var - s.start if s.start is not ZERO else s.var

    def loads(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in private:
            return Load(private[e.buffer], (*e.indices, lane))
        return None

    def change(x: Stmt) -> Stmt | None:
        if isinstance(x, Store) and x.buffer in private:
            return replace(x, buffer=private[x.buffer], indices=(*x.indices, lane))
        if isinstance(x, Alloc):
            return Seq(())
        return None

    cache: dict[Expr, Expr] = {}
    body = transform_stmt(map_exprs(s.body, lambda e: transform(e, loads, cache)), change)
    loop = replace(s, body=_flat(body)) if buffers else s
    return (list(private.values()), loop) if can_have_lanes(loop) else None


def _flat(s: Stmt) -> Stmt:
    """Without the empty statements that allocations leave."""

    def change(x: Stmt) -> Stmt | None:
        return seq(*x.stmts) if isinstance(x, Seq) else None

    return transform_stmt(s, change)


def _dtypes(s: For) -> set[DType]:
    """The types of the elements that the body loads and stores."""
    found = set()
    for x in statements(s.body):
        if isinstance(x, Store):
            found.add(x.buffer.dtype)
        found.update(e.buffer.dtype for e in postorder(*expressions(x)) if isinstance(e, Load))
    return found
