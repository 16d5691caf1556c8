"""LLVM text to object code: in this process, or as a program that serves requests.

LLVM ends the process that asks it for something it has no code for. So this file is also a program
of its own, which `tensorsmith.codegen.workers` starts: it imports nothing of Tensorsmith, reads
requests from its input, and writes what it made to its output.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
from dataclasses import asdict, dataclass
from typing import IO, Any, Final

HEADER: Final = struct.Struct("<cQ")
"""What precedes a message: what it is, and how many bytes follow."""
REQUEST, CODE, INVALID, NO_MACHINE = b"?", b"+", b"-", b"0"


@dataclass(frozen=True, slots=True)
class Machine:
    """What LLVM must know of the machine.

    abi: the calling convention by LLVM's name, '' for the usual one.
    optimize: the level of the middle end, 0 to 3; 0 for code that is in vectors and unrolled
        already, whose local buffers become registers and no more.
    select: the level at which instructions are selected; 0, ten times faster, for code that does
        next to nothing but call.
    """

    triple: str
    cpu: str
    features: str
    abi: str = ""
    optimize: int = 2
    select: int = 3
    jit: bool = False


class InvalidCodeError(Exception):
    """LLVM does not take the text."""


class NoMachineError(Exception):
    """LLVM has no such machine."""


_lock: Final = threading.Lock()
_machines: dict[tuple[str, str, str, str, int, bool], Any] = {}


def emit(ir: str, machine: Machine) -> bytes:
    """The object file of a module's LLVM text. Raises InvalidCodeError, or NoMachineError."""
    import llvmlite.binding as llvm

    with _lock:
        made = _target_machine(machine)
        try:
            module = llvm.parse_assembly(ir)
            module.data_layout = str(made.target_data)
            module.verify()
        except RuntimeError as error:
            raise InvalidCodeError(str(error)) from None
        tuning = llvm.create_pipeline_tuning_options(speed_level=machine.optimize)
        passes = llvm.create_pass_builder(made, tuning)
        _middle_end(machine, passes).run(module, passes)
        return bytes(made.emit_object(module))


def _middle_end(machine: Machine, passes: Any) -> Any:  # llvmlite has no types
    import llvmlite.binding as llvm

    if machine.optimize:
        return passes.getModulePassManager()
    few = llvm.create_new_module_pass_manager()
    few.add_sroa_pass()
    few.add_instruction_combine_pass()
    few.add_simplify_cfg_pass()
    return few


def _target_machine(machine: Machine) -> Any:  # llvmlite has no types
    import llvmlite.binding as llvm

    key = (machine.triple, machine.cpu, machine.features, machine.abi, machine.select, machine.jit)
    if key not in _machines:
        if not _machines:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            llvm.initialize_native_asmparser()
        try:
            _machines[key] = llvm.Target.from_triple(machine.triple).create_target_machine(
                cpu=machine.cpu,
                features=machine.features,
                opt=machine.select,
                reloc="pic",
                codemodel="small",
                jit=machine.jit,
                abiname=machine.abi,
            )
        except RuntimeError as error:
            raise NoMachineError(str(error)) from None
    return _machines[key]


def request(ir: str, machine: Machine) -> bytes:
    """The message that asks for the object code of `ir`."""
    content = json.dumps({"ir": ir, "machine": asdict(machine)}).encode()
    return HEADER.pack(REQUEST, len(content)) + content


def receive(stream: IO[bytes]) -> tuple[bytes, bytes] | None:
    """The next message, what it is and what it says; None if the stream ends before its end."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    kind, size = HEADER.unpack(header)
    content = stream.read(size)
    return (kind, content) if len(content) == size else None


def answer(content: bytes) -> bytes:
    """The message that answers the content of a request."""
    asked = json.loads(content)
    try:
        kind, result = CODE, emit(asked["ir"], Machine(**asked["machine"]))
    except InvalidCodeError as error:
        kind, result = INVALID, str(error).encode()
    except NoMachineError as error:
        kind, result = NO_MACHINE, str(error).encode()
    return HEADER.pack(kind, len(result)) + result


def serve() -> None:
    """Answer requests until the input ends. What else is printed goes to the error output."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (message := receive(sys.stdin.buffer)) is not None:
        output.write(answer(message[1]))
        output.flush()


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[1])
    serve()
