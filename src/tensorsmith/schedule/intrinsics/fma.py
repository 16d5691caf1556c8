"""Register tiles of multiply-adds: a block of a matrix product whose sums stay in registers."""

from __future__ import annotations

from typing import Final

from tensorsmith.schedule.intrinsic import TensorIntrinsic
from tensorsmith.script import parse_program

_HEADER: Final = """
from tensorsmith import script as T

depth = T.dim("depth")
a_step = T.dim("a_step", min=None)
a_row = T.dim("a_row", min=None)
b_step = T.dim("b_step", min=None)
c_row = T.dim("c_row", min=None)


@T.program
def {name}(
    A: T.Buffer((depth, {rows}), "float32", strides=(a_step, a_row)),
    B: T.Buffer((depth, {columns}), "float32", strides=(b_step, 1)),
    C: T.Buffer(({rows}, {columns}), "float32", strides=(c_row, 1)),
):
"""
_DESCRIPTION: Final = """
    for i, j, k in T.grid({rows}, {columns}, depth):
        with T.block("update"):
            vi, vj, vk = T.remap("SSR", i, j, k)
            T.block_attrs({{"accumulate": True}})
            C[vi, vj] = C[vi, vj] + A[vk, vi] * B[vk, vj]
"""
_IMPLEMENTATION: Final = """
    sums = T.alloc(({rows}, {columns}), "float32", scope="local")
    for i in T.unrolled({rows}):
        for v in T.unrolled({vectors}):
            for l in T.vectorized({lanes}):
                sums[i, v * {lanes} + l] = C[i, v * {lanes} + l]
    for k in range(depth):
        for i in T.unrolled({rows}):
            for v in T.unrolled({vectors}):
                for l in T.vectorized({lanes}):
                    sums[i, v * {lanes} + l] += A[k, i] * B[k, v * {lanes} + l]
    for i in T.unrolled({rows}):
        for v in T.unrolled({vectors}):
            for l in T.vectorized({lanes}):
                C[i, v * {lanes} + l] = sums[i, v * {lanes} + l]
"""


def fma_tile(
    name: str, rows: int, columns: int, lanes: int, features: tuple[str, ...]
) -> TensorIntrinsic:
    """``C[rows, columns] += sum over k of A[k, rows] * B[k, columns]`` in float32.

    The sums take ``rows * columns / lanes`` vector registers; one more row of B and one broadcast
    element of A must fit, too. A may have any strides, so it may be packed or not, transposed or
    not; rows of B and C are contiguous. Each element is added up in the order of k, beginning with
    what C holds. Source: Goto and van de Geijn, Anatomy of high-performance matrix multiplication,
    2008.
    """
    sizes = {"rows": rows, "columns": columns, "lanes": lanes, "vectors": columns // lanes}
    described = (_HEADER + _DESCRIPTION).format(name="description", **sizes)
    implemented = (_HEADER + _IMPLEMENTATION).format(name="implementation", **sizes)
    return TensorIntrinsic(name, parse_program(described), parse_program(implemented), features)
