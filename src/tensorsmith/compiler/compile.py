"""From a model to an executable."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tensorsmith.compiler.kernels import Scheduled, schedule_kernels
from tensorsmith.compiler.pipeline import PIPELINE, Observe, Pass, run
from tensorsmith.errors import IRError
from tensorsmith.graph.host import Host, make_host
from tensorsmith.ir import GraphFunction, IRModule
from tensorsmith.target import Target

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Compilation:
    """A model on its way to code, with what was decided.

    graph: the function that is compiled, as it was given. lowered: the same, made of calls.
    kernels: the programs that it calls, scheduled.
    seconds: of each step.
    """

    graph: GraphFunction
    lowered: GraphFunction
    host: Host
    kernels: tuple[Scheduled, ...]
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def module(self) -> IRModule:
        """The host program and the kernels."""
        return IRModule.of(self.host.program, *(k.program for k in self.kernels))


def lower_model(
    module: IRModule,
    target: Target | str = "host",
    *,
    entry: str = "main",
    pipeline: Sequence[Pass] = PIPELINE,
    observe: Observe | None = None,
) -> Compilation:
    """All steps before code generation: passes, the host program, schedules."""
    if isinstance(target, str):
        target = Target.named(target)
    if entry not in module.graphs:
        raise IRError(f"the module has no graph function {entry!r}")
    seconds: dict[str, float] = {}
    clock = _Clock(seconds)
    lowered = clock.time("passes", lambda: run(module, pipeline, observe))
    host = clock.time("host", lambda: make_host(lowered.graph(entry)))
    kernels = clock.time("schedules", lambda: schedule_kernels(lowered.programs.values(), target))
    return Compilation(module.graph(entry), lowered.graph(entry), host, tuple(kernels), seconds)


class _Clock:
    """Times steps by name."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    def time(self, name: str, step: Callable[[], Made]) -> Made:
        """What `step` gives."""
        start = time.perf_counter()
        made = step()
        self.seconds[name] = time.perf_counter() - start
        return made
