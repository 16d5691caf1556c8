"""Products of integers, and of floats with weights of 8 and 4 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cases import Operator, normal
from work import Array

BLOCK = 32
"""Weights of a block share a scale."""


def _integers(low: int, high: int, shape: tuple[int, ...], dtype: str) -> Array:
    return np.random.default_rng(1).integers(low, high, shape, dtype=dtype)


def integer_product(m: int, n: int, k: int) -> Operator:
    """C[m, n] = A[m, k] W[k, n], of unsigned bytes and constant signed ones, in 32-bit integers."""

    def constants() -> dict[str, Array]:
        return {"w": _integers(-127, 128, (k, n), "int8")}

    def of_torch() -> Callable[..., Any]:
        """PyTorch multiplies signed bytes alone, so inputs hold no more than 7 bits."""
        import torch

        w = torch.from_numpy(constants()["w"])
        return lambda a: torch._int_mm(a.view(torch.int8), w)  # noqa: SLF001 - has no public name

    return Operator(
        name=f"int8_matmul_{m}x{n}x{k}" if m > 1 else f"int8_gemv_{k}x{n}",
        group="quantised",
        nodes=[("MatMulInteger", ("a", "w"), {})],
        inputs=lambda rng: {"a": rng.integers(0, 128, (m, k), dtype=np.uint8)},
        constants=constants,
        # Exact in float64, which BLAS multiplies.
        reference=lambda a: a.astype(np.float64) @ constants()["w"].astype(np.float64),
        tolerance=0,
        flops=2.0 * m * n * k,
        bytes=float(m * k + k * n + 4 * m * n),
        output=("int32", (m, n)),
        floats=False,
        torch=of_torch,
    )


def quantize_dequantize(m: int, n: int, k: int) -> Operator:
    """Y = X W of floats with quantisation written around it: unsigned bytes by signed weights."""
    step, weight_step = np.float32(4 / 127), np.float32(1 / (73 * k**0.5))

    def constants() -> dict[str, Array]:
        weights = {"w": _integers(-127, 128, (k, n), "int8"), "wz": np.array(0, np.int8)}
        return weights | {
            "ws": np.asarray(weight_step),
            "s": np.asarray(step),
            "z": np.array(128, np.uint8),
        }

    def exact(x: Array) -> Array:
        rounded = np.clip(np.rint(x / step), -128, 127).astype(np.float64)
        product = rounded @ constants()["w"].astype(np.float64)
        return product * float(step) * float(weight_step)

    def of_torch() -> Callable[..., Any]:
        import torch

        w = torch.from_numpy(constants()["w"])

        def run(x: Any) -> Any:
            rounded = torch.clamp(torch.round(x / float(step)), -128, 127).to(torch.int8)
            product = torch._int_mm(rounded, w)  # noqa: SLF001 - has no public name
            return product.to(torch.float32) * float(step * weight_step)

        return run

    return Operator(
        name=f"qdq_matmul_{m}x{n}x{k}",
        group="quantised",
        nodes=[
            ("QuantizeLinear", ("x", "s", "z"), {}),
            ("DequantizeLinear", ("t0", "s", "z"), {}),
            ("DequantizeLinear", ("w", "ws", "wz"), {}),
            ("MatMul", ("t1", "t2"), {}),
        ],
        inputs=normal(x=(m, k)),
        constants=constants,
        reference=exact,
        # An input at the middle of two steps may be rounded either way: a few of a row.
        tolerance=5 * float(step * weight_step) * 127,
        flops=2.0 * m * n * k,
        bytes=4.0 * (m * k + m * n) + k * n,
        output=("float32", (m, n)),
        floats=False,
        torch=of_torch,
    )


def block_gemv(n: int, k: int, bits: int) -> Operator:
    """Y[1, n] = X[1, k] W[n, k]^T with weights of few bits and a scale a block of 32.

    X may be rounded to 8 bits (accuracy level 4), as models for processors are exported.
    """
    middle = 1 << (bits - 1)

    def constants() -> dict[str, Array]:
        rng = np.random.default_rng(1)
        blob = BLOCK * bits // 8
        deviation = (1 << bits) / 12**0.5  # of uniform integers
        scales = rng.uniform(0.5, 1.5, n * k // BLOCK) / (deviation * k**0.5)
        packed = rng.integers(0, 256, (n, k // BLOCK, blob), dtype=np.uint8)
        return {"w": packed, "ws": scales.astype(np.float32)}

    def exact(x: Array) -> Array:
        kept = constants()
        packed = kept["w"]
        if bits == 4:
            packed = np.stack([packed & 15, packed >> 4], axis=-1)
        weights = packed.reshape(n, k // BLOCK, BLOCK).astype(np.float64) - middle
        weights *= kept["ws"].reshape(n, k // BLOCK, 1)
        return x.astype(np.float64) @ weights.reshape(n, k).T

    attributes = {"K": k, "N": n, "bits": bits, "block_size": BLOCK, "accuracy_level": 4}
    return Operator(
        name=f"q{bits}_gemv_{k}x{n}",
        group="quantised",
        nodes=[("MatMulNBits", ("x", "w", "ws"), {"domain": "com.microsoft", **attributes})],
        inputs=normal(x=(1, k)),
        constants=constants,
        reference=exact,
        # Rounding x of deviation 1 to 8 bits a block: errors of deviation 0.01, six of them.
        tolerance=0.06,
        flops=2.0 * n * k,
        bytes=n * k * bits / 8 + 4.0 * (n * k / BLOCK + k + n),
        output=("float32", (1, n)),
        floats=False,
        may_round=True,
    )


def quantized_cases() -> list[Operator]:
    """Bytes, quantisation written in the graph, blocks of 8 and 4 bits."""
    return [
        integer_product(1024, 1024, 1024),
        integer_product(128, 768, 3072),
        integer_product(1, 4096, 4096),
        quantize_dequantize(1024, 1024, 1024),
        block_gemv(4096, 4096, 8),
        block_gemv(4096, 4096, 4),
    ]
