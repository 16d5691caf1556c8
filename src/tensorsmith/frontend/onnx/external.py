"""Weights that lie in files beside the model, mapped into memory after all is checked.

A path in a model file is data of a stranger. It may name a regular file in the model's folder or
below it, reached without links, and nothing else.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tensorsmith.errors import UntrustedModelError
from tensorsmith.frontend.onnx.types import (
    Array,
    bytes_in_file,
    element_count,
    expect,
    from_bytes,
    type_name,
)

if TYPE_CHECKING:
    from onnx import TensorProto

KEYS: Final = ("location", "offset", "length", "checksum")
"""What an entry for external data may say."""


class ExternalFiles:
    """The files beside a model, each opened and mapped once.

    folder: where the model lies; None if it came without a place, and so without such files.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._mapped: dict[str, memoryview] = {}

    @property
    def used(self) -> frozenset[str]:
        """The names of the files that something was read from."""
        return frozenset(self._mapped)

    def tensor(self, proto: TensorProto, what: str) -> Array:
        """The array of a tensor with external data, in the memory of its file.

        Raises UntrustedModelError for a place that the model may not name, or data that is not
        there or not of the right length.
        """
        entries = _entries(proto, what)
        name = type_name(proto.data_type, what)
        dims = tuple(proto.dims)
        wanted = bytes_in_file(name, element_count(dims, what))
        if name == "string":
            raise UntrustedModelError(f"{what} holds strings, which cannot lie in another file")
        data = self._file(entries["location"], what)
        offset = _number(entries, "offset", 0, what)
        length = _number(entries, "length", wanted, what)
        expect(length, wanted, "bytes", what, dims, name)
        if offset + length > len(data):
            raise UntrustedModelError(
                f"{what} reaches past the end of {entries['location']!r}",
                given=f"offset {offset}, length {length}, file of {len(data)} bytes",
            )
        return from_bytes(data[offset : offset + length], name, dims)

    def _file(self, location: str, what: str) -> memoryview:
        found = self._mapped.get(location)
        if found is None:
            found = self._mapped[location] = _mapped(self._path(location, what), location, what)
        return found

    def _path(self, location: str, what: str) -> Path:
        reason = why_not_a_place(location)
        if reason is None and self.folder is None:
            reason = "the model was not read from a file, and no folder was given"
        if reason is not None:
            raise UntrustedModelError(
                f"{what} names the file {location!r}",
                because=reason,
                try_="keep the weights beside the model, under a plain relative path",
            )
        assert self.folder is not None
        path = self.folder
        for part in location.split("/"):
            path = path / part
            if path.is_symlink():
                raise UntrustedModelError(
                    f"{what} names the file {location!r}",
                    because=f"{part!r} is a symbolic link, which may lead anywhere",
                    try_="put a copy of the file in its place",
                )
        return path


def why_not_a_place(location: str) -> str | None:
    """Why a model may not name this path, or None if it may."""
    if not location or "\0" in location:
        return "the path is empty or holds a NUL character"
    if location.startswith(("/", "\\")) or (len(location) > 1 and location[1] == ":"):
        return "the path is absolute"
    if "\\" in location:
        return "the path holds a backslash"
    parts = location.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "the path has parts that are empty, '.' or '..'"
    return None


def _entries(proto: TensorProto, what: str) -> Mapping[str, str]:
    entries: dict[str, str] = {}
    for entry in proto.external_data:
        if entry.key not in KEYS:
            raise UntrustedModelError(
                f"{what} has external data with the unknown key {entry.key!r}",
                try_=f"one of {', '.join(KEYS)}",
            )
        if entry.key in entries:
            raise UntrustedModelError(f"{what} gives {entry.key!r} of its external data twice")
        entries[entry.key] = entry.value
    if "location" not in entries:
        raise UntrustedModelError(f"{what} has external data without a location")
    return entries


def _number(entries: Mapping[str, str], key: str, default: int, what: str) -> int:
    given = entries.get(key)
    if given is None:
        return default
    if not (given.isascii() and given.isdecimal() and len(given) <= 18):
        raise UntrustedModelError(
            f"{what} has external data whose {key} is no number of bytes", given=repr(given[:40])
        )
    return int(given)


def _mapped(path: Path, location: str, what: str) -> memoryview:
    """The file's content, mapped. Checked on the open file, so that nothing changes in between."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        raise UntrustedModelError(
            f"{what} names the file {location!r}, which cannot be read",
            because=error.strerror or str(error),
        ) from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            reason = "it is no ordinary file"
        elif status.st_nlink > 1:
            reason = "it is a hard link, which may be a name of any file"
        else:
            size = status.st_size
            return memoryview(mmap.mmap(handle, size, access=mmap.ACCESS_READ) if size else b"")
    finally:
        os.close(handle)
    raise UntrustedModelError(
        f"{what} names the file {location!r}",
        because=reason,
        try_="put a copy of the file in its place",
    )
