"""Schedules for the kernels of a model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tensorsmith.errors import TensorsmithError
from tensorsmith.ir import TensorProgram
from tensorsmith.schedule.defaults.rules import default_schedule
from tensorsmith.schedule.trace import Trace
from tensorsmith.target import Target


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A kernel with its schedule.

    trace: what was decided; None where the rules failed and the kernel stays as it was written.
    failure: why.
    """

    program: TensorProgram
    trace: Trace | None
    failure: str = ""


def schedule_kernels(programs: Iterable[TensorProgram], target: Target) -> list[Scheduled]:
    """A default schedule for each kernel. A rule that fails leaves its kernel as it is."""
    return [schedule_kernel(p, target) for p in programs]


def schedule_kernel(program: TensorProgram, target: Target) -> Scheduled:
    """A default schedule for a kernel."""
    try:
        schedule = default_schedule(program, target)
    except TensorsmithError as error:
        return Scheduled(program, None, str(error))
    made = schedule.program
    made = made if made.name == program.name else replace(made, name=program.name)
    return Scheduled(made, schedule.trace)
