"""The speed of the compiler itself: nodes built, simplified, substituted, printed, parsed, ...

Prints a table, and writes the figures with the machine they are from to a JSON file. Each figure is
the median of several rounds of processor time; the spread is that of the middle half of them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import subjects
from machine import ROOT, processor

from tensorsmith.arith import Analyzer
from tensorsmith.evaluate import interpret
from tensorsmith.ir import Add, TensorProgram, Var, const, postorder, substitute
from tensorsmith.ir.structural import structural_equal, structural_hash
from tensorsmith.script import parse_program
from tensorsmith.verify import verify

DEFAULT_JSON = ROOT / "bench" / "results" / "compiler.json"

Run = Callable[[], object]


@dataclass(frozen=True)
class Subject:
    """What is measured: one call of `run` does `work` units of `unit`.

    per_call: report the time of a call instead of the units per second.
    """

    name: str
    run: Run
    work: int
    unit: str
    per_call: bool = False


@dataclass(frozen=True)
class Figure:
    """A median with the spread of the middle half of the rounds, both in `unit`."""

    name: str
    median: float
    spread: float
    unit: str


def measure(subject: Subject, rounds: int, round_s: float) -> Figure:
    """Rounds of as many calls as take about `round_s` seconds, with the collector paused."""
    calls = _calls_in(subject.run, round_s)
    seconds = []
    for _ in range(rounds):
        gc.collect()
        gc.disable()
        start = time.process_time()
        for _ in range(calls):
            subject.run()
        seconds.append((time.process_time() - start) / calls)
        gc.enable()
    if subject.per_call:
        values, unit = [s * 1e6 for s in seconds], f"us/{subject.unit}"
    else:
        values, unit = [subject.work / s for s in seconds], f"{subject.unit}/s"
    quarters = statistics.quantiles(values, n=4) if rounds > 1 else (0.0, 0.0, 0.0)
    return Figure(subject.name, statistics.median(values), quarters[2] - quarters[0], unit)


def _calls_in(run: Run, seconds: float) -> int:
    calls = 1
    while True:
        start = time.process_time()
        for _ in range(calls):
            run()
        elapsed = time.process_time() - start
        if elapsed >= seconds / 4:
            return max(1, round(calls * seconds / elapsed))
        calls *= 4


# --- Subjects --------------------------------------------------------------------------------


def expression_subjects() -> Iterator[Subject]:
    """Building, walking and rewriting expressions."""
    terms = [const(t) for t in range(1000)]

    def chain() -> object:
        e = Var("v")
        for t in terms:
            e = Add(e, t)
        return e

    root = Var("v")
    kept = [root]
    for t in terms:
        kept.append(Add(kept[-1], t))

    def again() -> object:
        e = root
        for t in terms:
            e = Add(e, t)
        return e

    yield Subject("nodes built", chain, len(terms), "nodes")
    yield Subject("nodes found (interned)", again, len(terms), "nodes")
    total, variables = subjects.deep_sum(300)
    nodes = subjects.nodes_of(total)
    fresh = {v: Var("w") + 1 for v in variables}
    yield Subject("nodes visited", lambda: list(postorder(total)), nodes, "nodes")
    yield Subject("nodes substituted", lambda: substitute(total, fresh), nodes, "nodes")
    yield Subject("nodes simplified", lambda: Analyzer().simplify(total), nodes, "nodes")


def simplify_subjects() -> Iterator[Subject]:
    """One index expression of 10 to 20 nodes each."""
    scope = subjects.loop_variables()
    warm = subjects.facts_of(*scope)
    for name, e in subjects.index_expressions(*scope).items():
        nodes = subjects.nodes_of(e)

        def cold(e=e) -> object:
            return Analyzer().simplify(e)

        def with_facts(e=e) -> object:
            return subjects.facts_of(*scope).simplify(e)

        def again(e=e) -> object:
            return warm.simplify(e)

        label = f"simplify {name} ({nodes} nodes)"
        yield Subject(f"{label}, cold", cold, 1, "expression", per_call=True)
        yield Subject(f"{label}, cold, 3 loops bound", with_facts, 1, "expression", per_call=True)
        yield Subject(f"{label}, warm", again, 1, "expression", per_call=True)
    yield Subject("bind 3 loops", lambda: subjects.facts_of(*scope), 1, "scope", per_call=True)


def program_subjects() -> Iterator[Subject]:
    """Whole programs as text, hashed, compared, checked."""
    program = subjects.tiled_matmul()
    text = program.script()
    other = parse_program(text)
    lines = len(text.splitlines())

    def subject(verb: str, run: Run) -> Subject:
        return Subject(f"{verb} ({lines} lines)", run, 1, "program", per_call=True)

    yield subject("build", subjects.tiled_matmul)
    yield subject("print", program.script)
    yield subject("parse", lambda: parse_program(text))
    yield subject("hash", lambda: structural_hash(program))
    yield subject("compare", lambda: structural_equal(program, other))
    yield subject("verify", lambda: verify(program))


def interpreter_subjects() -> Iterator[Subject]:
    """The reference interpreter, at sizes that tests use."""
    for size, vectorize in ((64, True), (16, True), (16, False)):
        program = subjects.matmul(const(size), const(size), const(size))
        how = "side by side" if vectorize else "one by one"
        name = f"interpret matmul {size}x{size}x{size}, {how}"
        yield Subject(name, _interpretation(program, vectorize=vectorize), 1, "call", per_call=True)
    program = subjects.softmax(32, 32)
    run = _interpretation(program, vectorize=True)
    yield Subject("interpret softmax 32x32, side by side", run, 1, "call", per_call=True)


def _interpretation(program: TensorProgram, *, vectorize: bool) -> Run:
    shapes = [[int(e.value) for e in b.shape] for b in program.buffers]
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    return lambda: interpret(program, *arrays, vectorize=vectorize)


def all_subjects() -> Iterator[Subject]:
    """Everything that is measured, in the order of the table."""
    yield from expression_subjects()
    yield from simplify_subjects()
    yield from program_subjects()
    yield from interpreter_subjects()


# --- Report ----------------------------------------------------------------------------------


def machine() -> dict[str, object]:
    """The processor, its cores, and the versions that matter."""
    return {
        "cpu": processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(figures: list[Figure]) -> str:
    """The figures as aligned text."""
    width = max(len(f.name) for f in figures)
    rows = [f"{'':{width}}  {'median':>12}  {'spread':>10}"]
    rows += [
        f"{f.name:{width}}  {_shown(f.median):>12}  {_shown(f.spread):>10}  {f.unit}"
        for f in figures
    ]
    return "\n".join(rows)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9, help="rounds a figure (default 9)")
    parser.add_argument(
        "--round-s", type=float, default=0.05, help="seconds a round (default 0.05)"
    )
    parser.add_argument("--only", default="", help="figures whose names contain this text")
    parser.add_argument(
        "--json",
        type=Path,
        default=DEFAULT_JSON,
        help=f"where to write (default {DEFAULT_JSON.name})",
    )
    args = parser.parse_args()
    chosen = [s for s in all_subjects() if args.only in s.name]
    if not chosen or args.rounds < 1:
        parser.error(f"nothing to measure: no figure contains {args.only!r}, or no rounds")
    where = machine()
    figures = [measure(s, args.rounds, args.round_s) for s in chosen]
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    print(table(figures))
    args.json.parent.mkdir(parents=True, exist_ok=True)
    report = {"machine": where, "rounds": args.rounds, "figures": [asdict(f) for f in figures]}
    args.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
