"""Calls from Python that cost a microsecond: a C function for CPython, made of LLVM IR.

`fast_call` gives a built-in function that takes a program's arguments. It describes NumPy arrays by
the buffer protocol and torch tensors by their DLPack exchange API, reads numbers, releases the GIL
for the call, and holds the buffers meanwhile. One piece of machine code serves all programs: each
function carries a description of its program, and the `GeneralCall` that takes over whatever this
code does not know, wrong arguments among it. So it has no messages of its own, and an argument that
surprises it costs time, never correctness.

It needs CPython with a GIL and 64-bit pointers; elsewhere, calls are general ones. NumPy does not
support subinterpreters, so neither does this.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
import threading
from collections.abc import Callable
from typing import Final

import numpy as np

from tensorsmith.errors import DTypeError
from tensorsmith.runtime.dlpack import CODES, EXTENSION, capsule_pointer
from tensorsmith.runtime.fast_call_ir import (
    ANY_TENSOR,
    BOOLEAN,
    EXCHANGE,
    FLOAT32,
    FLOAT64,
    FUNCTIONS,
    INTEGER,
    fast_call_ir,
)
from tensorsmith.runtime.general_call import GeneralCall, integer_range
from tensorsmith.runtime.jit import link_ir
from tensorsmith.runtime.signature import Parameter

MOST_PARAMETERS: Final = 256
"""Programs with more parameters are called in general: each takes 200 bytes of the stack."""

_FASTCALL: Final = 0x80
_FORMAT_AND_STRIDES, _WRITABLE = 0x1C, 0x01
_EXCHANGE_MAJOR: Final = 1
_EXCHANGE_FUNCTION: Final = 40
"""Where DLPackExchangeAPI has ``dltensor_from_py_object_no_sync``, in bytes."""


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_new_function: Final = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p
)


def is_supported() -> bool:
    """Whether this Python can be called back by the code made here."""
    has_gil = not sysconfig.get_config_var("Py_GIL_DISABLED")
    is_cpython = sys.implementation.name == "cpython"
    return is_cpython and has_gil and ctypes.sizeof(ctypes.c_void_p) == 8


def fast_call(general: GeneralCall) -> Callable[..., None]:
    """`general`, or a function that does the same faster, where there is one."""
    parameters = general.signature.parameters
    if not is_supported() or len(parameters) > MOST_PARAMETERS:
        return general
    try:
        described = b"".join(_describe(p) for p in parameters)
    except DTypeError:  # a parameter that no call can have: the general one says so
        return general
    head = struct.pack("<qqq", general.address, general.context.address, len(parameters))
    carried = (head + described, _Fallback(general), general.fail)
    new = _new_function(("PyCMethod_New", ctypes.pythonapi))
    made: Callable[..., None] = new(ctypes.addressof(_definition()), carried, None, None)
    return made


class _Fallback:
    """The general call, which also has a look whether torch has come meanwhile."""

    __slots__ = ("general",)

    def __init__(self, general: GeneralCall) -> None:
        self.general = general

    def __call__(self, *values: object) -> None:
        if not _torch_cell[0] and "torch" in sys.modules:
            _register_torch()
        self.general(*values)


def _describe(p: Parameter) -> bytes:
    """A parameter as the machine code reads it: kind, flags, and the range of an integer."""
    if p.is_buffer:
        kind = EXCHANGE if p.dtype in EXTENSION else ANY_TENSOR
        flags = _FORMAT_AND_STRIDES | (_WRITABLE if p.is_written else 0)
        return struct.pack("<qqqq", kind, flags, 0, 0)
    kinds = {"bool": BOOLEAN, "float32": FLOAT32, "float64": FLOAT64}
    if p.dtype in kinds:
        return struct.pack("<qqqq", kinds[p.dtype], 0, 0, 0)
    low, high = integer_range(p.dtype)
    return struct.pack("<qqqq", INTEGER, 0, low, min(high, 2**63 - 1))


_torch_cell: Final = (ctypes.c_void_p * 3)()
"""torch's tensor type, its function that describes a tensor, and the name of the attribute that
must be false; zeros before torch is seen."""
_kept: Final[list[object]] = []
"""What machine code points to."""


def _register_torch() -> None:
    """Let the machine code know torch's tensors, if this torch has the exchange API."""
    tensor = getattr(sys.modules["torch"], "Tensor", None)
    capsule = getattr(tensor, "__dlpack_c_exchange_api__", None)
    if tensor is None or capsule is None:
        return
    try:
        address = capsule_pointer(capsule, b"dlpack_exchange_api")
    except ValueError:
        return
    function = ctypes.c_void_p.from_address(address + _EXCHANGE_FUNCTION).value
    if ctypes.c_uint32.from_address(address).value != _EXCHANGE_MAJOR or not function:
        return
    attribute = sys.intern("requires_grad")
    _kept.append((tensor, capsule, attribute))
    _torch_cell[1] = function
    _torch_cell[2] = id(attribute)
    _torch_cell[0] = id(tensor)  # last: it is what the machine code looks at


_format_codes: Final = (ctypes.c_uint8 * 256)(*[255] * 256)
"""DLPack's code for each letter of the buffer protocol; 255 for what is none."""
for _letter in "bhilqBHILQefd?":
    _format_codes[ord(_letter)] = CODES[np.dtype(_letter).kind]

_lock: Final = threading.Lock()
_definitions: list[_MethodDef] = []


def _definition() -> _MethodDef:
    """What CPython must know of the machine code, which is linked on the first call."""
    with _lock:
        if not _definitions:
            objects = {
                "PyLong_Type": int,
                "PyFloat_Type": float,
                "ndarray": np.ndarray,
                "np_integer": np.integer,
                "np_floating": np.floating,
                "_Py_TrueStruct": True,
                "_Py_FalseStruct": False,
                "_Py_NoneStruct": None,
            }
            imports = {name: id(value) for name, value in objects.items()}
            imports["torch"] = ctypes.addressof(_torch_cell)
            imports["format_codes"] = ctypes.addressof(_format_codes)
            for name in FUNCTIONS:
                pointer = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p)
                imports[name] = pointer.value or 0
            ir = fast_call_ir(type_offset=object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p))
            address = link_ir(ir, ["ts_fast_call"], imports)["ts_fast_call"]
            _definitions.append(_MethodDef(b"call", address, _FASTCALL, None))
        return _definitions[0]
