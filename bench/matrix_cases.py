"""Products of float32 matrices: both of them inputs, or one of them weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cases import EPSILON, Operator, noise, normal


def matmul(m: int, n: int, k: int, *, transpose_b: bool = False) -> Operator:
    """C[m, n] = A[m, k] B[k, n], or B[n, k] transposed; both are inputs."""

    def right(b: Any) -> Any:  # NumPy and PyTorch alike
        return b.T if transpose_b else b

    return Operator(
        name=f"matmul_{m}x{n}x{k}{'t' if transpose_b else ''}",
        group="matmul",
        nodes=[("Gemm", ("a", "b"), {"transB": int(transpose_b)})],
        inputs=normal(a=(m, k), b=(n, k) if transpose_b else (k, n)),
        reference=lambda a, b: a.astype(np.float64) @ right(b).astype(np.float64),
        # Sums of k products of standard normals: errors grow like sqrt(k), worst like k.
        tolerance=8 * EPSILON * k,
        flops=2.0 * m * n * k,
        bytes=4.0 * (m * k + k * n + m * n),
        output=("float32", (m, n)),
        numpy=lambda a, b: a @ right(b),
        torch=lambda: lambda a, b: a @ right(b),
    )


def batched(batch: int, m: int, n: int, k: int) -> Operator:
    """C[b, m, n] = A[b, m, k] B[b, k, n]."""
    return Operator(
        name=f"batched_{batch}x{m}x{n}x{k}",
        group="matmul",
        nodes=[("MatMul", ("a", "b"), {})],
        inputs=normal(a=(batch, m, k), b=(batch, k, n)),
        reference=lambda a, b: a.astype(np.float64) @ b.astype(np.float64),
        tolerance=8 * EPSILON * k,
        flops=2.0 * batch * m * n * k,
        bytes=4.0 * batch * (m * k + k * n + m * n),
        output=("float32", (batch, m, n)),
        numpy=np.matmul,
        torch=lambda: lambda a, b: a @ b,
    )


def linear(m: int, k: int, n: int) -> Operator:
    """Y[m, n] = X[m, k] W[n, k]^T + b[n], with constant W and b; without b for one row."""
    biased = m > 1

    def constants() -> dict[str, Any]:
        weights = {"w": noise(n, k, deviation=k**-0.5)}
        return weights | ({"b": noise(n, seed=2)} if biased else {})

    def exact(x: Any) -> Any:
        kept = constants()
        return x.astype(np.float64) @ kept["w"].T.astype(np.float64) + kept.get("b", 0.0)

    def of_torch() -> Callable[..., Any]:
        import torch

        kept = {name: torch.from_numpy(a) for name, a in constants().items()}
        layer = torch.nn.Linear(k, n, bias=biased)
        layer.weight.data = kept["w"]
        if biased:
            layer.bias.data = kept["b"]
        return layer

    return Operator(
        name=f"linear_{m}x{k}x{n}" if biased else f"gemv_{k}x{n}",
        group="linear",
        nodes=[("Gemm", ("x", "w", "b") if biased else ("x", "w"), {"transB": 1})],
        inputs=normal(x=(m, k)),
        constants=constants,
        reference=exact,
        tolerance=8 * EPSILON * k**0.5 * 4,
        flops=2.0 * m * n * k,
        bytes=4.0 * (m * k + k * n + m * n),
        output=("float32", (m, n)),
        numpy=_numpy_linear(constants),
        torch=of_torch,
    )


def _numpy_linear(constants: Callable[[], dict[str, Any]]) -> Callable[[Any], Any]:
    kept: dict[str, Any] = {}

    def run(x: Any) -> Any:
        if not kept:
            kept.update(constants())
        return x @ kept["w"].T + kept["b"] if "b" in kept else x @ kept["w"].T

    return run


def matrix_cases() -> list[Operator]:
    """Squares, layers of transformers, and shapes that no tile divides."""
    cases = [matmul(s, s, s) for s in (256, 512, 1024, 2048)]
    cases += [linear(128, 768, 3072), linear(128, 3072, 768), linear(1, 4096, 4096)]
    cases += [batched(12, 128, 128, 64), batched(12, 128, 64, 128)]
    sizes = (64, 384, 768, 1000, 3072, 4096)
    for m in (1, 7, 33, 128):
        pairs = zip(sizes, sizes[1:] + sizes[:1], strict=True)
        cases += [matmul(m, n, k) for n, k in pairs]
    cases += [matmul(128, 768, 3072, transpose_b=True), matmul(1, 4096, 4096, transpose_b=True)]
    return cases
