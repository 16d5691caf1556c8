"""Whole models kept on disk, so that compiling one again is reading a file.

The key is a hash of the model's bytes, of what was asked for, of the machine and of Tensorsmith's
own source. A model that is kept is an artifact as `Model.save` writes it, with its weights: those
that would fill much of the cache are not kept.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tensorsmith._version import __version__
from tensorsmith.errors import ArtifactError
from tensorsmith.runtime import artifact
from tensorsmith.runtime.jit import llvm_version
from tensorsmith.runtime.model import Model, ModelOptions
from tensorsmith.runtime.object_cache import ObjectCache, key_of, object_cache, source_hash
from tensorsmith.target import Target

LARGEST_SHARE: Final = 0.25
"""Of the cache's limit: models that take more of it are not kept as a whole."""
_LOG: Final = logging.getLogger("tensorsmith.cache")


@dataclass(frozen=True, slots=True)
class Kept:
    """Where one model, compiled in one way, is kept."""

    store: ObjectCache
    key: str

    @classmethod
    def of(
        cls,
        model: object,
        target: Target,
        entry: str,
        sizes: Mapping[str, int],
        *,
        check_bounds: bool,
    ) -> Kept | None:
        """The place of an ONNX model; None for a module, a file that is too large or cannot be
        read, or without a cache."""
        store = object_cache()
        if store is None:
            return None
        content = _content_hash(model, int(store.limit_bytes * LARGEST_SHARE))
        if content is None:
            return None
        machine = (target.triple, target.cpu, sorted(target.features), target.caches, target.cores)
        asked = (entry, sorted(sizes.items()), check_bounds)
        compiler = (__version__, llvm_version(), source_hash())
        return cls(store, key_of(["model", content, *map(str, (*machine, *asked, *compiler))]))

    def load(self, options: ModelOptions) -> Model | None:
        """The model, if it is kept and whole."""
        path = self.store.model_path(self.key)
        if not path.exists():
            return None
        try:
            found = Model.load(path, **options)
            os.utime(path)
        except (ArtifactError, OSError) as error:
            _LOG.debug("%s is not used: %s", path, error)
            return None
        return found

    def save(self, model: Model) -> None:
        """Keep the model, unless it is too large. What goes wrong is logged."""
        if model.weights.nbytes > self.store.limit_bytes * LARGEST_SHARE:
            return
        contents = artifact.Contents(model.manifest, model.objects, model.weights)

        def write(path: Path) -> None:
            with path.open("wb") as file:
                artifact.write(file, contents)

        self.store.put_model(self.key, write)


def _content_hash(model: object, most: int) -> str | None:
    """The hash of the bytes of an ONNX model; None for more than `most`, and for anything else."""
    if isinstance(model, (str, Path)):
        try:
            with Path(model).open("rb") as file:
                if os.fstat(file.fileno()).st_size > most:
                    return None
                return hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, ValueError):
            return None
    if hasattr(model, "SerializeToString"):
        from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

        try:
            model = model.SerializeToString(deterministic=True)
        except (EncodeError, ValueError):  # as of more than 2 GiB
            return None
    if not isinstance(model, bytes) or len(model) > most:
        return None
    return hashlib.sha256(model).hexdigest()
