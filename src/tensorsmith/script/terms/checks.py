"""Checks of arguments that are plain Python values."""

from __future__ import annotations

from tensorsmith.errors import DTypeError


def string(value: object, what: str) -> str:
    """`value` if it is a string. Raises DTypeError."""
    if not isinstance(value, str):
        raise DTypeError(f"{what} is a string, not {value!r}")
    return value


def integer(value: object, what: str) -> int:
    """`value` if it is an integer of Python. Raises DTypeError."""
    if not isinstance(value, int):
        raise DTypeError(f"{what} is an integer, not {value!r}")
    return value


def facts(low: object, high: object, multiple_of: object) -> None:
    """Raise DTypeError unless these can be facts about a variable."""
    for value, what in ((low, "min"), (high, "max")):
        if value is not None:
            integer(value, what)
    integer(multiple_of, "multiple_of")
