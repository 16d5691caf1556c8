"""A peer's process: prepares works of a suite, and times calls, as it is told over a pipe.

python worker.py SUITE PEER THREADS FILE_DESCRIPTOR

A suite is a module of this folder with a function `work` of a case's name. A request is what to do
and an argument; the answer is ('ok', value), or why not: ('failed', text), ('none', text).
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import peers
from work import NoFormError, Run, Work

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
"""What time is taken from. That of the processor says what a thread needs on a machine that others
use, too; it adds up threads, so it is for one."""
LONGEST_REASON = 300


class Worker:
    """A peer with the work that it prepared last."""

    def __init__(self, work: Callable[[str], Work], name: str, threads: int) -> None:
        self.work = work
        self.name = name
        self.peer = peers.PEERS[name]
        self.threads = threads
        self.run: Run | None = None

    def answer(self, what: str, argument: Any) -> Any:  # by request
        """What is asked for."""
        requests: dict[str, Callable[[Any], Any]] = {
            "versions": lambda _: peers.versions(self.name),
            "prepare": self.prepare,
            "time": self.time,
            "profile": self.profile,
            "forget": self.forget,
        }
        return requests[what](argument)

    def prepare(self, case: str) -> dict[str, Any]:
        """The outputs of a case, and the seconds from its model to the end of the first call."""
        work = self.work(case)
        for module in self.peer.modules:
            importlib.import_module(module)
        begin = time.perf_counter()
        self.run = self.peer.prepare(work, self.threads)
        outputs = self.run()
        seconds = time.perf_counter() - begin
        return {"compile_s": seconds, "outputs": [np.array(o) for o in outputs]}

    def time(self, argument: tuple[int, str]) -> float:
        """The seconds of a call, from so many of them."""
        calls, clock = argument
        now, run = CLOCKS[clock], self.run
        assert run is not None
        begin = now()
        for _ in range(calls):
            run()
        return (now() - begin) / calls

    def profile(self, repeats: int) -> list[dict[str, Any]]:
        """The kernels of ours."""
        found = getattr(self.peer, "profile", None)
        return [] if found is None else found(repeats)

    def forget(self, _: None) -> None:
        """Let go of what was prepared."""
        self.run = None


def serve(worker: Worker, pipe: Connection) -> None:
    """Answer requests until there are no more."""
    while True:
        try:
            what, argument = pipe.recv()
        except EOFError:
            return
        try:
            answer = ("ok", worker.answer(what, argument))
        except NoFormError as error:
            answer = ("none", str(error))
        except Exception as error:  # noqa: BLE001  # a peer's failure is a figure of its own
            worker.forget(None)
            text = " ".join(f"{type(error).__name__}: {error}".split())
            answer = ("failed", text[:LONGEST_REASON])
        pipe.send(answer)


def main() -> None:
    """Serve as the command line says."""
    suite, name, threads, descriptor = sys.argv[1:]
    peers.clear_blas_overrides()
    work = importlib.import_module(suite).work
    serve(Worker(work, name, int(threads)), Connection(int(descriptor)))


if __name__ == "__main__":
    main()
