"""Tensors of ours for others: objects with ``__dlpack__``, of every element type.

NumPy exports its own types by itself. It does not know DLPack's codes for those of ml_dtypes, which
a `Tensor` has.
"""

from __future__ import annotations

import ctypes
from array import array as Words
from typing import Any, Final

import numpy as np

from tensorsmith.runtime.dlpack import (
    CPU,
    DLDevice,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLTensor,
    dl_type,
)

_Deleter: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Destructor: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new_capsule: Final = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor
)(("PyCapsule_New", ctypes.pythonapi))
_is_valid: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

_exported: Final[dict[int, tuple[object, ...]]] = {}
"""What consumers hold, by the address of the managed tensor that they got."""


def _forget(address: int) -> None:
    """The consumer is done with a tensor."""
    _exported.pop(address, None)


def _end(capsule: int) -> None:
    """A capsule ends; if nobody took what it holds, so does that."""
    for name in (b"dltensor", b"dltensor_versioned"):
        if _is_valid(capsule, name):
            _forget(_pointer(capsule, name))


_delete: Final = _Deleter(_forget)
_destroy: Final = _Destructor(_end)


class Tensor:
    """A tensor in main memory that others take by ``from_dlpack``. It shares the array's memory."""

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        shape: tuple[int, ...] = self._array.shape
        return shape

    @property
    def dtype(self) -> str:
        """The element type, by name."""
        return str(self._array.dtype)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The NumPy array that shares its memory."""
        return self._array

    def __repr__(self) -> str:
        return f"<tensor {self.dtype}{list(self.shape)}>"

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if dl_device is not None and tuple(dl_device) != (CPU, 0):
            raise BufferError(f"the tensor is in main memory, not on device {dl_device}")
        array = self._array.copy() if copy else self._array
        strides = [step // array.itemsize for step in array.strides]
        dims = Words("q", (*array.shape, *strides))
        start, _ = dims.buffer_info()
        tensor = DLTensor(
            array.ctypes.data,
            DLDevice(CPU, 0),
            array.ndim,
            dl_type(array.dtype),
            start,
            start + 8 * array.ndim,
            0,
        )
        managed: DLManagedTensor | DLManagedTensorVersioned
        delete = ctypes.cast(_delete, ctypes.c_void_p)
        if max_version is not None and max_version[0] >= 1:
            name = b"dltensor_versioned"
            managed = DLManagedTensorVersioned(1, 0, None, delete, 0, tensor)
        else:
            name = b"dltensor"
            managed = DLManagedTensor(tensor, None, delete)
        address = ctypes.addressof(managed)
        _exported[address] = (managed, array, dims)
        return _new_capsule(address, name, _destroy)
