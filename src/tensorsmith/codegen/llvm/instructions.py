"""Instructions of machines that programs call by LLVM's name: ``llvm.x86.avx512.vpdpbusd.512``.

Such a call is ``Invoke(name, (result, operand, ...))``: the first argument is the region that takes
the result, the others are the operands. A region is a vector: its elements lie one after the other
in memory; those of an operand may be fewer, of up to 8 bytes, and are repeated then. Integers of
fewer bits than the instruction takes are widened. With one more operand in front, of the type of
the result, that is added to what the instruction computes. LLVM ends the process where a machine
lacks an instruction, so only those listed here have code, and only where the target has what they
need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tensorsmith.ir.dtype import DType, Kind

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Vector:
    """An operand or result: elements by our name of their type, and how LLVM takes their bits."""

    dtype: str
    lanes: int
    llvm: str


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of a machine.

    needs: features of which the target must have one. compute: what it computes, on NumPy arrays;
    `reference` makes of it what the interpreter takes for an external function.
    """

    name: str
    needs: tuple[str, ...]
    result: Vector
    operands: tuple[Vector, ...]
    compute: Callable[..., Array]

    def reference(self, result: Array, *operands: Array) -> None:
        """Compute into `result`, a view of any shape. Operands with few elements are repeated."""
        first = len(operands) - len(self.operands)
        added, own = operands[:first], operands[first:]
        flat = [
            np.resize(x, v.lanes).astype(v.dtype) for x, v in zip(own, self.operands, strict=True)
        ]
        value = self.compute(*flat)
        for x in added:
            value = value + x.reshape(-1)
        result[...] = value.reshape(result.shape)


def is_widened(given: DType, wanted: DType) -> bool:
    """Whether an operand's elements are integers that are widened for the instruction."""
    if not (given.is_bits and wanted.is_bits) or given.bits < 8 or given.bits >= wanted.bits:
        return False
    return given.kind is wanted.kind or wanted.kind is Kind.INT


def _vector(dtype: str, lanes: int) -> Vector:
    return Vector(dtype, lanes, f"<{lanes} x i{dtype.removeprefix('u').removeprefix('int')}>")


def _dot(total: Array, a: Array, b: Array) -> Array:
    """Each 32-bit sum and the products of its group of elements, without saturation."""
    group = a.size // total.size
    products = (a.astype(np.int64) * b.astype(np.int64)).reshape(-1, group).sum(axis=1)
    result: Array = (total.astype(np.int64) + products).astype(total.dtype)
    return result


def _add_pairs_saturated(a: Array, b: Array) -> Array:
    products = (a.astype(np.int64) * b.astype(np.int64)).reshape(-1, 2).sum(axis=1)
    result: Array = np.clip(products, -(1 << 15), (1 << 15) - 1).astype(np.int16)
    return result


def _add_pairs(a: Array, b: Array) -> Array:
    products = (a.astype(np.int64) * b.astype(np.int64)).reshape(-1, 2).sum(axis=1)
    result: Array = products.astype(np.uint64).astype(np.uint32).view(np.int32)
    return result


def _x86_dot(name: str, width: int, pairs: tuple[str, str], needs: tuple[str, ...]) -> Instruction:
    """A dot product into 32-bit lanes; LLVM takes the narrow operands as 32-bit lanes too."""
    lanes, bits = width // 32, 8 if pairs[0].endswith("8") else 16
    narrow = [Vector(dtype, width // bits, f"<{lanes} x i32>") for dtype in pairs]
    total = _vector("int32", lanes)
    return Instruction(f"llvm.x86.avx512.{name}.{width}", needs, total, (total, *narrow), _dot)


def _arm_dot(name: str, total: str, pairs: tuple[str, str], needs: str) -> Instruction:
    sums = _vector(total, 4)
    narrow = [_vector(dtype, 16) for dtype in pairs]
    return Instruction(
        f"llvm.aarch64.neon.{name}.v4i32.v16i8", (needs,), sums, (sums, *narrow), _dot
    )


def _multiply_add(name: str, width: int, kinds: tuple[str, str, str], needs: str) -> Instruction:
    result, a, b = kinds
    bits = 8 if a.endswith("8") else 16
    return Instruction(
        name,
        (needs,),
        _vector(result, width // (2 * bits)),
        (_vector(a, width // bits), _vector(b, width // bits)),
        _add_pairs_saturated if bits == 8 else _add_pairs,
    )


_BYTES: Final = ("int16", "uint8", "int8")
_WORDS: Final = ("int32", "int16", "int16")
_VNNI: Final = {128: ("avxvnni", "avx512vnni"), 256: ("avxvnni", "avx512vnni")}

INSTRUCTIONS: Final[Mapping[str, Instruction]] = {
    i.name: i
    for i in (
        *(
            _x86_dot("vpdpbusd", width, ("uint8", "int8"), _VNNI.get(width, ("avx512vnni",)))
            for width in (128, 256, 512)
        ),
        *(
            _x86_dot("vpdpwssd", width, ("int16", "int16"), _VNNI.get(width, ("avx512vnni",)))
            for width in (128, 256, 512)
        ),
        _multiply_add("llvm.x86.ssse3.pmadd.ub.sw.128", 128, _BYTES, "ssse3"),
        _multiply_add("llvm.x86.avx2.pmadd.ub.sw", 256, _BYTES, "avx2"),
        _multiply_add("llvm.x86.avx512.pmaddubs.w.512", 512, _BYTES, "avx512bw"),
        _multiply_add("llvm.x86.sse2.pmadd.wd", 128, _WORDS, "sse2"),
        _multiply_add("llvm.x86.avx2.pmadd.wd", 256, _WORDS, "avx2"),
        _multiply_add("llvm.x86.avx512.pmaddw.d.512", 512, _WORDS, "avx512bw"),
        _arm_dot("sdot", "int32", ("int8", "int8"), "dotprod"),
        _arm_dot("udot", "uint32", ("uint8", "uint8"), "dotprod"),
        _arm_dot("usdot", "int32", ("uint8", "int8"), "i8mm"),
    )
}
"""The instructions that have code, by name."""

REFERENCES: Final[Mapping[str, Callable[..., None]]] = {
    name: i.reference for name, i in INSTRUCTIONS.items()
}
"""What the interpreter needs to run programs that call them: ``interpret(..., externs=...)``."""
