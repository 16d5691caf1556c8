"""The command line that suites share: chooses cases and peers, measures, prints, writes figures.

Figures are written after each case, so that an interrupted run can be resumed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import peers
from contest import Contest, Settings
from machine import ROOT, command_line, machine, revision
from peers import FIXED, OURS
from rich.console import Console
from rich.progress import Progress
from tables import best_peer, latency_table, means_table
from work import Expected
from worker import CLOCKS

from tensorsmith.codegen import limits

Document = dict[str, Any]
Figures = dict[str, Any]


@dataclass(frozen=True)
class Suite:
    """Cases that are measured alike.

    name: of its module, in which a peer's process finds `work`, and of the file of its figures.
    quick: the cases of a quick run. more: those that only their names choose. peers: those that can
    take part, besides ours. expected: what must come out of a case. facts: what the figures say of
    a case on some threads besides times. dynamic: whether a case leaves sizes open.
    """

    name: str
    cases: Sequence[str]
    quick: Sequence[str]
    peers: Sequence[str]
    expected: Callable[[str], Expected]
    facts: Callable[[str, Figures, limits.Limits], Figures]
    dynamic: Callable[[str], bool]
    more: Sequence[str] = ()

    @property
    def results(self) -> Path:
        """The file of the figures of a whole run."""
        return ROOT / "bench" / "results" / f"{self.name}.json"


def options_of(suite: Suite, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    add = parser.add_argument
    add("--cases", "--models", nargs="*", help="names of cases, or parts of names")
    add("--quick", action="store_true", help="the few cases of a quick run")
    add("--threads", type=int, nargs="*", default=[1, 2])
    add("--peers", nargs="*", help="peers besides ours; all that are installed if left out")
    add("--rounds", type=int, default=10, help="turns of each peer at least")
    add("--seconds", type=float, default=2.0, help="time for each peer at least")
    add("--limit", type=float, default=120.0, help="seconds after which a peer is given up")
    add("--cold", action="store_true", help="measure also how long ours compiles the first time")
    add("--dynamic-cost", action="store_true", help="ours compiled for fixed sizes, too")
    add("--clock", choices=CLOCKS, default="wall", help="cpu: a thread's own time")
    add("--python", nargs="*", default=[], metavar="PEER=INTERPRETER", help="where a peer is")
    add("--json", type=Path, help="where to write; a whole run writes bench/results if left out")
    add("--resume", action="store_true", help="keep the figures that the file has already")
    options = parser.parse_args(arguments)
    if options.clock == "cpu" and options.threads != [1]:
        parser.error("--clock cpu adds up threads: it goes with --threads 1")
    options.interpreters = dict(p.partition("=")[::2] for p in options.python)
    options.chosen = chosen_cases(suite, options.cases, quick=options.quick)
    if not options.chosen:
        parser.error(f"no case has {' or '.join(options.cases)} in its name")
    if options.json is None and options.chosen == list(suite.cases):
        options.json = suite.results
    return options


def chosen_cases(suite: Suite, parts: Sequence[str] | None, *, quick: bool) -> list[str]:
    """The cases with one of these parts in their names; all, or the quick ones, for none."""
    offered = suite.quick if quick else suite.cases
    if parts and not quick:
        offered = list(dict.fromkeys([*offered, *suite.more]))
    return [c for c in offered if not parts or any(p in c for p in parts)]


def chosen_peers(suite: Suite, options: argparse.Namespace) -> list[str]:
    """The contestants, ours first."""
    here = {*peers.installed(), *options.interpreters}
    wanted = [n for n in suite.peers if n in here]
    if options.peers is not None:
        wanted = [n for n in wanted if n in options.peers]
    return [OURS, *([FIXED] if options.dynamic_cost else []), *wanted]


def begun(suite: Suite, options: argparse.Namespace) -> Document:
    """A document without results, or the one to go on with."""
    if options.resume and options.json is not None and options.json.exists():
        found: Document = json.loads(options.json.read_text(encoding="utf-8"))
        return found
    return {
        "suite": suite.name,
        "command": command_line(),
        "machine": machine(),
        "versions": {},
        "clock": options.clock,
        "limits": {},
        "results": [],
    }


def measure(suite: Suite, options: argparse.Namespace, console: Console) -> Document:
    """The figures of the chosen cases, written as they come."""
    document = begun(suite, options)
    names = chosen_peers(suite, options)
    done = {(r["case"], r["threads"]) for r in document["results"]}
    with (
        Progress(console=console, transient=True) as progress,
        tempfile.TemporaryDirectory(prefix="bench-") as scratch,
    ):
        task = progress.add_task("", total=len(options.chosen) * len(options.threads))
        for threads in options.threads:
            settings = settings_of(options, scratch, first=threads == options.threads[0])
            limit = limits.measure(threads)
            document["limits"][str(threads)] = asdict(limit)
            with Contest(suite.name, names, threads, settings) as contest:
                document["versions"] |= contest.versions() | {OURS: revision()}
                for case in options.chosen:
                    if (case, threads) not in done:
                        tell = _teller(progress, task, case)
                        without = unable(suite, case, document)
                        row = measured(suite, contest, case, limit, without, tell)
                        document["results"].append(row)
                        _write(document, options.json)
                        progress.console.print(_line(row), highlight=False, soft_wrap=True)
                    progress.advance(task)
    return document


def settings_of(options: argparse.Namespace, scratch: str, *, first: bool) -> Settings:
    """How a contest is held. Compiling cold is measured on the first thread count alone."""
    return Settings(
        rounds=options.rounds,
        seconds=options.seconds,
        limit_s=options.limit,
        clock=options.clock,
        cold=options.cold and first,
        interpreters=options.interpreters,
        scratch=scratch,
    )


def unable(suite: Suite, case: str, document: Document) -> dict[str, str]:
    """Who has nothing to do in a case, and why: fixed sizes are no other there, or it failed on
    another number of threads."""
    why = {} if suite.dynamic(case) else {FIXED: "none: the model leaves no sizes open"}
    for row in document["results"]:
        if row["case"] == case:
            why |= {n: f["verdict"] for n, f in row["peers"].items() if "median_us" not in f}
    why.pop(OURS, None)
    return why


def measured(
    suite: Suite,
    contest: Contest,
    case: str,
    limit: limits.Limits,
    without: Mapping[str, str],
    tell: Callable[[str], None],
) -> Figures:
    """A row of the results."""
    begin = time.perf_counter()
    expected = suite.expected(case)
    found = contest.run(case, expected, without=without, tell=tell)
    facts = suite.facts(case, found["peers"][OURS], limit)
    took = round(time.perf_counter() - begin, 1)
    return {"case": case, "threads": contest.threads, **facts, "took_s": took, **found}


def _teller(progress: Progress, task: Any, case: str) -> Callable[[str], None]:
    return lambda text: progress.update(task, description=f"{case}: {text}")


def _write(document: Document, path: Path | None) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _line(row: Figures) -> str:
    """What the progress says of a case that is done."""
    ours = row["peers"][OURS]
    head = f"{row['case']}, {row['threads']} threads, {row['took_s']:.0f} s:"
    if "median_us" not in ours:
        return f"{head} {ours['verdict']}"
    text = f"{head} {ours['median_us'] / 1e3:.3f} ms"
    best = best_peer(row)
    if best is None:
        return text
    ratio = ours["median_us"] / row["peers"][best]["median_us"]
    return f"{text}, {ratio:.2f} of {best}'s"


def main(suite: Suite) -> None:
    """Measure, print, write."""
    peers.clear_blas_overrides()
    options = options_of(suite)
    document = measure(suite, options, Console(stderr=True))
    print(f"{latency_table(document).text()}\n\n{means_table(document).text()}")
    if options.json is not None:
        print(f"written to {options.json}")
