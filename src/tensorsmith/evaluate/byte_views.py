"""Views of bytes as buffers, and memory that is held at addresses, where values are NumPy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tensorsmith.errors import EvaluationError, OutOfBoundsError
from tensorsmith.evaluate.memory import Array, Memory
from tensorsmith.evaluate.rounding import Value
from tensorsmith.ir.stmt import View

if TYPE_CHECKING:
    from tensorsmith.evaluate.numpy_domain import NumPyDomain

_FIRST: Final = 1 << 20
_ALIGN: Final = 64


class HeldMemory:
    """What ``ts_hold``, ``ts_append`` and ``ts_drop`` keep: arrays of bytes at made-up addresses.

    A cell is an array of one int64: the address of what it owns, 0 for nothing.
    """

    def __init__(self) -> None:
        self._arrays: dict[int, Array] = {}
        self._next = _FIRST

    def hold(self, cell: Array, source: Array, count: int) -> None:
        """Let the cell own a copy of the first `count` bytes of `source`, and nothing else."""
        self.drop(cell)
        self.append(cell, source, count, 0)

    def append(self, cell: Array, source: Array, count: int, offset: int) -> None:
        """Put a copy of `count` bytes of `source` at byte `offset` of what the cell owns."""
        known = self._arrays.pop(int(cell.reshape(-1)[0]), np.zeros(0, np.uint8))
        held = np.zeros(max(offset + count, known.size), np.uint8)
        held[: known.size] = known
        held[offset : offset + count] = as_bytes(source)[:count]
        self._arrays[self._next] = held
        cell.reshape(-1)[0] = self._next
        self._next += -(-(held.size + 1) // _ALIGN) * _ALIGN

    def drop(self, cell: Array) -> None:
        """Let the cell own nothing."""
        self._arrays.pop(int(cell.reshape(-1)[0]), None)
        cell.reshape(-1)[0] = 0

    def at(self, address: int) -> Array | None:
        """The bytes from an address on, none from 0 on; None if nothing is held there."""
        if address == 0:
            return np.zeros(0, np.uint8)
        for start, held in self._arrays.items():
            if start <= address <= start + held.size:
                return held[address - start :]
        return None


def as_bytes(array: Array) -> Array:
    """The content of an array, in row-major order, as bytes."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def view_of_bytes(
    stmt: View,
    source: Value | Memory,
    offset: int,
    shape: tuple[int, ...],
    domain: NumPyDomain,
) -> Memory:
    """The memory of a `View`. Raises EvaluationError if it leaves its source or is not aligned."""
    buffer, program = stmt.buffer, domain.program
    if buffer.layout is not None or buffer.strides is not None:
        raise EvaluationError(f"{program} views {buffer.name!r} with a layout, which needs memory")
    if isinstance(source, Memory):
        where = f"of {getattr(stmt.source, 'name', '')!r}"
        data = _bytes_of(source.data, f"{program} views bytes {where}")
    else:
        held = domain.held.at(int(source))
        if held is None:
            raise OutOfBoundsError(f"{program} views {buffer.name!r} at no address that is held")
        data, where = held, "that are held there"
    dtype = domain.memory_dtype(buffer.dtype)
    step = max(buffer.align, buffer.dtype.bytes)
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if min(shape, default=0) < 0 or offset < 0 or offset + size > data.size:
        raise OutOfBoundsError(
            f"{program} views bytes {offset} to {offset + size} {where} as {buffer.name!r},"
            f" and there are {data.size}"
        )
    if offset % step:
        raise EvaluationError(
            f"{program} views {buffer.name!r} at byte {offset}, which is no multiple of {step}"
        )
    if isinstance(source, Memory) and source.defined is not None:
        source.defined[...] = True  # what a view holds is its own affair
    return Memory(_reinterpreted(data, offset, size, dtype).reshape(shape))


def _bytes_of(array: Array, what: str) -> Array:
    """The memory of an array as bytes. Raises EvaluationError unless it lies in one piece."""
    if not array.flags.c_contiguous:
        raise EvaluationError(f"{what}, which do not lie in one piece")
    return array.reshape(-1).view(np.uint8) if array.size else np.zeros(0, np.uint8)


def _reinterpreted(data: Array, offset: int, size: int, dtype: np.dtype[np.generic]) -> Array:
    if not size:
        return np.zeros(0, dtype)
    return np.ndarray((size // dtype.itemsize,), dtype, data.data, offset)
