"""Compiled models as files.

An artifact is one zip file, which `unzip` opens. Nothing in it is compressed, so that the weights
can be used where they lie, mapped into memory. It holds ``manifest.json``, object files under
``code/``, and ``weights.bin``, which starts at a multiple of a page. The manifest has the number of
the format, what the model is (`tensorsmith.runtime.manifest`), and size and SHA-256 of every other
part.

A file is checked before anything of it is used: what the directory of the zip says against the size
of the file, what the manifest says against the directory, all hashes, and the processor against
what the code needs. That tells damage, not malice: an artifact holds machine code, and whoever
wrote it decides what runs. Load artifacts from those whose programs you would run.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import threading
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import numpy as np

from tensorsmith._version import __version__
from tensorsmith.errors import ArtifactError
from tensorsmith.runtime.executable import ObjectCode
from tensorsmith.runtime.flow import check_flow
from tensorsmith.runtime.manifest import Machine, Manifest, NativeStage
from tensorsmith.runtime.signature import Kernel, Signature
from tensorsmith.target import Target

Array: TypeAlias = "np.ndarray[Any, Any]"
FORMAT: Final = 1
"""Counts up when files of older versions cannot be read any more."""
KIND: Final = "tensorsmith model"
PAGE: Final = 4096
MANIFEST, WEIGHTS = "manifest.json", "weights.bin"
MOST_PARTS: Final = 1 << 16
MOST_MANIFEST_BYTES: Final = 1 << 28

_PADDING: Final = 0xD935
"""The extra field of a zip entry that is there to align what follows."""
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_CHUNK: Final = 1 << 22
_WRONG: Final = (
    *(AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError),
)
"""What reading a manifest that is none may raise."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What an artifact holds. weights: mapped from the file, read-only."""

    manifest: Manifest
    objects: tuple[ObjectCode, ...]
    weights: Array


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a file: where it starts, its size, and its checksum as the directory has it."""

    start: int
    size: int
    crc: int


# --- Writing --------------------------------------------------------------------------------------


def save(path: str | os.PathLike[str], contents: Contents) -> None:
    """Write an artifact: all of it, or nothing, so that readers never see half a file.

    The same model gives the same bytes. Raises ArtifactError if it cannot be written.
    """
    target = Path(path)
    temporary = target.with_name(f"{target.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        try:
            with temporary.open("wb") as file:
                write(file, contents)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise ArtifactError(
            f"{target} cannot be written", because=error.strerror or str(error)
        ) from None


def write(file: IO[bytes], contents: Contents) -> None:
    """Write an artifact to a file that starts here. Raises OSError if that cannot be written."""
    codes = {f"code/{at:04}.o": part.code for at, part in enumerate(contents.objects)}
    weights: Any = contents.weights.data if contents.weights.size else b""
    described = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in {**codes, WEIGHTS: weights}.items()
    }
    head = {
        "format": FORMAT,
        "kind": KIND,
        "tensorsmith": __version__,
        "parts": described,
        "objects": [_object(n, o) for n, o in zip(codes, contents.objects, strict=True)],
        "model": contents.manifest.to_json(),
    }
    text = json.dumps(head, indent=1, sort_keys=True).encode()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(MANIFEST), text)
        for name, code in codes.items():
            archive.writestr(zipfile.ZipInfo(name), code)
        info = zipfile.ZipInfo(WEIGHTS)
        info.extra = _padding(file.tell() + _LOCAL.size + len(WEIGHTS) + _ZIP64)
        with archive.open(info, "w", force_zip64=True) as part:
            part.write(weights)


_ZIP64: Final = 20
"""Bytes of the extra field that has sizes of 64 bits."""


def _padding(start: int) -> bytes:
    """An extra field after which, if `start` bytes precede it, a page begins."""
    size = -(start + 4) % PAGE
    return struct.pack("<HH", _PADDING, size) + bytes(size)


def _object(name: str, part: ObjectCode) -> dict[str, Any]:
    return {
        "file": name,
        "programs": [s.to_json() for s in part.signatures],
        "kernel": None if part.kernel is None else part.kernel.to_json(),
    }


# --- Reading --------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str], *, verify_weights: bool = True) -> Contents:
    """Read an artifact.

    verify_weights: whether the hash of the weights is checked, which reads all of them.
    Raises ArtifactError for a file that is none, is damaged, has another format, or was made for
    another machine.
    """
    target = Path(path)
    try:
        with target.open("rb") as file:
            return _Reader(target, file).read(verify_weights=verify_weights)
    except OSError as error:
        raise ArtifactError(
            f"{target} cannot be read", because=error.strerror or str(error)
        ) from None


class _Reader:
    """One file under examination."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self.file = file
        self.size = os.fstat(file.fileno()).st_size

    def read(self, *, verify_weights: bool) -> Contents:
        parts = self.directory()
        head = self.head(parts)
        try:
            manifest = Manifest.from_json(head["model"])
            hashes = self.hashes(head["parts"], parts)
            described = [self.described(o) for o in head["objects"]]
        except ArtifactError:
            raise
        except _WRONG as error:
            raise self.wrong("its manifest is not what this format has", _reason(error)) from None
        check_machine(manifest.machine, self.path)
        objects = []
        for name, programs, kernel in described:
            code = self.part(parts, name)
            self.check_hash(name, hashlib.sha256(code).hexdigest(), hashes)
            objects.append(ObjectCode(code, programs, kernel))
        weights = self.weights(parts, hashes, verify=verify_weights)
        self.check_programs(manifest, objects, weights.size)
        return Contents(manifest, tuple(objects), weights)

    def wrong(self, what: str, because: str | None = None) -> ArtifactError:
        return ArtifactError(
            f"{self.path} is damaged: {what}", because=because, try_="save the model again"
        )

    # --- The zip file ---

    def directory(self) -> dict[str, _Part]:
        """The parts of the file, each checked to lie inside of it, uncompressed."""
        try:
            with zipfile.ZipFile(self.file) as archive:
                entries = archive.infolist()
        except (zipfile.BadZipFile, *_WRONG, NotImplementedError, struct.error) as error:
            if not self.starts_as_zip():
                raise ArtifactError(
                    f"{self.path} is no saved model", because="it is no zip file"
                ) from None
            raise self.wrong("it is cut off, or its directory is broken", _reason(error)) from None
        if len(entries) > MOST_PARTS:
            raise self.wrong(f"it has {len(entries)} parts")
        parts: dict[str, _Part] = {}
        for entry in entries:
            if entry.filename in parts:
                raise self.wrong(f"it has {entry.filename!r} twice")
            parts[entry.filename] = self.located(entry)
        return parts

    def starts_as_zip(self) -> bool:
        self.file.seek(0)
        return self.file.read(2) == b"PK"

    def located(self, entry: zipfile.ZipInfo) -> _Part:
        name = entry.filename
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise self.wrong(f"{name!r} is compressed or encrypted, which no part ever is")
        self.file.seek(entry.header_offset)
        header = self.file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or header[:4] != b"PK\x03\x04":
            raise self.wrong(f"{name!r} does not start where the directory says")
        *_, name_bytes, extra_bytes = _LOCAL.unpack(header)
        start = entry.header_offset + _LOCAL.size + name_bytes + extra_bytes
        if entry.compress_size != entry.file_size or start + entry.file_size > self.size:
            raise self.wrong(f"{name!r} does not fit into the file")
        return _Part(start, entry.file_size, entry.CRC)

    def part(self, parts: Mapping[str, _Part], name: str) -> bytes:
        """The bytes of a part."""
        if name not in parts:
            raise self.wrong(f"it lacks {name!r}")
        self.file.seek(parts[name].start)
        data = self.file.read(parts[name].size)
        if len(data) < parts[name].size:
            raise self.wrong(f"{name!r} is cut off")
        return data

    # --- The manifest ---

    def head(self, parts: Mapping[str, _Part]) -> dict[str, Any]:
        """The manifest, of this format."""
        if MANIFEST not in parts:
            raise ArtifactError(f"{self.path} is no saved model", because=f"it lacks {MANIFEST!r}")
        if parts[MANIFEST].size > MOST_MANIFEST_BYTES:
            raise self.wrong(f"its manifest has {parts[MANIFEST].size} bytes")
        text = self.part(parts, MANIFEST)
        if zlib.crc32(text) != parts[MANIFEST].crc:
            raise self.wrong("its manifest is not what was written")
        try:
            head = json.loads(text)
        except _WRONG as error:
            raise self.wrong("its manifest is no JSON", _reason(error)) from None
        if not isinstance(head, dict) or head.get("kind") != KIND:
            raise ArtifactError(f"{self.path} is no saved model", because="its manifest says so")
        if head.get("format") != FORMAT:
            raise ArtifactError(
                f"{self.path} has format {head.get('format')!r}, and this version of Tensorsmith"
                f" reads format {FORMAT}",
                given=f"written by Tensorsmith {head.get('tensorsmith')}; this is {__version__}",
                try_="compile the model again, or use the version that wrote the file",
            )
        return head

    def hashes(self, described: Any, parts: Mapping[str, _Part]) -> dict[str, str]:
        """The hash of each part; the manifest and the directory must know of the same ones."""
        for name in parts.keys() - described.keys() - {MANIFEST}:
            raise self.wrong(f"it has a part {name!r} that the manifest does not know")
        for name, known in described.items():
            if name not in parts:
                raise self.wrong(f"it lacks {name!r}")
            if known["bytes"] != parts[name].size:
                raise self.wrong(
                    f"{name!r} has {parts[name].size} bytes, and should have {known['bytes']}"
                )
        return {str(name): str(known["sha256"]) for name, known in described.items()}

    def described(self, data: Any) -> tuple[str, tuple[Signature, ...], Kernel | None]:
        kernel = None if data["kernel"] is None else Kernel.from_json(data["kernel"])
        programs = tuple(Signature.from_json(s) for s in data["programs"])
        return str(data["file"]), programs, kernel

    def check_hash(self, name: str, found: str, hashes: Mapping[str, str]) -> None:
        if hashes.get(name) != found:
            raise self.wrong(f"the content of {name!r} is not what was written")

    def check_programs(
        self, manifest: Manifest, objects: list[ObjectCode], weight_bytes: int
    ) -> None:
        """Check that the stages fit together, and call programs that there are, with as many
        arguments."""
        try:
            check_flow(manifest, weight_bytes)
        except ValueError as error:
            raise self.wrong("its stages do not fit together", str(error)) from None
        programs = {s.name: s for part in objects for s in part.signatures}
        symbols = {part.kernel.symbol for part in objects if part.kernel is not None}
        for stage in manifest.stages:
            if not isinstance(stage, NativeStage):
                continue
            known = programs.get(stage.program)
            extra = (stage.weights is not None) + bool(stage.returned)
            count = len(stage.inputs) + len(stage.scalars) + len(stage.outputs) + extra
            if known is None or len(known.parameters) != count:
                raise self.wrong(f"its manifest calls {stage.program!r} otherwise than its code is")
            if missing := [k.name for k in known.kernels if k.symbol not in symbols]:
                raise self.wrong(f"it lacks the code of {missing[0]!r}")

    # --- The weights ---

    def weights(
        self, parts: Mapping[str, _Part], hashes: Mapping[str, str], *, verify: bool
    ) -> Array:
        """The weights, mapped."""
        if WEIGHTS not in parts:
            raise self.wrong(f"it lacks {WEIGHTS!r}")
        part = parts[WEIGHTS]
        if not part.size:
            return np.zeros(0, np.uint8)
        mapped = np.memmap(self.file, np.uint8, "r", part.start, (part.size,))
        if verify:
            digest = hashlib.sha256()
            for at in range(0, part.size, _CHUNK):
                digest.update(mapped[at : at + _CHUNK].data)
            self.check_hash(WEIGHTS, digest.hexdigest(), hashes)
        return mapped


def check_machine(machine: Machine, path: Path) -> None:
    """Raise ArtifactError unless this machine can run code for `machine`."""
    host = Target.host()
    made_for = machine.triple.split("-", 1)[0]
    if made_for != host.arch or _system(machine.triple) != _system(host.triple):
        raise ArtifactError(
            f"{path} was compiled for {machine.triple}, and this is {host.triple}",
            try_="compile the model on a machine of this kind",
        )
    lacking = sorted(set(machine.features) - host.features)
    if lacking:
        raise ArtifactError(
            f"{path} needs what this processor lacks: {', '.join(lacking)}",
            given=f"compiled for {machine.cpu or machine.triple}; this is {host.cpu}",
            try_="compile the model on this machine, or for a target that both are, such as"
            " 'x86-64-v3'",
        )


def _system(triple: str) -> str:
    """What a triple says of the operating system."""
    return "-".join(triple.split("-")[2:]).replace("unknown-", "")


def _reason(error: BaseException) -> str:
    text = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {text}"[:200]
