"""A kernel of two schedules, which asks its dimensions as it starts."""

from __future__ import annotations

from dataclasses import replace

from tensorsmith.compiler.constants import Divided, divide
from tensorsmith.ir import Buffer, Expr, If, TensorProgram, Var
from tensorsmith.ir.instantiate import instantiate
from tensorsmith.ir.structural import structural_equal


def divided(
    program: TensorProgram, other: tuple[Expr, TensorProgram] | None = None
) -> tuple[TensorProgram, Divided | None]:
    """A program in two, as `divide` does it. other: the same with another schedule, and when to
    take that; it is left out if it needs something else computed of constants."""
    plain, parts = divide(program)
    if other is None:
        return plain, parts
    condition, second = other
    again, others = divide(second)
    if (parts is None) != (others is None):
        return plain, parts
    if parts is not None and others is not None:
        same = structural_equal(parts.before, others.before, map_free_vars=True)
        if not same or parts.kept != others.kept or parts.constants != others.constants:
            return plain, parts
    variables: dict[Var, Expr] = {}
    buffers: dict[Buffer, Buffer] = {}
    for ours, its in zip(plain.params, again.params, strict=True):
        if isinstance(ours, Buffer) and isinstance(its, Buffer):
            buffers[its] = ours
        elif isinstance(ours, Var) and isinstance(its, Var):
            variables[its] = ours
    body = If(condition, instantiate(again.body, variables, buffers), plain.body)
    whole = replace(plain, body=body)
    return whole, None if parts is None else replace(parts, rest=whole)
