"""The constants of a model as one piece of memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np

from tensorsmith.ir.content import content_hash, pieces

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
ALIGN: Final = 64
"""Bytes that divide the place of each constant."""


class Arena:
    """Memory in which constants are made side by side, so that no copy of them is needed.

    Memory is taken from the system where it is written to, not before.
    """

    def __init__(self, capacity: int) -> None:
        held = np.empty(capacity + ALIGN, np.uint8)
        start = -held.ctypes.data % ALIGN
        self.memory = held[start : start + capacity]
        self.used = 0

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """A new array: here, if there is room."""
        size = math.prod(shape) * dtype.itemsize
        end = self.used + _padded(size)
        if end > self.memory.size:
            return np.empty(shape, dtype)
        made = self.memory[self.used : self.used + size]
        self.memory[self.used + size : end] = 0
        self.used = end
        return made.view(dtype).reshape(shape)

    def place_of(self, data: Array) -> int | None:
        """Where an array lies here; None for one that does not."""
        place = int(data.ctypes.data - self.memory.ctypes.data)
        return place if 0 <= place < self.used and data.flags.c_contiguous else None


def _padded(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


@dataclass(slots=True)
class Weights:
    """Constants one after the other, each at a multiple of `ALIGN`, equal ones once.

    The arrays are kept as they are: all bytes stand side by side only where `write` or `to_array`
    puts them.
    arena: where some of the constants lie already. size: bytes of all of them.
    """

    arena: Arena | None = None
    size: int = 0
    parts: list[tuple[int, Array]] = field(default_factory=list)
    """Where each array starts, and the array."""
    _places: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.arena is not None:
            self.size = self.arena.used

    def add(self, data: Array) -> int:
        """The place of a constant, from now on."""
        key = f"{content_hash(data)} {data.nbytes}"
        if key not in self._places:
            place = None if self.arena is None else self.arena.place_of(data)
            if place is None:
                place = self.size
                self.size += _padded(data.nbytes)
            self._places[key] = place
            self.parts.append((place, data))
        return self._places[key]

    def pieces(self) -> Iterator[Array]:
        """All bytes in order, in pieces that are views of the constants where possible."""
        at = 0
        for place, data in sorted(self.parts, key=lambda part: part[0]):
            yield np.zeros(place - at, np.uint8)
            piece = _bytes(data)
            yield piece
            at = place + piece.size
        yield np.zeros(self.size - at, np.uint8)

    def write(self, stream: BinaryIO) -> None:
        """Write all bytes to a stream."""
        stream.writelines(piece.data for piece in self.pieces())

    def to_array(self) -> Array:
        """All bytes in one array, which starts at a multiple of `ALIGN`.

        It is the arena's memory, if that has room for what lies elsewhere.
        """
        arena = self.arena
        if arena is None or self.size > arena.memory.size:
            arena = Arena(self.size)
        made = arena.memory[: self.size]
        for place, data in self.parts:
            if arena is self.arena and arena.place_of(data) is not None:
                continue
            at = place
            for piece in pieces(_bytes(data)):
                made[at : at + piece.size] = piece
                at += piece.size
            made[at : place + _padded(data.nbytes)] = 0
        return made


def _bytes(data: Array) -> Array:
    dense = np.ascontiguousarray(data)
    if dense.dtype.byteorder == ">":
        dense = dense.astype(dense.dtype.newbyteorder("<"))
    return dense.reshape(-1).view(np.uint8)
