"""What the machine runs in hot loops: full vectors, sums in registers, no stack."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest

from tensorsmith import script as T
from tensorsmith.codegen.llvm.module import print_llvm
from tensorsmith.ir import IRModule, TensorProgram
from tensorsmith.target import Target

n = T.dim("n", min=1)


def assembly(program: TensorProgram, target: Target) -> str:
    """What comes out for a program that is scheduled: it takes the short middle end."""
    text = print_llvm(IRModule.of(program), target)
    assert text.is_scheduled
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.llvm_features(), opt=3, reloc="pic", codemodel="small"
    )
    module = llvm.parse_assembly(text.render())
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    tuning = llvm.create_pipeline_tuning_options()
    passes.run(module, llvm.create_pass_builder(machine, tuning))
    return machine.emit_assembly(module)


def basic_blocks(text: str) -> list[list[str]]:
    blocks: list[list[str]] = [[]]
    for line in text.split("\n"):
        if re.match(r"[.\w\"]+.*:", line):
            blocks.append([])
        elif line.startswith("\t") and not line.startswith("\t."):
            blocks[-1].append(line.strip())
            if line.startswith("\tj"):
                blocks.append([])
    return blocks


def hottest(text: str, instruction: str) -> list[str]:
    """The basic block that has the instruction most often."""
    return max(basic_blocks(text), key=lambda b: sum(instruction in x for x in b))


def matmul(rows: int, columns: int) -> TensorProgram:
    """Sums of a tile of C over k, in a local buffer."""

    @T.program(attrs={"contract": True})
    def tile(
        A: T.Buffer((256, rows), "float32"),
        B: T.Buffer((256, columns), "float32"),
        C: T.Buffer((rows, columns), "float32"),
    ):
        acc = T.alloc((rows, columns), "float32", scope="local")
        for i in T.unrolled(rows):
            for j in T.vectorized(columns):
                acc[i, j] = 0.0
        for k in range(256):
            for i in T.unrolled(rows):
                for j in T.vectorized(columns):
                    acc[i, j] = acc[i, j] + A[k, i] * B[k, j]
        for i in T.unrolled(rows):
            for j in T.vectorized(columns):
                C[i, j] = acc[i, j]

    return tile


@pytest.mark.parametrize(
    ("name", "rows", "columns", "register"),
    [("x86-64-v3", 6, 16, "%ymm"), ("x86-64-v4", 14, 32, "%zmm")],
)
def test_a_register_tile_stays_in_registers(name, rows, columns, register) -> None:
    target = Target.named(name)
    block = hottest(assembly(matmul(rows, columns), target), "vfmadd")
    fused = [x for x in block if "vfmadd" in x]
    assert len(fused) == rows * columns // target.lanes(4)
    assert all(register in x for x in fused)
    assert len({x.split()[-1] for x in fused}) == len(fused), "each sum has its own register"
    assert not any("(%rsp" in x for x in block)
    stores = [x for x in block if re.match(r"vmov\w+\s+%[xyz]mm\d+, .*\(", x)]
    assert not stores


@T.program
def scaled(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32"), s: T.float32):
    for i in T.vectorized(n):
        B[i] = A[i] * s


@pytest.mark.parametrize(
    ("name", "register"), [("x86-64-v3", "%ymm"), ("x86-64-v4", "%zmm"), ("x86-64", "%xmm")]
)
def test_full_vectors_have_no_masks(name, register) -> None:
    text = assembly(scaled, Target.named(name))
    block = next(b for b in basic_blocks(text) if any("mulps" in x and register in x for x in b))
    assert not any("mask" in x or "{%k" in x for x in block)
    assert len(block) <= 8, "a load, a product, a store and the loop"


def test_the_rest_of_a_loop_is_one_masked_vector() -> None:
    text = assembly(scaled, Target.named("x86-64-v4"))
    assert "{%k1} {z}" in text
    assert text.count("vmulps") == 2
