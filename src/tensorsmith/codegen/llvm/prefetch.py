"""Software prefetch: a loop asks for what it will load some iterations later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tensorsmith.codegen.lower.lanes import is_vector
from tensorsmith.codegen.lower.tree import loads_anything
from tensorsmith.ir import Bind, Const, Expr, For, Load, Stmt, const, free_vars, postorder
from tensorsmith.ir.buffer import GLOBAL
from tensorsmith.ir.expr import substitute
from tensorsmith.ir.rewrite import children, expressions, statements

if TYPE_CHECKING:
    from tensorsmith.codegen.llvm.function import Function

LINE_BYTES: Final = 64
"""Bytes that one prefetch brings."""
MOST_PREFETCHES: Final = 16
"""Prefetches of one loop, beyond which the machine would have more to do with them than without."""


def prefetch(function: Function, loop: For, ahead: int) -> None:
    """Fetch what the body of `loop` loads first, `ahead` iterations later, into the nearest cache.

    A loaded element counts if its place depends on the loop, and not on what was loaded. Addresses
    may lie outside of the buffer, which does no harm.
    """
    defined = {s.var for s in statements(loop.body) if isinstance(s, Bind)}
    done: set[tuple[object, ...]] = set()
    for load, inner in _loads(loop.body, ()):
        if load.buffer.scope != GLOBAL or any(map(loads_anything, load.indices)):
            continue
        offset = function.memory.offset(load.buffer, load.indices)
        used = free_vars(offset)
        if loop.var not in used or defined.intersection(used):
            continue
        for line in range(_lines(load, inner)):
            first: dict[Expr, Expr] = {x.var: x.start for x in inner}
            at = substitute(offset, first)
            at = substitute(at, {loop.var: loop.var + ahead})
            per_line = LINE_BYTES // load.buffer.dtype.bytes
            at = function.facts.simplify(at + const(line * per_line))
            moving, fixed = function.memory.split_constant(at)
            key = (load.buffer, moving, fixed // per_line)
            if key in done or len(done) >= MOST_PREFETCHES:
                continue
            done.add(key)
            pointer = function.memory.pointer(load.buffer, at)
            function.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            function.text.line(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")


def _lines(load: Load, inner: tuple[For, ...]) -> int:
    """Cache lines that one vector of the load takes."""
    lanes = 1
    for x in inner:
        last = load.indices[-1] if load.indices else None
        if is_vector(x) and last is not None and x.var in free_vars(last):
            assert isinstance(x.extent, Const)
            lanes = int(x.extent.value)
    return max(1, -(-lanes * load.buffer.dtype.bytes // LINE_BYTES))


def _loads(s: Stmt, inner: tuple[For, ...]) -> Iterator[tuple[Load, tuple[For, ...]]]:
    """The loads in a statement, with the loops inside of it around each."""
    for e in postorder(*expressions(s)):
        if isinstance(e, Load):
            yield e, inner
    deeper = (*inner, s) if isinstance(s, For) else inner
    for c in children(s):
        yield from _loads(c, deeper)
