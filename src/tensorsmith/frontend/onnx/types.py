"""Element types and tensors of ONNX as those of ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import ml_dtypes
import numpy as np

from tensorsmith.errors import UnsupportedOpError, UntrustedModelError
from tensorsmith.ir import DType
from tensorsmith.ir.dtype import dtype as as_dtype

if TYPE_CHECKING:
    from onnx import TensorProto

Array: TypeAlias = np.ndarray[Any, Any]
MinExtent: TypeAlias = int | Mapping[str, int]
"""The least extent of dimensions: of all, or of some by their names, and 1 of the others."""

STRING: Final = 8
"""ONNX's number for strings."""

NAMES: Final = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    STRING: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
    27: "float6_e2m3fn",
    28: "float6_e3m2fn",
}
"""ONNX's numbers of element types, and our names."""

NUMBERS: Final = {name: number for number, name in NAMES.items()}

MOST_ELEMENTS: Final = 2**48
"""What the extents of a tensor without elements may multiply to, 0 apart; arrays have bounds."""

_PACKED_BITS: Final = {
    "uint4": 4,
    "int4": 4,
    "float4_e2m1fn": 4,
    "uint2": 2,
    "int2": 2,
}
"""Types of which a byte of the file holds several elements, the first in its lowest bits."""

_IN_INT32: Final = frozenset(
    ["int32", "int16", "int8", "int4", "int2", "uint16", "uint8", "uint4", "uint2", "bool"]
)
_AS_BITS: Final = frozenset(
    [
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float4_e2m1fn",
        "float6_e2m3fn",
        "float6_e3m2fn",
    ]
)
"""Floats whose bits stand in the field for int32."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of an input: for `from_onnx`'s `input_types`.

    shape: extents; a string names a dimension, None is one of its own. None: as the model says.
    dtype: by name ('string' too). None: as the model says.
    """

    shape: Sequence[int | str | None] | None = None
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class SequenceType:
    """The type of an input that is a sequence: of how many elements, and of which types."""

    elements: tuple[TensorType, ...]


@dataclass(frozen=True, slots=True)
class AbsentType:
    """The type of an optional input that holds nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class KnownValue:
    """The value of an input that is the same in all calls.

    For inputs that decide which code is made, such as axes. The parameter stays, and is not read.
    """

    value: Array


InputType: TypeAlias = "TensorType | SequenceType | AbsentType | KnownValue"


def type_name(number: int, what: str) -> str:
    """Our name of an element type. Raises UntrustedModelError if there is none of that number."""
    try:
        return NAMES[number]
    except KeyError:
        raise UntrustedModelError(
            f"{what} has an element type of number {number}, which ONNX does not define"
        ) from None


def element_type(number: int, what: str) -> DType:
    """The element type of a tensor of numbers. Raises UnsupportedOpError for complex numbers."""
    name = type_name(number, what)
    if name in ("complex64", "complex128", "string"):
        raise UnsupportedOpError(
            f"{what} has elements of type {name}",
            because="tensors hold integers, floats and booleans",
        )
    return as_dtype(name)


def numpy_type(name: str) -> np.dtype[Any]:
    """The NumPy type of one element."""
    if name == "string":
        return np.dtype(object)
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def element_count(dims: Sequence[int], what: str) -> int:
    """The number of elements. Raises UntrustedModelError for a negative extent."""
    if any(d < 0 for d in dims):
        raise UntrustedModelError(f"{what} has a negative extent", given=f"shape {list(dims)}")
    if math.prod(dims) == 0 and math.prod(max(d, 1) for d in dims) > MOST_ELEMENTS:
        raise UntrustedModelError(f"{what} has an impossible extent", given=f"shape {list(dims)}")
    return math.prod(dims)


def bytes_in_file(name: str, count: int) -> int:
    """How many bytes `count` elements take in a file."""
    bits = _PACKED_BITS.get(name)
    if bits is not None:
        return -(-count * bits // 8)
    return count * numpy_type(name).itemsize


def from_bytes(data: bytes | memoryview, name: str, dims: Sequence[int]) -> Array:
    """The tensor whose raw data these are, in their memory where the format is the same.

    The length must be right already.
    """
    count = math.prod(dims)
    bits = _PACKED_BITS.get(name)
    if bits is not None:
        return _unpacked(np.frombuffer(data, np.uint8), bits, count, name).reshape(dims)
    held: Array = np.frombuffer(data, np.uint8 if name == "bool" else numpy_type(name))
    return (held != 0 if name == "bool" else held).reshape(dims)


def _unpacked(data: Array, bits: int, count: int, name: str) -> Array:
    per_byte = 8 // bits
    parts = np.stack([(data >> (bits * k)) & ((1 << bits) - 1) for k in range(per_byte)], 1)
    flat = parts.reshape(-1)[:count].astype(np.uint8)
    return _from_low_bits(flat, bits, name)


def _from_low_bits(flat: Array, bits: int, name: str) -> Array:
    if name.startswith("int"):
        signed = flat.astype(np.int8)
        signed = np.where(signed >= 1 << (bits - 1), signed - (1 << bits), signed)
        return np.asarray(signed, numpy_type(name))
    if name.startswith("uint"):
        return flat.astype(numpy_type(name))
    return flat.view(numpy_type(name))


def from_tensor(proto: TensorProto, what: str) -> Array:
    """The array that a tensor of the file holds; strings as an object array of `str`.

    Of tensors whose data lies in the file itself. Raises UntrustedModelError if the data is not of
    the length that the shape asks for.
    """
    name = type_name(proto.data_type, what)
    dims = tuple(proto.dims)
    count = element_count(dims, what)
    if proto.HasField("raw_data") and name != "string":
        data = proto.raw_data
        expect(len(data), bytes_in_file(name, count), "bytes", what, dims, name)
        return from_bytes(data, name, dims)
    return _from_fields(proto, name, dims, count, what)


def _from_fields(
    proto: TensorProto, name: str, dims: tuple[int, ...], count: int, what: str
) -> Array:
    """The array of a tensor whose elements stand in a field of their type."""
    if name == "string":
        expect(len(proto.string_data), count, "strings", what, dims, name)
        made = np.empty(count, object)
        made[:] = [text(s, what) for s in proto.string_data]
        return made.reshape(dims)
    field = _field_of(name)
    held = getattr(proto, field)
    wanted = count * 2 if name.startswith("complex") else count
    bits = _PACKED_BITS.get(name)
    if bits is not None:
        expect(len(held), bytes_in_file(name, count), "packed values", what, dims, name)
        packed = np.array(held, np.int64).astype(np.uint8)
        return _unpacked(packed, bits, count, name).reshape(dims)
    expect(len(held), wanted, "values", what, dims, name)
    if name in _AS_BITS:
        size = numpy_type(name).itemsize
        raw = np.array(held, np.int64).astype(np.uint16 if size == 2 else np.uint8)
        return raw.view(numpy_type(name)).reshape(dims)
    if name.startswith("complex"):
        part = np.array(held, np.float64 if name == "complex128" else np.float32)
        return part.view(numpy_type(name)).reshape(dims)
    if field in ("float_data", "double_data"):
        return np.array(held, numpy_type(name)).reshape(dims)
    wide = np.array(held, np.uint64 if field == "uint64_data" else np.int64)
    return wide.astype(numpy_type(name)).reshape(dims)


def _field_of(name: str) -> str:
    if name in _IN_INT32 or name in _AS_BITS:
        return "int32_data"
    if name in ("float32", "complex64"):
        return "float_data"
    if name in ("float64", "complex128"):
        return "double_data"
    return "int64_data" if name == "int64" else "uint64_data"


def text(data: bytes | str, what: str) -> str:
    """UTF-8 text. Raises UntrustedModelError for anything else."""
    if isinstance(data, str):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UntrustedModelError(
            f"{what} holds a string that is not UTF-8", given=repr(data[:40])
        ) from None


def expect(found: int, wanted: int, unit: str, what: str, dims: Sequence[int], name: str) -> None:
    """Raise UntrustedModelError unless the data has the length that its type asks for."""
    if found != wanted:
        raise UntrustedModelError(
            f"{what} holds {found} {unit} and needs {wanted}",
            given=f"shape {list(dims)}, elements of type {name}",
        )
