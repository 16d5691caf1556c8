"""``tensorsmith compile``: from a model file to one that runs without the compiler."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from tensorsmith.cli.display import out, print_json, size_text
from tensorsmith.cli.models import Json, ModelPath, TargetName, open_model

SUFFIX = ".tensorsmith"


def compile_model(
    model: ModelPath,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to. [default: MODEL.tensorsmith]")
    ] = None,
    *,
    target: TargetName = "native",
    winograd: Annotated[
        bool, typer.Option(help="Convolutions by minimal filtering where that is faster.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Compile a model to one file: machine code, weights that are mapped into memory, a manifest.

    The file runs with `tensorsmith.load`, which needs nothing of the compiler.
    """
    begin = time.perf_counter()
    made = open_model(model, target=target, winograd=winograd, quiet=as_json)
    seconds = time.perf_counter() - begin
    place = output or model.with_suffix(SUFFIX)
    made.save(place)
    code = sum(len(part.code) for part in made.objects)
    if as_json:
        print_json(
            {
                "output": str(place),
                "seconds": seconds,
                "kernels": len(made.kernels),
                "code_bytes": code,
                "weight_bytes": made.weights.size,
                "inputs": [str(i) for i in made.inputs],
                "outputs": [str(o) for o in made.outputs],
            }
        )
        return
    out().print(f"{place}: compiled in {seconds:.2f} s")
    out().print(
        f"  {len(made.kernels)} kernels, {size_text(code)} of code,"
        f" {size_text(made.weights.size)} of weights"
    )
    for name, infos in (("in ", made.inputs), ("out", made.outputs)):
        for info in infos:
            out().print(f"  {name} {info}", markup=False)
