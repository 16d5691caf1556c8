"""Statements of operators that no index function describes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorsmith.ir import Buffer, Expr, ExprLike, For, Stmt, Store, Var, as_expr


def nest(extents: Sequence[ExprLike], body: Callable[..., Stmt], prefix: str = "i") -> Stmt:
    """``body`` of one loop variable an extent, within serial loops, the first outermost."""
    variables = [Var(f"{prefix}{d}") for d in range(len(extents))]
    stmt = body(*variables)
    for variable, extent in zip(reversed(variables), reversed(extents), strict=True):
        stmt = For(variable, as_expr(extent), stmt)
    return stmt


def store(target: Buffer, indices: ExprLike | Sequence[ExprLike], value: ExprLike) -> Store:
    """``target[indices] = value``; a number takes the type of the buffer."""
    at = tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)
    return Store(target, tuple(map(as_expr, at)), as_expr(value, target.dtype))


def copied(source: Buffer, target: Buffer) -> Stmt:
    """The elements of `source` into `target`, which has its shape."""
    return nest(target.shape, lambda *i: store(target, i, source[i]))


def filled(target: Buffer, value: ExprLike) -> Stmt:
    """`value` into each element of `target`."""
    return nest(target.shape, lambda *i: store(target, i, value))


def element(buffer: Buffer, *indices: ExprLike) -> Expr:
    """The load of an element."""
    return buffer[tuple(map(as_expr, indices))]
