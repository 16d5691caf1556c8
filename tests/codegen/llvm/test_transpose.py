"""Tiles that are written by rows and read by columns come out right, and without gathers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.codegen import build
from tensorsmith.codegen.compilation import object_code
from tensorsmith.codegen.llvm.module import print_llvm
from tensorsmith.codegen.llvm.transpose import can_transpose
from tensorsmith.evaluate import interpret
from tensorsmith.ir import IRModule, TensorProgram
from tensorsmith.script import parse_program
from tensorsmith.target import Target

TARGET = Target.named("x86-64-v4")
SOURCE = """
from tensorsmith import script as T


@T.program
def transpose(A: T.Buffer(({rows}, {columns}), "{dtype}"),
              B: T.Buffer(({columns}, {rows}), "{dtype}")):
    tile = T.alloc(({rows}, {columns}), "{dtype}", scope="local")
    for i in T.unrolled({rows}):
        for j in T.vectorized({columns}):
            tile[i, j] = A[i, j]
    for j in T.unrolled({columns}):
        for i in T.vectorized({rows}):
            B[j, i] = tile[i, j]
"""
SHAPES = [
    ("float32", 16, 16),
    ("float32", 8, 8),
    ("float32", 4, 4),
    ("float32", 2, 2),
    ("float32", 13, 16),
    ("float32", 3, 8),
    ("float32", 8, 16),
    ("float64", 8, 8),
    ("float64", 5, 8),
    ("float64", 2, 2),
    ("int8", 16, 16),
    ("int8", 4, 4),
    ("uint8", 32, 32),
    ("int16", 8, 8),
    ("int16", 32, 32),
    ("bfloat16", 16, 16),
    ("float16", 8, 8),
]


def program(dtype: str, rows: int, columns: int) -> TensorProgram:
    """A transposition by way of a small local buffer."""
    return parse_program(SOURCE.format(dtype=dtype, rows=rows, columns=columns))


@pytest.mark.parametrize(("dtype", "rows", "columns"), SHAPES)
def test_columns_are_those_of_the_rows(dtype: str, rows: int, columns: int) -> None:
    made = program(dtype, rows, columns)
    storage = made.buffers[0].dtype.numpy
    rng = np.random.default_rng(rows * columns)
    a = rng.integers(0, 100, (rows, columns)).astype(storage)
    b = np.zeros((columns, rows), storage)
    build(made, threads=1)(a, b)
    np.testing.assert_array_equal(a.T, b)


@pytest.mark.parametrize(("dtype", "rows", "columns"), SHAPES)
def test_nothing_is_gathered_from_memory(dtype: str, rows: int, columns: int) -> None:
    made = program(dtype, rows, columns)
    text = print_llvm(IRModule.holding(made), TARGET).render()
    assert can_transpose(columns, rows, made.buffers[0].dtype.bytes)
    assert "masked.gather" not in text


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "aarch64", "riscv64", "wasm32"])
def test_every_machine_has_code_for_it(target: str) -> None:
    assert object_code(program("float32", 16, 16), target)


@pytest.mark.parametrize(("dtype", "rows", "columns"), [("float32", 5, 6), ("float64", 32, 32)])
def test_other_shapes_go_through_memory(dtype: str, rows: int, columns: int) -> None:
    assert not can_transpose(columns, rows, 4 if dtype == "float32" else 8)
    a = np.arange(rows * columns, dtype=dtype).reshape(rows, columns)
    b = np.zeros((columns, rows), dtype)
    build(program(dtype, rows, columns), threads=1)(a, b)
    np.testing.assert_array_equal(a.T, b)


@pytest.mark.parametrize(
    "between",
    [
        "tile[3, 2] = 7.0",
        "for i in T.vectorized(4):\n            tile[i, 1] = 7.0",
        "for j in T.vectorized(4):\n            tile[1, j] = 7.0",
        "for j in T.vectorized(4):\n            if j > 1:\n                tile[1, j] = 7.0",
        "for i in range(n):\n            tile[i, i] = 7.0",
        "for i, j in T.grid(n, 4):\n            tile[i, j] = 7.0",
    ],
)
def test_what_is_stored_between_counts(between: str) -> None:
    source = f"""
from tensorsmith import script as T

n = T.dim("n", min=0, max=4)


@T.program
def f(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32"),
      N: T.Buffer((n,), "float32")):
    tile = T.alloc((4, 4), "float32", scope="local")
    for i in T.unrolled(4):
        for j in T.vectorized(4):
            tile[i, j] = A[i, j]
    for once in range(1):
        {between}
    for j in T.unrolled(4):
        for i in T.vectorized(4):
            B[j, i] = tile[i, j]
"""
    made = parse_program(source)
    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    got, wanted = np.zeros((2, 4, 4), np.float32)
    n = np.zeros(3, np.float32)
    interpret(made, a, wanted, n)
    build(made, threads=1)(a, got, n)
    np.testing.assert_array_equal(got, wanted)
