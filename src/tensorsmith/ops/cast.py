"""Conversions between element types."""

from __future__ import annotations

from typing import Final

from tensorsmith import te
from tensorsmith.errors import DTypeError
from tensorsmith.ir import (
    Add,
    And,
    BitAnd,
    Cast,
    DType,
    Eq,
    Expr,
    Kind,
    Lt,
    Max,
    Min,
    Ne,
    Not,
    Or,
    Reinterpret,
    Select,
    ShiftRight,
    const,
)
from tensorsmith.ir.dtype import (
    bool_,
    float8_e8m0fnu,
    float32,
    float64,
    int32,
    int64,
    uint8,
    uint32,
)
from tensorsmith.ir.dtype import dtype as as_dtype
from tensorsmith.ops.operands import converted, one_dtype, widened
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor

ROUND_MODES: Final = ("up", "down", "nearest")
"""How a number becomes a power of two (float8_e8m0fnu)."""

_GREATEST: Final = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}
"""The greatest number of the types that tell what is too large from it."""


def cast(x: Tensor, *, dtype: str, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """`x` as another type.

    Floats are rounded to nearest even; to integers towards zero, and integers wrap. What is not 0
    is true. saturate: what is too large for a float of 8 bits is its greatest number, instead of
    infinity or NaN. round_mode: 'up', 'down' or 'nearest', for float8_e8m0fnu, which drops signs.
    Raises DTypeError for an unknown type or mode.
    """
    type_ = as_dtype(dtype)
    one_dtype("cast", ~Kind.HANDLE, x)
    if round_mode not in ROUND_MODES:
        raise DTypeError(f"there is no rounding {round_mode!r}", try_=f"one of {ROUND_MODES}")

    def element(*i: Expr) -> Expr:
        return cast_element(x[i], type_, saturate=saturate, round_mode=round_mode)

    return te.compute(x.shape, element, "cast")


def cast_element(
    value: Expr, type_: DType, *, saturate: bool = True, round_mode: str = "up"
) -> Expr:
    """One element as another type; see `cast`."""
    source = value.dtype
    if source is type_:
        return value
    if type_ is float8_e8m0fnu:
        return _power_of_two(converted(value, float32), saturate=saturate, round_mode=round_mode)
    if saturate and (limit := _GREATEST.get(type_.name)) is not None:
        number = _as_float(value)
        low, high = (const(e, number.dtype) for e in (-limit, limit))
        return Cast(Min(Max(number, low), high), type_)
    is_float = source.is_float or source.kind is Kind.STORAGE
    if is_float and type_.is_integer:
        return _wrapped(widened(value), type_)
    return Cast(value, type_)


def _as_float(value: Expr) -> Expr:
    """A number as a float that holds it, or in which what it loses is far beyond narrow floats."""
    if value.dtype.is_float or value.dtype.kind is Kind.STORAGE:
        return widened(value)
    return Cast(value, float64 if value.dtype.bits >= 32 else float32)


def _wrapped(value: Expr, type_: DType) -> Expr:
    """A float without its fraction, modulo the range of an integer type below 64 bits."""
    if type_.bits < 32:
        return Cast(Cast(value, int32), type_)
    if type_ is uint32:
        return Cast(Cast(value, int64), type_)
    return Cast(value, type_)


def _power_of_two(value: Expr, *, saturate: bool, round_mode: str) -> Expr:
    """The magnitude of a float32 as a power of two; the least one for 0, NaN for infinity."""
    bits = Reinterpret(value, uint32)

    def number(n: int) -> Expr:
        return const(n, uint32)

    def has(mask: int) -> Expr:
        return Ne(BitAnd(bits, number(mask)), number(0))

    exponent = BitAnd(ShiftRight(bits, number(23)), number(0xFF))
    if round_mode == "up":
        goes_up = has(0x7FFFFF)
    elif round_mode == "nearest":
        goes_up = And(has(0x400000), Or(has(0x3FFFFF), Lt(number(0), exponent)))
    else:
        goes_up = const(False, bool_)
    if saturate:
        goes_up = And(goes_up, Not(Eq(exponent, number(0xFE))))
    is_special = Eq(exponent, number(0xFF))
    up = Add(exponent, Cast(goes_up, uint32))
    return Reinterpret(Cast(Select(is_special, exponent, up), uint8), float8_e8m0fnu)


def bitcast(x: Tensor, *, dtype: str) -> Tensor:
    """The bits of the elements of `x` read as another type of the same width.

    Raises DTypeError if the widths differ.
    """
    type_ = as_dtype(dtype)
    one_dtype("bitcast", ~(Kind.HANDLE | Kind.INDEX), x)
    widths = [8 if t.is_bool else t.bits for t in (x.dtype, type_)]
    if widths[0] != widths[1]:
        raise DTypeError(
            f"the bits of {x.dtype} cannot be read as {type_}",
            given=repr(x),
            because=f"they are {widths[0]}, and not {widths[1]}",
        )

    def element(*i: Expr) -> Expr:
        value = x[i]
        if value.dtype is type_:
            return value
        raw = Cast(value, uint8) if value.dtype.is_bool else value
        if type_.is_bool:
            return Cast(raw if raw.dtype.is_integer else Reinterpret(raw, uint8), type_)
        return raw if raw.dtype is type_ else Reinterpret(raw, type_)

    return te.compute(x.shape, element, "bitcast")


OPERATORS: Final[tuple[Operator, ...]] = operators(cast, bitcast)
