"""Whole models against every peer that is installed, in one run.

Each peer runs in a process of its own and takes turns with the others. Outputs are compared with
ONNX Runtime's before a time counts. Prints a table of medians, and writes all figures with the
machine they are from to a JSON file.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import peers
from models import LIGHT, MODELS, light_inputs, light_model
from operators import ROOT, Contest, machine
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tensorsmith.codegen import limits

Array = np.ndarray[Any, Any]
Outputs = list[Array]
RELATIVE = 2e-3
"""Of the largest output: how far peers may differ. Networks of a hundred layers in f32 differ by
some 1e-5; quantised ones by a step of their last quantisation."""


def subject(case: str) -> tuple[bytes, dict[str, Array]]:
    """The model file of a case and its inputs. Cases are called 'model' or 'model@number'."""
    name, _, choice = case.partition("@")
    if name in LIGHT:
        model = light_model(name)
        return model.SerializeToString(), light_inputs(model)
    packaged = MODELS[name]
    return packaged.path().read_bytes(), packaged.inputs(packaged.sizes[int(choice or 0)])


def all_cases() -> list[str]:
    """Every case."""
    return [f"{name}@{k}" for name in MODELS for k in range(2)] + list(LIGHT)


class Peer(Protocol):
    """Someone who can run models. `modules` must be importable for it to take part."""

    modules: tuple[str, ...]

    def prepare(
        self, model: bytes, inputs: Mapping[str, Array], threads: int
    ) -> Callable[[], Outputs]:
        """A call that runs the model and gives its outputs in order."""


class Ours:
    """Tensorsmith, with default schedules."""

    modules: tuple[str, ...] = ()

    def prepare(
        self, model: bytes, inputs: Mapping[str, Array], threads: int
    ) -> Callable[[], Outputs]:
        import tensorsmith

        exe = tensorsmith.compile(model, threads=threads)
        given = [inputs[i.name] for i in exe.inputs]

        def run() -> Outputs:
            found = exe(*given)
            return list(found) if isinstance(found, tuple) else [found]

        return run


class OnnxRuntime:
    """ONNX Runtime with its default optimisations."""

    modules = ("onnxruntime",)

    def prepare(
        self, model: bytes, inputs: Mapping[str, Array], threads: int
    ) -> Callable[[], Outputs]:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        feeds = dict(inputs)
        return lambda: session.run(None, feeds)


class OpenVino:
    """OpenVINO's CPU plugin in its latency mode, in f32 where the model is."""

    modules = ("openvino",)

    def prepare(
        self, model: bytes, inputs: Mapping[str, Array], threads: int
    ) -> Callable[[], Outputs]:
        import openvino

        core = openvino.Core()
        options = {
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = core.compile_model(core.read_model(model), "CPU", options)
        request = compiled.create_infer_request()
        feeds = dict(inputs)

        def run() -> Outputs:
            found = request.infer(feeds, share_inputs=True, share_outputs=True)
            return [found[o] for o in compiled.outputs]

        return run


PEERS: dict[str, Peer] = {
    "tensorsmith": Ours(),
    "onnxruntime": OnnxRuntime(),
    "openvino": OpenVino(),
}


def installed() -> list[str]:
    """The peers that can take part here."""
    return [n for n, p in PEERS.items() if all(importlib.util.find_spec(m) for m in p.modules)]


def serve(name: str, threads: int, pipe: Connection) -> None:
    """A peer's process: prepares models and times turns as it is told."""
    peers.clear_blas_overrides()
    run: Callable[[], Outputs] | None = None
    while (message := pipe.recv()) is not None:
        what, argument = message
        if what == "prepare":
            model, inputs = subject(argument)
            try:
                run = PEERS[name].prepare(model, inputs, threads)
                expected = OnnxRuntime().prepare(model, inputs, threads)()
                pipe.send(verdict(expected, run()))
            except Exception as error:  # noqa: BLE001  # a peer's failure is a figure of its own
                run = None
                pipe.send(f"failed: {type(error).__name__}: {error}"[:200])
        else:
            assert run is not None
            begin = time.perf_counter()
            for _ in range(argument):
                run()
            pipe.send((time.perf_counter() - begin) / argument)


def verdict(expected: Outputs, got: Outputs) -> str:
    """'ok', or what is wrong with outputs that should be like `expected`."""
    if len(expected) != len(got):
        return f"wrong: {len(got)} outputs for {len(expected)}"
    for number, (e, g) in enumerate(zip(expected, got, strict=True)):
        if e.shape != g.shape or e.dtype != g.dtype:
            return f"wrong: output {number} is {g.dtype}{g.shape}, not {e.dtype}{e.shape}"
        scale = float(np.max(np.abs(e), initial=1e-30))
        error = float(np.max(np.abs(e.astype(np.float64) - g), initial=0.0))
        if not error <= RELATIVE * scale:
            return f"wrong: output {number} is off by {error / scale:.2g} of its largest"
    return "ok"


def report(results: list[dict[str, Any]], names: list[str], console: Console) -> None:
    """The table: medians in milliseconds, and our ratio to the best peer."""
    table = Table("model", "threads", *names, "ratio")
    ratios = []
    for row in results:
        medians = {n: f["median_us"] for n, f in row["peers"].items() if "median_us" in f}
        cells = [
            f"{medians[n] / 1e3:.3f}" if n in medians else str(row["peers"][n]["verdict"])[:40]
            for n in names
        ]
        others = [m for n, m in medians.items() if n != "tensorsmith"]
        ratio = None
        if "tensorsmith" in medians and others:
            ratio = medians["tensorsmith"] / min(others)
            ratios.append(ratio)
        shown = "-" if ratio is None else f"{ratio:.2f}"
        table.add_row(row["case"], str(row["threads"]), *cells, shown)
    console.print(table)
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        console.print(f"geometric mean of our time over the best peer's: {mean:.3f}")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", help="names of models, or parts of names")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=10, help="turns of each peer at least")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each peer at least")
    parser.add_argument("--peers", nargs="*", help="peers besides ours; all installed ones")
    parser.add_argument("--json", type=Path, default=ROOT / "bench/results/networks.json")
    options = parser.parse_args()
    peers.clear_blas_overrides()
    names = [
        n for n in installed() if options.peers is None or n in (*options.peers, "tensorsmith")
    ]
    chosen = [
        c for c in all_cases() if not options.models or any(part in c for part in options.models)
    ]
    if not chosen:
        sys.exit(f"no model has {' or '.join(options.models)} in its name")
    results: list[dict[str, Any]] = []
    bounds = {}
    for threads in options.threads:
        bounds[threads] = asdict(limits.measure(threads))
        contest = Contest(names, threads, serve)
        for case in track(chosen, f"{threads} threads", console=Console(stderr=True)):
            found = contest.run(case, rounds=options.rounds, seconds=options.seconds)
            results.append({"case": case, "threads": threads, "peers": found})
        contest.close()
    console = Console()
    report(results, names, console)
    document = {"machine": machine(), "limits": bounds, "results": results}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    console.print(f"written to {options.json}")


if __name__ == "__main__":
    main()
