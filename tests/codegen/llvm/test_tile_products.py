"""Products of matrices in tile registers."""

from __future__ import annotations

import dataclasses

import llvmlite.binding as llvm
import numpy as np
import pytest

from tensorsmith.codegen import build, object_code
from tensorsmith.codegen.llvm.module import print_llvm
from tensorsmith.codegen.llvm.tile_products import NEEDS, REFERENCES, TILE_PRODUCTS, is_block
from tensorsmith.errors import CodegenError
from tensorsmith.evaluate import interpret
from tensorsmith.ir import (
    Buffer,
    For,
    Invoke,
    IRModule,
    LoopKind,
    Region,
    TensorProgram,
    Var,
    const,
    seq,
)
from tensorsmith.target import Target

TILES = Target.named("sapphirerapids")
NAMES = sorted(TILE_PRODUCTS)
here = pytest.mark.skipif(
    not Target.host().features.issuperset(NEEDS), reason="the machine has no tile registers"
)


def calling(
    name: str,
    rows: int,
    columns: int,
    depth: int,
    *,
    times: int = 1,
    parallel: bool = False,
    mark: str = "",
) -> TensorProgram:
    """The product of parts of larger matrices; in each iteration of a loop."""
    product = TILE_PRODUCTS[name]
    a = Buffer(f"a{mark}", (times, rows + 1, depth + 3), product.a)
    b = Buffer(f"b{mark}", (times, depth // 4, columns, 4), product.b)
    c = Buffer(f"c{mark}", (times, rows, columns + 5), "int32")
    at = Var("at")
    regions = (
        Region(c, ((at, 1), (0, rows), (2, columns))),
        Region(a, ((at, 1), (1, rows), (3, depth))),
        Region(b, ((at, 1), (0, depth // 4), (0, columns), (0, 4))),
    )
    kind = LoopKind.PARALLEL if parallel else LoopKind.SERIAL
    return TensorProgram("call", (a, b, c), For(at, const(times), Invoke(name, regions), kind))


def assembly(program: TensorProgram) -> str:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text = print_llvm(IRModule.holding(program), TILES)
    text.define_runtime()
    machine = llvm.Target.from_triple(TILES.triple).create_target_machine(
        cpu=TILES.cpu, features=TILES.llvm_features()
    )
    return str(machine.emit_assembly(llvm.parse_assembly(text.render())))


def random_args(program: TensorProgram, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    found = []
    for b in program.buffers:
        info = np.iinfo(b.dtype.name)
        shape = [int(e.value) for e in b.shape]
        found.append(rng.integers(info.min, info.max, shape, b.dtype.name, endpoint=True))
    return found


def check(program: TensorProgram, *, check_bounds: bool = False, threads: int = 1) -> None:
    args = random_args(program, 1)
    expected, got = [x.copy() for x in args], [x.copy() for x in args]
    interpret(program, *expected, externs=REFERENCES)
    build(program, check_bounds=check_bounds, threads=threads, cache=False)(*got)
    np.testing.assert_array_equal(got[-1], expected[-1])


@here
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("block", [(16, 16), (32, 32), (16, 64), (48, 16)], ids=str)
@pytest.mark.parametrize("check_bounds", [False, True])
def test_it_computes_what_its_reference_says(name, block, check_bounds) -> None:
    check(calling(name, *block, 192), check_bounds=check_bounds)


@here
@pytest.mark.parametrize("threads", [1, 2])
def test_threads_and_what_follows_them_have_tiles(threads: int) -> None:
    check(calling("llvm.x86.tdpbssd", 32, 32, 64, times=9, parallel=True), threads=threads)
    inner = calling("llvm.x86.tdpbssd", 16, 16, 64, times=4, parallel=True)
    other = calling("llvm.x86.tdpbusd", 16, 16, 64, times=5, mark="_other")
    around = For(Var("turn"), const(3), seq(inner.body, other.body))
    check(TensorProgram("both", (*inner.params, *other.params), around), threads=threads)


def test_the_reference_is_the_product_of_matrices() -> None:
    program = calling("llvm.x86.tdpbusd", 16, 32, 128)
    a, b, c = random_args(program, 3)
    before = c.copy()
    interpret(program, a, b, c, externs=REFERENCES)
    right = b[0].transpose(0, 2, 1).reshape(128, 32).astype(np.int64)
    np.testing.assert_array_equal(c[0, :, 2:34], a[0, 1:, 3:].astype(np.int64) @ right)
    np.testing.assert_array_equal(c[0, :, :2], before[0, :, :2])


@pytest.mark.parametrize("name", NAMES)
def test_other_machines_make_code_for_those_that_have_tiles(name: str) -> None:
    program = calling(name, 32, 32, 64)
    assert object_code(program, TILES)
    text = assembly(program)
    assert text.count(name.removeprefix("llvm.x86.")) >= 4
    assert "ldtilecfg" in text
    assert "tilerelease" in text


def test_how_many_sums_there_are_registers_for() -> None:
    assert [(r, c) for r in (16, 32, 48) for c in (16, 32, 48) if is_block(r, c)] == [
        *((16, 16), (16, 32), (16, 48), (32, 16), (32, 32), (48, 16)),
    ]
    assert is_block(16, 96)
    assert not is_block(16, 112)
    assert not is_block(24, 16)


def message(program: TensorProgram, target: Target) -> str:
    with pytest.raises(CodegenError) as caught:
        object_code(program, target)
    return str(caught.value)


def test_a_target_without_tiles() -> None:
    assert message(calling("llvm.x86.tdpbssd", 16, 16, 64), Target.named("x86-64-v4")) == (
        "x86-64-v4 lacks 'llvm.x86.tdpbssd'\n"
        "  because: it needs amx-int8\n"
        "  try: a target that has it, or a schedule without it"
    )


@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(48, 32, 64), (16, 24, 64), (16, 16, 60), (8, 16, 64)]
)
def test_regions_that_are_no_tiles(rows: int, columns: int, depth: int) -> None:
    assert message(calling("llvm.x86.tdpbssd", rows, columns, depth), TILES).endswith(
        "because: it needs 32-bit sums in whole tiles, and operands that have as many rows and"
        " columns, with elements of a row that lie one after the other"
    )


def test_operands_of_other_types() -> None:
    program = calling("llvm.x86.tdpbssd", 16, 16, 64)
    loop = program.body
    assert isinstance(loop, For)
    assert isinstance(loop.body, Invoke)
    wrong = dataclasses.replace(loop.body, callee="llvm.x86.tdpbuud")
    other = dataclasses.replace(program, body=dataclasses.replace(loop, body=wrong))
    assert message(other, TILES).startswith("'llvm.x86.tdpbuud' cannot take c[")
