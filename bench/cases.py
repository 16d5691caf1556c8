"""The operators that are measured: what each computes, for us and for every peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.ir import TensorProgram

EPSILON = float(np.finfo(np.float32).eps)
CONTRACT = {"contract": True}
"""Peers round products and sums once, as fused multiply-adds; so may we."""


@dataclass(frozen=True)
class Case:
    """An operator on fixed shapes.

    program: our tensor program of it; its parameters are the inputs, then `scalars`, then the
    output. reference: the exact result, in float64 or integers. tolerance: what results may be off,
    absolute.
    flops, bytes: what the algorithm as written needs; bytes count each tensor once.
    """

    name: str
    group: str
    program: Callable[[], TensorProgram]
    inputs: Callable[[np.random.Generator], list[np.ndarray]]
    reference: Callable[..., np.ndarray]
    tolerance: float
    flops: float
    bytes: float
    output_shape: tuple[int, ...]
    output_dtype: str = "float32"
    scalars: tuple[object, ...] = ()
    numpy: Callable[..., np.ndarray] | None = None
    torch: Callable[..., Any] | None = None
    onnx: Sequence[tuple[str, Sequence[str], dict[str, object]]] = field(default=())
    """Nodes: operator, inputs (i0, i1, ... or node outputs t0, t1, ...), attributes."""

    def onnx_model(self, inputs: Sequence[np.ndarray]) -> Any:  # onnx has no types
        """The case as an ONNX model; None if it has no nodes."""
        if not self.onnx:
            return None
        import onnx
        from onnx import helper

        nodes = [
            helper.make_node(op, list(args), [f"t{k}"], **attrs)
            for k, (op, args, attrs) in enumerate(self.onnx)
        ]
        of = helper.np_dtype_to_tensor_dtype
        ins = [
            helper.make_tensor_value_info(f"i{k}", of(a.dtype), a.shape)
            for k, a in enumerate(inputs)
        ]
        result = f"t{len(nodes) - 1}"
        out = helper.make_tensor_value_info(
            result, of(np.dtype(self.output_dtype)), self.output_shape
        )
        graph = helper.make_graph(nodes, self.name, ins, [out])
        opset = helper.make_opsetid("", 20)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
        onnx.checker.check_model(model)
        return model


def matmul(m: int, n: int, k: int, *, transpose_b: bool = False, name: str = "") -> Case:
    """C[m, n] = A[m, k] B[k, n], or B[n, k] transposed."""

    def program() -> TensorProgram:
        a = te.placeholder((m, k), name="A")
        b = te.placeholder((n, k) if transpose_b else (k, n), name="B")
        r = te.reduce_axis(k, "k")
        element = (lambda j: b[j, r]) if transpose_b else (lambda j: b[r, j])
        c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * element(j), axis=r), "C")
        return te.program([a, b], c, "matmul", attrs=CONTRACT)

    def right(b: Any) -> Any:  # NumPy and PyTorch alike
        return b.T if transpose_b else b

    suffix = "t" if transpose_b else ""
    return Case(
        name=name or f"matmul_{m}x{n}x{k}{suffix}",
        group="matmul",
        program=program,
        inputs=lambda rng: [
            rng.standard_normal((m, k), dtype=np.float32),
            rng.standard_normal((n, k) if transpose_b else (k, n), dtype=np.float32),
        ],
        reference=lambda a, b: a.astype(np.float64) @ right(b).astype(np.float64),
        # Sums of k products of standard normals: errors grow like sqrt(k), worst like k.
        tolerance=8 * EPSILON * k,
        flops=2.0 * m * n * k,
        bytes=4.0 * (m * k + k * n + m * n),
        output_shape=(m, n),
        numpy=lambda a, b: a @ right(b),
        torch=lambda a, b: a @ right(b),
        onnx=(("Gemm", ("i0", "i1"), {"transB": int(transpose_b)}),),
    )


def batched(batch: int, m: int, n: int, k: int) -> Case:
    """C[b, m, n] = A[b, m, k] B[b, k, n]."""

    def program() -> TensorProgram:
        a = te.placeholder((batch, m, k), name="A")
        b = te.placeholder((batch, k, n), name="B")
        r = te.reduce_axis(k, "k")
        c = te.compute((batch, m, n), lambda t, i, j: te.sum(a[t, i, r] * b[t, r, j], axis=r), "C")
        return te.program([a, b], c, "batched", attrs=CONTRACT)

    return Case(
        name=f"batched_{batch}x{m}x{n}x{k}",
        group="matmul",
        program=program,
        inputs=lambda rng: [
            rng.standard_normal((batch, m, k), dtype=np.float32),
            rng.standard_normal((batch, k, n), dtype=np.float32),
        ],
        reference=lambda a, b: a.astype(np.float64) @ b.astype(np.float64),
        tolerance=8 * EPSILON * k,
        flops=2.0 * batch * m * n * k,
        bytes=4.0 * batch * (m * k + k * n + m * n),
        output_shape=(batch, m, n),
        numpy=lambda a, b: a @ b,
        torch=lambda a, b: a @ b,
        onnx=(("MatMul", ("i0", "i1"), {}),),
    )


def integer_matmul(m: int, n: int, k: int) -> Case:
    """C[m, n] = A[m, k] B[k, n], of unsigned and signed bytes, in 32-bit integers."""

    def program() -> TensorProgram:
        a, b = te.placeholder((m, k), "uint8", name="A"), te.placeholder((k, n), "int8", name="B")
        r = te.reduce_axis(k, "k")
        c = te.compute(
            (m, n), lambda i, j: te.sum(T.int32(a[i, r]) * T.int32(b[r, j]), axis=r), "C"
        )
        return te.program([a, b], c, "integer_matmul")

    def signed(a: Any, b: Any) -> Any:  # PyTorch's tensors
        """PyTorch multiplies signed bytes alone, so A holds no more than 7 bits."""
        import torch

        return torch._int_mm(a.view(torch.int8), b)  # noqa: SLF001  # it has no public name

    return Case(
        name=f"matmul_u8s8_{m}x{n}x{k}",
        group="integers",
        program=program,
        inputs=lambda rng: [
            rng.integers(0, 128, (m, k), dtype=np.uint8),
            rng.integers(-128, 128, (k, n), dtype=np.int8),
        ],
        reference=lambda a, b: a.astype(np.float64) @ b.astype(np.float64),
        tolerance=0,
        flops=2.0 * m * n * k,
        bytes=float(m * k + k * n + 4 * m * n),
        output_shape=(m, n),
        output_dtype="int32",
        torch=signed,
        onnx=(("MatMulInteger", ("i0", "i1"), {}),),
    )


def all_cases() -> dict[str, Case]:
    """Every case by name."""
    from memory_cases import memory_cases

    cases = [matmul(s, s, s) for s in (256, 512, 1024, 2048)]
    sizes = (64, 384, 768, 1000, 3072, 4096)
    for m in (1, 7, 33, 128):
        pairs = zip(sizes, sizes[1:] + sizes[:1], strict=True)
        cases += [matmul(m, n, k) for n, k in pairs]
    cases += [matmul(128, 768, 3072, transpose_b=True), matmul(1, 4096, 4096, transpose_b=True)]
    cases += [batched(12, 128, 128, 64), batched(12, 128, 64, 128)]
    cases += [integer_matmul(s, s, s) for s in (256, 1024)] + [integer_matmul(128, 768, 3072)]
    cases += memory_cases()
    return {c.name: c for c in cases}
