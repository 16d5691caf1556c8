"""Model files: read, and refused where they are not what they say they are."""

from __future__ import annotations

import mmap
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tensorsmith.errors import TensorsmithError, UnsupportedOpError, UntrustedModelError
from tensorsmith.frontend.onnx.external import ExternalFiles
from tensorsmith.frontend.onnx.large_tensors import LARGE, without_large_tensors
from tensorsmith.frontend.onnx.limits import MIB, Limits
from tensorsmith.frontend.onnx.structure import check_structure

if TYPE_CHECKING:
    from onnx import ModelProto

Source: TypeAlias = "str | Path | bytes | ModelProto"

OLDEST_IR_VERSION = 1
NEWEST_IR_VERSION = 14


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that has passed all checks of its structure.

    name: how errors call it.
    """

    model: ModelProto
    files: ExternalFiles
    name: str


def load(source: Source, limits: Limits, folder: Path | None = None) -> Loaded:
    """The model of a path, of a file's bytes, or one that is in memory already.

    folder: where weights outside of the model lie; by default where the model does.
    Raises UntrustedModelError for what is damaged or contradicts itself. Takes time linear in the
    size of the model, and allocates nothing that the file only claims to hold.
    """
    from onnx import ModelProto

    name = "onnx"
    if isinstance(source, ModelProto):
        model = source
    elif isinstance(source, bytes):
        model = parsed(source, name, limits)
    elif isinstance(source, (str, Path)):
        path = Path(source)
        name = path.name
        model = parsed(_content(path, limits, is_beside=folder is None), name, limits)
        folder = path.parent if folder is None else folder
    else:
        raise TensorsmithError(
            f"{type(source).__name__!r} is no ONNX model",
            try_="a path, the bytes of a file, or an onnx.ModelProto",
        )
    try:
        _check_versions(model)
        check_structure(model, limits)
    except TensorsmithError as error:
        raise in_model(error, name) from None
    return Loaded(model, ExternalFiles(folder), name)


def in_model(error: TensorsmithError, name: str) -> TensorsmithError:
    """The error, whose place begins with what the model is called."""
    if error.where is None or error.where == name:
        error.where = name
    elif isinstance(error.where, str) and not error.where.startswith(f"{name}: "):
        error.where = f"{name}: {error.where}"
    return error


def _content(path: Path, limits: Limits, *, is_beside: bool) -> bytes:
    """The bytes of a model's file, without large weights if these can be mapped from it.

    is_beside: whether other files of the model are looked for beside it.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            size = status.st_size
            is_own = not path.is_symlink() and status.st_nlink == 1 and stat.S_ISREG(status.st_mode)
            if is_beside and is_own and LARGE <= size <= limits.model_bytes:
                with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as mapped:
                    view = memoryview(mapped)
                    found = without_large_tensors(view, path.name)
                    view.release()
                if found is not None:
                    return found
            return file.read(limits.model_bytes + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UntrustedModelError(
            "the model cannot be read", where=str(path), because=reason
        ) from None


def parsed(data: bytes, name: str, limits: Limits) -> ModelProto:
    """The model that these bytes hold. Raises UntrustedModelError if they hold none."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from onnx import ModelProto

    if len(data) > limits.model_bytes:
        raise UntrustedModelError(
            f"the model is larger than {limits.model_bytes // MIB} MiB, weights apart",
            where=name,
            try_="keep the weights in a file beside it (external data), or give larger `limits`",
        )
    try:
        model: ModelProto = ModelProto.FromString(data)
    except (DecodeError, ValueError):
        raise UntrustedModelError(
            "not an ONNX model, or only a part of one",
            where=name,
            given=f"{len(data)} bytes that start with {data[:16]!r}",
            because="they do not parse as a protobuf message of type ModelProto",
        ) from None
    return model


def _check_versions(model: ModelProto) -> None:
    if not model.HasField("graph"):
        raise UntrustedModelError(
            "the model has no graph", because="the file is empty, cut off, or holds something else"
        )
    if not OLDEST_IR_VERSION <= model.ir_version <= NEWEST_IR_VERSION:
        raise UnsupportedOpError(
            f"the file's format has version {model.ir_version}",
            because=f"versions {OLDEST_IR_VERSION} to {NEWEST_IR_VERSION} are known",
            try_="export it again for an older version of ONNX",
        )
    seen: set[str] = set()
    for entry in model.opset_import:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if domain in seen:
            raise UntrustedModelError(
                f"the model states the version of {domain or 'ai.onnx'!r} twice"
            )
        seen.add(domain)
        if entry.version < 1:
            raise UntrustedModelError(
                f"the model states version {entry.version} of {domain or 'ai.onnx'!r}",
                because="versions of operator sets count from 1",
            )
