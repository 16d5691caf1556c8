"""The model that a command is about: compiled from a file, or loaded as it was compiled."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tensorsmith.cli.display import working
from tensorsmith.cli.feeding import inputs_for, sizes
from tensorsmith.errors import TensorsmithError

if TYPE_CHECKING:
    from tensorsmith.runtime.model import Model

Array = np.ndarray[Any, Any]

ModelPath = Annotated[
    Path, typer.Argument(metavar="MODEL", help="An ONNX file, or what `compile` wrote.")
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="On how many threads to run. [default: all usable processors]"),
]
Inputs = Annotated[
    list[str],
    typer.Option("--input", "-i", metavar="NAME=FILE", help="An input from an .npy or .npz file."),
]
Sizes = Annotated[
    list[str],
    typer.Option("--size", "-s", metavar="DIM=N", help="The extent of a dynamic dimension."),
]
Fills = Annotated[
    list[str],
    typer.Option(
        "--fill",
        metavar="NAME=HOW",
        help="How to make up an input: random, zeros or ones. Floats are noise if this is not"
        " said, integers ones.",
    ),
]
Seed = Annotated[int, typer.Option(help="Of made-up inputs.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TargetName = Annotated[
    str, typer.Option("--target", help="'native', or the name of a kind of machine.")
]


def is_compiled(path: Path) -> bool:
    """Whether a file is a compiled model (a zip archive), not one to compile."""
    return path.is_file() and zipfile.is_zipfile(path)


def open_model(
    path: Path,
    *,
    threads: int | None = None,
    target: str = "native",
    winograd: bool = True,
    quiet: bool = False,
) -> Model:
    """The model of a file, compiled if it is not yet. Raises TensorsmithError if it cannot be."""
    if not path.exists():
        raise TensorsmithError(f"there is no file {path}")
    if is_compiled(path):
        from tensorsmith.runtime.model import Model

        return Model.load(path, threads=threads)
    from tensorsmith.compiler import compile

    with working(f"compiling {path.name}", quiet=quiet):
        return compile(path, target=target, threads=threads, winograd=winograd)


def feeds(
    model: Model, files: list[str], extents: list[str], fills: list[str], seed: int
) -> dict[str, Array]:
    """Inputs for a model, from files or made up."""
    return inputs_for(model.inputs, files, sizes(extents), fills, seed)
