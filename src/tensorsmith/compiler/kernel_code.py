"""A kernel on its way from what it computes to code: scheduled, divided, compiled, kept.

What comes out depends on the program, on which of its operands are constant, on the target and on
the compiler. It is kept by these, so a kernel that was compiled before costs neither its schedule
nor its lowering.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from tensorsmith.codegen.compilation import (
    compile_kernel,
    compile_module,
    compiler,
    kept_object,
    machine_parts,
    object_manifest,
)
from tensorsmith.codegen.units import KERNEL, Written
from tensorsmith.compiler.constants import marked
from tensorsmith.compiler.costs import UNKNOWN, kernel_cost
from tensorsmith.compiler.variants import divided
from tensorsmith.errors import TensorsmithError
from tensorsmith.ir import Buffer, IRModule, Store, TensorProgram, Var, const, seq
from tensorsmith.ir.structural import structural_hash
from tensorsmith.runtime.executable import ObjectCode
from tensorsmith.runtime.extents import Extent, checked
from tensorsmith.runtime.object_cache import ObjectCache, key_of
from tensorsmith.schedule.defaults.few import few_rows
from tensorsmith.schedule.defaults.rules import default_schedule
from tensorsmith.script import parse_program
from tensorsmith.target import Target

CODE: Final = "code"
"""The attribute of a head: the key of the kernel that it stands for."""
BEFORE: Final = "constants"
"""What is added to a kernel's key for the code of its first part."""


@dataclass(frozen=True, slots=True)
class Part:
    """A compiled program.

    head: its parameters, with a body that only says which of them it writes.
    """

    head: TensorProgram
    code: ObjectCode


@dataclass(frozen=True, slots=True)
class KernelCode:
    """A compiled kernel.

    key: what it depends on. rest: the kernel. before: what it needs computed of constants first,
    None for nothing. constants, kept: as of `tensorsmith.compiler.constants.Divided`.
    trace: the schedule; '' where the rules failed and the kernel stays as it was written.
    failure: why. cost: operations and bytes of a run, see `tensorsmith.compiler.costs.kernel_cost`.
    """

    key: str
    rest: Part
    before: Part | None = None
    constants: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    trace: str = ""
    failure: str = ""
    cost: tuple[Extent | None, Extent | None] = UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """All but the code, as what JSON knows."""
        return {
            "key": self.key,
            "rest": self.rest.head.script(),
            "before": None if self.before is None else self.before.head.script(),
            "constants": list(self.constants),
            "kept": list(self.kept),
            "trace": self.trace,
            "failure": self.failure,
            "cost": list(self.cost),
        }

    @staticmethod
    def from_json(data: dict[str, Any], rest: ObjectCode, before: ObjectCode | None) -> KernelCode:
        """What `to_json` made `data` of. Raises KeyError, TypeError or ValueError for other."""
        first = None
        if data["before"] is not None:
            if before is None:
                raise KeyError("the code of the first part")
            first = Part(parse_program(data["before"]), before)
        return KernelCode(
            str(data["key"]),
            Part(parse_program(data["rest"]), rest),
            first,
            tuple(map(int, data["constants"])),
            tuple(map(int, data["kept"])),
            str(data["trace"]),
            str(data["failure"]),
            (_extent(data["cost"][0]), _extent(data["cost"][1])),
        )


def kernel_key(program: TensorProgram, constants: Iterable[int], target: Target) -> str:
    """What the code of a kernel depends on, as a hash. constants: operands, by place."""
    alone = replace(program, name=KERNEL)
    places = json.dumps(sorted(constants))
    return key_of(["kernel", structural_hash(alone), places, *machine_parts(target), *compiler()])


def make_kernel(
    program: TensorProgram,
    constants: Iterable[int],
    target: Target,
    key: str,
    *,
    check_bounds: bool = False,
) -> KernelCode:
    """Schedule and compile a kernel. Where the rules fail, it is compiled as it was written.

    Raises CodegenError for what no code can be made for.
    """
    given = marked(replace(program, name=KERNEL), constants)
    trace, failure, other = "", "", None
    try:
        schedule, few = default_schedule(given, target), few_rows(given, target)
        given, trace = replace(schedule.program, name=KERNEL), str(schedule.trace)
        if few is not None:
            other = few[0], replace(few[1].program, name=KERNEL)
            trace += f"\n# where {few[0]}\n{few[1].trace}"
    except TensorsmithError as error:
        failure = str(error)
    plain, parts = divided(given, other)
    rest = Part(_head(plain, key), compile_kernel(plain, target, check_bounds=check_bounds))
    costs = kernel_cost(program)
    if parts is None:
        return KernelCode(key, rest, trace=trace, failure=failure, cost=costs)
    module = IRModule.of(parts.before)
    (first,) = compile_module(module, target, check_bounds=check_bounds, cache=False)
    before = Part(_head(parts.before, key), first)
    return KernelCode(key, rest, before, parts.constants, parts.kept, trace, failure, costs)


def _extent(data: object) -> Extent | None:
    return None if data is None else checked(data)


def _head(program: TensorProgram, key: str) -> TensorProgram:
    """The parameters of a program, and stores to those that it writes."""
    written = Written(IRModule.of(program)).of(program)
    stores = [
        Store(p, tuple(const(0) for _ in p.shape), _zero(p))
        for p in program.params
        if isinstance(p, Buffer) and p in written
    ]
    params: list[Buffer | Var] = list(program.params)
    return TensorProgram(program.name, tuple(params), seq(*stores), {CODE: key})


def _zero(buffer: Buffer) -> Any:
    return buffer.dtype(0) if not buffer.dtype.is_bool else const(0, "bool")


# --- Keeping ------------------------------------------------------------------------------------


def kept_kernel(store: ObjectCache | None, key: str) -> KernelCode | None:
    """The kernel that was kept under a key, if there is one that is whole."""
    entry = None if store is None else store.get(key)
    if entry is None or store is None:
        return None
    try:
        described = entry.manifest["compiled"]
        rest = kept_object(entry)
        first = store.get(key_of([key, BEFORE])) if described["before"] is not None else None
        return KernelCode.from_json(described, rest, None if first is None else kept_object(first))
    except (KeyError, TypeError, ValueError):  # of an older or damaged entry
        return None


def keep_kernel(store: ObjectCache | None, made: KernelCode, target: Target) -> None:
    """Keep a kernel under its key."""
    if store is None:
        return
    if made.before is not None:
        first = made.before.code
        store.put(key_of([made.key, BEFORE]), object_manifest(first, target), first.code)
    manifest = {**object_manifest(made.rest.code, target), "compiled": made.to_json()}
    store.put(made.key, manifest, made.rest.code.code)
