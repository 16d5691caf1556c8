"""What a name of an ONNX graph stands for while it is read.

Tensors are values of the graph function. Sequences and optionals are resolved while reading: a
sequence is a Python tuple of values, an optional is the value itself or that there is none. So
they never reach the intermediate representation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from tensorsmith.ir import Buffer, Opaque

STRINGS: Final = "strings"
"""The kind of a value that is a tensor of strings. Others are maps: see `maps`."""


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """A sequence of values, of which the number is known."""

    items: tuple[Read, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Nothing:
    """An optional that holds no value."""


Read: TypeAlias = "Buffer | Opaque | Sequence | Nothing"
"""Any of these."""


def kind_of(value: Read | None) -> str:
    """How errors call the kind of a value."""
    if value is None:
        return "left out"
    if isinstance(value, Sequence):
        return f"a sequence of {len(value.items)}"
    if isinstance(value, Nothing):
        return "an optional that holds nothing"
    if isinstance(value, Opaque):
        return f"{value.kind} of rank {len(value.shape)}"
    return f"{value.dtype}{list(value.shape)}"


def flat(value: Read | None) -> tuple[Buffer | Opaque, ...]:
    """The tensors in a value, in order."""
    if isinstance(value, Sequence):
        return tuple(t for item in value.items for t in flat(item))
    return () if value is None or isinstance(value, Nothing) else (value,)
