"""Maps from strings or integers to strings or numbers, and functions on them that models call.

A tensor of maps is an object array of `dict`, of an element type such as ``map(string, float32)``.
To callers, one of rank 0 is a `dict` and one of rank 1 a list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from tensorsmith.errors import DTypeError, EvaluationError
from tensorsmith.runtime.dtypes import STRING, map_types
from tensorsmith.runtime.strings import strings

Array: TypeAlias = np.ndarray[Any, Any]
Table: TypeAlias = "dict[Any, Any]"

_PADDING: Final[Mapping[str, Any]] = {"string": "0.f", "float32": 0.0, "int64": 0}
"""What ONNX Runtime has for keys that a map lacks."""


# --- What callers give and get ---------------------------------------------------------------


def tensor_of_maps(x: object, dtype: str, what: str) -> Array:
    """What a caller gives as a map, or as a list of maps, with elements of the right types.

    Raises DTypeError, which calls it `what`.
    """
    if isinstance(x, np.ndarray) and x.dtype.hasobject:
        x = x.tolist()
    items = x if isinstance(x, (list, tuple)) else [x]
    made = np.empty(len(items), object)
    for number, item in enumerate(items):
        place = what if items is not x else f"element {number} of {what}"
        made[number] = _checked(item, dtype, place)
    return made if items is x else made.reshape(())


def _checked(item: object, dtype: str, what: str) -> Table:
    types = map_types(dtype)
    assert types is not None
    if not isinstance(item, dict):
        raise DTypeError(f"{what} is a {type(item).__name__}, not a dict", try_=f"a {dtype}")
    return {
        _scalar(k, types[0], f"a key of {what}"): _scalar(v, types[1], f"a value of {what}")
        for k, v in item.items()
    }


def _scalar(value: object, dtype: str, what: str) -> Any:
    """A key or value as Python has it."""
    if dtype == STRING and isinstance(value, str):
        return str(value)
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if dtype == "int64" and is_integer:
        return int(value)  # type: ignore[call-overload]
    if dtype.startswith("float") and (is_integer or isinstance(value, (float, np.floating))):
        return np.dtype(dtype).type(value).item()
    raise DTypeError(f"{what} is {value!r}", because=f"the model takes {dtype}")


def shown(x: Any, dtype: str) -> Any:
    """A result as callers get it: maps as `dict`, or lists of them; other tensors as they are."""
    return x.tolist() if map_types(dtype) is not None else x


# --- Functions that models call --------------------------------------------------------------


def zip_columns(scores: Array, *, keys: tuple[Any, ...]) -> Array:
    """A map for each row, from keys to the elements of the columns. A vector is one row.

    Of a key that is there twice, the last column counts.
    """
    rows = scores.reshape(-1, len(keys)).tolist()
    made = np.empty(len(rows), object)
    for number, row in enumerate(rows):
        made[number] = dict(zip(keys, row, strict=True))
    return made


def values_of_keys(x: Array, *, keys: tuple[Any, ...], dtype: str) -> Array:
    """A row of the values of these keys; 0 or an empty string for one that is not in the map."""
    table: Table = x.item()
    default: Any = "" if dtype == STRING else 0
    return _row([table.get(k, default) for k in keys], dtype)


def values_in_order(x: Array, *, dtype: str) -> Array:
    """A row of all values of a map, in the order of their keys, as elements of a type."""
    table: Table = x.item()
    return _row([_cast(table[k], dtype) for k in sorted(table)], dtype)


def values_by_position(x: Array, *, count: int, dtype: str) -> Array:
    """A row of the values of the keys 0 to count - 1, as elements of a type."""
    table: Table = x.item()
    if below := [k for k in table if k < 0]:
        raise EvaluationError(f"the map has the key {min(below)}", because="keys are positions")
    padding = _PADDING[dtype]
    return _row([_cast(table[k], dtype) if k in table else padding for k in range(count)], dtype)


def _cast(value: Any, dtype: str) -> Any:
    """A value as an element of a type, as ONNX Runtime casts it. Raises EvaluationError."""
    if dtype == STRING:
        return value if isinstance(value, str) else f"{value:f}"
    try:
        return float(value) if dtype == "float32" else int(float(value))
    except (OverflowError, ValueError) as error:
        raise EvaluationError("a value of the map is no number", because=str(error)) from None


def _row(values: Sequence[Any], dtype: str) -> Array:
    if dtype == STRING:
        return strings(values, (1, -1))
    return np.array(values, np.dtype(dtype)).reshape(1, -1)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "maps.values_by_position": values_by_position,
        "maps.values_in_order": values_in_order,
        "maps.values_of_keys": values_of_keys,
        "maps.zip_columns": zip_columns,
    }
)
"""Every function, by the name that models call it by."""
