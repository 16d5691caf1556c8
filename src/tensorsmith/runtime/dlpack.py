"""DLPack's structures, and tensors of NumPy, PyTorch and others as such, without copies."""

from __future__ import annotations

import ctypes
import functools
from array import array as Words
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

    def elements(self) -> int:
        """How many elements the tensor has."""
        count = 1
        if self.ndim:
            for extent in (ctypes.c_int64 * self.ndim).from_address(self.shape):
                count *= extent
        return count


class DLManagedTensor(ctypes.Structure):
    """What a capsule called 'dltensor' holds."""

    _fields_ = (
        ("dl_tensor", DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class DLManagedTensorVersioned(ctypes.Structure):
    """What a capsule called 'dltensor_versioned' holds."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
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
_MAIN_MEMORY: Final = DLDevice(CPU, 0)
FLAG_READ_ONLY: Final = 1
CODES: Final = {"b": 6, "i": 0, "u": 1, "f": 2}
"""DLPack's code of each kind of NumPy's own element types."""
EXTENSION: Final = {
    "bfloat16": (4, 16),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
    "float6_e2m3fn": (15, 8),
    "float6_e3m2fn": (16, 8),
    "float4_e2m1fn": (17, 8),
    "int2": (0, 8),
    "int4": (0, 8),
    "uint2": (1, 8),
    "uint4": (1, 8),
}
"""DLPack's code and bits of the element types of ml_dtypes."""

capsule_pointer: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
"""The address in a capsule of that name. Raises ValueError if its name is another."""


def view(x: object) -> View:
    """`x` as a DLTensor that shares its memory.

    x: a NumPy array, or anything with ``__dlpack__``. Raises DTypeError if it is none of these, or
    does not let its memory be shared.
    """
    if isinstance(x, np.ndarray):
        return _array_view(x)
    if hasattr(x, "__dlpack__"):
        return _exported_view(x)
    raise DTypeError(
        f"{type(x).__name__!r} is not a tensor", try_="a NumPy array, or an object with __dlpack__"
    )


def _exported_view(x: Any) -> View:
    """Any object with ``__dlpack__``. Its capsule stays ours: what it holds is freed with it."""
    try:
        try:
            capsule = x.__dlpack__(max_version=(1, 0))
        except TypeError:  # a producer from before DLPack 1.0
            capsule = x.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        because = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DTypeError(
            f"{type(x).__name__!r} cannot be passed to compiled code", because=because
        ) from None
    found = _read_capsule(capsule)
    if found is None:
        raise DTypeError(f"{type(x).__name__!r} has a __dlpack__ that gives no DLPack capsule")
    tensor, readonly = found
    if not tensor.data and tensor.elements():
        raise DTypeError(f"{type(x).__name__!r} has no memory of its own")
    return View(tensor, (capsule, x), readonly)


def _read_capsule(capsule: object) -> tuple[DLTensor, bool] | None:
    """The tensor in a capsule, and whether it is read-only; None if it is no such capsule."""
    for name in (b"dltensor_versioned", b"dltensor"):
        try:
            address = capsule_pointer(capsule, name)
        except ValueError:
            continue
        if name == b"dltensor":
            return DLManagedTensor.from_address(address).dl_tensor, False
        managed = DLManagedTensorVersioned.from_address(address)
        if managed.major != 1:
            return None
        return managed.dl_tensor, bool(managed.flags & FLAG_READ_ONLY)
    return None


@functools.lru_cache
def dl_type(dtype: np.dtype[Any]) -> DLDataType:
    """DLPack's name of an element type. Raises DTypeError if it has none."""
    if dtype.name in EXTENSION:
        code, bits = EXTENSION[dtype.name]
        return DLDataType(code, bits, 1)
    if dtype.kind not in CODES or not dtype.isnative:
        raise DTypeError(f"an array of {dtype} cannot be passed to compiled code")
    return DLDataType(CODES[dtype.kind], dtype.itemsize * 8, 1)


def _array_view(array: np.ndarray[Any, Any]) -> View:
    dtype = dl_type(array.dtype)
    rank, size = array.ndim, array.itemsize
    for axis, step in enumerate(array.strides):
        if step % size:
            raise DTypeError(
                f"axis {axis} has a stride of {step} bytes, which is no number of elements"
            )
    dims = Words("q", (*array.shape, *(step // size for step in array.strides)))
    start, _ = dims.buffer_info()
    data, readonly = array.__array_interface__["data"]
    tensor = DLTensor(data, _MAIN_MEMORY, rank, dtype, start, start + 8 * rank, 0)
    return View(tensor, (array, dims), readonly)
