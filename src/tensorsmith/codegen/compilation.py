"""From a module to something that can be called."""

from __future__ import annotations

import threading
from typing import Any, Final

import llvmlite.binding as llvm

from tensorsmith.codegen.llvm.module import ModuleText, print_llvm
from tensorsmith.errors import CodegenError
from tensorsmith.ir import Buffer, IRModule, Store, TensorProgram
from tensorsmith.ir.rewrite import statements
from tensorsmith.runtime.executable import (
    Executable,
    Failure,
    ObjectCode,
    Parameter,
    Signature,
)
from tensorsmith.target import Target

_lock: Final = threading.Lock()


def build(
    module: IRModule | TensorProgram,
    target: Target | str = "host",
    *,
    threads: int | None = None,
    check_bounds: bool = False,
) -> Executable:
    """Compile the programs of a verified module for this machine.

    threads: on how many threads parallel loops run; None for all processors this process may use.
    check_bounds: check every access when the code runs (a debugging aid; slow).

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
    if isinstance(module, TensorProgram):
        module = IRModule.of(module)
    if isinstance(target, str):
        target = Target.named(target)
    text = print_llvm(module, target, check_bounds=check_bounds)
    code = compile_llvm(text.render(), target)
    part = ObjectCode(code, tuple(signatures(module, text)))
    return Executable([part], threads=target.cores if threads is None else threads)


def signatures(module: IRModule, text: ModuleText) -> list[Signature]:
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
    return [
        Signature(
            name,
            tuple(
                Parameter(
                    p.name,
                    p.dtype.name,
                    isinstance(p, Buffer),
                    is_written=any(
                        isinstance(s, Store) and s.buffer is p for s in statements(program.body)
                    ),
                )
                for p in program.params
            ),
            failures,
        )
        for name, program in module.functions.items()
    ]


def compile_llvm(ir: str, target: Target, *, optimize: int = 2) -> bytes:
    """The object file of a module's LLVM text.

    Raises CodegenError if LLVM does not take it, which is a fault of ours.
    """
    with _lock:
        machine = _machine(target)
        try:
            module = llvm.parse_assembly(ir)
            module.verify()
        except RuntimeError as error:
            raise CodegenError(
                "the generated code is not valid", because=f"{error} (this is our bug)"
            ) from None
        tuning = llvm.create_pipeline_tuning_options(speed_level=optimize)
        passes = llvm.create_pass_builder(machine, tuning)
        passes.getModulePassManager().run(module, passes)
        return bytes(machine.emit_object(module))


_machines: dict[Target, Any] = {}


def _machine(target: Target) -> Any:  # llvmlite has no types
    if target not in _machines:
        if not _machines:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            llvm.initialize_native_asmparser()
        try:
            made = llvm.Target.from_triple(target.triple).create_target_machine(
                cpu=target.cpu,
                features=target.llvm_features(),
                opt=3,
                reloc="pic",
                codemodel="small",
                jit=target == Target.host(),
            )
        except RuntimeError as error:
            raise CodegenError(
                f"no code can be made for {target.triple}", because=str(error)
            ) from None
        _machines[target] = made
    return _machines[target]
