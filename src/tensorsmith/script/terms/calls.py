"""Calls of programs, and names for values of the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from tensorsmith.errors import ScriptError
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import Expr, ExprLike, as_expr
from tensorsmith.ir.module import TensorProgram
from tensorsmith.script.terms.blocks import RegionLike

V = TypeVar("V")


def alias(value: V) -> V:
    """A name for an expression in the text alone: using the name means writing the expression."""
    return value


def static(value: V) -> V:
    """A value that the parser computes; a loop over it is unrolled by the parser."""
    return value


@dataclass(frozen=True)
class Invocation:
    """A call of a program."""

    callee: str
    args: tuple[Expr | Region, ...]


def call(callee: str | TensorProgram, *args: RegionLike | ExprLike) -> Invocation:
    """Call a program of the module, or an external function: ``T.call("gemm", A[0:4, 0:n], B)``."""
    name = callee.name if isinstance(callee, TensorProgram) else callee
    if not isinstance(name, str):
        raise ScriptError(f"T.call names what it calls, and {callee!r} is not a name")
    return Invocation(name, tuple(map(_argument, args)))


def _argument(value: RegionLike | ExprLike) -> Expr | Region:
    if isinstance(value, Buffer):
        return value.region()
    return value if isinstance(value, Region) else as_expr(value)
