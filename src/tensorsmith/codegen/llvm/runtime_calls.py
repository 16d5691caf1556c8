"""Calls of what the runtime gives to compiled code: memory, and results of unknown size.

These functions know the call that they serve: they get its context, or its token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tensorsmith.codegen.llvm.types import register_type
from tensorsmith.errors import CodegenError
from tensorsmith.ir import Const, Invoke, Region

if TYPE_CHECKING:
    from tensorsmith.codegen.llvm.function import Function

TAKE: Final = "declare noalias ptr @ts_take(ptr, i64)"
"""Memory of so many bytes, aligned to 64; null if there is none."""
GIVE: Final = "declare void @ts_give(ptr, ptr)"
"""Memory that was taken is not needed any more."""
IN_CONTEXT: Final = frozenset(("ts_hold", "ts_append", "ts_drop"))
"""Functions whose first argument is the context, which the program does not say."""
DROP: Final = "declare i32 @ts_drop(ptr, ptr)"
MOST_CELLS: Final = 256
RETURN: Final = "ts_return"
"""Hands over a result: ``(token, number, region, *extents)`` in a program, and in C the number of
extents and a pointer to them."""

_ALONE: Final = """\
declare noalias ptr @aligned_alloc($WORD, $WORD)
declare void @free(ptr)

define weak noalias ptr @ts_take(ptr %ctx, i64 %bytes) #0 {
  %padded = add i64 %bytes, 127
  %rounded = and i64 %padded, -64
  $CONVERTED
  %memory = call ptr @aligned_alloc($WORD 64, $WORD %size)
  ret ptr %memory
}"""
_GIVE_ALONE: Final = """\
define weak void @ts_give(ptr %ctx, ptr %memory) #0 {
  call void @free(ptr %memory)
  ret void
}"""


def alone(index_bits: int) -> dict[str, str]:
    """Definitions for object files that are used without the runtime, by declaration."""
    word = f"i{index_bits}"  # C's size_t
    converted = f"{'trunc' if index_bits < 64 else 'bitcast'} i64 %rounded to {word}"
    text = _ALONE.replace("$WORD", word).replace("$CONVERTED", f"%size = {converted}")
    return {TAKE: text, GIVE: _GIVE_ALONE}


def note_cell(function: Function, cell: Region) -> None:
    """Let a cell that lies on the stack be dropped if the function fails."""
    place, count = function.place(cell.buffer), 1
    for extent in cell.buffer.shape:
        if not isinstance(extent, Const):
            return
        count *= int(extent.value)
    if place.pointer in function.stack and count <= MOST_CELLS:
        function.module.declare(DROP)
        function.cells[place.pointer] = count


def hand_over(function: Function, s: Invoke, args: list[str]) -> list[str]:
    """The arguments of `RETURN` in C, of those that the program has."""
    if len(s.args) < 3 or not isinstance(s.args[2], Region):
        raise CodegenError(
            f"{RETURN!r} takes a token, a number, a region and its extents", where=s.span
        )
    text, extents = function.text, s.args[3:]
    slots = f"%{text.name('extents')}"
    function.allocas.append(f"  {slots} = alloca [{8 * max(len(extents), 1)} x i8], align 8")
    for at, (extent, passed) in enumerate(zip(extents, args[3:], strict=True)):
        if isinstance(extent, Region) or register_type(extent.dtype) != "i64":
            raise CodegenError(f"an extent that {RETURN!r} takes is an index", where=s.span)
        pointer = text.value(f"getelementptr i8, ptr {slots}, i64 {8 * at}")
        text.line(f"store {passed}, ptr {pointer}, align 8")
    return [*args[:3], f"i64 {len(extents)}", f"ptr {slots}"]
