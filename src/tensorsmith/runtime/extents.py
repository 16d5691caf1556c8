"""Extents of tensors as the runtime knows them: numbers, names of dimensions, and arithmetic.

An extent is what JSON can say: an int, a string (a dimension), or a list of an operation's name and
its operands: ``["floordiv", ["add", "n", 1], 2]``. The compiler writes them, `closure` makes
Python functions of them, once; nothing is evaluated from text.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tensorsmith.errors import EvaluationError

Extent: TypeAlias = "int | str | tuple[Any, ...]"
Values: TypeAlias = "Mapping[str, int]"
MOST_PARTS: Final = 100_000
"""Operations in one extent; more than that no compiler writes."""


def _truncdiv(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _truncmod(a: int, b: int) -> int:
    return a - b * _truncdiv(a, b)


_OPERATIONS: Final[dict[str, tuple[int, Callable[..., int]]]] = {
    "add": (2, operator.add),
    "sub": (2, operator.sub),
    "mul": (2, operator.mul),
    "floordiv": (2, operator.floordiv),
    "floormod": (2, operator.mod),
    "truncdiv": (2, _truncdiv),
    "truncmod": (2, _truncmod),
    "min": (2, min),
    "max": (2, max),
    "neg": (1, operator.neg),
    "eq": (2, operator.eq),
    "ne": (2, operator.ne),
    "lt": (2, operator.lt),
    "le": (2, operator.le),
    "and": (2, lambda a, b: bool(a and b)),
    "or": (2, lambda a, b: bool(a or b)),
    "not": (1, operator.not_),
    "select": (3, lambda c, a, b: a if c else b),
}
_SIGNS: Final = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "floordiv": "//",
    "floormod": "%",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "and": "and",
    "or": "or",
}


def checked(data: object, budget: int = MOST_PARTS) -> Extent:
    """What was read from JSON as an extent. Raises ValueError if it is none."""
    if isinstance(data, (int, str)) and not isinstance(data, bool):
        return data
    parts = data if isinstance(data, (list, tuple)) else ()
    known = _OPERATIONS.get(parts[0]) if parts and isinstance(parts[0], str) else None
    if known is None or len(parts) != known[0] + 1 or budget < 1:
        raise ValueError(f"{str(data)[:100]} is no extent")
    return (parts[0], *(checked(part, budget // known[0] - 1) for part in parts[1:]))


def names_in(extent: Extent) -> set[str]:
    """The dimensions that an extent depends on."""
    if isinstance(extent, str):
        return {extent}
    if isinstance(extent, tuple):
        return set().union(*map(names_in, extent[1:]))
    return set()


def closure(extent: Extent, position: Mapping[str, int]) -> Callable[[Sequence[int]], int]:
    """The extent as a function of the values of dimensions, each at its position."""
    if isinstance(extent, int):
        return lambda values: extent
    if isinstance(extent, str):
        return operator.itemgetter(position[extent])
    name, *operands = extent
    parts = [closure(o, position) for o in operands]
    function = _OPERATIONS[name][1]
    if name == "select":  # the branch that is not taken may divide by 0
        condition, then, orelse = parts
        return lambda values: then(values) if condition(values) else orelse(values)
    if len(parts) == 1:
        (only,) = parts
        return lambda values: function(only(values))
    a, b = parts
    if isinstance(operands[1], int):
        constant = operands[1]
        return lambda values: function(a(values), constant)
    return lambda values: function(a(values), b(values))


def value_of(extent: Extent, values: Values) -> int:
    """The value of an extent. Raises EvaluationError for a division by zero."""
    position = {name: at for at, name in enumerate(values)}
    try:
        return closure(extent, position)(list(values.values()))
    except ZeroDivisionError:
        raise EvaluationError(f"the extent {text_of(extent)} divides by zero") from None


def text_of(extent: Extent) -> str:
    """An extent as people write it.

    >>> text_of(("floordiv", ("add", "n", 1), 2))
    '(n + 1) // 2'
    """
    if not isinstance(extent, tuple):
        return str(extent)
    name, *operands = extent
    if name not in _SIGNS:
        return f"{name}({', '.join(map(text_of, operands))})"
    parts = [f"({text_of(o)})" if _is_sum(o) else text_of(o) for o in operands]
    return f" {_SIGNS[name]} ".join(parts)


def _is_sum(extent: Extent) -> bool:
    return isinstance(extent, tuple) and extent[0] in _SIGNS
