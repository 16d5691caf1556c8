"""The operators that are measured: what each computes, for us and for every peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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


def _unary(
    name: str,
    shape: tuple[int, int],
    body: Callable[[Any, Any], TensorProgram],
    reference: Callable[[np.ndarray], np.ndarray],
    *,
    tolerance: float,
    flops_each: float,
    output_shape: tuple[int, ...] | None = None,
    count: int = 1,
    **rivals: Any,
) -> Case:
    """A memory-bound case on `count` tensors of one shape; `rivals` are the fields of peers."""
    out = shape if output_shape is None else output_shape
    elements = shape[0] * shape[1]

    def program() -> TensorProgram:
        tensors = [te.placeholder(shape, name="AB"[k]) for k in range(count)]
        return te.program(tensors, body(*tensors), name, attrs=CONTRACT)

    return Case(
        name=f"{name}_{shape[0]}x{shape[1]}",
        group="memory",
        program=program,
        inputs=lambda rng: [rng.standard_normal(shape, dtype=np.float32) for _ in range(count)],
        reference=lambda *a: reference(*(x.astype(np.float64) for x in a)),
        tolerance=tolerance,
        flops=flops_each * elements,
        bytes=4.0 * (count * elements + float(np.prod(out))),
        output_shape=out,
        **rivals,
    )


def memory_cases(rows: int = 4096, columns: int = 1024) -> list[Case]:
    """Copies, elementwise functions, softmax, layer norm, transposition, sums."""
    import math

    from tensorsmith import script as T

    shape = (rows, columns)
    half = T.float32(0.5)

    def gelu(a: Any) -> Any:  # a te tensor
        scale = T.float32(1 / math.sqrt(2))
        return te.compute(
            shape, lambda i, j: half * a[i, j] * (T.float32(1) + T.erf(a[i, j] * scale)), "G"
        )

    def softmax(a: Any) -> Any:  # a te tensor
        k, r = te.reduce_axis(columns, "k"), te.reduce_axis(columns, "r")
        top = te.compute((rows,), lambda i: te.max(a[i, k], axis=k), "top")
        e = te.compute(shape, lambda i, j: T.exp(a[i, j] - top[i]), "e")
        total = te.compute((rows,), lambda i: te.sum(e[i, r], axis=r), "total")
        return te.compute(shape, lambda i, j: e[i, j] / total[i], "S")

    def layer_norm(a: Any) -> Any:  # a te tensor
        k, r = te.reduce_axis(columns, "k"), te.reduce_axis(columns, "r")
        n = T.float32(columns)
        mean = te.compute((rows,), lambda i: te.sum(a[i, k], axis=k), "sum")
        var = te.compute(
            (rows,),
            lambda i: te.sum((a[i, r] - mean[i] / n) * (a[i, r] - mean[i] / n), axis=r),
            "var",
        )
        return te.compute(
            shape,
            lambda i, j: (a[i, j] - mean[i] / n) * T.rsqrt(var[i] / n + T.float32(1e-5)),
            "N",
        )

    def row_sum(a: Any) -> Any:  # a te tensor
        k = te.reduce_axis(columns, "k")
        return te.compute((rows,), lambda i: te.sum(a[i, k], axis=k), "S")

    def column_sum(a: Any) -> Any:  # a te tensor
        k = te.reduce_axis(rows, "k")
        return te.compute((columns,), lambda j: te.sum(a[k, j], axis=k), "S")

    def exact_softmax(a: np.ndarray) -> np.ndarray:
        e = np.exp(a - a.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def exact_norm(a: np.ndarray) -> np.ndarray:
        return (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)

    erf = np.vectorize(math.erf)
    functional = _torch_functions()
    return [
        _unary(
            "copy",
            shape,
            lambda a: te.compute(shape, lambda i, j: a[i, j], "B"),
            lambda a: a,
            tolerance=0,
            flops_each=0,
            numpy=np.copy,
            torch=lambda a: a.clone(),
            onnx=(("Identity", ("i0",), {}),),
        ),
        _unary(
            "add",
            shape,
            lambda a, b: te.compute(shape, lambda i, j: a[i, j] + b[i, j], "C"),
            lambda a, b: a + b,
            count=2,
            tolerance=8 * EPSILON,
            flops_each=1,
            numpy=np.add,
            torch=lambda a, b: a + b,
            onnx=(("Add", ("i0", "i1"), {}),),
        ),
        _unary(
            "gelu",
            shape,
            gelu,
            lambda a: 0.5 * a * (1 + erf(a / math.sqrt(2))),
            tolerance=32 * EPSILON,
            flops_each=20,
            torch=functional.get("gelu"),
            onnx=(("Gelu", ("i0",), {}),),
        ),
        _unary(
            "softmax",
            shape,
            softmax,
            exact_softmax,
            tolerance=64 * EPSILON,
            flops_each=20,
            torch=functional.get("softmax"),
            onnx=(("Softmax", ("i0",), {"axis": 1}),),
        ),
        _unary(
            "layer_norm",
            shape,
            layer_norm,
            exact_norm,
            tolerance=256 * EPSILON,
            flops_each=8,
            torch=functional.get("layer_norm"),
        ),
        _unary(
            "transpose",
            shape,
            lambda a: te.compute(shape[::-1], lambda i, j: a[j, i], "B"),
            lambda a: a.T,
            tolerance=0,
            flops_each=0,
            output_shape=shape[::-1],
            numpy=lambda a: np.ascontiguousarray(a.T),
            torch=lambda a: a.T.contiguous(),
            onnx=(("Transpose", ("i0",), {"perm": [1, 0]}),),
        ),
        _unary(
            "row_sum",
            shape,
            row_sum,
            lambda a: a.sum(1),
            output_shape=(rows,),
            tolerance=4 * EPSILON * columns,
            flops_each=1,
            numpy=lambda a: a.sum(1),
            torch=lambda a: a.sum(1),
        ),
        _unary(
            "column_sum",
            shape,
            column_sum,
            lambda a: a.sum(0),
            output_shape=(columns,),
            tolerance=4 * EPSILON * rows,
            flops_each=1,
            numpy=lambda a: a.sum(0),
            torch=lambda a: a.sum(0),
        ),
    ]


def _torch_functions() -> dict[str, Callable[..., Any]]:
    """PyTorch's functions by name, imported when called."""

    def gelu(a: Any) -> Any:  # a torch tensor
        import torch

        return torch.nn.functional.gelu(a)

    def softmax(a: Any) -> Any:  # a torch tensor
        import torch

        return torch.softmax(a, 1)

    def layer_norm(a: Any) -> Any:  # a torch tensor
        import torch

        return torch.nn.functional.layer_norm(a, a.shape[1:])

    return {"gelu": gelu, "softmax": softmax, "layer_norm": layer_norm}


def all_cases() -> dict[str, Case]:
    """Every case by name."""
    cases = [matmul(s, s, s) for s in (256, 512, 1024, 2048)]
    sizes = (64, 384, 768, 1000, 3072, 4096)
    for m in (1, 7, 33, 128):
        pairs = zip(sizes, sizes[1:] + sizes[:1], strict=True)
        cases += [matmul(m, n, k) for n, k in pairs]
    cases += [matmul(128, 768, 3072, transpose_b=True), matmul(1, 4096, 4096, transpose_b=True)]
    cases += [batched(12, 128, 128, 64), batched(12, 128, 64, 128)]
    cases += memory_cases()
    return {c.name: c for c in cases}
