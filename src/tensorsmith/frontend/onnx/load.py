"""Model files: read, and refused where they are not what they say they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tensorsmith.errors import TensorsmithError, UnsupportedOpError, UntrustedModelError
from tensorsmith.frontend.onnx.external import ExternalFiles
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
        folder = path.parent if folder is None else folder
        model = parsed(_content(path, limits), name, limits)
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


def _content(path: Path, limits: Limits) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(limits.model_bytes + 1)
    except OSError as error:
        raise UntrustedModelError(
            "the model cannot be read", where=str(path), because=error.strerror or str(error)
        ) from None
    return data


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
