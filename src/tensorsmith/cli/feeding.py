"""Inputs for a model, from files that the user names or made up with a seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensorsmith.errors import ShapeError, TensorsmithError

if TYPE_CHECKING:
    from tensorsmith.runtime.model import TensorInfo

Array = np.ndarray[Any, Any]
FILLS: Final = ("random", "zeros", "ones")


def pairs(options: Iterable[str], option: str) -> dict[str, str]:
    """``NAME=VALUE`` options as a dictionary. Raises TensorsmithError for other forms."""
    found: dict[str, str] = {}
    for text in options:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise TensorsmithError(f"{option} takes NAME=VALUE, not {text!r}")
        found[name] = value
    return found


def sizes(options: Iterable[str]) -> dict[str, int]:
    """``DIMENSION=EXTENT`` options. Raises TensorsmithError for what is no extent."""
    found: dict[str, int] = {}
    for name, value in pairs(options, "--size").items():
        if not value.isdecimal():
            raise TensorsmithError(f"--size {name}={value}: an extent is a whole number")
        found[name] = int(value)
    return found


def inputs_for(
    wanted: Sequence[TensorInfo],
    files: Iterable[str] = (),
    extents: Mapping[str, int] | None = None,
    fills: Iterable[str] = (),
    seed: int = 0,
) -> dict[str, Array]:
    """An array for each input.

    files: ``NAME=FILE`` with FILE an .npy; a bare .npz file holds several by name.
    extents: of dynamic dimensions, by name. Those not given are taken from the files, else 1.
    fills: ``NAME=zeros|ones|random`` for what no file gives. By default floats are normal noise
        and integers are ones, which most models take as identifiers, masks and lengths.
    Raises TensorsmithError for files and names that do not fit.
    """
    given = _from_files(files)
    how = pairs(fills, "--fill")
    names = {w.name for w in wanted}
    for name in (*given, *how):
        if name not in names:
            raise TensorsmithError(
                f"the model has no input {name!r}", try_=f"one of {', '.join(sorted(names))}"
            )
    known = dict(extents or {})
    _check_dimensions(wanted, known)
    for w in wanted:
        if w.name in given:
            for text, extent in zip(w.shape, given[w.name].shape, strict=False):
                if isinstance(text, str):
                    known.setdefault(text, extent)
    rng = np.random.default_rng(seed)
    return {
        w.name: given[w.name] if w.name in given else _made_up(w, known, how.get(w.name), rng)
        for w in wanted
    }


def _check_dimensions(wanted: Sequence[TensorInfo], known: Mapping[str, int]) -> None:
    dynamic = {e for w in wanted for e in w.shape if isinstance(e, str)}
    for name in known:
        if name not in dynamic:
            raise ShapeError(
                f"no input has a dynamic dimension {name!r}",
                try_=f"one of {', '.join(sorted(dynamic))}" if dynamic else "no --size",
            )


def _from_files(files: Iterable[str]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for text in files:
        name, equals, path = text.partition("=")
        try:
            loaded = np.load(Path(path if equals else name), allow_pickle=False)
        except (OSError, ValueError) as error:
            raise TensorsmithError(
                f"--input {text}: {error}", try_="NAME=FILE.npy, or FILE.npz with several"
            ) from error
        if isinstance(loaded, np.ndarray):
            if not equals:
                raise TensorsmithError(f"--input {text}: which input is it?", try_=f"NAME={text}")
            found[name] = loaded
        else:
            found.update({key: loaded[key] for key in loaded.files})
    return found


def _made_up(
    info: TensorInfo, known: Mapping[str, int], fill: str | None, rng: np.random.Generator
) -> Array:
    from tensorsmith.ir.dtype import dtype as as_dtype

    shape = tuple(known.get(e, 1) if isinstance(e, str) else e for e in info.shape)
    type_ = as_dtype(info.dtype)
    assert type_.numpy is not None
    if fill is None:
        fill = "random" if type_.is_float else "ones"
    if fill not in FILLS:
        raise TensorsmithError(
            f"--fill {info.name}={fill} is not known", try_=f"one of {', '.join(FILLS)}"
        )
    if fill == "zeros":
        return np.zeros(shape, type_.numpy)
    if fill == "ones":
        return np.ones(shape, type_.numpy)
    if type_.is_integer or type_.is_bool:
        return rng.integers(0, 2, shape).astype(type_.numpy)
    return rng.standard_normal(shape).astype(type_.numpy)
