"""From a module to something that can be called, or to object code for another machine."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import tensorsmith
from tensorsmith.codegen.llvm.emit import Machine
from tensorsmith.codegen.llvm.instructions import INSTRUCTIONS
from tensorsmith.codegen.llvm.module import ModuleText, print_llvm
from tensorsmith.codegen.workers import Job, compile_all, compile_apart
from tensorsmith.errors import TargetError
from tensorsmith.ir import Alloc, Assert, Buffer, Invoke, IRModule, Region, Store, TensorProgram
from tensorsmith.ir.rewrite import statements
from tensorsmith.runtime.executable import (
    Executable,
    Failure,
    ObjectCode,
    Parameter,
    Signature,
)
from tensorsmith.runtime.jit import llvm_version
from tensorsmith.runtime.object_cache import Entry, ObjectCache, key_of, object_cache
from tensorsmith.target import Target

_DECIDES_CODE: Final = ("arith", "codegen", "ir", "runtime", "target")
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
    _check_host(target)
    store = object_cache() if cache and not check_bounds and not quick else None
    units = list(split(module))
    keys = [cache_key(unit, target) for unit in units] if store else [""] * len(units)
    objects = [_cached(store, key) for key in keys]
    missing = [at for at, found in enumerate(objects) if found is None]
    made = _compile([units[at] for at in missing], target, check_bounds=check_bounds, quick=quick)
    for at, part in zip(missing, made, strict=True):
        objects[at] = part
        if store:
            store.put(keys[at], _manifest(part, target), part.code)
    parts = [part for part in objects if part is not None]
    workers = target.cores if threads is None else threads
    return Executable(parts, threads=workers, externs=externs)


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
    text.define_parallel()
    name = ", ".join(module.programs)
    return compile_apart(Job(name, text.render(), _machine(target)))


def _check_host(target: Target) -> None:
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


def split(module: IRModule) -> Iterator[IRModule]:
    """The parts of a module that compile apart: programs that call each other stay together."""
    part = {name: {name} for name in module.programs}
    for name, program in module.programs.items():
        for s in statements(program.body):
            if isinstance(s, Invoke) and s.callee in part and part[s.callee] is not part[name]:
                joined = part[name] | part[s.callee]
                part.update(dict.fromkeys(joined, joined))
    done: set[str] = set()
    for name in module.programs:
        if name not in done:
            done |= part[name]
            members = [f for n, f in module.programs.items() if n in part[name]]
            yield IRModule.of(*members, attrs=module.attrs)


def _compile(
    units: list[IRModule], target: Target, *, check_bounds: bool, quick: bool
) -> list[ObjectCode]:
    texts: list[ModuleText] = []

    def jobs() -> Iterator[Job]:
        for unit in units:
            text = print_llvm(unit, target, check_bounds=check_bounds)
            texts.append(text)
            yield Job(
                ", ".join(unit.programs),
                text.render(),
                _machine(target, is_short=quick and text.is_scheduled),
            )

    codes = compile_all(jobs(), target.cores)
    return [
        ObjectCode(code, signatures(unit, text))
        for code, unit, text in zip(codes, units, texts, strict=True)
    ]


def signatures(module: IRModule, text: ModuleText) -> tuple[Signature, ...]:
    """What the runtime must know of each program."""
    failures = tuple(
        Failure(
            m.text,
            None if m.span is None else str(m.span),
            is_argument=m.is_argument,
            is_type=m.is_type,
        )
        for m in text.messages
    )
    return tuple(
        Signature(name, tuple(_parameters(module, program)), failures)
        for name, program in module.programs.items()
    )


def _parameters(module: IRModule, program: TensorProgram) -> Iterator[Parameter]:
    written = _written(module, program)
    for p in program.params:
        yield Parameter(p.name, p.dtype.name, isinstance(p, Buffer), is_written=p in written)


def _written(module: IRModule, program: TensorProgram) -> set[Buffer]:
    """The buffers that a program writes, itself or by a call; all that an external call gets."""
    written: set[Buffer] = set()
    for s in statements(program.body):
        if isinstance(s, Store):
            written.add(s.buffer)
        elif isinstance(s, Invoke):
            callee = module.programs.get(s.callee)
            inside = None if callee is None else _written(module, callee)
            if s.callee in INSTRUCTIONS:
                written.update(a.buffer for a in s.args[:1] if isinstance(a, Region))
                continue
            params = [None] * len(s.args) if callee is None else callee.params
            for argument, p in zip(s.args, params, strict=True):
                if isinstance(argument, Region) and (inside is None or p in inside):
                    written.add(argument.buffer)
    return written


def _machine(target: Target, *, is_short: bool = False) -> Machine:
    is_host = target.arch == Target.host().arch
    optimize = 0 if is_short else 2
    return Machine(
        target.triple, target.cpu, target.llvm_features(), target.abi, optimize, jit=is_host
    )


# --- The cache ------------------------------------------------------------------------------------


def cache_key(module: IRModule, target: Target) -> str:
    """What the code of a module depends on, as a hash: its text and the places that its errors
    name, the target, and the compiler itself."""
    places = [
        str(s.span)
        for program in module.programs.values()
        for s in statements(program.body)
        if isinstance(s, (Assert, Alloc))
    ]
    machine = (target.triple, target.cpu, target.llvm_features(), target.vector_bytes)
    described = [str(part) for part in (*machine, target.caches)]
    return key_of([module.script(), *described, *compiler(), json.dumps(places)])


@functools.cache
def compiler() -> tuple[str, str, str]:
    """The versions of Tensorsmith and of LLVM, and a hash of the source that makes code."""
    root = Path(tensorsmith.__file__).parent
    digest = hashlib.sha256()
    for package in _DECIDES_CODE:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0")
            digest.update(path.read_bytes() + b"\0")
    return tensorsmith.__version__, llvm_version(), digest.hexdigest()


def _manifest(part: ObjectCode, target: Target) -> dict[str, object]:
    version, llvm, source = compiler()
    return {
        "kind": "programs",
        "programs": [s.to_json() for s in part.signatures],
        "target": {"triple": target.triple, "cpu": target.cpu, "features": target.llvm_features()},
        "compiler": {"tensorsmith": version, "llvm": llvm, "source": source},
        "code_sha256": hashlib.sha256(part.code).hexdigest(),
    }


def _cached(store: ObjectCache | None, key: str) -> ObjectCode | None:
    entry: Entry | None = store.get(key) if store else None
    if entry is None:
        return None
    try:
        known = tuple(Signature.from_json(s) for s in entry.manifest["programs"])
    except (KeyError, TypeError):
        return None
    return ObjectCode(entry.code, known)
