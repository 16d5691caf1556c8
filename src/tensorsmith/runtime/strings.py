"""Functions on tensors of strings, which compiled models call by name.

Strings are object arrays of `str`. Each function takes arrays and keyword attributes and gives one
array a result: a tuple where there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]


def constant(*, values: tuple[str, ...], shape: tuple[int, ...]) -> Array:
    """The tensor of these strings."""
    return as_strings(values).reshape(shape)


def as_strings(values: tuple[str, ...] | list[str]) -> Array:
    """An object array of rank 1."""
    made = np.empty(len(values), object)
    made[:] = values
    return made


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "strings.constant": constant,
    }
)
"""Every function, by the name that models call it by."""
