"""Schedules for the kernels of a model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tensorsmith.compiler.constants import (
    Divided,
    compute_constants,
    constant_operands,
    divide,
    marked,
)
from tensorsmith.errors import TensorsmithError
from tensorsmith.graph.host import all_bindings
from tensorsmith.ir import GraphFunction, IRModule, TensorProgram
from tensorsmith.ir.graph import CallProgram
from tensorsmith.runtime.manifest import KernelInfo
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


def schedule_kernels(module: IRModule, target: Target) -> tuple[IRModule, tuple[Scheduled, ...]]:
    """A default schedule for each program, in the module and by itself.

    What programs compute from constants alone is computed now. A rule that fails leaves its program
    as it is.
    """
    constants = constant_operands(module.graphs.values())
    made: list[Scheduled] = []
    divided: dict[str, Divided] = {}
    for name, program in module.programs.items():
        scheduled = schedule_kernel(marked(program, constants.get(name, ())), target)
        plain, parts = divide(scheduled.program)
        made.append(replace(scheduled, program=plain))
        if parts is not None:
            divided[name] = parts
    programs = {s.program.name: s.program for s in made}
    whole = replace(module, functions={**module.functions, **programs})
    return compute_constants(whole, divided, target), tuple(made)


def schedule_kernel(program: TensorProgram, target: Target) -> Scheduled:
    """A default schedule for a program."""
    try:
        schedule = default_schedule(program, target)
    except TensorsmithError as error:
        return Scheduled(program, None, str(error))
    return Scheduled(replace(schedule.program, name=program.name), schedule.trace)


def kernel_infos(graphs: Iterable[GraphFunction]) -> dict[str, KernelInfo]:
    """What profiles say of the kernels that functions call: the model's nodes that they come
    from."""
    sources: dict[str, dict[str, None]] = {}
    for graph in graphs:
        for binding in all_bindings(graph.body):
            if isinstance(binding, CallProgram):
                sources.setdefault(binding.callee, {}).update(dict.fromkeys(binding.sources))
    return {name: KernelInfo(name, tuple(found)) for name, found in sources.items()}
