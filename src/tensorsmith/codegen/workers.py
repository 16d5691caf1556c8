"""Compiling in worker processes: several kernels at once, and out of harm's way.

LLVM runs under one lock in a process, so kernels of one module compile side by side only in
processes of their own. A worker that LLVM ends is an error of the kernel that it had, and of
nothing else.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Final, Self

from tensorsmith.codegen.llvm import emit
from tensorsmith.codegen.llvm.emit import InvalidCodeError, Machine, NoMachineError
from tensorsmith.errors import CodegenError

START_SECONDS: Final = 0.4
"""What it takes until a worker is ready."""
SECONDS_PER_BYTE: Final = 2e-6
"""What LLVM takes for a byte of text: about 50 milliseconds for a matmul's 25 thousand."""


@dataclass(frozen=True, slots=True)
class Job:
    """Text to compile. name: of the program, for errors."""

    name: str
    ir: str
    machine: Machine


class WorkerEndedError(Exception):
    """A worker process ended before it answered. Its text is what it said last."""


class Worker:
    """A process that compiles. Raises OSError if it cannot be started."""

    def __init__(self) -> None:
        if not sys.executable:
            raise OSError("there is no Python to start")
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        try:
            self._process = subprocess.Popen(  # noqa: S603 (this Python, a file of our own)
                [sys.executable, "-P", "-S", emit.__file__, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
            )
        except OSError:
            self._said.close()
            raise

    def compile(self, job: Job) -> bytes:
        """The object code. Raises as `emit` does, or WorkerEndedError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        message = None
        with contextlib.suppress(OSError):  # a pipe that nobody reads any more
            self._process.stdin.write(emit.request(job.ir, job.machine))
            self._process.stdin.flush()
            message = emit.receive(self._process.stdout)
        if message is None:
            self._process.wait()
            raise WorkerEndedError(self._last_words())
        kind, content = message
        if kind == emit.INVALID:
            raise InvalidCodeError(content.decode())
        if kind == emit.NO_MACHINE:
            raise NoMachineError(content.decode())
        return content

    def _last_words(self) -> str:
        """The line in which LLVM says what it cannot do; else how the process ended."""
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").splitlines()
        telling = [line for line in lines if "LLVM ERROR" in line or "Assertion" in line]
        if telling:
            return telling[0].strip()
        last = f": {lines[-1].strip()}" if lines else ""
        return f"the compiler process ended with code {self._process.returncode}{last}"

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()
        self._said.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


def compile_here(job: Job) -> bytes:
    """The object code, made in this process. Raises CodegenError if LLVM does not take it."""
    try:
        return emit.emit(job.ir, job.machine)
    except (InvalidCodeError, NoMachineError) as error:
        raise _refusal(job, error) from None


def compile_apart(job: Job) -> bytes:
    """The object code, made in a process of its own if one can be started. Raises CodegenError if
    LLVM does not take the text, or has no code for something in it."""
    return compile_jobs([job], workers=1)[0]


def compile_all(jobs: Iterable[Job], processors: int) -> list[bytes]:
    """The object code of each job.

    While LLVM compiles one job here, the next is taken from `jobs`, which may be made meanwhile.
    What waits after the last is compiled side by side in worker processes, if that pays.
    """
    made: list[tuple[Job, Future[bytes]]] = []
    apart: dict[int, bytes] = {}
    with ThreadPoolExecutor(1) as background:
        try:
            made.extend((job, background.submit(compile_here, job)) for job in jobs)
            waiting = [k for k, (_, f) in enumerate(made) if not (f.running() or f.done())]
            workers = min(processors, len(waiting))
            if _pays([len(made[k][0].ir) for k in waiting], workers):
                taken = [k for k in waiting if made[k][1].cancel()]
                codes = compile_jobs([made[k][0] for k in taken], workers)
                apart = dict(zip(taken, codes, strict=True))
            return [apart[k] if k in apart else f.result() for k, (_, f) in enumerate(made)]
        finally:
            for _, future in made:  # after an error, what has not begun need not
                future.cancel()


def _pays(sizes: Sequence[int], workers: int) -> bool:
    """Whether so many workers are sooner done with texts of these sizes than this process is."""
    if workers < 2:
        return False
    alone = sum(sizes) * SECONDS_PER_BYTE
    return max(alone / workers, max(sizes) * SECONDS_PER_BYTE) + START_SECONDS < alone


def compile_jobs(jobs: Sequence[Job], workers: int) -> list[bytes]:
    """The object code of each job, on so many workers; here, if none can be started."""
    with contextlib.ExitStack() as stack:
        idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        try:
            for _ in range(workers):
                idle.put(stack.enter_context(Worker()))
        except OSError:
            if idle.empty():
                return [compile_here(job) for job in jobs]
        started = idle.qsize()

        def run(job: Job) -> bytes:
            worker = idle.get()
            try:
                code = worker.compile(job)
            except WorkerEndedError as error:
                idle.put(_successor(worker, stack))
                raise CodegenError(
                    f"LLVM has no code for something in {job.name!r}",
                    because=f"{error} ({job.machine.triple})",
                ) from None
            except (InvalidCodeError, NoMachineError) as error:
                idle.put(worker)
                raise _refusal(job, error) from None
            idle.put(worker)
            return code

        with ThreadPoolExecutor(started) as threads:
            return list(threads.map(run, jobs))


def _successor(ended: Worker, stack: contextlib.ExitStack) -> Worker:
    """A worker for the jobs that wait; if none can be started, the one that ended, which fails
    them all: somebody must, or they would wait for ever."""
    try:
        return stack.enter_context(Worker())
    except OSError:
        return ended


def _refusal(job: Job, error: InvalidCodeError | NoMachineError) -> CodegenError:
    if isinstance(error, NoMachineError):
        return CodegenError(f"no code can be made for {job.machine.triple}", because=str(error))
    return CodegenError(
        f"the code generated for {job.name!r} is not valid", because=f"{error} (this is our bug)"
    )
