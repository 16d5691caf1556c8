"""Object code for other machines: its format for all of them, its results under emulation."""

from __future__ import annotations

import importlib.util
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.codegen import build, object_code
from tensorsmith.codegen.llvm.emit import Machine, emit
from tensorsmith.codegen.llvm.types import float_literal
from tensorsmith.errors import CodegenError, TargetError
from tensorsmith.evaluate import interpret
from tensorsmith.ir import TensorProgram
from tensorsmith.schedule import Schedule
from tensorsmith.target import Target
from tensorsmith.target.target import NAMED


def matmul() -> TensorProgram:
    n, m, k = T.dims("n m k")
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis(k, "r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), "C")
    return te.program([a, b], c, "matmul")


def exponential() -> TensorProgram:
    """A parallel loop around a vectorised one, with a function of our own library."""
    n = T.dim("n")
    a = te.placeholder((n, 12), name="A")
    s = Schedule(
        te.program([a], te.compute((n, 12), lambda i, j: T.exp(a[i, j]), "B"), "exponential")
    )
    rows, columns = s.get_loops(s.get_block("B"))
    s.parallel(rows)
    _, lanes = s.split(columns, [None, 4])
    s.vectorize(lanes)
    return s.program


ELF, LITTLE_ENDIAN = b"\x7fELF", 1
FORMATS = {  # ELF's class and machine
    "x86-64": (2, 62),
    "x86-64-v4": (2, 62),
    "aarch64": (2, 183),
    "neoverse-n1": (2, 183),
    "armv7": (1, 40),
    "riscv64": (2, 243),
}


@pytest.mark.parametrize("name", FORMATS)
def test_object_files_are_of_the_machine(name) -> None:
    code = object_code(matmul(), name)
    assert code[:4] == ELF
    bits, order = code[4], code[5]
    kind, machine = struct.unpack_from("<HH", code, 16)
    assert (bits, order, kind, machine) == (FORMATS[name][0], LITTLE_ENDIAN, 1, FORMATS[name][1])
    assert b"matmul\0" in code


def test_webassembly_is_a_module_of_version_1() -> None:
    code = object_code(matmul(), "wasm32")
    assert code[:8] == b"\0asm\x01\0\0\0"
    assert b"matmul" in code


def test_every_named_target_has_code() -> None:
    assert all(len(object_code(exponential(), name)) > 500 for name in NAMED)


def test_risc_v_passes_floats_in_registers() -> None:
    (flags,) = struct.unpack_from("<I", object_code(matmul(), "riscv64"), 48)
    assert flags & 6 == 4  # EF_RISCV_FLOAT_ABI_DOUBLE


def test_an_object_for_the_same_target_is_the_same_bytes() -> None:
    assert object_code(matmul(), "aarch64") == object_code(matmul(), "aarch64")


def test_code_for_another_machine_does_not_run_here() -> None:
    foreign = "aarch64" if Target.host().arch == "x86_64" else "x86-64"
    with pytest.raises(TargetError) as caught:
        build(matmul(), foreign)
    assert str(caught.value) == (
        f"code for {NAMED[foreign].triple} does not run on {Target.host().triple}\n"
        "  try: codegen.object_code, and the linker of that machine"
    )


def test_a_machine_that_llvm_does_not_know() -> None:
    with pytest.raises(CodegenError, match="no code can be made for pdp11-dec-unix"):
        object_code(matmul(), Target("pdp11-dec-unix"))


# --- Running it ----------------------------------------------------------------------------------

# The machine code of ``ask(number, a, b, c)``, a call of Linux: registers moved, the call, return.
# Then the numbers of write and exit, what the emulator is called, and the linker's emulation.
MACHINES = {
    "aarch64": (
        (0xAA0003E8, 0xAA0103E0, 0xAA0203E1, 0xAA0303E2, 0xD4000001, 0xD65F03C0),
        *(64, 93, "aarch64", "aarch64linux"),
    ),
    "riscv64": (
        (0x00050893, 0x00058513, 0x00060593, 0x00068613, 0x00000073, 0x00008067),
        *(64, 93, "riscv64", "elf64lriscv"),
    ),
    "armv7": (
        (0xE92D4080, 0xE1A07000, 0xE1A00001, 0xE1A01002, 0xE1A02003, 0xEF000000, 0xE8BD8080),
        *(4, 1, "arm", "armelf_linux_eabi"),
    ),
}


def driver(name: str, program: TensorProgram, arrays: Sequence[np.ndarray]) -> str:
    """A C-free main: calls the program with these arrays, writes the last, exits with its code."""
    target = NAMED[name]
    word = f"i{target.index_bits}"
    ask, write, leave, *_ = MACHINES[name]
    pad = ", i32 0" if target.index_bits == 32 else ""
    slot = "{ ptr, i32 }" if pad else "{ ptr }"
    code = ", ".join(f"i32 {instruction}" for instruction in ask)
    dtype = "i8 2, i8 32, i16 1"
    lines = [
        f'target triple = "{target.triple}"',
        "%DLTensor = type { ptr, i32, i32, i32, i8, i8, i16, ptr, ptr, i64 }",
        f'@ask = constant [{len(ask)} x i32] [{code}], section ".text.ask", align 4',
    ]
    for at, array in enumerate(arrays):
        values = ", ".join(f"float {float_literal(float(v))}" for v in array.ravel())
        shape = ", ".join(f"i64 {extent}" for extent in array.shape)
        lines += [
            f"@data{at} = global [{array.size} x float] [{values}], align 64",
            f"@shape{at} = global [{array.ndim} x i64] [{shape}]",
            (
                f"@tensor{at} = global %DLTensor {{ ptr @data{at}, i32 1, i32 0, i32 {array.ndim},"
                f" {dtype}, ptr @shape{at}, ptr null, i64 0 }}"
            ),
        ]
    slots = ", ".join(f"{slot} {{ ptr @tensor{at}{pad} }}" for at in range(len(arrays)))
    last = len(arrays) - 1
    lines += [
        f"@args = global [{len(arrays)} x {slot}] [{slots}], align 8",
        "@context = global [2 x ptr] zeroinitializer",
        f'declare i32 @"{program.name}"(ptr, ptr)',
        "define void @_start() noreturn nounwind {",
        f'  %code = call i32 @"{program.name}"(ptr @args, ptr @context)',
        f"  %status = {'add i32 %code, 0' if word == 'i32' else 'zext i32 %code to i64'}",
        (
            f"  %w = call {word} @ask({word} {write}, {word} 1, ptr @data{last},"
            f" {word} {arrays[-1].nbytes})"
        ),
        f"  %e = call {word} @ask({word} {leave}, {word} %status, ptr null, {word} 0)",
        "  unreachable",
        "}",
    ]
    return "\n".join(lines)


def linker(name: str) -> list[str] | None:
    """A command that links objects of the machine, if there is any."""
    emulation = MACHINES[name][-1]
    prefix = NAMED[name].triple.replace("-unknown", "").replace("armv7", "arm")
    for tool in (f"{prefix}-ld", "ld.lld"):
        if shutil.which(tool):
            return [tool, "-m", emulation]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "ld.lld", "-m", emulation]
    return None


def emulator(name: str) -> str | None:
    machine = MACHINES[name][-2]
    return shutil.which(f"qemu-{machine}-static") or shutil.which(f"qemu-{machine}")


def run(
    folder: Path, name: str, program: TensorProgram, arrays: Sequence[np.ndarray]
) -> np.ndarray:
    """What the program makes of the last array on that machine."""
    link, emulate = linker(name), emulator(name)
    if link is None or emulate is None:
        pytest.skip(f"no linker or no emulator of {name}: see docs/reference/runtime.md")
    target = NAMED[name]
    machine = Machine(target.triple, target.cpu, target.llvm_features(), target.abi)
    (folder / "program.o").write_bytes(object_code(program, name))
    (folder / "main.o").write_bytes(emit(driver(name, program, arrays), machine))
    subprocess.run(
        [*link, "-static", "-o", folder / "main", folder / "main.o", folder / "program.o"],
        check=True,
    )
    done = subprocess.run([emulate, folder / "main"], capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return np.frombuffer(done.stdout, np.float32).reshape(arrays[-1].shape)


@pytest.mark.parametrize("name", MACHINES)
def test_a_matmul_under_emulation(tmp_path, name) -> None:
    rng = np.random.default_rng(5)
    a = rng.standard_normal((7, 9), dtype=np.float32)
    b = rng.standard_normal((9, 11), dtype=np.float32)
    c = np.full((7, 11), 99, np.float32)
    expected = c.copy()
    interpret(matmul(), a, b, expected)
    got = run(tmp_path, name, matmul(), [a, b, c])
    np.testing.assert_array_equal(got, expected)
    # NumPy sums in another order: each sum of 9 products is within 9 roundings of the true one.
    bound = 9 * np.finfo(np.float32).eps * (np.abs(a) @ np.abs(b))
    assert (np.abs(got - a @ b) <= bound).all()


@pytest.mark.parametrize("name", MACHINES)
def test_vectors_and_functions_under_emulation(tmp_path, name) -> None:
    a = np.linspace(-20, 20, 36, dtype=np.float32).reshape(3, 12)
    got = run(tmp_path, name, exponential(), [a, np.zeros_like(a)])
    np.testing.assert_allclose(got, np.exp(a.astype(np.float64)), rtol=2 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("name", MACHINES)
def test_a_wrong_shape_is_seen_there(tmp_path, name) -> None:
    a, b, c = (np.zeros(shape, np.float32) for shape in ((2, 3), (4, 5), (2, 5)))
    with pytest.raises(AssertionError):
        run(tmp_path, name, matmul(), [a, b, c])
