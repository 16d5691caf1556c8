"""LLVM types of our element types, in registers and in memory.

16-bit floats are ``float`` in registers, rounded after every operation; narrower ones are their
bits. Integers below 8 bits lie in a byte each: sign- or zero-extended in registers, and in memory
in the low bits, as ml_dtypes has them (zeros above when we store, and not looked at when we load).
"""

from __future__ import annotations

import struct

from tensorsmith.ir.dtype import DType, Kind
from tensorsmith.ir.expr import Const


def memory_type(dtype: DType) -> str:
    """The type of one element as it lies in memory."""
    dtype = dtype.element
    if dtype.kind is Kind.HANDLE:
        return "ptr"
    if dtype.name in ("float32", "float64"):
        return register_type(dtype)
    return f"i{max(8, dtype.bits)}"


def register_type(dtype: DType) -> str:
    """The type of one element in a register."""
    dtype = dtype.element
    if dtype.kind is Kind.HANDLE:
        return "ptr"
    if dtype.is_float:
        return "double" if dtype.bits == 64 else "float"
    return "i1" if dtype.is_bool else f"i{max(8, dtype.bits)}"


def vector(element: str, lanes: int) -> str:
    """The type of `lanes` elements; of one, the element's own."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def suffix(element: str, lanes: int) -> str:
    """How the type is written in the name of an overloaded intrinsic: 'v8f32'."""
    short = {"float": "f32", "double": "f64", "ptr": "p0"}.get(element, element)
    return short if lanes == 1 else f"v{lanes}{short}"


def literal(c: Const) -> str:
    """A constant as LLVM writes it in a register."""
    value = c.value
    if c.dtype.is_bool:
        return "true" if value else "false"
    if c.dtype.is_integer:
        return str(value)
    if c.dtype.is_float:
        return float_literal(float(value))
    assert c.dtype.numpy is not None  # a storage float: its bits
    return str(c.dtype.numpy.type(value).view("uint8"))


def float_literal(value: float) -> str:
    """A ``float`` or ``double`` constant: the bits of the double that equals it."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return f"0x{bits:016X}"


def splat_literal(element: str, text: str, lanes: int) -> str:
    """The vector with the constant `text` in every lane."""
    return text if lanes == 1 else f"<{', '.join([f'{element} {text}'] * lanes)}>"
