"""A matrix accelerator that does not exist: how hardware is added.

Its one instruction multiplies square tiles. It is an external function here, which takes views of
the three tiles; the interpreter runs it through ``externs=``, and native code links against it.
"""

from __future__ import annotations

from typing import Final

from tensorsmith.schedule.intrinsic import TensorIntrinsic
from tensorsmith.script import parse_program

_HEADER: Final = """
from tensorsmith import script as T

a_row = T.dim("a_row", min=None)
b_row = T.dim("b_row", min=None)
c_row = T.dim("c_row", min=None)


@T.program
def {name}(
    C: T.Buffer(({size}, {size}), "float32", strides=(c_row, 1)),
    A: T.Buffer(({size}, {size}), "float32", strides=(a_row, 1)),
    B: T.Buffer(({size}, {size}), "float32", strides=(b_row, 1)),
):
"""
_DESCRIPTION: Final = """
    for i, j, k in T.grid({size}, {size}, {size}):
        with T.block("update"):
            vi, vj, vk = T.remap("SSR", i, j, k)
            T.block_attrs({{"accumulate": True}})
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
_IMPLEMENTATION: Final = """
    with T.block("accelerator"):
        T.reads(C[0:{size}, 0:{size}], A[0:{size}, 0:{size}], B[0:{size}, 0:{size}])
        T.writes(C[0:{size}, 0:{size}])
        T.call("{symbol}", C[0:{size}, 0:{size}], A[0:{size}, 0:{size}], B[0:{size}, 0:{size}])
"""


def matmul_tile(name: str, symbol: str, size: int) -> TensorIntrinsic:
    """``C += A @ B`` for square float32 tiles of `size`, by the external function `symbol`.

    The function is called with C, A and B; rows are contiguous, `size` elements long, and any
    number of elements apart.
    """
    described = (_HEADER + _DESCRIPTION).format(name="description", size=size)
    implemented = (_HEADER + _IMPLEMENTATION).format(
        name="implementation", size=size, symbol=symbol
    )
    return TensorIntrinsic(name, parse_program(described), parse_program(implemented))
