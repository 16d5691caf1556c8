"""Compiled code kept on disk, by content.

An entry is a zip file called after its key, which ordinary tools open: ``manifest.json`` says what
the code is, ``code.o`` is the object file. Whole models are kept beside them, as
`tensorsmith.runtime.artifact` writes them. Keys are hashes of all that the code depends on, so
nothing ever goes stale, and entries are only added or removed, never changed. An entry is written
under a name of its own and then renamed, so that readers in other processes see all of it or
nothing; one that is damaged counts as missing, and is written anew. Entries that nobody read for
longest go when the folder grows over its limit. A cache that cannot be used costs time, never a
build: it warns once.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import os
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tensorsmith import knobs

FORMAT: Final = 1
"""Counts up when entries of older versions cannot be read any more."""

_MANIFEST, _CODE = "manifest.json", "code.o"
_CODE_SUFFIX, _MODEL_SUFFIX = ".zip", ".model"
_LOG: Final = logging.getLogger("tensorsmith.cache")
_ABANDONED_SECONDS: Final = 3600
"""After so long, a file that was never renamed is one that nobody will rename."""
_KEPT_SHARE: Final = 0.8
"""What stays, of the limit, when entries are removed."""
_DAMAGED: Final = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    NotImplementedError,  # what zipfile says of a method of compression that it does not know
    RuntimeError,  # and of encryption
    TypeError,
    ValueError,
)


def key_of(parts: Iterable[str]) -> str:
    """The SHA-256 of the parts, in hex; different sequences of parts have different ones."""
    digest = hashlib.sha256()
    for part in (f"format {FORMAT}", *parts):
        data = part.encode()
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def source_hash(packages: Iterable[str] = ("",)) -> str:
    """The SHA-256 of Tensorsmith's own source, in hex: of these packages, or of all of it."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0")
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """Code, and what is to be known of it, as JSON has it."""

    manifest: dict[str, Any]
    code: bytes


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry as a listing shows it. used: seconds since 1970 when it was last read."""

    path: Path
    bytes: int
    used: float

    @property
    def is_model(self) -> bool:
        """Whether it is a whole model."""
        return self.path.suffix == _MODEL_SUFFIX

    def read(self) -> Entry | None:
        """The entry of code; None if it is damaged or of another format."""
        try:
            entry = _read(self.path.read_bytes())
        except (OSError, *_DAMAGED):
            return None
        digest = hashlib.sha256(entry.code).hexdigest()
        return entry if entry.manifest.get("code_sha256", digest) == digest else None


class ObjectCache:
    """The entries in a folder, with at most `limit_bytes` together (a little more for a while)."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._known_bytes: int | None = None
        """Bytes in the folder when this process last looked, and what it wrote since."""

    def path(self, key: str) -> Path:
        """Where the entry of a key is or would be."""
        return self.folder / f"{key}{_CODE_SUFFIX}"

    def model_path(self, key: str) -> Path:
        """The same for the model of a key."""
        return self.folder / f"{key}{_MODEL_SUFFIX}"

    def get(self, key: str) -> Entry | None:
        """The entry of a key; None if there is none, or it is damaged."""
        path = self.path(key)
        try:
            entry = _read(path.read_bytes())
            if entry.manifest["key"] != key:
                return None
        except (OSError, *_DAMAGED):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return entry

    def put(self, key: str, manifest: dict[str, Any], code: bytes) -> None:
        """Keep code under a key. Failing to is logged, once a process."""
        data = _pack({"format": FORMAT, "key": key, **manifest}, code)
        self._keep(self.path(key), lambda path: path.write_bytes(data))

    def put_model(self, key: str, save: Callable[[Path], object]) -> None:
        """Keep a model under a key. save: writes it to a path; it may raise OSError."""
        self._keep(self.model_path(key), save)

    def _keep(self, path: Path, write: Callable[[Path], object]) -> None:
        """Write an entry: all of it, or nothing."""
        temporary = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                write(temporary)
                size = temporary.stat().st_size
                temporary.replace(path)
            except OSError:
                with contextlib.suppress(OSError):
                    temporary.unlink()
                raise
        except OSError as error:
            _warn_once(self.folder, error)
            return
        with self._lock, contextlib.suppress(OSError):
            self._make_room(size)

    def entries(self) -> list[Listed]:
        """What is kept, the most recently used first. Raises OSError if the folder cannot be read;
        one that is missing holds nothing."""
        if not self.folder.exists():
            return []
        found = sorted(self._files(), reverse=True)
        return [Listed(path, size, used) for used, size, path in found]

    def clear(self, keep_bytes: int = 0) -> int:
        """Remove the entries that were not used for longest until `keep_bytes` are left.

        Returns how many were removed.
        """
        total, removed = 0, 0
        for entry in self.entries():
            total += entry.bytes
            if total > keep_bytes:
                with contextlib.suppress(OSError):  # another process may have removed it
                    entry.path.unlink()
                    removed += 1
        self._known_bytes = None
        return removed

    def _make_room(self, added: int) -> None:
        """Remove the entries that were not read for longest, if there is too much."""
        if self._known_bytes is not None:
            self._known_bytes += added
            if self._known_bytes <= self.limit_bytes:
                return
        files = sorted(self._files())
        total = sum(size for _, size, _ in files)
        if total > self.limit_bytes:
            for _, size, path in files:
                if total <= self.limit_bytes * _KEPT_SHARE:
                    break
                with contextlib.suppress(OSError):  # another process may have removed it
                    path.unlink()
                total -= size
        self._known_bytes = total

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """When each entry was last read, its bytes, and its path. Removes what was abandoned."""
        with os.scandir(self.folder) as found:
            for file in found:
                path = Path(file.path)
                with contextlib.suppress(OSError):
                    status = file.stat(follow_symlinks=False)
                    if path.suffix in (_CODE_SUFFIX, _MODEL_SUFFIX):
                        yield status.st_mtime, status.st_size, path
                    elif path.suffix == ".tmp" and (
                        time.time() - status.st_mtime > _ABANDONED_SECONDS
                    ):
                        path.unlink()


def _read(data: bytes) -> Entry:
    """An entry from its file. Raises one of `_DAMAGED` if it is none."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        manifest = json.loads(archive.read(_MANIFEST))
        if not isinstance(manifest, dict) or manifest["format"] != FORMAT:
            raise ValueError("an entry of another format")
        return Entry(manifest, archive.read(_CODE))


def _pack(manifest: dict[str, Any], code: bytes) -> bytes:
    """The file of an entry: the same bytes for the same entry."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(manifest, indent=1, sort_keys=True)
        archive.writestr(zipfile.ZipInfo(_MANIFEST), text)
        archive.writestr(zipfile.ZipInfo(_CODE), code)
    return buffer.getvalue()


_warned: set[Path] = set()


def _warn_once(folder: Path, error: OSError) -> None:
    if folder not in _warned:
        _warned.add(folder)
        _LOG.warning(
            "compiled code cannot be kept in %s (%s), so every process compiles anew; "
            "set TENSORSMITH_CACHE_DIR to a folder that can be written, or TENSORSMITH_CACHE=0",
            folder,
            error.strerror or error,
        )


_caches: dict[tuple[Path, int], ObjectCache] = {}


def object_cache() -> ObjectCache | None:
    """The cache that the environment asks for; None if it is off."""
    if not knobs.cache_is_on():
        return None
    where = knobs.cache_folder(), knobs.cache_limit_bytes()
    if where not in _caches:
        _caches[where] = ObjectCache(*where)
    return _caches[where]
