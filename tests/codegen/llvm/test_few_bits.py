"""Integers of four bits are converted by a table in a register, where a machine can."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.codegen import build
from tensorsmith.codegen.llvm.module import print_llvm
from tensorsmith.ir import IRModule, TensorProgram
from tensorsmith.script import parse_program
from tensorsmith.target import Target

PICK = "call <16 x float> @llvm.x86.avx512.permvar.sf.512"


def program(dtype: str, by: int, lanes: int = 16) -> TensorProgram:
    """C = float32(A << 4 >> by)."""
    return parse_program(f"""
from tensorsmith import script as T


@T.program
def f(A: T.Buffer((64,), "{dtype}"), C: T.Buffer((64,), "float32")):
    for i in range({64 // lanes}):
        for j in T.vectorized({lanes}):
            C[i * {lanes} + j] = T.float32(A[i * {lanes} + j] << 4 >> {by})
""")


def text_of(given: TensorProgram, target: str) -> str:
    return print_llvm(IRModule.holding(given), Target.named(target)).render()


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
@pytest.mark.parametrize("by", [27, 28, 29, 31])
@pytest.mark.parametrize("lanes", [1, 8, 16, 32])
def test_all_values_are_exact(dtype: str, by: int, lanes: int) -> None:
    rng = np.random.default_rng(by)
    words = rng.integers(0, 1 << 32, 64, dtype=np.uint32)
    words[:16] = np.arange(16, dtype=np.uint32) << 24 | 0xFFFFFF
    words[16:32] = np.arange(16, dtype=np.uint32) << 24
    a, c = words.view(dtype), np.zeros(64, np.float32)
    build(program(dtype, by, lanes), threads=1, cache=False)(a, c)
    np.testing.assert_array_equal(c, ((a << 4) >> by).astype(np.float32))


def test_a_table_takes_the_place_of_a_conversion() -> None:
    assert PICK in text_of(program("int32", 28), "x86-64-v4")
    assert PICK in text_of(program("uint32", 30), "x86-64-v4")


@pytest.mark.parametrize(
    ("by", "lanes", "target"),
    [(27, 16, "x86-64-v4"), (28, 8, "x86-64-v4"), (28, 16, "x86-64-v3"), (28, 16, "aarch64")],
)
def test_other_conversions_are_as_they_were(by: int, lanes: int, target: str) -> None:
    assert PICK not in text_of(program("int32", by, lanes), target)
