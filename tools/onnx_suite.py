"""Runs ONNX's backend test suite against Tensorsmith, and shows what fails, grouped by reason.

    python tools/onnx_suite.py [--filter REGEX] [--jobs 2] [--interpret] [--verbose] [--update]
    python tools/onnx_suite.py --filter '^test_conv'

`--update` adds what passes to the list of cases that have to pass; nothing is ever taken from it.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from threading import Thread
from time import sleep

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from suites.onnx_cases import PASS_LIST, Outcome, cases, listed, run_case  # noqa: E402

KINDS_OF_ERRORS = re.compile(r"'[^']*'|\d+(\.\d+)?")


def work(options: argparse.Namespace) -> None:
    """Run a share of the cases; an outcome a line, as JSON."""
    from tensorsmith.onnx_backend import InterpretedBackend, TensorsmithBackend

    backend = InterpretedBackend if options.interpret else TensorsmithBackend
    part, parts = map(int, options.part.split("/"))
    for case in cases(options.filter)[part::parts]:
        found = run_case(case, backend.prepare, options.seconds)
        sys.stdout.write(json.dumps(vars(found)) + "\n")
        sys.stdout.flush()


def share(options: argparse.Namespace, part: int, outcomes: list[Outcome]) -> None:
    """Add the outcomes of a share, which a process of its own runs, as they come."""
    command = [sys.executable, "-W", "ignore", __file__, "--part", f"{part}/{options.jobs}"]
    command += ["--filter", options.filter, "--seconds", str(options.seconds)]
    command += ["--interpret"] if options.interpret else []
    last = "the first case"
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                found = Outcome(**json.loads(line))
                outcomes.append(found)
                last = found.name
    if process.returncode:
        error = f"Crash: the process ended with {process.returncode} after {last}"
        outcomes.append(Outcome(f"after_{last}", "?", 0.0, error))


def report(outcomes: list[Outcome], *, verbose: bool) -> None:
    """Print failures in groups, the largest first, and the count."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for o in outcomes:
        if o.error is not None:
            groups[KINDS_OF_ERRORS.sub("·", o.error)[:160]].append(o)
    write = sys.stdout.write
    for reason, group in sorted(groups.items(), key=lambda g: -len(g[1])):
        operators = sorted({o.operators for o in group})
        write(f"{len(group):5} {reason}\n")
        write(f"      of {'; '.join(operators[:6])}\n")
        write(f"      as {', '.join(o.name for o in group[:4])}\n")
        if verbose:
            write(group[0].details + "\n")
    slowest = sorted(outcomes, key=lambda o: -o.seconds)[:5]
    write(f"slowest: {', '.join(f'{o.name} {o.seconds:.1f} s' for o in slowest)}\n")
    passed = sum(o.error is None for o in outcomes)
    seconds = sum(o.seconds for o in outcomes)
    write(f"{passed} of {len(outcomes)} pass, {seconds:.0f} s of work\n")


def update(outcomes: list[Outcome]) -> None:
    """Add the cases that passed to the list."""
    known = listed(PASS_LIST) if PASS_LIST.exists() else []
    names = sorted({*known, *(o.name for o in outcomes if o.error is None)})
    PASS_LIST.write_text("".join(f"{n}\n" for n in names))


def main() -> int:
    """Run the cases that are asked for; 1 if a listed one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="a regular expression on names of cases")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=120, help="what a case may take")
    parser.add_argument("--interpret", action="store_true", help="by the reference interpreter")
    parser.add_argument("--verbose", action="store_true", help="a traceback of each group")
    parser.add_argument("--update", action="store_true", help="add what passes to the list")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between looks")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        work(options)
        return 0
    outcomes: list[Outcome] = []
    threads = [Thread(target=share, args=(options, n, outcomes)) for n in range(options.jobs)]
    for thread in threads:
        thread.start()
    try:
        while any(t.is_alive() for t in threads):
            sleep(options.every)
            if options.update:
                update(list(outcomes))
    except KeyboardInterrupt:
        sys.stdout.write("stopped early\n")
    report(outcomes, verbose=options.verbose)
    if options.update:
        update(outcomes)
    must = set(listed(PASS_LIST)) if PASS_LIST.exists() else set()
    broken = sorted(o.name for o in outcomes if o.error is not None and o.name in must)
    if broken:
        sys.stdout.write(f"listed, and failing: {', '.join(broken)}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
