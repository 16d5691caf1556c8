"""Operators against every peer that is installed, in one run.

Each peer runs in a process of its own and takes turns with the others: at least ten rounds and two
seconds each. Outputs are compared with an exact reference before a time counts. Prints a table of
medians, and writes all figures with the machine they are from to a JSON file.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import peers
from cases import Case, all_cases
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tensorsmith.codegen import limits

ROOT = Path(__file__).resolve().parent.parent
PAUSE_SECONDS = 0.25
"""Between turns on several threads: some peers' threads spin for a fifth of a second after work."""
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
"""What time is taken from. That of the processor says what a thread needs on a machine that others
use, too; it adds up threads, so it is for one."""
MOST_BATCH_SECONDS = 0.05
"""A turn of a peer repeats the call until about so much time has passed."""


def serve(name: str, threads: int, pipe: Connection, *, clock: str = "wall") -> None:
    """A peer's process: prepares cases and times turns as it is told."""
    peers.clear_blas_overrides()
    peer = peers.PEERS[name]
    cases = all_cases()
    run: peers.Run | None = None
    while True:
        message = pipe.recv()
        if message is None:
            return
        what, argument = message
        if what == "prepare":
            case = cases[argument]
            inputs = case.inputs(np.random.default_rng(0))
            try:
                run = peer.prepare(case, inputs, threads)
                pipe.send(None if run is None else _verdict(case, inputs, run()))
            except Exception as error:  # noqa: BLE001  # a peer's failure is a figure of its own
                run = None
                pipe.send(f"failed: {type(error).__name__}: {error}"[:200])
        else:
            assert run is not None
            begin = CLOCKS[clock]()
            for _ in range(argument):
                run()
            pipe.send((CLOCKS[clock]() - begin) / argument)


def _verdict(case: Case, inputs: list[np.ndarray], got: np.ndarray) -> str:
    expected = case.reference(*inputs)
    error = float(np.max(np.abs(got.astype(np.float64) - expected), initial=0.0))
    return "ok" if error <= case.tolerance else f"wrong: off by {error:.3g}"


class Contest:
    """The peers on one thread count, each waiting in its process.

    serve: what a process does: takes the peer's name, the threads, and a connection by which it is
        asked to 'prepare' a case by name (the answer is 'ok', None, or what is wrong) and to 'time'
        so many calls (the answer is seconds a call).
    """

    def __init__(
        self, names: list[str], threads: int, serve: Callable[[str, int, Connection], None]
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self.threads = threads
        self.pipes: dict[str, Connection] = {}
        self.processes = []
        for name in names:
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(name, threads, theirs), daemon=True)
            process.start()
            self.pipes[name] = ours
            self.processes.append(process)

    def ask(self, name: str, what: str, argument: object) -> Any:  # by question
        """Send a peer a request and wait for its answer."""
        self.pipes[name].send((what, argument))
        return self.pipes[name].recv()

    def run(self, case: str, *, rounds: int, seconds: float) -> dict[str, Any]:
        """Times of all peers on a case, taken in turns."""
        verdicts = {name: self.ask(name, "prepare", case) for name in self.pipes}
        able = [name for name, verdict in verdicts.items() if verdict == "ok"]
        once = {name: self.ask(name, "time", 1) for name in able}
        counts = {n: max(1, min(1000, int(MOST_BATCH_SECONDS / t))) for n, t in once.items()}
        times: dict[str, list[float]] = {name: [] for name in able}
        begin = time.perf_counter()
        while able and (
            len(times[able[0]]) < rounds or time.perf_counter() - begin < seconds * len(able)
        ):
            for name in able:
                time.sleep(PAUSE_SECONDS if self.threads > 1 else 0.0)
                times[name].append(self.ask(name, "time", counts[name]))
        return {
            name: _figures(times[name]) if name in times else {"verdict": verdict}
            for name, verdict in verdicts.items()
        }

    def close(self) -> None:
        """End the processes."""
        for pipe in self.pipes.values():
            pipe.send(None)
        for process in self.processes:
            process.join(5)


def _figures(times: list[float]) -> dict[str, Any]:
    ordered = sorted(times)
    return {
        "verdict": "ok",
        "median_us": statistics.median(ordered) * 1e6,
        "p10_us": ordered[len(ordered) // 10] * 1e6,
        "p90_us": ordered[len(ordered) * 9 // 10] * 1e6,
        "rounds": len(ordered),
    }


def machine() -> dict[str, Any]:
    """What the figures are from."""
    from tensorsmith.target import Target

    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    host = Target.host()
    return {
        "processor": names[0] if names else platform.processor(),
        "llvm_cpu": host.cpu,
        "vector_bits": 8 * host.vector_bytes,
        "cores": host.cores,
        "caches": asdict(host.caches),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
    }


def report(results: list[dict[str, Any]], names: list[str], console: Console) -> None:
    """The table: medians in microseconds, our ratio to the best peer, our share of the limit."""
    others = [n for n in names if n != "tensorsmith"]
    table = Table(*("case", "threads", *names, "ratio", "of limit"), expand=False)
    for column in table.columns:
        column.no_wrap = True
    ratios = []
    for row in results:
        cells = []
        for name in names:
            figures = row["peers"].get(name, {})
            cells.append(
                f"{figures['median_us']:.1f}"
                if "median_us" in figures
                else figures["verdict"] or "-"
            )
        ours = row["peers"]["tensorsmith"].get("median_us")
        best = min(
            (row["peers"][n]["median_us"] for n in others if "median_us" in row["peers"][n]),
            default=None,
        )
        ratio = ours / best if ours and best else None
        if ratio is not None:
            ratios.append(ratio)
        table.add_row(
            row["case"],
            str(row["threads"]),
            *cells,
            "-" if ratio is None else f"{ratio:.2f}",
            "-" if row["share"] is None else f"{row['share']:.0%}",
        )
    console.print(table)
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        console.print(f"geometric mean of our time over the best peer's: {mean:.3f}")


def share_of_limit(case: Case, figures: dict[str, Any], limit: limits.Limits) -> float | None:
    """How near we are to what the machine can do: of the two limits the one that binds."""
    if "median_us" not in figures:
        return None
    if case.group == "integers":
        return None  # the limits are those of floats
    compute = case.flops / (limit.gflops * 1e9)
    memory = case.bytes / (limit.copy_gbs * 1e9) if case.group == "memory" else 0.0
    return max(compute, memory) / (figures["median_us"] * 1e-6)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", help="names of cases, or parts of names")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=10, help="turns of each peer at least")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each peer at least")
    parser.add_argument(
        "--peers", nargs="*", help="peers besides ours; all installed ones if left out"
    )
    parser.add_argument("--json", type=Path, default=ROOT / "bench/results/operators.json")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: a thread's own time")
    options = parser.parse_args()
    if options.clock == "cpu" and options.threads != [1]:
        parser.error("--clock cpu adds up threads: it goes with --threads 1")
    peers.clear_blas_overrides()
    names = [n for n in peers.installed() if options.peers is None or n in options.peers]
    names = ["tensorsmith", *(n for n in names if n != "tensorsmith")]
    chosen = [
        c
        for c in all_cases().values()
        if not options.cases or any(part in c.name for part in options.cases)
    ]
    if not chosen:
        sys.exit(f"no case has {' or '.join(options.cases)} in its name")
    console = Console()
    results: list[dict[str, Any]] = []
    bounds = {}
    for threads in options.threads:
        limit = limits.measure(threads)
        bounds[threads] = asdict(limit)
        contest = Contest(names, threads, functools.partial(serve, clock=options.clock))
        for case in track(chosen, f"{threads} threads", console=Console(stderr=True)):
            found = contest.run(case.name, rounds=options.rounds, seconds=options.seconds)
            share = share_of_limit(case, found["tensorsmith"], limit)
            results.append({"case": case.name, "threads": threads, "peers": found, "share": share})
        contest.close()
    report(results, names, console)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "machine": machine(),
        "clock": options.clock,
        "limits": bounds,
        "results": results,
    }
    options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    console.print(f"written to {options.json}")


if __name__ == "__main__":
    main()
