"""Integer operations on NumPy scalars and arrays, as the head of `tensorsmith.ir.expr` defines
them.

Fixed-width integers are NumPy integers of their width (8 bits for narrower ones). An ``index`` is a
Python int, or an int64 array where there are many at once. `IntegerOperations` is told which of
many values matter, so that a lane that is masked out can neither divide by zero nor overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from tensorsmith.errors import EvaluationError
from tensorsmith.evaluate.rounding import Value, carrier, wrap
from tensorsmith.ir.dtype import DType, Kind
from tensorsmith.ir.expr import Expr

_INDEX_MIN: Final = -(1 << 63)
_INDEX_MAX: Final = (1 << 63) - 1
_INDEX: Final = int(Kind.INDEX)
_SAFE_PRODUCT: Final = float(1 << 62)
"""float64 products below this are certainly products of int64 that fit."""


class IntegerOperations:
    """The operations. any_active: whether some element that matters is True."""

    def __init__(self, any_active: Callable[[Value], bool]) -> None:
        self._any_active = any_active

    # --- What can go wrong ---

    def _fits(self, e: Expr, exact: int) -> int:
        if _INDEX_MIN <= exact <= _INDEX_MAX:
            return exact
        raise _overflow(e, exact)

    def _no_overflow(self, e: Expr, bad: Value, result: Value) -> Value:
        if self._any_active(bad):
            raise _overflow(e, None)
        return result

    def _divisor(self, e: Expr, b: Value) -> Value:
        """`b` with zeros that do not matter replaced by ones."""
        zero = b == 0
        if self._any_active(zero):
            raise EvaluationError("division by zero", given=f"the divisor of {e!r} is 0")
        return np.where(zero, b.dtype.type(1), b) if np.ndim(b) else b

    # --- Arithmetic ---

    def add(self, e: Expr, a: Value, b: Value) -> Value:
        """Sum."""
        if not e.dtype.flag & _INDEX:
            return wrap(a + b, e.dtype)
        result = a + b
        if type(result) is int:
            return self._fits(e, result)
        return self._no_overflow(e, ((a ^ result) & (b ^ result)) < 0, result)

    def sub(self, e: Expr, a: Value, b: Value) -> Value:
        """Difference."""
        if not e.dtype.flag & _INDEX:
            return wrap(a - b, e.dtype)
        result = a - b
        if type(result) is int:
            return self._fits(e, result)
        return self._no_overflow(e, ((a ^ b) & (a ^ result)) < 0, result)

    def mul(self, e: Expr, a: Value, b: Value) -> Value:
        """Product."""
        if not e.dtype.flag & _INDEX:
            return wrap(a * b, e.dtype)
        result = a * b
        if type(result) is int:
            return self._fits(e, result)
        estimate = np.abs(np.multiply(a, b, dtype=np.float64))
        if not (estimate >= _SAFE_PRODUCT).any():
            return result
        exact = np.asarray(a).astype(object) * b
        bad = ((exact < _INDEX_MIN) | (exact > _INDEX_MAX)).astype(np.bool_)
        return self._no_overflow(e, bad, result)

    def neg(self, e: Expr, a: Value) -> Value:
        """Negation."""
        if not e.dtype.flag & _INDEX:
            return wrap(a.dtype.type(0) - a, e.dtype)
        return self.sub(e, 0, a)

    def absolute(self, e: Expr, a: Value) -> Value:
        """Magnitude; of the least fixed-width integer, itself."""
        if not e.dtype.flag & _INDEX:
            return wrap(np.abs(a), e.dtype)
        if type(a) is int:
            return self._fits(e, abs(a))
        return self._no_overflow(e, a == _INDEX_MIN, np.abs(a))

    def floor_div(self, e: Expr, a: Value, b: Value) -> Value:
        """Quotient, rounded towards minus infinity."""
        b = self._divisor(e, b)
        if not e.dtype.flag & _INDEX:
            return wrap(a // b, e.dtype)
        if type(a) is int and type(b) is int:
            return self._fits(e, a // b)
        return self._no_overflow(e, (a == _INDEX_MIN) & (b == -1), a // b)

    def floor_mod(self, e: Expr, a: Value, b: Value) -> Value:
        """Remainder with the sign of the divisor."""
        return a % self._divisor(e, b)

    def trunc_div(self, e: Expr, a: Value, b: Value) -> Value:
        """Quotient, rounded towards zero."""
        b = self._divisor(e, b)
        if type(a) is int and type(b) is int:
            quotient = abs(a) // abs(b)
            return self._fits(e, quotient if (a < 0) == (b < 0) else -quotient)
        quotient = a // b
        inexact = (a % b != 0) & ((a < 0) != (b < 0))
        quotient = quotient + np.asarray(inexact).astype(quotient.dtype)[()]
        if e.dtype.flag & _INDEX:
            return self._no_overflow(e, (a == _INDEX_MIN) & (b == -1), quotient)
        return wrap(quotient, e.dtype)

    def trunc_mod(self, e: Expr, a: Value, b: Value) -> Value:
        """Remainder with the sign of the dividend."""
        b = self._divisor(e, b)
        remainder = a % b
        if type(remainder) is int:
            return remainder - b if remainder and (a < 0) != (b < 0) else remainder
        return remainder - b * ((remainder != 0) & ((a < 0) != (b < 0)))

    # --- Bits ---

    def shift_left(self, e: Expr, a: Value, b: Value) -> Value:
        """Product with a power of 2; 0 for counts of the width and more."""
        small, count = _count(b, e.dtype)
        shifted = a << count
        return wrap(np.where(small, shifted, shifted.dtype.type(0))[()], e.dtype)

    def shift_right(self, e: Expr, a: Value, b: Value) -> Value:
        """Floor quotient with a power of 2, for any count."""
        small, count = _count(b, e.dtype)
        shifted = a >> count
        zero = shifted.dtype.type(0)
        return np.where(small, shifted, np.where(a < 0, ~zero, zero))[()]

    def bit_and(self, e: Expr, a: Value, b: Value) -> Value:
        """Bitwise and."""
        return a & b

    def bit_or(self, e: Expr, a: Value, b: Value) -> Value:
        """Bitwise or."""
        return a | b

    def bit_xor(self, e: Expr, a: Value, b: Value) -> Value:
        """Bitwise exclusive or."""
        return a ^ b

    def bit_not(self, e: Expr, a: Value) -> Value:
        """Bitwise not."""
        return wrap(~a, e.dtype)

    def popcount(self, e: Expr, a: Value) -> Value:
        """The number of bits that are set."""
        return _count_bits(_unsigned(a, e.dtype), e.dtype)

    def clz(self, e: Expr, a: Value) -> Value:
        """The number of leading zero bits."""
        bits = _unsigned(a, e.dtype)
        for step in (1, 2, 4, 8, 16, 32):  # every bit below the first one is set
            bits = bits | (bits >> np.uint64(step))
        set_bits = _count_bits(bits, e.dtype)
        return wrap(set_bits.dtype.type(e.dtype.bits) - set_bits, e.dtype)

    def ctz(self, e: Expr, a: Value) -> Value:
        """The number of trailing zero bits."""
        bits = _unsigned(a, e.dtype)
        trailing = ~bits & (bits - np.uint64(1)) & np.uint64((1 << e.dtype.bits) - 1)
        return _count_bits(trailing, e.dtype)


def _count(b: Value, dtype: DType) -> tuple[Value, Value]:
    """Which shift counts are less than the width, and the counts with the others made 0."""
    small = (b >= 0) & (b < dtype.bits)
    return small, np.where(small, b, b.dtype.type(0))[()]


def _unsigned(a: Value, dtype: DType) -> Value:
    """The bits of `a`, zero-extended to 64."""
    return a.astype(np.uint64) & np.uint64((1 << dtype.bits) - 1)


def _count_bits(bits: Value, dtype: DType) -> Value:
    return wrap(np.asarray(np.bitwise_count(bits)).astype(carrier(dtype))[()], dtype)


def _overflow(e: Expr, exact: int | None) -> EvaluationError:
    given = f"{e!r}" if exact is None else f"{e!r} is {exact}"
    return EvaluationError(
        "index arithmetic overflows", given=given, because="an index has 64 bits"
    )
