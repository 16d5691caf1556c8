"""Walking and rebuilding statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import Expr, Load, substitute, transform
from tensorsmith.ir.stmt import (
    Alloc,
    Assert,
    Bind,
    Block,
    For,
    If,
    Invoke,
    Iter,
    Seq,
    Stmt,
    Store,
    View,
    While,
)


def children(s: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside `s`; of a block its init comes before its body."""
    match s:
        case Seq():
            return s.stmts
        case For() | While():
            return (s.body,)
        case If():
            return (s.then,) if s.orelse is None else (s.then, s.orelse)
        case Block():
            return (s.body,) if s.init is None else (s.init, s.body)
    return ()


def with_children(s: Stmt, new: tuple[Stmt, ...]) -> Stmt:
    """`s` with other statements inside; `s` itself if they are the same ones."""
    old = children(s)
    if len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True)):
        return s
    match s:
        case Seq():
            return replace(s, stmts=new)
        case For() | While():
            return replace(s, body=new[0])
        case If():
            return replace(s, then=new[0], orelse=new[1] if len(new) > 1 else None)
        case Block():
            if s.init is None:
                return replace(s, body=new[0])
            return replace(s, init=new[0], body=new[1])
    raise AssertionError(type(s))


def statements(s: Stmt) -> Iterator[Stmt]:
    """`s` and every statement inside it, outer ones first."""
    stack = [s]
    while stack:
        x = stack.pop()
        yield x
        stack.extend(reversed(children(x)))


def transform_stmt(s: Stmt, change: Callable[[Stmt], Stmt | None]) -> Stmt:
    """`s` rebuilt from the inside out, each statement replaced by ``change(it)`` unless None."""
    new = with_children(s, tuple(transform_stmt(c, change) for c in children(s)))
    changed = change(new)
    return new if changed is None else changed


def expressions(s: Stmt) -> Iterator[Expr]:
    """The expressions that stand directly in `s`, not in statements inside it."""
    match s:
        case Store():
            yield from s.indices
            yield s.value
        case Bind():
            yield s.value
        case Assert() | If() | While():
            yield s.condition
        case For():
            yield s.start
            yield s.extent
        case Invoke():
            for a in s.args:
                yield from _region_exprs(a) if isinstance(a, Region) else (a,)
        case Alloc():
            yield from buffer_exprs(s.buffer)
        case View():
            if isinstance(s.source, Expr):
                yield s.source
            yield s.offset
            yield from buffer_exprs(s.buffer)
        case Block():
            yield s.predicate
            for it in s.iters:
                yield from (it.start, it.extent, it.binding)
            for r in (*(s.reads or ()), *(s.writes or ())):
                yield from _region_exprs(r)


def buffer_exprs(b: Buffer) -> Iterator[Expr]:
    """The expressions that make up a buffer's shape, strides and offset."""
    yield from b.shape
    yield from b.strides or ()
    yield b.offset


def _region_exprs(r: Region) -> Iterator[Expr]:
    for start, extent in r.ranges:
        yield start
        yield extent


def map_exprs(s: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """`s` with every expression in it, at any depth, replaced by ``change(it)``.

    Variables that statements define, and the shapes of the buffers that they define, stay as they
    are.
    """
    inner = with_children(s, tuple(map_exprs(c, change) for c in children(s)))
    if all(change(e) is e for e in expressions(inner)):
        return inner
    return _map_own(inner, change)


def _map_own(s: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    match s:
        case Store():
            indices = tuple(change(i) for i in s.indices)
            return replace(s, indices=indices, value=change(s.value))
        case Bind():
            return replace(s, value=change(s.value))
        case Assert() | If() | While():
            return replace(s, condition=change(s.condition))
        case For():
            return replace(s, start=change(s.start), extent=change(s.extent))
        case Invoke():
            args = tuple(_map_arg(a, change) for a in s.args)
            return replace(s, args=args)
        case View():
            source = change(s.source) if isinstance(s.source, Expr) else s.source
            return replace(s, source=source, offset=change(s.offset))
        case Block():
            return replace(
                s,
                predicate=change(s.predicate),
                iters=tuple(_map_iter(it, change) for it in s.iters),
                reads=_map_regions(s.reads, change),
                writes=_map_regions(s.writes, change),
            )
    return s


def _map_arg(a: Expr | Region, change: Callable[[Expr], Expr]) -> Expr | Region:
    return _map_region(a, change) if isinstance(a, Region) else change(a)


def _map_region(r: Region, change: Callable[[Expr], Expr]) -> Region:
    return Region(r.buffer, tuple((change(start), change(extent)) for start, extent in r.ranges))


def _map_regions(
    regions: tuple[Region, ...] | None, change: Callable[[Expr], Expr]
) -> tuple[Region, ...] | None:
    return None if regions is None else tuple(_map_region(r, change) for r in regions)


def _map_iter(it: Iter, change: Callable[[Expr], Expr]) -> Iter:
    return replace(it, start=change(it.start), extent=change(it.extent), binding=change(it.binding))


def substitute_stmt(s: Stmt, values: Mapping[Expr, Expr]) -> Stmt:
    """`s` with variables (or any nodes) replaced wherever they are used."""
    if not values:
        return s
    cache: dict[Expr, Expr] = {}
    return map_exprs(s, lambda e: substitute(e, values, cache))


def replace_buffers(s: Stmt, buffers: Mapping[Buffer, Buffer]) -> Stmt:
    """`s` with accesses of some buffers made to others, of the same rank and dtype."""
    if not buffers:
        return s
    cache: dict[Expr, Expr] = {}

    def loads(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in buffers:
            return Load(buffers[e.buffer], e.indices)
        return None

    def own(x: Stmt) -> Stmt | None:
        match x:
            case Store() | Alloc():
                new = buffers.get(x.buffer)
                return None if new is None else replace(x, buffer=new)
            case View():
                source = x.source if isinstance(x.source, Expr) else buffers.get(x.source, x.source)
                return replace(x, buffer=buffers.get(x.buffer, x.buffer), source=source)
            case Invoke():
                args = tuple(_rebase(a, buffers) for a in x.args)
                return replace(x, args=args)
            case Block():
                return replace(
                    x, reads=_rebased(x.reads, buffers), writes=_rebased(x.writes, buffers)
                )
        return None

    return transform_stmt(map_exprs(s, lambda e: transform(e, loads, cache)), own)


def _rebase(a: Expr | Region, buffers: Mapping[Buffer, Buffer]) -> Expr | Region:
    if isinstance(a, Region) and a.buffer in buffers:
        return Region(buffers[a.buffer], a.ranges)
    return a


def _rebased(
    regions: tuple[Region, ...] | None, buffers: Mapping[Buffer, Buffer]
) -> tuple[Region, ...] | None:
    if regions is None:
        return None
    return tuple(Region(buffers.get(r.buffer, r.buffer), r.ranges) for r in regions)
