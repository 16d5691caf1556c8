"""The tensor intrinsics that are shipped."""

from __future__ import annotations

from typing import Final

from tensorsmith.schedule.intrinsic import TensorIntrinsic
from tensorsmith.schedule.intrinsics.accelerator import matmul_tile
from tensorsmith.schedule.intrinsics.dot import dot
from tensorsmith.schedule.intrinsics.fma import fma_tile
from tensorsmith.schedule.intrinsics.tiles import tile_product

_AVX2, _AVX512 = ("avx2", "fma"), ("avx512f",)
_PMADD: Final = (
    ("avx512", "llvm.x86.avx512.pmaddw.d.512", "avx512bw", 16),
    ("avx2", "llvm.x86.avx2.pmadd.wd", "avx2", 8),
)
_SHORT: Final = {"uint8": "u8", "int8": "s8"}
_VNNI = "llvm.x86.avx512.vpdpbusd"
_ARM_DOT = "llvm.aarch64.neon"

_ALL: Final = (
    fma_tile("avx2_fma_f32_6x16", 6, 16, 8, _AVX2),
    fma_tile("avx2_fma_f32_4x24", 4, 24, 8, _AVX2),
    fma_tile("avx512_fma_f32_14x32", 14, 32, 16, _AVX512),
    fma_tile("avx512_fma_f32_8x48", 8, 48, 16, _AVX512),
    *(
        dot(
            f"{prefix}_dot_{_SHORT[data]}{_SHORT[weights]}s32_{lanes}x2",
            instruction,
            (feature,),
            lanes=lanes,
            width=2,
            data=data,
            weights=weights,
        )
        for prefix, instruction, feature, lanes in _PMADD
        for data, weights in (("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8"))
    ),
    dot(
        "vnni_dot_u8s8s32_8x4",
        f"{_VNNI}.256",
        ("avx512vnni", "avx512vl"),
        lanes=8,
        width=4,
        data="uint8",
    ),
    dot(
        "avxvnni_dot_u8s8s32_8x4",
        f"{_VNNI}.256",
        ("avxvnni",),
        lanes=8,
        width=4,
        data="uint8",
    ),
    dot(
        "vnni_dot_u8s8s32_16x4",
        f"{_VNNI}.512",
        ("avx512vnni",),
        lanes=16,
        width=4,
        data="uint8",
    ),
    dot(
        "arm_sdot_s8s8s32_4x4",
        f"{_ARM_DOT}.sdot.v4i32.v16i8",
        ("dotprod",),
        lanes=4,
        width=4,
        data="int8",
    ),
    dot(
        "arm_udot_u8u8u32_4x4",
        f"{_ARM_DOT}.udot.v4i32.v16i8",
        ("dotprod",),
        lanes=4,
        width=4,
        data="uint8",
        weights="uint8",
        sums="uint32",
    ),
    *(
        tile_product(
            f"amx_{_SHORT[data]}{_SHORT[weights]}s32",
            f"llvm.x86.tdpb{data[0].replace('i', 's')}{weights[0].replace('i', 's')}d",
            data,
            weights,
        )
        for data in _SHORT
        for weights in _SHORT
    ),
    matmul_tile("fake_accelerator_16x16x16", "fake_accelerator_gemm", 16),
)

SHIPPED: Final[dict[str, TensorIntrinsic]] = {i.name: i for i in _ALL}
"""By name."""
