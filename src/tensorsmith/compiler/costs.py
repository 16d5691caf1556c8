"""What a kernel costs: operations, and bytes that have to move, for profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorsmith.arith import simplify
from tensorsmith.codegen.models import Dimensions
from tensorsmith.errors import TensorsmithError
from tensorsmith.evaluate import Cost, cost
from tensorsmith.graph.kernel import OPERATIONS
from tensorsmith.ir import Buffer, Expr, TensorProgram, Var, as_expr, free_vars
from tensorsmith.ir.expr import substitute
from tensorsmith.ir.graph import CallProgram
from tensorsmith.runtime.extents import Extent

UNKNOWN: Final = (None, None)


def kernel_cost(program: TensorProgram) -> tuple[Extent | None, Extent | None]:
    """The operations of a run, and the bytes of operands and results, each counted once. Of sums
    that are computed with fewer operations, it is those that they are written with.

    Extents over the program's dimensions and scalars, which are called ``0``, ``1``, ... in the
    order of `variables`. None where they depend on what tensors hold.
    """
    try:
        found = cost(program)
    except TensorsmithError:  # an external function, or a loop that data ends
        return UNKNOWN
    if found.unknowns:
        return UNKNOWN
    numbered: dict[Expr, Expr] = {v: Var(str(k)) for k, v in enumerate(variables(program))}
    moved = found.unique_bytes_read + found.unique_bytes_written
    names = Dimensions()
    for v in numbered.values():
        assert isinstance(v, Var)
        names.name(v)
    try:
        return tuple(  # type: ignore[return-value]
            names.extent(substitute(e, numbered)) for e in (_operations(program, found), moved)
        )
    except TensorsmithError:
        return UNKNOWN


def _operations(program: TensorProgram, found: Cost) -> Expr:
    """The operations as they are written; what follows sums is left out beside these."""
    each = program.attrs.get(OPERATIONS)
    result = program.params[-1]
    if not isinstance(each, int) or not isinstance(result, Buffer):
        return found.flops + found.integer_operations
    total: Expr = as_expr(each)
    for extent in result.shape:
        total = total * extent
    return simplify(total)


def variables(program: TensorProgram) -> tuple[Var, ...]:
    """The dimensions of a program, then its scalar parameters."""
    return (*program.dims, *(p for p in program.params if isinstance(p, Var)))


def call_values(program: TensorProgram, call: CallProgram) -> list[Expr | None]:
    """The `variables` of a program in a call of it; None for one that no extent is alone."""
    known: dict[Var, Expr] = {}
    arguments: Sequence[Buffer | Expr] = (*call.operands, *call.results)
    for p, argument in zip(program.params, arguments, strict=True):
        if isinstance(p, Var) and isinstance(argument, Expr):
            known[p] = argument
        elif isinstance(p, Buffer) and isinstance(argument, Buffer):
            for wanted, given in zip(p.shape, argument.shape, strict=True):
                if isinstance(wanted, Var):
                    known.setdefault(wanted, given)
    return [known.get(v) for v in variables(program)]


def in_call(
    extent: Extent | None, values: Sequence[Expr | None], names: Dimensions, bound: set[Var]
) -> Extent | None:
    """A cost of `kernel_cost` over the dimensions of the caller, as far as these are `bound` by
    its inputs; else None."""
    if extent is None:
        return None
    known: dict[str, Extent] = {}
    for k, value in enumerate(values):
        if value is not None and bound.issuperset(free_vars(value)):
            try:
                known[str(k)] = names.extent(value)
            except TensorsmithError:
                continue
    return _replaced(extent, known)


def _replaced(extent: Extent, known: Mapping[str, Extent]) -> Extent | None:
    if isinstance(extent, int):
        return extent
    if isinstance(extent, str):
        return known.get(extent)
    parts = [_replaced(part, known) for part in extent[1:]]
    return None if None in parts else (extent[0], *parts)
