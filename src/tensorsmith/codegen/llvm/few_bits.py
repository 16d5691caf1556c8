"""Integers of four bits as floats: looked up in a register that holds all sixteen values.

AVX-512 has an instruction that picks lanes of one register by the lowest four bits of another's. It
takes the place of a conversion, and of all that only puts the bits above those right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tensorsmith.ir import Const, Expr, ShiftRight
from tensorsmith.ir.dtype import float32, int32, uint32

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorsmith.codegen.llvm.module import ModuleText

BITS, LANES = 4, 16
_PICK: Final = "llvm.x86.avx512.permvar.sf.512"


def looked_up(
    module: ModuleText, emit: Callable[[str], str], e: Expr, value: str, lanes: int
) -> str | None:
    """The conversion `e` of an integer to float32, if that has so few bits, and one register of
    floats is made: by what the operand's lowest bits pick.

    value: the register of the operand.
    """
    x = e.args[0]
    fits = lanes == LANES and e.dtype is float32 and x.dtype in (int32, uint32)
    if not fits or not module.target.is_x86 or "avx512f" not in module.target.features:
        return None
    if not isinstance(x, ShiftRight) or not _leaves_few_bits(x):
        return None
    signed = x.dtype is int32
    values = [k - LANES if signed and k >= LANES // 2 else k for k in range(LANES)]
    table = ", ".join(f"float {float(k):.1f}" for k in values)
    floats, integers = f"<{LANES} x float>", f"<{LANES} x i32>"
    module.declare(f"declare {floats} @{_PICK}({floats}, {integers})")
    return emit(f"call {floats} @{_PICK}({floats} <{table}>, {integers} {value})")


def _leaves_few_bits(x: ShiftRight) -> bool:
    by = x.args[1]
    return isinstance(by, Const) and x.dtype.bits - BITS <= int(by.value) < x.dtype.bits
