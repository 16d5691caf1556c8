"""``tensorsmith run``: a model once, on inputs from files or made up."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tensorsmith.cli.display import out, print_json, table
from tensorsmith.cli.models import (
    Fills,
    Inputs,
    Json,
    ModelPath,
    Seed,
    Sizes,
    Threads,
    feeds,
    open_model,
)
from tensorsmith.errors import TensorsmithError


def run(
    model: ModelPath,
    files: Inputs = [],  # noqa: B006 - typer reads it, nobody writes it
    extents: Sizes = [],  # noqa: B006
    fills: Fills = [],  # noqa: B006
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the outputs to this .npz file.")
    ] = None,
    threads: Threads = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run a model once, and say what came out."""
    made = open_model(model, threads=threads, quiet=as_json)
    given = feeds(made, files, extents, fills, seed)
    begin = time.perf_counter()
    results = made.run(**given)
    seconds = time.perf_counter() - begin
    if output is not None:
        _write(output, results)
    rows = [_summary(name, np.asarray(value)) for name, value in results.items()]
    if as_json:
        print_json({"seconds": seconds, "outputs": rows})
        return
    columns = ("output", "dtype", "shape", "least", "mean", "greatest")
    table(columns, [tuple(row.values()) for row in rows])
    out().print(f"first call: {1e3 * seconds:.3f} ms")


def _write(place: Path, results: dict[str, Any]) -> None:
    try:
        with place.open("wb") as file:
            np.savez(file, **results)
    except OSError as error:
        raise TensorsmithError(f"{place} cannot be written: {error.strerror}") from error


def _summary(name: str, value: np.ndarray[Any, Any]) -> dict[str, Any]:
    """What to show of an output."""
    row: dict[str, Any] = {"output": name, "dtype": str(value.dtype), "shape": list(value.shape)}
    if value.size and value.dtype.kind in "fiub":
        numbers = value.astype(np.float64)
        found = (numbers.min(), numbers.mean(), numbers.max())
    else:
        found = (float("nan"),) * 3
    shown = [float(f"{x:.6g}") for x in found]
    return {**row, "least": shown[0], "mean": shown[1], "greatest": shown[2]}
