"""Blocks that name an instruction of the machine become calls of it, where the machine has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tensorsmith.arith import Analyzer
from tensorsmith.codegen.llvm.instructions import INSTRUCTIONS, Vector, is_widened
from tensorsmith.codegen.llvm.tile_products import NEEDS, TILE_PRODUCTS
from tensorsmith.ir import Block, Const, Invoke, Region, Stmt, TensorProgram
from tensorsmith.ir.dtype import dtype as as_dtype
from tensorsmith.ir.rewrite import transform_stmt
from tensorsmith.target import Target

INSTRUCTION: Final = "instruction"
"""The attribute of a block whose body says in scalars what the instruction does."""


def select_instructions(program: TensorProgram, *, target: Target) -> TensorProgram:
    """Have the instructions compute what blocks name them for.

    The block's regions are the operands: what it writes is the result, what it reads are the
    operands in order. A block whose regions do not fit, or whose instruction the target lacks, is
    left to its body. Cost: a walk.
    """

    def change(s: Stmt) -> Stmt | None:
        if not isinstance(s, Block) or s.reads is None or s.writes is None:
            return None
        name = str(s.attrs.get(INSTRUCTION))
        if name in TILE_PRODUCTS:
            return _tile_product(s, (*s.writes, *s.reads), name, target)
        found = INSTRUCTIONS.get(name)
        if found is None or not target.features.intersection(found.needs):
            return None
        given = (*s.writes, *s.reads)
        added = (found.result,) * (len(given) - 1 - len(found.operands))
        wanted = (found.result, *added, *found.operands)
        if len(added) > 1 or len(given) != len(wanted) or not all(map(_fits, given, wanted)):
            return None
        return replace(s, body=Invoke(found.name, given, span=s.span), init=None)

    body = transform_stmt(program.body, change)
    return program if body is program.body else replace(program, body=body)


def _tile_product(s: Block, given: tuple[Region, ...], name: str, target: Target) -> Stmt | None:
    has = target.features.issuperset(NEEDS)
    if not has or not TILE_PRODUCTS[name].fits(given, Analyzer()):
        return None
    return replace(s, body=Invoke(name, given, span=s.span), init=None)


def _fits(region: Region, wanted: Vector) -> bool:
    """Whether a region has the elements of an operand, or fewer that are repeated."""
    count = 1
    for _, extent in region.ranges:
        if not isinstance(extent, Const):
            return False
        count *= int(extent.value)
    given, type_ = region.buffer.dtype, as_dtype(wanted.dtype)
    return (given is type_ or is_widened(given, type_)) and count > 0 and wanted.lanes % count == 0


__all__ = ["INSTRUCTION", "select_instructions"]
