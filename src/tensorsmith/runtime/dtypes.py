"""Element types by name, as NumPy and torch have them."""

from __future__ import annotations

import functools
import re
import sys
from typing import Any, Final

import ml_dtypes
import numpy as np

from tensorsmith.errors import DTypeError

STRING: Final = "string"
"""The element type of tensors of strings: object arrays of `str`."""
_MAP: Final = re.compile(r"map\((string|int64), (string|int64|float32|float64)\)")
_PLAIN: Final = frozenset(
    [
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    ]
)
_EXTENSION: Final = frozenset(
    [
        *("bfloat16", "int2", "int4", "uint2", "uint4", "float4_e2m1fn"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    ]
)


@functools.cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's type of that name. Raises DTypeError if there is none."""
    if name in _PLAIN:
        return np.dtype(name)
    if name == "index":
        return np.dtype(np.int64)
    if name == STRING or map_types(name) is not None:
        return np.dtype(object)
    if name in _EXTENSION:
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
    raise DTypeError(f"there are no arrays of {name!r}")


def map_types(name: str) -> tuple[str, str] | None:
    """The types of keys and values, of an element type that is one of maps; else None."""
    found = _MAP.fullmatch(name)
    return None if found is None else (found[1], found[2])


def torch_dtype(name: str) -> Any:
    """torch's type of that name. Raises DTypeError if torch is not there, or has none."""
    torch = torch_module()
    found = getattr(torch, "int64" if name == "index" else name, None)
    if not isinstance(found, torch.dtype):
        raise DTypeError(f"torch has no tensors of {name!r}", try_='outputs="numpy" for this model')
    return found


def torch_module() -> Any:
    """torch. Raises DTypeError if it is not installed."""
    try:
        import torch
    except ImportError:
        raise DTypeError("torch is not installed", try_='outputs="numpy"') from None
    return torch


def name_of(x: object) -> str:
    """The name of a tensor's element type, without torch's prefix."""
    return str(getattr(x, "dtype", "")).removeprefix("torch.")


def is_torch(x: object) -> bool:
    """Whether `x` is a tensor of torch, which is not imported for the question."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)
