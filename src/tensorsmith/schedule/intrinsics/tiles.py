"""Products of matrices of bytes in tile registers: a block of the result, over all of the sum."""

from __future__ import annotations

from typing import Final

from tensorsmith.schedule.intrinsic import TensorIntrinsic
from tensorsmith.script import parse_program

_HEADER: Final = """
from tensorsmith import script as T

rows = T.dim("rows", multiple_of=16)
columns = T.dim("columns", multiple_of=16)
depth = T.dim("depth", multiple_of=64)
a_row = T.dim("a_row", min=None)
c_row = T.dim("c_row", min=None)


@T.program
def {name}(
    C: T.Buffer((rows, columns), "int32", strides=(c_row, 1)),
    A: T.Buffer((rows, depth), "{data}", strides=(a_row, 1)),
    B: T.Buffer((depth // 4, columns, 4), "{weights}"),
):
"""
_DESCRIPTION: Final = """
    for i, j, k in T.grid(rows, columns, depth):
        with T.block("update"):
            vi, vj, vk = T.remap("SSR", i, j, k)
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.int32(A[vi, vk]) * T.int32(B[vk // 4, vj, vk % 4])
"""
_IMPLEMENTATION: Final = """
    with T.block("tiles"):
        T.reads(A[0:rows, 0:depth], B[0:depth // 4, 0:columns, 0:4])
        T.writes(C[0:rows, 0:columns])
        T.block_attrs({{"instruction": "{instruction}"}})
        for i, j in T.grid(rows, columns):
            total = T.alloc((1,), "int32", scope="local")
            total[0] = 0
            for k in range(depth):
                total[0] = total[0] + T.int32(A[i, k]) * T.int32(B[k // 4, j, k % 4])
            C[i, j] = total[0]
"""


def tile_product(name: str, instruction: str, data: str, weights: str) -> TensorIntrinsic:
    """``C[i, j] = sum over k of A[i, k] * B[k // 4, j, k % 4]`` of bytes, exact modulo 2**32.

    The sums start at 0, and stay in tile registers of 16 rows and columns. data, weights: the types
    of A and B. The implementation is a block with the attribute `instruction`, as of `dot`; whether
    there are registers for so many rows and columns, the code generator says. Where there are not,
    its body does the same in scalars.
    """
    sizes = {"data": data, "weights": weights, "instruction": instruction}
    described = (_HEADER + _DESCRIPTION).format(name="description", **sizes)
    implemented = (_HEADER + _IMPLEMENTATION).format(name="implementation", **sizes)
    return TensorIntrinsic(
        name, parse_program(described), parse_program(implemented), ("amx-int8",)
    )
