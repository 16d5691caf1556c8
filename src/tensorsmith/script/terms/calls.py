"""Calls of programs, and names for values of the text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from tensorsmith.errors import ScriptError
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import Expr, ExprLike, as_expr
from tensorsmith.ir.module import TensorProgram
from tensorsmith.script.terms import checks
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
    """A call of a program. inplace: as that of `tensorsmith.ir.graph.CallProgram`."""

    callee: str
    args: tuple[Expr | Region, ...]
    inplace: tuple[tuple[int, int], ...] = ()


def call(
    callee: str | TensorProgram,
    *args: RegionLike | ExprLike,
    inplace: Iterable[Iterable[int]] = (),
) -> Invocation:
    """Call a program of the module, or an external function: ``T.call("gemm", A[0:4, 0:n], B)``.

    inplace: in a graph function, (result, operand) numbers: that result takes over the memory.
    """
    name = callee.name if isinstance(callee, TensorProgram) else callee
    if not isinstance(name, str):
        raise ScriptError(f"T.call names what it calls, and {callee!r} is not a name")
    pairs = tuple(tuple(checks.integer(k, "a number") for k in pair) for pair in inplace)
    if any(len(pair) != 2 for pair in pairs):
        raise ScriptError("`inplace` has pairs of a result's number and an operand's")
    memory = tuple((result, operand) for result, operand in pairs)
    return Invocation(name, tuple(map(_argument, args)), memory)


def _argument(value: RegionLike | ExprLike) -> Expr | Region:
    if isinstance(value, Buffer):
        return value.region()
    return value if isinstance(value, Region) else as_expr(value)
