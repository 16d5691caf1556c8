"""From a module with a host program to a model that can be called and saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from tensorsmith.codegen.compilation import check_host, compile_module, compiler
from tensorsmith.codegen.units import callees
from tensorsmith.errors import CodegenError
from tensorsmith.ir import (
    Add,
    And,
    Buffer,
    Cast,
    Const,
    Eq,
    Expr,
    FloorDiv,
    FloorMod,
    IRModule,
    Le,
    Lt,
    Max,
    Min,
    Mul,
    Ne,
    Neg,
    Not,
    Or,
    Select,
    Sub,
    TensorProgram,
    TruncDiv,
    TruncMod,
    Var,
    free_vars,
    postorder,
)
from tensorsmith.runtime.executable import ObjectCode
from tensorsmith.runtime.extents import Extent
from tensorsmith.runtime.manifest import (
    DimensionInfo,
    KernelInfo,
    Machine,
    Manifest,
    NativeStage,
    Stage,
    TensorInfo,
)
from tensorsmith.runtime.model import Model, ModelOptions
from tensorsmith.target import Target

if TYPE_CHECKING:
    import numpy as np

_OPERATIONS: Final[Mapping[type[Expr], str]] = {
    Add: "add",
    Sub: "sub",
    Mul: "mul",
    FloorDiv: "floordiv",
    FloorMod: "floormod",
    TruncDiv: "truncdiv",
    TruncMod: "truncmod",
    Min: "min",
    Max: "max",
    Neg: "neg",
    Eq: "eq",
    Ne: "ne",
    Lt: "lt",
    Le: "le",
    And: "and",
    Or: "or",
    Not: "not",
    Select: "select",
}


class Dimensions:
    """Names for the dimensions of a model, each its own, and extents in terms of them."""

    def __init__(self) -> None:
        self._names: dict[Var, str] = {}
        self._taken: set[str] = set()
        self._extents: dict[Expr, Extent] = {}

    def name(self, v: Var) -> str:
        """The name of a dimension: its own, with a number if another one has it."""
        if v not in self._names:
            name, number = v.name, 0
            while name in self._taken:
                number += 1
                name = f"{v.name}_{number}"
            self._taken.add(name)
            self._names[v] = name
        return self._names[v]

    def extent(self, root: Expr) -> Extent:
        """An extent as the runtime takes it. Raises CodegenError for what depends on data."""
        for e in postorder(root):
            if e not in self._extents:
                self._extents[e] = self._one(e)
        return self._extents[root]

    def _one(self, e: Expr) -> Extent:
        if isinstance(e, Const):
            return int(e.value)
        if isinstance(e, Var):
            return self.name(e)
        if isinstance(e, Cast) and e.dtype.is_integer:
            return self._extents[e.args[0]]
        operation = _OPERATIONS.get(type(e))
        if operation is None:
            raise CodegenError(f"the extent {e!r} cannot be told without running the model")
        return (operation, *(self._extents[a] for a in e.args))

    def info(self, v: Var) -> DimensionInfo:
        """What is known of a dimension."""
        return DimensionInfo(self.name(v), v.low, v.high, v.multiple_of)


@dataclass(frozen=True, slots=True)
class HostInterface:
    """What the parameters of a host program are.

    results: the values that the host gives, in order. returned: the numbers of those that it hands
    over by ``ts_return``; the others are parameters, after the inputs and in this order. Then come
    the weights, if `has_weights`, and a token, if anything is returned.
    input_names, output_names: what users call them; None for the names that they have.
    """

    results: tuple[Buffer, ...]
    returned: tuple[int, ...] = ()
    has_weights: bool = False
    input_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None


def host_stage(
    program: TensorProgram,
    interface: HostInterface,
    dimensions: Dimensions,
    weights: tuple[int, int] = (0, 0),
) -> tuple[NativeStage, tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    """The stage that runs a host program, and what it takes and gives, in order.

    weights: where its constants are among those of the model. Raises CodegenError if the program
    does not have these parameters.
    """
    results, returned = interface.results, interface.returned
    known = len(results) - len(returned)
    extra = int(interface.has_weights) + bool(returned)
    count = len(program.params) - known - extra
    params = program.params[:count]
    if count < 0 or not all(isinstance(p, Buffer) for p in params):
        raise CodegenError(f"the parameters of {program.name!r} are not what its results say")
    tensors = [p for p in params if isinstance(p, Buffer)]
    inputs = _infos(tensors, interface.input_names, dimensions)
    outputs = _infos(results, interface.output_names, dimensions)
    stage = NativeStage(
        program.name,
        inputs,
        tuple(o for n, o in enumerate(outputs) if n not in returned),
        tuple((n, o) for n, o in enumerate(outputs) if n in returned),
        weights=weights if interface.has_weights else None,
    )
    return stage, inputs, outputs


def _infos(
    buffers: Sequence[Buffer], names: Sequence[str] | None, dimensions: Dimensions
) -> tuple[TensorInfo, ...]:
    shown = [b.name for b in buffers] if names is None else list(names)
    return tuple(
        TensorInfo(name, b.dtype.name, tuple(map(dimensions.extent, b.shape)))
        for name, b in zip(_apart(shown), buffers, strict=True)
    )


def _apart(names: Iterable[str]) -> list[str]:
    """The names, with numbers at those that come again: a value may be several results."""
    taken: dict[str, None] = {}
    for wanted in names:
        name, number = wanted, 0
        while name in taken:
            number += 1
            name = f"{wanted}_{number}"
        taken[name] = None
    return list(taken)


def machine_of(target: Target) -> Machine:
    """What a machine must be to run code for the target."""
    return Machine(target.triple, target.cpu, tuple(sorted(target.features)))


class BuildOptions(ModelOptions, total=False):
    """How a model's code is made, besides how it is run. See `tensorsmith.codegen.build`, and for
    `ready` `tensorsmith.codegen.compilation.compile_module`."""

    check_bounds: bool
    quick: bool
    cache: bool
    ready: Mapping[str, ObjectCode]


def build_model(
    module: IRModule,
    entry: str,
    interface: HostInterface,
    weights: np.ndarray[Any, Any] | None = None,
    target: Target | str = "host",
    *,
    name: str | None = None,
    kernels: Mapping[str, KernelInfo] | None = None,
    **options: Unpack[BuildOptions],
) -> Model:
    """Compile a host program and its kernels for this machine, as a model.

    entry: the host program of `module`. weights: its constants, as bytes.
    name: of the model; the entry's if None. kernels: what profiles say of kernels, by name.
    options: of `Model`, and of `BuildOptions`; errors are those of `tensorsmith.codegen.build`.
    """
    program = module.program(entry)
    dimensions = Dimensions()
    size = 0 if weights is None else weights.size
    stage, inputs, results = host_stage(program, interface, dimensions, (0, size))
    bound = free_vars(*(e for p in program.params[: len(inputs)] for e in _shape(p)))
    described = kernels or {}
    known = tuple(described.get(k, KernelInfo(k)) for k in callees(program, module))
    plan = Plan(name or entry, inputs, results, (stage,), tuple(map(dimensions.info, bound)), known)
    return build_plan(module, plan, weights, target, **options)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a model takes, gives and does: all of a `Manifest` but what code generation adds."""

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    stages: tuple[Stage, ...]
    dimensions: tuple[DimensionInfo, ...] = ()
    kernels: tuple[KernelInfo, ...] = ()


def build_plan(
    module: IRModule,
    plan: Plan,
    weights: np.ndarray[Any, Any] | None = None,
    target: Target | str = "host",
    **options: Unpack[BuildOptions],
) -> Model:
    """Compile the hosts and kernels of a module for this machine, as a model of several stages.

    Options and errors are those of `build_model`.
    """
    if isinstance(target, str):
        target = Target.named(target)
    check_host(target)
    version, llvm, source = compiler()
    manifest = Manifest(
        plan.name,
        plan.inputs,
        plan.outputs,
        plan.stages,
        machine_of(target),
        plan.dimensions,
        plan.kernels,
        {"tensorsmith": version, "llvm": llvm, "source": source},
    )
    check_bounds = options.pop("check_bounds", False)
    quick, cache = options.pop("quick", False), options.pop("cache", True)
    objects = compile_module(
        module,
        target,
        check_bounds=check_bounds,
        quick=quick,
        cache=cache,
        ready=options.pop("ready", {}),
    )
    return Model(objects, manifest, weights, **cast("ModelOptions", options))


def _shape(p: Buffer | Var) -> tuple[Expr, ...]:
    return p.shape if isinstance(p, Buffer) else ()
