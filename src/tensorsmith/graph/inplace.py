"""Which operands a kernel may overwrite: each of their elements is read where it is written.

A kernel of one block that stores an element after it has loaded those of the same place, and no
others of that operand, gives the same result if both lie in the same memory, in whatever order its
points are computed. The code generator then takes nothing for granted about the two (see
`tensorsmith.codegen.llvm.module.shared_params`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tensorsmith.ir import Block, Buffer, Load, Store, TensorProgram, postorder
from tensorsmith.ir.rewrite import expressions, statements

INPLACE: Final = "inplace"
"""The attribute of a program: pairs of numbers of parameters, an operand and the result that may
take its memory."""


def with_inplace(program: TensorProgram) -> TensorProgram:
    """The program, with the attribute where there are such operands."""
    pairs = overwritable(program)
    return replace(program, attrs={**program.attrs, INPLACE: pairs}) if pairs else program


def pairs_of(program: TensorProgram) -> tuple[tuple[int, int], ...]:
    """What the attribute says."""
    given = program.attrs.get(INPLACE, ())
    pairs = [p for p in given if isinstance(p, tuple)] if isinstance(given, tuple) else []
    return tuple((n, m) for n, m in pairs if isinstance(n, int) and isinstance(m, int))


def overwritable(program: TensorProgram) -> tuple[tuple[int, int], ...]:
    """The pairs of numbers of an operand and the result that may overwrite it."""
    inside = list(statements(program.body))
    blocks = [s for s in inside if isinstance(s, Block)]
    stores = [s for s in inside if isinstance(s, Store)]
    if len(blocks) != 1 or len(stores) != 1 or blocks[0].init is not None:
        return ()
    (store,) = stores
    result = store.buffer
    if blocks[0].body is not store or result not in program.buffers:
        return ()
    loads = [e for s in inside for e in postorder(*expressions(s)) if isinstance(e, Load)]
    at = [n for n, p in enumerate(program.params) if p is result]
    return tuple(
        (n, at[0])
        for n, p in enumerate(program.params)
        if isinstance(p, Buffer) and _fits(p, result)
        if (own := [e for e in loads if e.buffer is p])
        if all(e.indices == store.indices for e in own)
    )


def _fits(operand: Buffer, result: Buffer) -> bool:
    """Whether the elements of two tensors lie at the same places."""
    plain = all(b.layout is None and b.strides is None for b in (operand, result))
    same = operand.shape == result.shape and operand.dtype.bytes == result.dtype.bytes
    return plain and same and operand is not result
