"""Which instruction computes the products of a contraction of bytes, a few for each sum at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tensorsmith.ir import Block, Cast, Load, Store, postorder
from tensorsmith.schedule.defaults.analysis import Contraction
from tensorsmith.schedule.intrinsics import SHIPPED
from tensorsmith.target import Target


@dataclass(frozen=True, slots=True)
class Dot:
    """An intrinsic ``C[lane] += sum over r < width of A[r] * B[lane, r]``."""

    intrinsic: str
    data: str
    weights: str
    sums: str
    lanes: int
    width: int


DOTS: Final = (
    Dot("vnni_dot_u8s8s32_16x4", "uint8", "int8", "int32", 16, 4),
    Dot("vnni_dot_u8s8s32_8x4", "uint8", "int8", "int32", 8, 4),
    Dot("avxvnni_dot_u8s8s32_8x4", "uint8", "int8", "int32", 8, 4),
    Dot("arm_sdot_s8s8s32_4x4", "int8", "int8", "int32", 4, 4),
    Dot("arm_udot_u8u8u32_4x4", "uint8", "uint8", "uint32", 4, 4),
    *(
        Dot(f"{prefix}_dot_{kinds}s32_{lanes}x2", data, weights, "int32", lanes, 2)
        for prefix, lanes in (("avx512", 16), ("avx2", 8))
        for kinds, data, weights in (
            ("u8s8", "uint8", "int8"),
            ("s8s8", "int8", "int8"),
            ("u8u8", "uint8", "uint8"),
        )
    ),
)
"""Those that never saturate, the fastest first."""


def dot_for(block: Block, what: Contraction, target: Target) -> Dot | None:
    """The intrinsic for a contraction whose factors are converted to the type of the sums."""
    sums = what.output.dtype
    if not isinstance(block.body, Store):
        return None
    casts = [e for e in postorder(block.body.value) if isinstance(e, Cast)]
    if {type(e.args[0]) for e in casts} != {Load} or any(e.dtype is not sums for e in casts):
        return None
    kinds = (what.left.dtype.name, what.right.dtype.name, sums.name)
    for dot in DOTS:
        fits = (dot.data, dot.weights, dot.sums) == kinds and dot.lanes == target.lanes(sums.bytes)
        if fits and target.features.issuperset(SHIPPED[dot.intrinsic].features):
            return dot
    return None
