"""Statements of operators that no index function describes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorsmith.ir import (
    Alloc,
    Buffer,
    Expr,
    ExprLike,
    For,
    Stmt,
    Store,
    TensorProgram,
    Var,
    as_expr,
    seq,
)
from tensorsmith.ir.instantiate import instantiate


def nest(extents: Sequence[ExprLike], body: Callable[..., Stmt], prefix: str = "i") -> Stmt:
    """``body`` of one loop variable an extent, within serial loops, the first outermost."""
    if any(as_expr(e) is as_expr(0) for e in extents):
        return seq()
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


def inlined(program: TensorProgram, *buffers: Buffer) -> Stmt:
    """The statements of a program on these buffers, one a parameter.

    For a body that is written as a script when it is needed, rather than when a shape is asked for.
    """
    dims: dict[Var, Expr] = {}
    whole: dict[Buffer, Buffer] = {}
    for parameter, buffer in zip(program.params, buffers, strict=True):
        assert isinstance(parameter, Buffer)
        whole[parameter] = buffer
        for wanted, extent in zip(parameter.shape, buffer.shape, strict=True):
            if isinstance(wanted, Var):
                dims.setdefault(wanted, extent)
    return instantiate(program.body, dims, whole)


def cell(name: str) -> tuple[Stmt, Expr, Stmt]:
    """A counter in memory: the statement that makes it 0, its value, the one that adds 1 to it."""
    buffer = Buffer(name, (1,), "index")
    value = element(buffer, 0)
    return (
        seq(Alloc(buffer), store(buffer, 0, 0)),
        value,
        store(buffer, 0, value + 1),
    )
