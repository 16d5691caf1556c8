"""Operations on the bits of integers."""

from __future__ import annotations

from typing import Final

from tensorsmith.ir import Binary, BitAnd, BitNot, BitOr, BitXor, Kind, ShiftLeft, ShiftRight
from tensorsmith.ops.broadcast import elementwise
from tensorsmith.ops.operands import one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor


def _binary(name: str, op: type[Binary], doc: str) -> Operator:
    def compute(a: Tensor, b: Tensor) -> Tensor:
        one_dtype(name, Kind.BITS, a, b)
        return elementwise(name, op, a, b)

    compute.__name__ = name
    compute.__doc__ = doc
    return Operator(name, compute)


def bitwise_not(x: Tensor) -> Tensor:
    """Each bit the other one."""
    one_dtype("bitwise_not", Kind.BITS, x)
    return elementwise("bitwise_not", BitNot, x)


OPERATORS: Final[tuple[Operator, ...]] = (
    _binary("bitwise_and", BitAnd, "The bits that both have."),
    _binary("bitwise_or", BitOr, "The bits that either has."),
    _binary("bitwise_xor", BitXor, "The bits that one has."),
    _binary("shift_left", ShiftLeft, "a * 2**b, wrapping; 0 for counts from the width on."),
    _binary("shift_right", ShiftRight, "a // 2**b; the sign stays."),
    *operators(bitwise_not),
)
