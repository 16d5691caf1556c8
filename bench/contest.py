"""Peers that take turns on cases, each in a process of its own.

A peer that gives no answer in time, or whose process ends, is out for the case; the next case gets
a new process.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import Any

from peers import OURS
from work import Expected, Outputs

WORKER = Path(__file__).resolve().parent / "worker.py"
PAUSE_SECONDS = 0.25
"""Between turns on several threads: some peers' threads spin for a fifth of a second after work."""
MOST_BATCH_SECONDS = 0.05
"""A turn of a peer repeats the call until about so much time has passed."""
FEWEST_ROUNDS = 3
"""Of a peer whose calls take so long that its time is over before."""
PATIENCE = 3.0
"""How much more than its time a slow peer may take for all its rounds."""
PROFILED_CALLS = 10


class PeerError(Exception):
    """A peer cannot do what it is asked for."""


@dataclass(frozen=True)
class Settings:
    """How a contest is held.

    rounds, seconds: turns, and time, that each peer has at least. limit_s: seconds after which a
    peer that does not answer is ended. cold: compile ours twice, with nothing kept from before and
    with what the first time kept. interpreters: of peers that are installed elsewhere, by name.
    scratch: where peers keep what they made, if not where they do by default.
    """

    rounds: int = 10
    seconds: float = 2.0
    limit_s: float = 120.0
    clock: str = "wall"
    cold: bool = False
    profile: bool = True
    interpreters: Mapping[str, str] = field(default_factory=dict)
    scratch: str | None = None


class Contestant:
    """A peer's process, begun when it is first asked."""

    def __init__(self, suite: str, name: str, threads: int, settings: Settings) -> None:
        self.command = [
            *(settings.interpreters.get(name, sys.executable), str(WORKER)),
            *(suite, name, str(threads)),
        ]
        self.environment = {} if settings.scratch is None else {"TMPDIR": settings.scratch}
        self.limit_s = settings.limit_s
        self.process: subprocess.Popen[bytes] | None = None
        self.pipe: Connection | None = None

    def ask(self, what: str, argument: object = None) -> Any:  # by request
        """What the peer answers. Raises PeerError if it fails, ends or takes too long."""
        pipe = self.pipe or self._start()
        try:
            pipe.send((what, argument))
            if not pipe.poll(self.limit_s):
                self.end()
                raise PeerError(f"failed: no answer to {what!r} in {self.limit_s:.0f} s")
            verdict, answer = pipe.recv()
        except (EOFError, OSError) as error:
            status = self.process.wait(5) if self.process else None
            self.end()
            raise PeerError(f"failed: its process ended with status {status}") from error
        if verdict != "ok":
            raise PeerError(f"{verdict}: {answer}")
        return answer

    def _start(self) -> Connection:
        ours, theirs = multiprocessing.Pipe()
        self.process = subprocess.Popen(  # noqa: S603 - our worker
            [*self.command, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=os.environ | self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self.pipe = ours
        return ours

    def end(self) -> None:
        """End the process with those that it started."""
        if self.pipe is not None:
            self.pipe.close()
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = self.pipe = None


class Contest:
    """The peers of a suite on one thread count. A context: its end ends the processes."""

    def __init__(self, suite: str, names: Sequence[str], threads: int, settings: Settings) -> None:
        self.threads = threads
        self.settings = settings
        self.contestants = {n: Contestant(suite, n, threads, settings) for n in names}

    def __enter__(self) -> Contest:
        return self

    def __exit__(self, *_: object) -> None:
        for contestant in self.contestants.values():
            contestant.end()

    def versions(self) -> dict[str, str]:
        """The versions of the peers."""
        found = {}
        for name, contestant in self.contestants.items():
            try:
                found[name] = contestant.ask("versions")
            except PeerError as error:
                found[name] = str(error)
        return found

    def run(
        self,
        case: str,
        expected: Expected,
        *,
        without: Mapping[str, str] = MappingProxyType({}),
        tell: Callable[[str], None] = lambda _: None,
    ) -> dict[str, Any]:
        """The figures of a case: times of all peers, taken in turns, and the kernels of ours.

        without: peers that do not take part, and why. tell: is told what is being done.
        """
        names = [n for n in self.contestants if n not in without]
        figures: dict[str, dict[str, Any]] = {}
        for name in names:
            tell(f"{name} prepares")
            figures[name] = self._prepared(name, case, expected)
        tell("timing")
        self._time({n: f for n, f in figures.items() if f["verdict"] == "ok"})
        kernels = self._kernels(figures)
        for name in names:
            with contextlib.suppress(PeerError):
                self.contestants[name].ask("forget")
        figures |= {n: {"verdict": without[n]} for n in self.contestants if n in without}
        return {"peers": figures, "kernels": kernels}

    def _prepared(self, name: str, case: str, expected: Expected) -> dict[str, Any]:
        """The verdict on a peer's outputs, and how long it took to compile."""
        contestant = self.contestants[name]
        figures: dict[str, Any] = {}
        try:
            if self.settings.cold and name == OURS:
                figures["compile_cold_s"], answer = _compiled_twice(contestant, case)
            else:
                answer = contestant.ask("prepare", case)
        except PeerError as error:
            return {"verdict": str(error)}
        outputs: Outputs = answer["outputs"]
        return {"verdict": expected.verdict(outputs), **figures, "compile_s": answer["compile_s"]}

    def _time(self, able: dict[str, dict[str, Any]]) -> None:
        """Time those that are able, in turns, into their figures."""
        settings = self.settings
        counts: dict[str, int] = {}
        wanted: dict[str, int] = {}
        for name in list(able):
            try:
                once = max(self.contestants[name].ask("time", (1, "wall")), 1e-9)
            except PeerError as error:
                able.pop(name)["verdict"] = str(error)
                continue
            counts[name] = max(1, min(1000, int(MOST_BATCH_SECONDS / once)))
            turns = settings.seconds / (counts[name] * once)
            wanted[name] = int(max(min(settings.rounds, PATIENCE * turns), turns, FEWEST_ROUNDS))
        times: dict[str, list[float]] = {name: [] for name in able}
        while waiting := [n for n in able if len(times[n]) < wanted[n]]:
            for name in waiting:
                time.sleep(PAUSE_SECONDS if self.threads > 1 and len(able) > 1 else 0.0)
                try:
                    taken = self.contestants[name].ask("time", (counts[name], settings.clock))
                except PeerError as error:
                    able.pop(name)["verdict"] = str(error)
                    continue
                times[name].append(taken)
        for name, figures in able.items():
            figures.update(_figures(times[name]))

    def _kernels(self, figures: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
        if not self.settings.profile or "median_us" not in figures.get(OURS, {}):
            return []
        try:
            found = self.contestants[OURS].ask("profile", PROFILED_CALLS)
        except PeerError:
            return []
        total = sum(k["us"] for k in found)
        return [k for k in found if k["us"] >= 0.02 * total]


def _compiled_twice(contestant: Contestant, case: str) -> tuple[float, dict[str, Any]]:
    """The seconds with an empty cache, and the answer with what that left, in new processes."""
    with tempfile.TemporaryDirectory() as folder:
        contestant.environment["TENSORSMITH_CACHE_DIR"] = folder
        contestant.end()
        cold = contestant.ask("prepare", case)["compile_s"]
        contestant.end()
        return cold, contestant.ask("prepare", case)


def _figures(times: list[float]) -> dict[str, Any]:
    ordered = sorted(times)
    return {
        "median_us": statistics.median(ordered) * 1e6,
        "p10_us": ordered[len(ordered) // 10] * 1e6,
        "p90_us": ordered[len(ordered) * 9 // 10] * 1e6,
        "rounds": len(ordered),
    }
