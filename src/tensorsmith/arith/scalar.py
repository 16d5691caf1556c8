"""Constant folding, and the local rules of scalars: wrapping integers, floats, casts.

Element values are not brought into a normal form, which could cost operations; only what is free
is done. Float rules hold bit for bit under IEEE 754.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from tensorsmith.arith.logic import LOGIC
from tensorsmith.ir import expr as ir
from tensorsmith.ir.dtype import DType, Kind, bool_
from tensorsmith.ir.expr import Cast, Const, Expr

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorsmith.arith.analyzer import Analyzer

# --- Constants -------------------------------------------------------------------------------


def fold_constants(e: Expr) -> Expr | None:
    """The value of an operation on constants, where it has one and a constant can hold it."""
    for a in e.args:
        if type(a) is not Const:
            return None
    source = e.args[0].dtype
    if source.lanes != 1:
        return None
    values = [a.attr for a in e.args]
    if type(e) is Cast:
        return _fold_cast(e, values[0])
    if source.is_integer and type(e) in _INTEGER:
        return _fold_integer(e, source, values)
    if source.is_float and type(e) in _FLOAT:
        return _fold_float(e, source, values)
    return None


def wrap(value: int, dtype: DType) -> int:
    """`value` modulo ``2**bits``, in the range of the fixed-width type."""
    value &= (1 << dtype.bits) - 1
    if dtype.kind is Kind.INT and value >> (dtype.bits - 1):
        value -= 1 << dtype.bits
    return value


def _truncate_divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_DIVISIONS: Final = frozenset((ir.FloorDiv, ir.FloorMod, ir.TruncDiv, ir.TruncMod))
_INTEGER: Final[dict[type[Expr], Callable[..., int | bool]]] = {
    ir.Add: lambda a, b: a + b,
    ir.Sub: lambda a, b: a - b,
    ir.Mul: lambda a, b: a * b,
    ir.Neg: lambda a: -a,
    ir.FloorDiv: lambda a, b: a // b,
    ir.FloorMod: lambda a, b: a % b,
    ir.TruncDiv: _truncate_divide,
    ir.TruncMod: lambda a, b: a - b * _truncate_divide(a, b),
    ir.Min: min,
    ir.Max: max,
    ir.BitAnd: lambda a, b: a & b,
    ir.BitOr: lambda a, b: a | b,
    ir.BitXor: lambda a, b: a ^ b,
    ir.BitNot: lambda a: ~a,
    ir.Eq: lambda a, b: a == b,
    ir.Ne: lambda a, b: a != b,
    ir.Lt: lambda a, b: a < b,
    ir.Le: lambda a, b: a <= b,
}


def _fold_integer(e: Expr, dtype: DType, values: list[object]) -> Expr | None:
    if type(e) in _DIVISIONS and values[1] == 0:
        return None
    value = _INTEGER[type(e)](*values)
    if e.dtype is bool_:
        return Const(value, bool_)
    if dtype.is_bits:
        return Const(wrap(value, dtype), dtype)
    return Const(value, dtype) if dtype.min_value <= value <= dtype.max_value else None


_FLOAT: Final[dict[type[Expr], Callable[..., object]]] = {
    ir.Add: np.add,
    ir.Sub: np.subtract,
    ir.Mul: np.multiply,
    ir.Div: np.divide,
    ir.Neg: np.negative,
    ir.Eq: np.equal,
    ir.Ne: np.not_equal,
    ir.Lt: np.less,
    ir.Le: np.less_equal,
}


def _fold_float(e: Expr, dtype: DType, values: list[object]) -> Expr | None:
    assert dtype.numpy is not None
    with np.errstate(all="ignore"):
        value = _FLOAT[type(e)](*[dtype.numpy.type(v) for v in values])
    return Const(bool(value), bool_) if e.dtype is bool_ else Const(float(value), dtype)  # type: ignore[arg-type]  # a NumPy scalar


def _fold_cast(e: Expr, value: object) -> Expr | None:
    dtype = e.dtype
    assert isinstance(value, (int, float))
    if dtype.is_bool:
        return Const(value != 0, dtype)
    if not dtype.is_integer:
        exact = isinstance(value, bool) or float(value) == value or math.isnan(value)
        return Const(float(value), dtype) if exact and dtype.numpy is not None else None
    if isinstance(value, float):
        if math.isnan(value):
            return Const(0, dtype)
        low, high = dtype.min_value, dtype.max_value
        clamped = low if value <= low else high if value >= high else math.trunc(value)
        return Const(clamped, dtype)
    if dtype.is_bits:
        return Const(wrap(value, dtype), dtype)
    return Const(int(value), dtype) if dtype.min_value <= value <= dtype.max_value else None


# --- Local rules -----------------------------------------------------------------------------


def _is(e: Expr, value: float) -> bool:
    """Whether `e` is this constant; of the zeros, +0 only."""
    if type(e) is not Const or e.dtype.is_bool:
        return False
    v = e.value
    return v == value and (value != 0 or math.copysign(1.0, v) > 0)


def _is_negative_zero(e: Expr) -> bool:
    return type(e) is Const and e.value == 0 and math.copysign(1.0, e.value) < 0


def _add(_: Analyzer, e: Expr) -> Expr:
    a, b = e.args
    if e.dtype.is_float:  # x + -0.0 == x, also for x = -0.0; x + 0.0 is not
        if _is_negative_zero(b):
            return a
        return b if _is_negative_zero(a) else e
    if _is(b, 0):
        return a
    return b if _is(a, 0) else e


def _sub(_: Analyzer, e: Expr) -> Expr:
    a, b = e.args
    if _is(b, 0):
        return a
    if a is b and not e.dtype.is_float:
        return Const(0, e.dtype.element) if e.dtype.lanes == 1 else e
    return e


def _mul(_: Analyzer, e: Expr) -> Expr:
    a, b = e.args
    if _is(b, 1):
        return a
    if _is(a, 1):
        return b
    if not e.dtype.is_float:
        if _is(b, 0):
            return b
        if _is(a, 0):
            return a
    return e


def _div(_: Analyzer, e: Expr) -> Expr:
    return e.args[0] if _is(e.args[1], 1) else e


def _integer_div(_: Analyzer, e: Expr) -> Expr:
    return e.args[0] if _is(e.args[1], 1) else e


def _integer_mod(_: Analyzer, e: Expr) -> Expr:
    return Const(0, e.dtype) if _is(e.args[1], 1) and e.dtype.lanes == 1 else e


def _neg(_: Analyzer, e: Expr) -> Expr:
    a = e.args[0]
    return a.args[0] if type(a) is type(e) else e


def _extreme(facts: Analyzer, e: Expr) -> Expr:
    a, b = e.args
    if a is b:
        return a
    if not e.dtype.is_integer or e.dtype.lanes != 1:
        return e
    lesser = _lesser(facts, a, b)
    if lesser is None:
        return e
    greater = b if lesser is a else a
    return lesser if type(e) is ir.Min else greater


def _lesser(facts: Analyzer, a: Expr, b: Expr) -> Expr | None:
    """The one of two integers that is never greater, if the bounds tell."""
    p, q = facts.bounds(a), facts.bounds(b)
    if p.high is not None and q.low is not None and p.high <= q.low:
        return a
    return b if q.high is not None and p.low is not None and q.high <= p.low else None


def _compare(facts: Analyzer, e: Expr) -> Expr:
    a, b = e.args
    if e.dtype is not bool_:
        return e
    if a.dtype.is_bits or a.dtype.is_bool:
        if a is b:
            return Const(type(e) in (ir.Eq, ir.Le), bool_)
        low, high = facts.bounds(e)
        if low == high and low is not None:
            return Const(low, bool_)
    return e


def _cast(_: Analyzer, e: Expr) -> Expr:
    a = e.args[0]
    if a.dtype is e.dtype:
        return a
    if type(a) is Cast and a.args[0].dtype is e.dtype and _holds(a.dtype, e.dtype):
        return a.args[0]
    return e


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` survives a cast to `wide` and back."""
    if not (wide.is_integer and (narrow.is_bits or narrow.is_bool)):
        return False
    return wide.min_value <= narrow.min_value and narrow.max_value <= wide.max_value


def _reinterpret(_: Analyzer, e: Expr) -> Expr:
    a = e.args[0]
    if a.dtype is e.dtype:
        return a
    if type(a) is type(e):
        inner = a.args[0]
        return inner if inner.dtype is e.dtype else ir.Reinterpret(inner, e.dtype)
    return e


def _bit_not(_: Analyzer, e: Expr) -> Expr:
    a = e.args[0]
    return a.args[0] if type(a) is type(e) else e


def _same_operands(_: Analyzer, e: Expr) -> Expr:
    return e.args[0] if e.args[0] is e.args[1] else e


def _shift(_: Analyzer, e: Expr) -> Expr:
    return e.args[0] if _is(e.args[1], 0) else e


SCALAR: Final[dict[type[Expr], Callable[[Analyzer, Expr], Expr]]] = {
    ir.Add: _add,
    ir.Sub: _sub,
    ir.Mul: _mul,
    ir.Div: _div,
    ir.FloorDiv: _integer_div,
    ir.FloorMod: _integer_mod,
    ir.TruncDiv: _integer_div,
    ir.TruncMod: _integer_mod,
    ir.Neg: _neg,
    ir.Min: _extreme,
    ir.Max: _extreme,
    ir.Eq: _compare,
    ir.Ne: _compare,
    ir.Lt: _compare,
    ir.Le: _compare,
    ir.Cast: _cast,
    ir.Reinterpret: _reinterpret,
    ir.BitNot: _bit_not,
    ir.BitAnd: _same_operands,
    ir.BitOr: _same_operands,
    ir.ShiftLeft: _shift,
    ir.ShiftRight: _shift,
    **LOGIC,
}
"""For each class of nodes the rule that is tried on one with canonical operands."""
