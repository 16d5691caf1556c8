"""Which instruction computes the products of a contraction of bytes, a few for each sum at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tensorsmith.ir import Block, Cast, Load, Store, free_vars, postorder
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


TILES: Final = {
    (data, weights, "int32"): f"amx_{data[0].replace('i', 's')}8{weights[0].replace('i', 's')}8s32"
    for data in ("uint8", "int8")
    for weights in ("uint8", "int8")
}
"""Intrinsics for products in tile registers, by the types of the operands and of the sums."""


def dot_for(block: Block, what: Contraction, target: Target) -> Dot | None:
    """The intrinsic for a contraction whose factors are converted to the type of the sums."""
    kinds = _kinds(block, what)
    for dot in DOTS if kinds is not None else ():
        lanes = target.lanes(what.output.dtype.bytes)
        fits = (dot.data, dot.weights, dot.sums) == kinds and dot.lanes == lanes
        if fits and target.features.issuperset(SHIPPED[dot.intrinsic].features):
            return dot
    return None


def tiles_for(block: Block, what: Contraction, target: Target) -> str | None:
    """The intrinsic that multiplies tiles for such a contraction, of rows that lie along its sum.

    It computes whole tiles, mostly with zeros if there is little to compute.
    """
    intrinsic = TILES.get(_kinds(block, what) or ("", "", ""))
    if intrinsic is None or not target.features.issuperset(SHIPPED[intrinsic].features):
        return None
    last = set(free_vars(*what.left.indices[-1:]))
    moving = [at for at, it in enumerate(block.iters) if it.var in last]
    return intrinsic if len(what.k) == 1 and moving == list(what.k) else None


def _kinds(block: Block, what: Contraction) -> tuple[str, str, str] | None:
    """The types of the factors, which are converted to that of the sums, and that."""
    sums = what.output.dtype
    if not isinstance(block.body, Store):
        return None
    casts = [e for e in postorder(block.body.value) if isinstance(e, Cast)]
    if {type(e.args[0]) for e in casts} != {Load} or any(e.dtype is not sums for e in casts):
        return None
    return what.left.dtype.name, what.right.dtype.name, sums.name
