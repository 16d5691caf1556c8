"""``tensorsmith bench``: how long a model takes, alone or against a peer in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from tensorsmith.cli.display import out, print_json, table, working
from tensorsmith.cli.models import (
    Fills,
    Inputs,
    Json,
    ModelPath,
    Seed,
    Sizes,
    Threads,
    feeds,
    is_compiled,
    open_model,
)
from tensorsmith.errors import TensorsmithError

Array = np.ndarray[Any, Any]
Call = Callable[[], Mapping[str, Any]]
PEERS: Final = ("onnxruntime",)
RELATIVE: Final = 1e-3
"""Of the largest output: how far a peer's may differ before the table says so."""


def bench(
    model: ModelPath,
    files: Inputs = [],  # noqa: B006 - typer reads it, nobody writes it
    extents: Sizes = [],  # noqa: B006
    fills: Fills = [],  # noqa: B006
    *,
    against: Annotated[
        str | None, typer.Option("--vs", help="A peer to take turns with: onnxruntime.")
    ] = None,
    threads: Threads = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="Time for each contestant.")] = 2.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Time a model: medians over calls that alternate with a peer's, outputs compared."""
    if against is not None and against not in PEERS:
        raise TensorsmithError(f"there is no peer {against!r}", try_=f"--vs {' or '.join(PEERS)}")
    if against is not None and is_compiled(model):
        raise TensorsmithError(
            f"{model} is compiled: {against} cannot run it", try_="the ONNX file"
        )
    made = open_model(model, threads=threads, quiet=as_json)
    given = feeds(made, files, extents, fills, seed)
    calls: dict[str, Call] = {"tensorsmith": lambda: made.run(**given)}
    if against is not None:
        calls[against] = onnxruntime_call(model, given, made.threads)
    off = _difference(calls)
    with working("timing", quiet=as_json):
        times = alternate(calls, seconds)
    rows = [{"contestant": name, **_figures(taken)} for name, taken in times.items()]
    medians = [statistics.median(taken) for taken in times.values()]
    ratio = medians[0] / medians[1] if len(medians) > 1 else None
    if as_json:
        print_json({"threads": made.threads, "rows": rows, "ratio": ratio, "difference": off})
        return
    shown = [tuple(f"{v:.3f}" if isinstance(v, float) else v for v in r.values()) for r in rows]
    columns = ("", "median ms", "p10 ms", "p90 ms", "calls")
    table(columns, shown, f"{model.name} on {made.threads} threads")
    if ratio is not None:
        out().print(f"ours / {against}: {ratio:.3f}; outputs differ by {off:.1e} of the largest")
    if off is not None and off > RELATIVE:
        raise TensorsmithError(
            f"the outputs differ from {against}'s by {off:.1e} of the largest",
            try_=f"tensorsmith compare {model}",
        )


def onnxruntime_call(model: Path, given: dict[str, Array], threads: int) -> Call:
    """A call of ONNX Runtime on the model. Raises TensorsmithError if it is not installed."""
    try:
        import onnxruntime
    except ImportError as error:
        raise TensorsmithError(
            "onnxruntime is not installed", try_="pip install onnxruntime"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return lambda: dict(zip(names, session.run(names, given), strict=True))


def alternate(
    calls: Mapping[str, Call], seconds: float, rounds: int = 10
) -> dict[str, list[float]]:
    """The seconds of calls taken in turns: `rounds` at least, and so long for each."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds * len(calls)
    done = 0
    while done < rounds or time.perf_counter() < end:
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
        done += 1
    return times


def _figures(times: list[float]) -> dict[str, float | int]:
    ordered = sorted(1e3 * t for t in times)
    return {
        "median ms": statistics.median(ordered),
        "p10 ms": ordered[len(ordered) // 10],
        "p90 ms": ordered[len(ordered) * 9 // 10],
        "calls": len(ordered),
    }


def _difference(calls: Mapping[str, Call]) -> float | None:
    """How far the contestants' outputs are apart, as a share of the largest; None for one."""
    if len(calls) < 2:
        return None
    ours, theirs = (call() for call in calls.values())
    worst = 0.0
    for name, value in theirs.items():
        a, b = np.asarray(ours[name]), np.asarray(value)
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if a.size and a.dtype.kind in "fiub":
            scale = max(float(np.max(np.abs(b.astype(np.float64)))), 1e-30)
            gap = np.abs(a.astype(np.float64) - b)
            worst = max(worst, float(np.nanmax(gap)) / scale)
    return worst
