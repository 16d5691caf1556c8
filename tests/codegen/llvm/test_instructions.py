"""Calls of instructions of the machine."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.codegen import build, object_code
from tensorsmith.codegen.llvm.instructions import INSTRUCTIONS, REFERENCES, Instruction
from tensorsmith.errors import CodegenError
from tensorsmith.evaluate import interpret
from tensorsmith.ir import Buffer, Const, Invoke, Region, TensorProgram
from tensorsmith.target import Target

HOST = Target.host()
HERE = [
    i
    for i in INSTRUCTIONS.values()
    if HOST.features.intersection(i.needs) and i.name.startswith("llvm.x86") == HOST.is_x86
]


def calling(i: Instruction, *, part: int | None = None) -> TensorProgram:
    """A program that only calls the instruction; its last operand has just `part` elements."""
    sizes = [v.lanes for v in i.operands]
    if part is not None:
        sizes[-1] = part
    buffers = [
        Buffer(f"x{k}", (size,), v.dtype)
        for k, (v, size) in enumerate(zip(i.operands, sizes, strict=True))
    ]
    out = Buffer("out", (i.result.lanes,), i.result.dtype)
    call = Invoke(i.name, (out.region(), *(b.region() for b in buffers)))
    return TensorProgram("call", (*buffers, out), call)


def random_args(program: TensorProgram, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    args = []
    for b in program.buffers:
        (size,) = b.shape
        assert isinstance(size, Const)
        info = np.iinfo(b.dtype.name)
        args.append(rng.integers(info.min, info.max, int(size.value), b.dtype.name, endpoint=True))
    return args


def check(program: TensorProgram, *, check_bounds: bool = False) -> None:
    exe = build(program, check_bounds=check_bounds)
    for seed in range(20):
        args = random_args(program, seed)
        expected, got = [a.copy() for a in args], [a.copy() for a in args]
        interpret(program, *expected, externs=REFERENCES)
        exe(*got)
        np.testing.assert_array_equal(got[-1], expected[-1])


@pytest.mark.parametrize("instruction", HERE, ids=lambda i: i.name)
@pytest.mark.parametrize("check_bounds", [False, True])
def test_it_computes_what_its_reference_says(instruction, check_bounds) -> None:
    check(calling(instruction), check_bounds=check_bounds)


@pytest.mark.parametrize("instruction", HERE, ids=lambda i: i.name)
def test_a_few_elements_are_repeated(instruction) -> None:
    part = 4 // np.dtype(instruction.operands[-1].dtype).itemsize
    check(calling(instruction, part=part))


@pytest.mark.parametrize("instruction", INSTRUCTIONS.values(), ids=lambda i: i.name)
def test_targets_with_the_feature_have_code(instruction) -> None:
    is_arm = "aarch64" in instruction.name
    base = Target.named("neoverse-n1" if is_arm else "x86-64-v4")
    target = Target(base.triple, base.cpu, base.features | set(instruction.needs))
    assert object_code(calling(instruction), target)


def test_an_operand_in_a_matrix() -> None:
    if "avx2" not in HOST.features:
        pytest.skip("needs AVX2")
    name = "llvm.x86.avx2.pmadd.ub.sw"
    a, b = Buffer("a", (2, 32), "uint8"), Buffer("b", (4, 8), "int8")
    out = Buffer("out", (3, 16), "int16")
    one = Region(out, ((1, 1), (0, 16)))
    call = Invoke(name, (one, Region(a, ((1, 1), (0, 32))), b.region()))
    program = TensorProgram("call", (a, b, out), call)
    rng = np.random.default_rng(1)
    args = [
        rng.integers(0, 255, (2, 32), np.uint8),
        rng.integers(-128, 127, (4, 8), np.int8),
        np.zeros((3, 16), np.int16),
    ]
    expected = [x.copy() for x in args]
    interpret(program, *expected, externs=REFERENCES)
    build(program)(*args)
    np.testing.assert_array_equal(args[2], expected[2])


def message(program: TensorProgram, target: Target) -> str:
    with pytest.raises(CodegenError) as caught:
        object_code(program, target)
    return str(caught.value)


DOT = INSTRUCTIONS["llvm.x86.avx512.vpdpbusd.512"]


def test_a_target_without_it() -> None:
    assert message(calling(DOT), Target.named("x86-64-v4")) == (
        "x86-64-v4 lacks 'llvm.x86.avx512.vpdpbusd.512'\n"
        "  because: it needs avx512vnni\n"
        "  try: a target that has it, or a schedule without it"
    )


def test_an_unknown_instruction() -> None:
    program = TensorProgram("call", (), Invoke("llvm.x86.unknown", ()))
    assert message(program, Target.named("x86-64")).startswith(
        "'llvm.x86.unknown' is no instruction that has code\n  try: one of llvm.x86."
    )


VNNI = Target(
    Target.named("x86-64-v4").triple,
    "x86-64-v4",
    Target.named("x86-64-v4").features | {"avx512vnni"},
)


def with_operands(*regions: Region) -> TensorProgram:
    return TensorProgram(
        "call", tuple(dict.fromkeys(r.buffer for r in regions)), Invoke(DOT.name, regions)
    )


def test_arguments_that_do_not_fit() -> None:
    c = Buffer("c", (16,), "int32")
    a, b = Buffer("a", (64,), "uint8"), Buffer("b", (64, 2), "int8")
    whole = c.region()
    assert message(with_operands(whole, whole, a.region()), VNNI) == (
        "'llvm.x86.avx512.vpdpbusd.512' takes a result and 3 operands, not 3 arguments"
    )
    column = Region(b, ((0, 64), (1, 1)))
    assert message(with_operands(whole, whole, a.region(), column), VNNI) == (
        "'llvm.x86.avx512.vpdpbusd.512' cannot take b[0:64, 1]\n"
        "  because: it needs elements that lie one after the other there"
    )
    assert message(with_operands(whole, whole, column, column), VNNI) == (
        "'llvm.x86.avx512.vpdpbusd.512' cannot take b[0:64, 1]\n"
        "  because: it needs uint8 elements there"
    )
    part = Region(a, ((0, 24),))
    assert message(with_operands(whole, whole, part, b.region()), VNNI) == (
        "'llvm.x86.avx512.vpdpbusd.512' cannot take a[0:24]\n  because: it needs 64 elements there"
    )
