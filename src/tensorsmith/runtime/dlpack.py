"""DLPack's structures, and tensors of NumPy, PyTorch and others as such, without copies."""

from __future__ import annotations

import ctypes
from typing import Any, Final, NamedTuple

import numpy as np

from tensorsmith.errors import DTypeError


class DLDevice(ctypes.Structure):
    """Where a tensor lies."""

    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class DLDataType(ctypes.Structure):
    """An element type: kind, bits and lanes."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    """A tensor: DLPack 1.0's struct of that name. Strides count elements."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class View(NamedTuple):
    """A DLTensor and what it points to."""

    tensor: DLTensor
    kept: tuple[object, ...]
    readonly: bool

    @property
    def address(self) -> int:
        """Where the DLTensor lies."""
        return ctypes.addressof(self.tensor)


CPU: Final = 1
_CODES: Final = {"b": 6, "i": 0, "u": 1, "f": 2}
_EXTENSION: Final = {
    "bfloat16": (4, 16),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
    "int2": (0, 8),
    "int4": (0, 8),
    "uint2": (1, 8),
    "uint4": (1, 8),
}


def _type(dtype: np.dtype[Any]) -> DLDataType:
    if dtype.name in _EXTENSION:
        code, bits = _EXTENSION[dtype.name]
        return DLDataType(code, bits, 1)
    if dtype.kind not in _CODES or not dtype.isnative:
        raise DTypeError(f"an array of {dtype} cannot be passed to compiled code")
    return DLDataType(_CODES[dtype.kind], dtype.itemsize * 8, 1)


def view(x: object) -> View:
    """`x` as a DLTensor that shares its memory.

    x: a NumPy array, anything with ``__dlpack__`` on the CPU, or anything NumPy sees as an array
    without copying. Raises DTypeError if it is none of these.
    """
    if isinstance(x, np.ndarray):
        return _array_view(x)
    if hasattr(x, "__dlpack__"):
        try:
            return _array_view(np.from_dlpack(x))
        except (BufferError, RuntimeError, TypeError) as error:
            raise DTypeError(
                f"{type(x).__name__!r} cannot be passed to compiled code", because=str(error)
            ) from None
    raise DTypeError(
        f"{type(x).__name__!r} is not a tensor", try_="a NumPy array, or an object with __dlpack__"
    )


def _array_view(array: np.ndarray[Any, Any]) -> View:
    dtype = _type(array.dtype)
    rank = array.ndim
    dims = (ctypes.c_int64 * max(2 * rank, 1))()
    for axis, (extent, step) in enumerate(zip(array.shape, array.strides, strict=True)):
        dims[axis] = extent
        elements, odd = divmod(step, array.itemsize)
        if odd:
            raise DTypeError(
                f"axis {axis} has a stride of {step} bytes, which is no number of elements"
            )
        dims[rank + axis] = elements
    start = ctypes.addressof(dims)
    tensor = DLTensor(array.ctypes.data, DLDevice(CPU, 0), rank, dtype, start, start + 8 * rank, 0)
    return View(tensor, (array, dims), not array.flags.writeable)
