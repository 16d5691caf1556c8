"""The constants of a model as one piece of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np

from tensorsmith.ir.content import content_hash, pieces

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
ALIGN: Final = 64
"""Bytes that divide the place of each constant."""


@dataclass(slots=True)
class Weights:
    """Constants one after the other, each at a multiple of `ALIGN`, equal ones once.

    The arrays are kept as they are: all bytes stand side by side only where `write` or `to_array`
    puts them.
    size: bytes of all of them.
    """

    size: int = 0
    parts: list[tuple[int, Array]] = field(default_factory=list)
    """Where each array starts, and the array, in order."""
    _places: dict[str, int] = field(default_factory=dict)

    def add(self, data: Array) -> int:
        """The place of a constant, from now on."""
        key = f"{content_hash(data)} {data.nbytes}"
        if key not in self._places:
            self._places[key] = self.size
            self.parts.append((self.size, data))
            self.size += -(-data.nbytes // ALIGN) * ALIGN
        return self._places[key]

    def pieces(self) -> Iterator[Array]:
        """All bytes in order, in pieces that are views of the constants where possible."""
        at = 0
        for place, data in self.parts:
            yield np.zeros(place - at, np.uint8)
            piece = _bytes(data)
            yield piece
            at = place + piece.size
        yield np.zeros(self.size - at, np.uint8)

    def write(self, stream: BinaryIO) -> None:
        """Write all bytes to a stream."""
        stream.writelines(piece.data for piece in self.pieces())

    def to_array(self) -> Array:
        """All bytes in one new array, which starts at a multiple of `ALIGN`."""
        memory = np.empty(self.size + ALIGN, np.uint8)
        start = -memory.ctypes.data % ALIGN
        made = memory[start : start + self.size]
        at = 0
        for whole in self.pieces():
            for piece in pieces(whole):
                made[at : at + piece.size] = piece
                at += piece.size
        return made


def _bytes(data: Array) -> Array:
    dense = np.ascontiguousarray(data)
    if dense.dtype.byteorder == ">":
        dense = dense.astype(dense.dtype.newbyteorder("<"))
    return dense.reshape(-1).view(np.uint8)
