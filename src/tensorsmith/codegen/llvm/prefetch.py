"""Software prefetch: a loop asks for what it will load some iterations later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tensorsmith.codegen.lower.lanes import is_vector
from tensorsmith.codegen.lower.tree import loads_anything
from tensorsmith.ir import (
    Bind,
    Buffer,
    Const,
    Expr,
    For,
    Load,
    LoopKind,
    Stmt,
    const,
    free_vars,
    postorder,
)
from tensorsmith.ir.buffer import GLOBAL
from tensorsmith.ir.expr import substitute
from tensorsmith.ir.rewrite import children, expressions, statements

if TYPE_CHECKING:
    from tensorsmith.codegen.llvm.function import Function

LINE_BYTES: Final = 64
"""Bytes that one prefetch brings."""
NEAREST: Final = 3
SECOND: Final = 2
"""The caches to fetch into, as LLVM numbers them."""
FEWEST_LINES: Final = 64
"""Lines of the next iteration from which on fetching them in shares pays."""
MOST_PREFETCHES: Final = 16
"""Prefetches of one loop, beyond which the machine would have more to do with them than without."""


def prefetch(function: Function, loop: For, ahead: int) -> None:
    """Fetch what the body of `loop` loads first, `ahead` iterations later, into the nearest cache.

    A loaded element counts if its place depends on the loop, and not on what was loaded, and moves
    by a line or more: what lies closer, hardware fetches by itself. Addresses may lie outside of
    the buffer, which does no harm.
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
        if _is_close(function, load, offset, loop):
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
            _ask_for(function, load.buffer, at, NEAREST)


def _is_close(function: Function, load: Load, offset: Expr, loop: For) -> bool:
    """Whether what an iteration loads lies less than a line behind what the one before does."""
    moved = substitute(offset, {loop.var: loop.var + 1})
    step = function.facts.simplify(moved - offset)
    return isinstance(step, Const) and abs(int(step.value)) * load.buffer.dtype.bytes < LINE_BYTES


def _ask_for(function: Function, buffer: Buffer, at: Expr, nearness: int) -> None:
    """Fetch the line of an element. It overlaps no other buffer, so that what stays in registers
    around it still may."""
    pointer = function.memory.pointer(buffer, at)
    scopes = function.module.alias_metadata(buffer)
    function.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    arguments = f"ptr {pointer}, i32 0, i32 {nearness}, i32 1"
    function.text.line(f"call void @llvm.prefetch.p0({arguments}){scopes}")


@dataclass(frozen=True, slots=True)
class Share:
    """Lines to fetch in an iteration of a loop: `count` from the element at `start` on."""

    buffer: Buffer
    start: Expr
    count: int


def shares(function: Function, loop: For) -> dict[For, Share]:
    """What the next iteration of `loop` loads from where this one does not, in shares for the
    iterations of a loop inside, so that it comes while this one runs.

    That is what lies side by side, and is loaded again and again in each iteration: the next rows
    of weights, which all pixels use.
    """
    found: dict[For, Share] = {}
    seen: set[Buffer] = set()
    for load, inner in _loads(loop.body, ()):
        if load.buffer.scope != GLOBAL or load.buffer in seen:
            continue
        seen.add(load.buffer)
        share = _share(function, loop, load, inner)
        if share is not None:
            found.setdefault(*share)
    return found


def _share(
    function: Function, loop: For, load: Load, inner: tuple[For, ...]
) -> tuple[For, Share] | None:
    """The share of one buffer, and in which of the loops around a load of it."""
    if any(map(loads_anything, load.indices)):
        return None
    offset = function.memory.offset(load.buffer, load.indices)
    used = free_vars(offset)
    moved = substitute(offset, {loop.var: loop.var + 1})
    step = function.facts.simplify(moved - offset)
    serial = [x for x in inner if x.kind is LoopKind.SERIAL]
    is_used_again = any(x.var not in used for x in serial)
    if not isinstance(step, Const) or not is_used_again:
        return None
    lines = int(step.value) * load.buffer.dtype.bytes // LINE_BYTES
    if lines < FEWEST_LINES or not all(isinstance(x.extent, Const) for x in serial):
        return None
    first: dict[Expr, Expr] = {x.var: x.start for x in inner}
    at, start, count = _spread(serial, lines)
    if at is None or count > MOST_PREFETCHES:
        return None
    per_line = LINE_BYTES // load.buffer.dtype.bytes
    return at, Share(load.buffer, substitute(moved, first) + start * const(per_line), count)


def _spread(loops: list[For], lines: int) -> tuple[For | None, Expr, int]:
    """In which of the loops to fetch so many lines, the first of them in each iteration, and how
    many: in the innermost loop that has no more iterations than there are lines."""
    found: For | None = None
    index: Expr = const(0)
    times = 1
    for x in loops:
        assert isinstance(x.extent, Const)
        if times * int(x.extent.value) > lines:
            break
        times *= int(x.extent.value)
        index = index * x.extent + (x.var - x.start)
        found = x
    count = -(-lines // times)
    return found, index * const(count), count


def fetch(function: Function, share: Share) -> None:
    """Fetch the lines of a share into the second-level cache."""
    per_line = LINE_BYTES // share.buffer.dtype.bytes
    for line in range(share.count):
        at = function.facts.simplify(share.start + const(line * per_line))
        _ask_for(function, share.buffer, at, SECOND)


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
