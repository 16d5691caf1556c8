"""Arrays by their content, and where that lies."""

from __future__ import annotations

import hashlib
import mmap
import weakref
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
_LARGE: Final = 1 << 16
_PIECE: Final = 1 << 24
_known: Final[dict[int, tuple[weakref.ref[Array], str]]] = {}
"""The digests of large arrays that are read-only, by identity: weights are asked for often."""


def content_hash(data: Array) -> str:
    """A hex digest of the elements' bytes in row-major order: the same on all machines of one byte
    order."""
    found = _known.get(id(data))
    if found is not None and found[0]() is data:
        return found[1]
    hasher = hashlib.blake2b(digest_size=16)
    for piece in pieces(data):
        hasher.update(piece.data)
    digest = hasher.hexdigest()
    if data.nbytes >= _LARGE and not data.flags.writeable:
        key = id(data)
        _known[key] = weakref.ref(data, lambda _: _known.pop(key, None)), digest
    return digest


def pieces(data: Array) -> Iterator[Array]:
    """The bytes of an array in row-major order, some at a time, none of which stay in memory for it
    if they are mapped from a file."""
    content = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    for at in range(0, content.size, _PIECE):
        piece = content[at : at + _PIECE]
        yield piece
        forget_pages(piece)


def forget_pages(data: Array) -> None:
    """Give back the memory that holds what was read of a file that `data` is mapped from.

    It is read again where it is needed again. So the weights of a model are not all in memory at a
    time, as long as they are in their file. Does nothing to other arrays.
    """
    base: Any = data
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if data.nbytes < _LARGE or not isinstance(base, mmap.mmap) or not hasattr(base, "madvise"):
        return
    start = data.ctypes.data - np.frombuffer(base, np.uint8).ctypes.data
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (start + data.nbytes - first) // mmap.PAGESIZE * mmap.PAGESIZE
    if size > 0:
        base.madvise(mmap.MADV_DONTNEED, first, size)
