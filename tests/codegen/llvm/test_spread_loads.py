"""Vectors of every second element come from loads of all neighbours, never beyond the last one."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from tensorsmith.codegen import build
from tensorsmith.codegen.llvm.module import print_llvm
from tensorsmith.ir import IRModule, TensorProgram
from tensorsmith.script import parse_program
from tensorsmith.target import Target

SOURCE = """
from tensorsmith import script as T


@T.program
def halve(A: T.Buffer(({read},), "{dtype}"), B: T.Buffer(({count},), "{dtype}")):
    for i0 in range({vectors}):
        for i1 in T.vectorized({lanes}):
            with T.block("halve"):
                vi = T.spatial({count}, i0 * {lanes} + i1)
                T.where(i0 * {lanes} + i1 < {count})
                B[vi] = A[vi * 2 + {first}]
"""


def halve(dtype: str, count: int, lanes: int, first: int) -> TensorProgram:
    """B[i] = A[2 i + first], where A ends with the last element that is read."""
    vectors, read = -(-count // lanes), 2 * count - 1 + first
    return parse_program(
        SOURCE.format(
            read=read, count=count, vectors=vectors, lanes=lanes, first=first, dtype=dtype
        )
    )


def at_the_end_of_a_page(values: np.ndarray) -> np.ndarray:
    """A copy that ends where memory ends that may be read."""
    size = -(-values.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    page = mmap.mmap(-1, size)
    start = size - values.nbytes
    found = np.frombuffer(page, values.dtype, values.size, start)
    found[:] = values
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16"])
@pytest.mark.parametrize("count", [1, 8, 16, 17, 31, 64, 101])
@pytest.mark.parametrize(("lanes", "first"), [(8, 0), (16, 1), (7, 0)])
def test_every_second_element(dtype: str, count: int, lanes: int, first: int) -> None:
    a = np.random.default_rng(count).integers(0, 100, 2 * count - 1 + first).astype(dtype)
    out = np.zeros(count, dtype)
    build(halve(dtype, count, lanes, first), threads=1)(at_the_end_of_a_page(a), out)
    np.testing.assert_array_equal(out, a[first::2])


@pytest.mark.parametrize("count", [64, 65])
def test_there_is_no_gather(count: int) -> None:
    module = IRModule.of(halve("float32", count, 16, 0))
    assert "gather" not in print_llvm(module, Target.named("x86-64-v4")).render()
