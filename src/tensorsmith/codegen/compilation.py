"""From a module to something that can be called, or to object code for another machine."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tensorsmith._version import __version__
from tensorsmith.codegen.llvm.emit import Machine
from tensorsmith.codegen.llvm.module import ModuleText, print_llvm
from tensorsmith.codegen.llvm.types import register_type
from tensorsmith.codegen.units import KERNEL, Unit, Written, split
from tensorsmith.codegen.workers import Job, compile_all, compile_apart
from tensorsmith.errors import TargetError
from tensorsmith.ir import (
    Alloc,
    Assert,
    Buffer,
    IRModule,
    Seq,
    TensorProgram,
    Var,
    View,
)
from tensorsmith.ir.rewrite import statements
from tensorsmith.ir.structural import structural_hash
from tensorsmith.runtime.executable import (
    Executable,
    Failure,
    Kernel,
    ObjectCode,
    Parameter,
    Signature,
)
from tensorsmith.runtime.jit import llvm_version
from tensorsmith.runtime.object_cache import (
    Entry,
    ObjectCache,
    key_of,
    object_cache,
    source_hash,
)
from tensorsmith.target import Target

_DECIDES_CODE: Final = ("arith", "codegen", "compiler", "ir", "runtime", "schedule", "target")
"""The packages whose source decides what code a module becomes."""


def build(
    module: IRModule | TensorProgram,
    target: Target | str = "host",
    *,
    threads: int | None = None,
    check_bounds: bool = False,
    quick: bool = False,
    cache: bool = True,
    externs: Mapping[str, object] | None = None,
) -> Executable:
    """Compile the programs of a verified module for this machine.

    threads: on how many threads parallel loops run; None for all processors this process may use.
    check_bounds: check every access when the code runs (a debugging aid; slow, and never cached).
    quick: spend little time in LLVM on programs that are in vectors and unrolled by their schedule,
        as a search may want; the code may be some per cent slower, and is never cached.
    cache: take code from the cache of earlier builds, and keep it there.
    externs: the functions that the programs call and the module lacks, by name: addresses, or
        functions of ctypes. Each takes pointers to the first elements of regions, and scalars; it
        gives 0 for success, as a 32-bit integer.
    Raises CodegenError for what no code can be made for, TargetError if this machine is not, or
    lacks something of, the target.

    >>> import numpy as np
    >>> from tensorsmith import te
    >>> from tensorsmith.codegen import build
    >>> A = te.placeholder((4,), name="A")
    >>> exe = build(te.program([A], te.compute((4,), lambda i: A[i] + 1.0, "B"), "add_one"))
    >>> b = np.empty(4, np.float32)
    >>> exe(np.arange(4, dtype=np.float32), b)
    >>> b
    array([1., 2., 3., 4.], dtype=float32)
    """
    module = IRModule.holding(module)
    if isinstance(target, str):
        target = Target.named(target)
    check_host(target)
    objects = compile_module(module, target, check_bounds=check_bounds, quick=quick, cache=cache)
    workers = target.cores if threads is None else threads
    return Executable(objects, threads=workers, externs=externs)


def compile_module(
    module: IRModule,
    target: Target,
    *,
    check_bounds: bool = False,
    quick: bool = False,
    cache: bool = True,
    ready: Mapping[str, ObjectCode] = MappingProxyType({}),
) -> list[ObjectCode]:
    """The object code of a verified module's programs, to be linked by `tensorsmith.runtime`.

    A host and the kernels that it calls are objects of their own; kernels that are equal but for
    names are one. Other options and errors are those of `build`.
    ready: code of kernels that has been made before, by name; of those the module needs no more
        than the parameters, and which of them are written.
    """
    store = object_cache() if cache and not check_bounds and not quick else None
    units = list(split(module))
    objects = [ready.get(unit.names[0]) if unit.names else None for unit in units]
    keys = [
        cache_key(unit, target) if store and found is None else ""
        for unit, found in zip(units, objects, strict=True)
    ]
    objects = [
        _cached(store, key) if found is None and key else found
        for key, found in zip(keys, objects, strict=True)
    ]
    missing = [at for at, found in enumerate(objects) if found is None]
    made = _compile([units[at] for at in missing], target, check_bounds=check_bounds, quick=quick)
    for at, part in zip(missing, made, strict=True):
        objects[at] = part
        if store:
            store.put(keys[at], object_manifest(part, target), part.code)
    return list(_completed(units, [part for part in objects if part is not None]))


def compile_kernel(
    program: TensorProgram, target: Target, *, check_bounds: bool = False
) -> ObjectCode:
    """The object code of one kernel, which hosts are linked to. Never kept."""
    module = IRModule.of(replace(program, name=KERNEL))
    symbol = structural_hash(module.program(KERNEL))
    unit = Unit(module, kernel=f"k{symbol}", names=(program.name,))
    (made,) = _compile([unit], target, check_bounds=check_bounds, quick=False)
    return made


def _completed(units: list[Unit], objects: list[ObjectCode]) -> Iterator[ObjectCode]:
    """The objects, with hosts that know their kernels' symbols and errors."""
    kernels: dict[str, Kernel] = {}
    for unit, part in zip(units, objects, strict=True):
        if part.kernel is not None:
            kernels.update((name, replace(part.kernel, name=name)) for name in unit.names)
            yield part
            continue
        called = tuple(kernels[name] for name in unit.calls)
        yield replace(part, signatures=tuple(replace(s, kernels=called) for s in part.signatures))


def object_code(module: IRModule | TensorProgram, target: Target | str) -> bytes:
    r"""The object file of a verified module for any target, to be linked by other tools.

    Each program is a function ``int32_t name(void **args, void *context)`` of C: `args` has for a
    tensor the address of its ``DLTensor``, for a number its value, in 8 bytes each; `context` may
    be a null pointer to two null pointers. It gives 0, or the number of what was wrong. Parallel
    loops run on the caller alone, unless ``ts_parallel`` is defined elsewhere: the one in the file
    is weak. Raises CodegenError for what no code can be made for.

    >>> from tensorsmith import te
    >>> from tensorsmith.codegen import object_code
    >>> A = te.placeholder((4,), name="A")
    >>> program = te.program([A], te.compute((4,), lambda i: A[i] + 1.0, "B"), "add_one")
    >>> object_code(program, "aarch64")[:4]
    b'\x7fELF'
    """
    module = IRModule.holding(module)
    if isinstance(target, str):
        target = Target.named(target)
    text = print_llvm(module, target)
    text.define_runtime()
    name = ", ".join(module.programs)
    return compile_apart(Job(name, text.render(), _machine(target)))


def check_host(target: Target) -> None:
    """Raise TargetError unless code for the target runs here."""
    host = Target.host()
    if target.arch != host.arch:
        raise TargetError(
            f"code for {target.triple} does not run on {host.triple}",
            try_="codegen.object_code, and the linker of that machine",
        )
    if lacking := sorted(target.features - host.features):
        raise TargetError(
            f"this machine lacks {', '.join(lacking)}, which the target has", try_="target='host'"
        )


def _compile(
    units: list[Unit], target: Target, *, check_bounds: bool, quick: bool
) -> list[ObjectCode]:
    texts: list[ModuleText] = []

    def jobs() -> Iterator[Job]:
        for unit in units:
            text = _text(unit, target, check_bounds=check_bounds)
            texts.append(text)
            is_short = quick and text.is_scheduled
            machine = _machine(target, is_short=is_short, is_host=bool(unit.calls))
            yield Job(unit.title, text.render(), machine)

    codes = compile_all(jobs(), target.cores)
    return [_object(*made) for made in zip(codes, units, texts, strict=True)]


def _text(unit: Unit, target: Target, *, check_bounds: bool) -> ModuleText:
    """The LLVM text of a unit."""
    text = ModuleText(unit.module, target, check_bounds)
    text.apart = {name: number for number, name in enumerate(unit.calls, 1)}
    for at, program in enumerate(unit.defined.values()):
        text.add(program, symbol=unit.kernel if at == 0 else "", is_inner=bool(unit.kernel))
    return text


def _object(code: bytes, unit: Unit, text: ModuleText) -> ObjectCode:
    """What the runtime must know of a unit, with its code."""
    if not unit.kernel:
        return ObjectCode(code, tuple(signatures(unit, text)))
    program = next(iter(unit.defined.values()))
    types = ["ptr", *(_type(p) for p in program.params), *(_type(d) for d in program.dims)]
    kernel = Kernel("", unit.kernel, tuple(types), _failures(text))
    return ObjectCode(code, (), kernel)


def _type(p: Buffer | Var) -> str:
    return "ptr" if isinstance(p, Buffer) else register_type(p.dtype)


def _failures(text: ModuleText) -> tuple[Failure, ...]:
    return tuple(
        Failure(
            m.text,
            None if m.span is None else str(m.span),
            is_argument=m.is_argument,
            is_type=m.is_type,
        )
        for m in text.messages
    )


def signatures(unit: Unit, text: ModuleText) -> Iterator[Signature]:
    """What the runtime must know of each program."""
    failures = _failures(text)
    written = Written(unit.module)
    for name, program in unit.defined.items():
        stored = written.of(program)
        parameters = (
            Parameter(p.name, p.dtype.name, isinstance(p, Buffer), is_written=p in stored)
            for p in program.params
        )
        yield Signature(name, tuple(parameters), failures)


def _machine(target: Target, *, is_short: bool = False, is_host: bool = False) -> Machine:
    """The machine as LLVM takes it. is_short, is_host: what needs little of LLVM, or next to
    nothing."""
    is_native = target.arch == Target.host().arch
    optimize = 0 if is_short or is_host else 2
    select = 0 if is_host else 3
    return Machine(
        target.triple,
        target.cpu,
        target.llvm_features(),
        target.abi,
        optimize=optimize,
        select=select,
        jit=is_native,
    )


# --- The cache ------------------------------------------------------------------------------------


def cache_key(unit: Unit, target: Target) -> str:
    """What the code of a unit depends on, as a hash: its text and the places that its errors name,
    the target, and the compiler itself. Of what a host calls, it depends on the parameters alone,
    and on which of them are written."""
    defined = IRModule.of(*unit.defined.values(), attrs=unit.module.attrs)
    written = Written(unit.module)
    declared = [_declared(unit.module.programs[name], written) for name in unit.calls]
    places = [
        str(s.span)
        for program in unit.defined.values()
        for s in statements(program.body)
        if isinstance(s, (Assert, Alloc, View)) and s.span is not None
    ]
    content = f"kernel {unit.kernel}" if unit.kernel else defined.script()
    known = json.dumps([declared, places])
    return key_of([content, *machine_parts(target), *compiler(), known])


def machine_parts(target: Target) -> list[str]:
    """What code depends on of the machine."""
    machine = (target.triple, target.cpu, target.llvm_features(), target.vector_bytes)
    return [str(part) for part in (*machine, target.caches)]


def _declared(kernel: TensorProgram, written: Written) -> str:
    """What a host depends on of a kernel that it calls."""
    stored = written.of(kernel)
    head = replace(kernel, body=Seq(()))
    return f"{kernel.name} {structural_hash(head)} {[p in stored for p in kernel.params]}"


@functools.cache
def compiler() -> tuple[str, str, str]:
    """The versions of Tensorsmith and of LLVM, and a hash of the source that makes code."""
    return __version__, llvm_version(), source_hash(_DECIDES_CODE)


def object_manifest(part: ObjectCode, target: Target) -> dict[str, object]:
    """What is kept of an object besides its code."""
    version, llvm, source = compiler()
    return {
        "kind": "programs",
        "programs": [s.to_json() for s in part.signatures],
        "kernel": None if part.kernel is None else part.kernel.to_json(),
        "target": {"triple": target.triple, "cpu": target.cpu, "features": target.llvm_features()},
        "compiler": {"tensorsmith": version, "llvm": llvm, "source": source},
        "code_sha256": hashlib.sha256(part.code).hexdigest(),
    }


def _cached(store: ObjectCache | None, key: str) -> ObjectCode | None:
    entry: Entry | None = store.get(key) if store else None
    try:
        return None if entry is None else kept_object(entry)
    except (KeyError, TypeError):
        return None


def kept_object(entry: Entry) -> ObjectCode:
    """The object of an entry. Raises KeyError or TypeError for what `object_manifest` did not
    describe."""
    known = tuple(Signature.from_json(s) for s in entry.manifest["programs"])
    described = entry.manifest["kernel"]
    kernel = None if described is None else Kernel.from_json(described)
    return ObjectCode(entry.code, known, kernel)
