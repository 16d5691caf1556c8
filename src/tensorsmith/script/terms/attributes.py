"""Attributes as a script writes them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tensorsmith.errors import DTypeError
from tensorsmith.ir.expr import Expr
from tensorsmith.ir.stmt import NO_ATTRS, Attrs, AttrValue

MAX_ATTR_DEPTH: Final = 16


def attrs_of(values: Mapping[str, object] | None) -> Attrs:
    """Attributes from a dictionary. Raises DTypeError for values that have no text."""
    if not values:
        return NO_ATTRS
    return MappingProxyType({str(k): _attr(v, MAX_ATTR_DEPTH) for k, v in values.items()})


def _attr(value: object, depth: int) -> AttrValue:
    if value is None or isinstance(value, (bool, int, float, str, Expr)):
        return value
    if isinstance(value, (tuple, list)) and depth:
        return tuple(_attr(part, depth - 1) for part in value)
    raise DTypeError(
        f"{value!r} cannot be an attribute",
        because="attributes are numbers, strings, expressions, and tuples of these",
    )
