"""The kernels of a model: compiled, and what they need computed of constants computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensorsmith.codegen.models import Dimensions
from tensorsmith.compiler.constants import Divided, compute_constants, constant_operands
from tensorsmith.compiler.costs import call_values, in_call
from tensorsmith.compiler.kernel_code import KernelCode
from tensorsmith.compiler.kernel_pool import make_kernels
from tensorsmith.graph.host import all_bindings
from tensorsmith.graph.weights import Arena
from tensorsmith.ir import GraphFunction, IRModule, TensorProgram, free_vars
from tensorsmith.ir.graph import CallProgram
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.manifest import KernelInfo
from tensorsmith.target import Target

Kernels = Mapping[str, KernelCode]


def compile_kernels(
    module: IRModule,
    target: Target,
    *,
    cache: bool = True,
    check_bounds: bool = False,
    arena: Arena | None = None,
) -> tuple[IRModule, Kernels]:
    """The code of each program by a default schedule, and the module with heads in their place.

    What programs compute from constants alone is computed now. A rule that fails leaves its program
    as it is. arena: where computed constants are made. Raises CodegenError for what no code can be
    made for.
    """
    constants = constant_operands(module.graphs.values())
    programs = module.programs
    made = make_kernels(
        programs.values(), constants, target, cache=cache, check_bounds=check_bounds
    )
    heads = {name: replace(code.rest.head, name=name) for name, code in made.items()}
    whole = replace(module, functions={**module.functions, **heads})
    divided = {
        name: Divided(code.before.head, heads[name], code.constants, code.kept)
        for name, code in made.items()
        if code.before is not None
    }
    return compute_constants(whole, divided, _Runner(made, target).run, arena or Arena(0)), made


class _Runner:
    """Runs the first parts of kernels; each is linked once."""

    def __init__(self, kernels: Kernels, target: Target) -> None:
        self.kernels = kernels
        self.target = target
        self.linked: dict[str, Executable] = {}

    def run(self, name: str, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        """Call the first part of the kernel `name`."""
        kernel = self.kernels[name]
        assert kernel.before is not None
        if kernel.key not in self.linked:
            self.linked[kernel.key] = Executable([kernel.before.code], threads=self.target.cores)
        self.linked[kernel.key](*arrays)


def kernel_infos(
    graphs: Iterable[GraphFunction], programs: Mapping[str, TensorProgram], kernels: Kernels
) -> dict[str, KernelInfo]:
    """What profiles say of the kernels that functions call: the model's nodes that they come from,
    and what they cost as they were first called.

    programs: as the functions call them. Of a single function, costs are over the dimensions of
    its parameters; of several, which tell nothing of each other's, they are not known.
    """
    sources: dict[str, dict[str, None]] = {}
    first: dict[str, CallProgram] = {}
    functions = list(graphs)
    for graph in functions:
        for binding in all_bindings(graph.body):
            if isinstance(binding, CallProgram):
                sources.setdefault(binding.callee, {}).update(dict.fromkeys(binding.sources))
                first.setdefault(binding.callee, binding)
    names = Dimensions()
    shapes = [e for p in functions[0].params for e in p.shape] if len(functions) == 1 else []
    for e in shapes:
        names.extent(e)
    bound = set(free_vars(*shapes))
    found = {}
    for name, nodes in sources.items():
        values = call_values(programs[name], first[name])
        costs = (in_call(e, values, names, bound) for e in kernels[name].cost)
        found[name] = KernelInfo(name, tuple(nodes), *costs)
    return found
