"""Models that call Python: native programs with calls between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, Unpack

import numpy as np

from tensorsmith.codegen import BuildOptions, HostInterface, Plan, build_plan
from tensorsmith.codegen.models import Dimensions, host_stage
from tensorsmith.compiler.kernels import compile_kernels, kernel_infos
from tensorsmith.compiler.pipeline import Observe, Pass, run
from tensorsmith.errors import CodegenError
from tensorsmith.graph.host import Host, make_host
from tensorsmith.graph.stages import Part, Stages, split_stages
from tensorsmith.ir import Buffer, Cast, Expr, GraphFunction, IRModule, Load, Var, free_vars
from tensorsmith.ir.graph import CallExtern, Dims, Value
from tensorsmith.runtime.dtypes import STRING
from tensorsmith.runtime.manifest import (
    Attribute,
    DimensionStage,
    KernelInfo,
    NativeStage,
    Operand,
    PythonStage,
    Stage,
    TensorInfo,
)
from tensorsmith.runtime.model import Model
from tensorsmith.target import Target

Array: TypeAlias = "np.ndarray[Any, Any]"
ALIGN = 64
"""Bytes that divide the place of each program's weights."""


def compile_stages(
    module: IRModule,
    graph: GraphFunction,
    target: Target,
    passes: Sequence[Pass],
    observe: Observe | None = None,
    **options: Unpack[BuildOptions],
) -> Model:
    """Compile a function with calls of Python. Raises as `tensorsmith.compiler.compile` does."""
    stages = split_stages(graph)
    functions = [p for p in stages.parts if isinstance(p, GraphFunction)]
    parts = IRModule.of(*functions, *module.programs.values(), attrs=module.attrs)
    passed = run(parts, passes, observe)
    cache, check_bounds = options.get("cache", True), options.get("check_bounds", False)
    done, kernels = compile_kernels(passed, target, cache=cache, check_bounds=check_bounds)
    hosts = {f.name: make_host(done.graph(f.name), passed.programs) for f in functions}
    planner = _Planner(graph, stages, hosts)
    called = (passed.graph(f.name) for f in functions)
    infos = kernel_infos(called, passed.programs, kernels)
    plan = planner.plan(tuple(infos.values()))
    heads = (replace(k.rest.head, name=name) for name, k in kernels.items())
    whole = IRModule.of(*(h.program for h in hosts.values()), *heads)
    options["ready"] = {name: k.rest.code for name, k in kernels.items()}
    return build_plan(whole, plan, planner.all_weights(), target, **options)


@dataclass(slots=True)
class _Planner:
    """The stages of a model on their way. Values and dimensions get names of their own."""

    graph: GraphFunction
    stages: Stages
    hosts: Mapping[str, Host]
    dimensions: Dimensions = field(default_factory=Dimensions)
    names: dict[Value, str] = field(default_factory=dict)
    weights: list[Array] = field(default_factory=list)
    size: int = 0
    read: dict[Var, Dims] = field(default_factory=dict)

    def plan(self, kernels: tuple[KernelInfo, ...]) -> Plan:
        """What the model takes, gives and does."""
        for p in self.graph.params:
            self.name(p)
        wanted = self.graph.attrs.get("outputs")
        shown = wanted if isinstance(wanted, tuple) else ()
        for at, r in enumerate(self.stages.results):
            self.name(r, str(shown[at]) if at < len(shown) else r.name)
        for b in self.graph.body:
            if isinstance(b, Dims):
                self.read.update(dict.fromkeys(b.variables, b))
        inputs = tuple(map(self.info, self.graph.params))
        stages = [s for part in self.stages.parts for s in self.part(part)]
        bound = free_vars(*(e for p in self.graph.params for e in p.shape))
        facts = tuple(map(self.dimensions.info, bound))
        outputs = tuple(map(self.info, self.stages.results))
        return Plan(self.graph.name, inputs, outputs, tuple(stages), facts, kernels)

    def all_weights(self) -> Array:
        """The constants of all programs."""
        return np.concatenate([np.zeros(0, np.uint8), *self.weights])

    def name(self, value: Value, wanted: str | None = None) -> str:
        """The name of a value."""
        if value not in self.names:
            base = name = value.name if wanted is None else wanted
            taken, number = set(self.names.values()), 0
            while name in taken:
                number += 1
                name = f"{base}_{number}"
            self.names[value] = name
        return self.names[value]

    def info(self, value: Value) -> TensorInfo:
        """What a stage says of a value."""
        if isinstance(value, Buffer):
            dtype = value.dtype.name
        else:
            dtype = _KINDS.get(value.kind, value.kind)
        extents = tuple(map(self.dimensions.extent, value.shape))
        return TensorInfo(self.name(value), dtype, extents)

    def part(self, part: Part) -> list[Stage]:
        """The stages of a part."""
        if isinstance(part, GraphFunction):
            return [self.native(part)]
        return [*self.numbers(part), self.python(part)]

    def native(self, part: GraphFunction) -> NativeStage:
        host = self.hosts[part.name]
        weights = host.weights.to_array()
        place = self.size, weights.size
        padding = -weights.size % ALIGN
        self.weights += [weights, np.zeros(padding, np.uint8)]
        self.size += weights.size + padding
        interface = HostInterface(
            host.results,
            host.returned,
            has_weights=host.has_weights,
            input_names=tuple(map(self.name, part.params)),
            output_names=tuple(map(self.name, part.results)),
        )
        stage, _, _ = host_stage(host.program, interface, self.dimensions, place)
        return stage

    def numbers(self, call: CallExtern) -> list[Stage]:
        """The dimensions that a call needs as numbers, where tensors tell them."""
        needed = free_vars(*(o for o in call.operands if isinstance(o, Expr)))
        found = []
        for v in needed:
            b = self.read.pop(v, None)
            if b is not None:
                load = b.values[b.variables.index(v)]
                found.append((self.dimensions.info(v), *self.element(load)))
        return [DimensionStage(tuple(found))] if found else []

    def element(self, e: Expr) -> tuple[str, tuple[int, ...]]:
        """The value and the constant index of a load."""
        while isinstance(e, Cast):
            e = e.args[0]
        if isinstance(e, Load):
            indices = tuple(map(self.dimensions.extent, e.indices))
            if all(isinstance(i, int) for i in indices):
                return self.name(e.buffer), tuple(i for i in indices if isinstance(i, int))
        raise CodegenError(f"{e!r} is no element of a tensor, and a call of Python needs its value")

    def python(self, call: CallExtern) -> PythonStage:
        operands = tuple(
            Operand(extent=self.dimensions.extent(o))
            if isinstance(o, Expr)
            else Operand(None if o is None else self.name(o))
            for o in call.operands
        )
        attributes = {k: _attribute(v) for k, v in call.attrs.items()}
        return PythonStage(call.symbol, operands, tuple(map(self.info, call.results)), attributes)


_KINDS: Final = {"strings": STRING}
"""The element types of values that are no tensors of numbers; those of maps are their kinds."""


def _attribute(value: object) -> Attribute:
    if isinstance(value, tuple):
        return tuple(map(_attribute, value))
    if isinstance(value, (bool, int, float, str)):
        return value
    raise CodegenError(f"{value!r} cannot be passed to a Python function")
