"""How long compiled programs take: whole calls, and each of their parallel loops.

The clock is read in machine code, around the program's entry and around each parallel loop, so the
time that Python takes is not in the figures.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from dataclasses import dataclass
from typing import Final

from tensorsmith.errors import EvaluationError
from tensorsmith.runtime.general_call import GeneralCall, Slots
from tensorsmith.runtime.thread_pool import Context, symbols

MOST_LOOPS: Final = 4096
"""Parallel loops of one call whose times are kept."""
_TIME: Final = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """The times of one parallel loop of a program.

    runs: how often it ran in a call. seconds: what all its runs in a call took, for each call.
    """

    runs: int
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of a call's seconds in this loop."""
        return statistics.median(self.seconds)


@dataclass(frozen=True, slots=True)
class Profile:
    """The times of a program's calls.

    seconds: of each call, in order. loops: of its parallel loops, in the order in which they first
    ran; loops inside others are counted in both.
    """

    name: str
    threads: int
    seconds: tuple[float, ...]
    loops: tuple[LoopTimes, ...]

    @property
    def best(self) -> float:
        """The least of the calls' seconds."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The median of the calls' seconds."""
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        head = f"{self.name}: {len(self.seconds)} calls on {self.threads} threads"
        rows = [(head, self.best, self.median)]
        for at, loop in enumerate(self.loops):
            times = "once" if loop.runs == 1 else f"{loop.runs} times"
            rows.append((f"  parallel loop {at}, {times} a call", min(loop.seconds), loop.median))
        width = max(len(what) for what, _, _ in rows)
        lines = [f"{'':<{width}} {'least us':>12} {'median us':>12}"]
        lines += [
            f"{what:<{width}} {least * 1e6:>12.1f} {median * 1e6:>12.1f}"
            for what, least, median in rows
        ]
        return "\n".join(lines)


class _Recorder:
    """Where machine code writes down the parallel loops of a call: how many, how many fit, then
    the address of a body and nanoseconds, each."""

    def __init__(self) -> None:
        self.words = (ctypes.c_int64 * (2 + 2 * MOST_LOOPS))(0, MOST_LOOPS)

    def take(self) -> list[tuple[int, int]]:
        """The bodies and nanoseconds since this was called last."""
        count = min(self.words[0], MOST_LOOPS)
        self.words[0] = 0
        return [(self.words[2 + 2 * k], self.words[3 + 2 * k]) for k in range(count)]


def profile(general: GeneralCall, slots: Slots, repeats: int, warmup: int) -> Profile:
    """Call a program `warmup` times, then `repeats` times with a clock.

    Raises EvaluationError if a call fails, or if this system has no monotonic clock.
    """
    if not hasattr(time, "CLOCK_MONOTONIC"):
        raise EvaluationError("profiling needs a system with a monotonic clock")
    if repeats < 1 or warmup < 0:
        raise EvaluationError(
            f"a profile of {repeats} calls after {warmup} is none", try_="repeats=10, warmup=1"
        )
    recorder = _Recorder()
    context = Context(general.context.threads, recorder=ctypes.addressof(recorder.words))
    timed = _TIME(symbols()["ts_time"])
    nanoseconds = ctypes.c_int64()
    calls: list[int] = []
    loops: dict[int, list[list[int]]] = {}
    for at in range(-warmup, repeats):
        code = timed(general.address, slots.address, context.address, ctypes.addressof(nanoseconds))
        if code:
            general.fail(code, *slots.values)
        for body, spent in recorder.take():
            per_call = loops.setdefault(body, [[] for _ in range(repeats)])
            if at >= 0:
                per_call[at].append(spent)
        if at >= 0:
            calls.append(nanoseconds.value)
    return Profile(
        general.signature.name,
        context.threads,
        tuple(n / 1e9 for n in calls),
        tuple(
            LoopTimes(len(per_call[0]), tuple(sum(runs) / 1e9 for runs in per_call))
            for per_call in loops.values()
        ),
    )
