"""The steps from a module to a model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar, Unpack, cast

from tensorsmith.codegen import BuildOptions, HostInterface, build_model
from tensorsmith.compiler.kernels import Kernels, compile_kernels, kernel_infos
from tensorsmith.compiler.pipeline import PIPELINE, Observe, Pass, run
from tensorsmith.compiler.staged import compile_stages
from tensorsmith.errors import IRError
from tensorsmith.graph.host import Host, all_bindings, make_host
from tensorsmith.graph.stages import needs_stages
from tensorsmith.graph.weights import Arena
from tensorsmith.ir import GraphFunction, IRModule, TensorProgram
from tensorsmith.ir.graph import Constant
from tensorsmith.runtime.model import Model, ModelOptions
from tensorsmith.target import Target

Made = TypeVar("Made")
SLACK: Final = 1 << 20
"""Bytes more, for the padding of many small constants."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """A model on its way to code, with what was decided.

    graph: the function that is compiled, as it was given. passed: the same after all passes, made
    of calls of `programs`. lowered: the same with what those need of constants alone computed.
    programs: before their schedules. kernels: the same, compiled.
    seconds: of each step.
    """

    graph: GraphFunction
    passed: GraphFunction
    lowered: GraphFunction
    host: Host
    programs: Mapping[str, TensorProgram]
    kernels: Kernels
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def module(self) -> IRModule:
        """The host program, and the heads of the kernels."""
        heads = (replace(k.rest.head, name=name) for name, k in self.kernels.items())
        return IRModule.of(self.host.program, *heads)


def lower_model(
    module: IRModule,
    target: Target | str = "native",
    *,
    entry: str = "main",
    pipeline: Sequence[Pass] = PIPELINE,
    observe: Observe | None = None,
    cache: bool = True,
    check_bounds: bool = False,
) -> Compilation:
    """All steps but the last: passes, the kernels, the host program."""
    target = Target.of(target)
    if entry not in module.graphs:
        raise IRError(f"the module has no graph function {entry!r}")
    seconds: dict[str, float] = {}
    clock = _Clock(seconds)
    lowered = clock.time("passes", lambda: run(module, pipeline, observe))
    arena = _arena_for(lowered.graph(entry))
    done, kernels = clock.time(
        "kernels",
        lambda: compile_kernels(
            lowered, target, cache=cache, check_bounds=check_bounds, arena=arena
        ),
    )
    graph = done.graph(entry)
    host = clock.time("host", lambda: make_host(graph, lowered.programs, arena))
    given, passed = module.graph(entry), lowered.graph(entry)
    return Compilation(given, passed, graph, host, lowered.programs, kernels, seconds)


def compile_module(
    module: IRModule,
    target: Target,
    entry: str,
    pipeline: Sequence[Pass],
    observe: Observe | None,
    **options: Unpack[BuildOptions],
) -> Model:
    """The model of a module."""
    cache, check_bounds = options.pop("cache", True), options.pop("check_bounds", False)
    if entry in module.graphs and needs_stages(module.graph(entry)):
        options["cache"], options["check_bounds"] = cache, check_bounds
        return compile_stages(module, module.graph(entry), target, pipeline, observe, **options)
    made = lower_model(
        module,
        target,
        entry=entry,
        pipeline=pipeline,
        observe=observe,
        cache=cache,
        check_bounds=check_bounds,
    )
    rest = cast("ModelOptions", options)
    return build(made, target, cache=cache, check_bounds=check_bounds, **rest)


def build(
    made: Compilation,
    target: Target | str = "native",
    *,
    cache: bool = True,
    check_bounds: bool = False,
    **options: Unpack[ModelOptions],
) -> Model:
    """The model that a compilation leads to."""
    host = made.host
    target = Target.of(target)
    names = made.graph.attrs.get("outputs")
    interface = HostInterface(
        host.results,
        host.returned,
        has_weights=host.has_weights,
        input_names=tuple(p.name for p in made.graph.params),
        output_names=tuple(map(str, names)) if isinstance(names, tuple) else None,
    )
    return build_model(
        made.module,
        host.program.name,
        interface,
        host.weights.to_array(),
        target,
        kernels=kernel_infos([made.passed], made.programs, made.kernels),
        ready={name: k.rest.code for name, k in made.kernels.items()},
        cache=cache,
        check_bounds=check_bounds,
        **options,
    )


def _arena_for(graph: GraphFunction) -> Arena:
    """Room for the constants of a function, and for what is packed of them, which may be larger."""
    size = sum(b.data.nbytes for b in all_bindings(graph.body) if isinstance(b, Constant))
    try:
        return Arena(2 * size + SLACK)
    except MemoryError:
        return Arena(0)


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
