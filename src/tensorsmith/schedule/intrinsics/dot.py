"""Dot products of bytes into 32-bit sums, a few products for each lane at once."""

from __future__ import annotations

from typing import Final

from tensorsmith.schedule.intrinsic import TensorIntrinsic
from tensorsmith.script import parse_program

_HEADER: Final = """
from tensorsmith import script as T


@T.program
def {name}(
    C: T.Buffer(({lanes},), "{sums}"),
    A: T.Buffer(({width},), "{data}"),
    B: T.Buffer(({lanes}, {width}), "{weights}"),
):
"""
_DESCRIPTION: Final = """
    for j, r in T.grid({lanes}, {width}):
        with T.block("update"):
            vj, vr = T.remap("SR", j, r)
            T.block_attrs({{"accumulate": True}})
            C[vj] = C[vj] + T.{sums}(A[vr]) * T.{sums}(B[vj, vr])
"""
_IMPLEMENTATION: Final = """
    with T.block("dot"):
        T.reads(C[0:{lanes}], A[0:{width}], B[0:{lanes}, 0:{width}])
        T.writes(C[0:{lanes}])
        T.block_attrs({{"instruction": "{instruction}"}})
        for r in T.unrolled({width}):
            for j in T.vectorized({lanes}):
                C[j] = C[j] + T.{sums}(A[r]) * T.{sums}(B[j, r])
"""


def dot(
    name: str,
    instruction: str,
    features: tuple[str, ...],
    *,
    lanes: int,
    width: int,
    data: str,
    weights: str = "int8",
    sums: str = "int32",
) -> TensorIntrinsic:
    """``C[lane] += sum over r of A[r] * B[lane, r]``, `width` products a lane; exact modulo 2**32.

    data, weights, sums: the types of A, B and C. All three are dense: weights are packed so once.
    The implementation is a block with the attribute `instruction`, which names the instruction of
    the target for a code generator that knows it; its regions are the operands: C, A, B.
    Its body says the same in scalars, for the interpreter and for all other targets. Bytes are
    widened for an instruction that multiplies 16 bits, so that no sum of two products saturates.
    """
    sizes = {
        "lanes": lanes,
        "width": width,
        "data": data,
        "weights": weights,
        "sums": sums,
        "instruction": instruction,
    }
    described = (_HEADER + _DESCRIPTION).format(name="description", **sizes)
    implemented = (_HEADER + _IMPLEMENTATION).format(name="implementation", **sizes)
    return TensorIntrinsic(name, parse_program(described), parse_program(implemented), features)
