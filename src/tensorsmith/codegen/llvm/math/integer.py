"""Intrinsics of integers. One below 8 bits lies in a byte, extended by its sign or by zeros."""

from __future__ import annotations

from tensorsmith.codegen.llvm.math.emitter import Emitter, Value


def _extended(x: Value, bits: int, *, signed: bool) -> Value:
    """The low `bits` bits of a byte, extended to all of it."""
    unused = 8 - bits
    if unused <= 0:
        return x
    return (x << unused).shift_signed(unused) if signed else x & ((1 << bits) - 1)


def absolute(m: Emitter, x: Value, bits: int) -> Value:
    """The magnitude; of the least integer, itself."""
    return _extended(m.intrinsic("abs", x, flag=False), bits, signed=True)


def popcount(m: Emitter, x: Value, bits: int) -> Value:
    """The number of bits that are set."""
    return m.intrinsic("ctpop", _extended(x, bits, signed=False))


def clz(m: Emitter, x: Value, bits: int) -> Value:
    """The number of leading zero bits; all bits for 0."""
    unused = max(8 - bits, 0)
    zeros = m.intrinsic("ctlz", _extended(x, bits, signed=False), flag=False)
    return zeros - unused if unused else zeros


def ctz(m: Emitter, x: Value, bits: int) -> Value:
    """The number of trailing zero bits; all bits for 0."""
    stopped = x | (1 << bits) if bits < 8 else x
    return m.intrinsic("cttz", stopped, flag=False)
