"""The operators that memory limits: copies, elementwise functions, rows, transposition, sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from cases import CONTRACT, EPSILON, Case

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.ir import TensorProgram

ROWS, COLUMNS = 4096, 1024
SHAPE = (ROWS, COLUMNS)
Tensor = Any
"""A tensor of `te`, of NumPy or of PyTorch, by context."""


def case(
    name: str,
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
    out = SHAPE if output_shape is None else output_shape
    elements = ROWS * COLUMNS

    def program() -> TensorProgram:
        tensors = [te.placeholder(SHAPE, name="AB"[k]) for k in range(count)]
        return te.program(tensors, body(*tensors), name, attrs=CONTRACT)

    return Case(
        name=f"{name}_{ROWS}x{COLUMNS}",
        group="memory",
        program=program,
        inputs=lambda rng: [rng.standard_normal(SHAPE, dtype=np.float32) for _ in range(count)],
        reference=lambda *a: reference(*(x.astype(np.float64) for x in a)),
        tolerance=tolerance,
        flops=flops_each * elements,
        bytes=4.0 * (count * elements + float(np.prod(out))),
        output_shape=out,
        **rivals,
    )


# --- Ours ------------------------------------------------------------------------------------


def copy(a: Tensor) -> Tensor:
    """The tensor, copied."""
    return te.compute(SHAPE, lambda i, j: a[i, j], "B")


def add(a: Tensor, b: Tensor) -> Tensor:
    """The sum of two tensors."""
    return te.compute(SHAPE, lambda i, j: a[i, j] + b[i, j], "C")


def gelu(a: Tensor) -> Tensor:
    """x/2 (1 + erf(x / sqrt 2))."""
    half, scale = T.float32(0.5), T.float32(1 / math.sqrt(2))
    return te.compute(
        SHAPE, lambda i, j: half * a[i, j] * (T.float32(1) + T.erf(a[i, j] * scale)), "G"
    )


def softmax(a: Tensor) -> Tensor:
    """Of each row."""
    k, r = te.reduce_axis(COLUMNS, "k"), te.reduce_axis(COLUMNS, "r")
    top = te.compute((ROWS,), lambda i: te.max(a[i, k], axis=k), "top")
    e = te.compute(SHAPE, lambda i, j: T.exp(a[i, j] - top[i]), "e")
    total = te.compute((ROWS,), lambda i: te.sum(e[i, r], axis=r), "total")
    scale = te.compute((ROWS,), lambda i: T.float32(1) / total[i], "scale")
    return te.compute(SHAPE, lambda i, j: e[i, j] * scale[i], "S")


def layer_norm(a: Tensor) -> Tensor:
    """Of each row, in two passes."""
    k, r = te.reduce_axis(COLUMNS, "k"), te.reduce_axis(COLUMNS, "r")
    n = T.float32(COLUMNS)
    total = te.compute((ROWS,), lambda i: te.sum(a[i, k], axis=k), "sum")
    mean = te.compute((ROWS,), lambda i: total[i] / n, "mean")
    square = te.compute(
        (ROWS,), lambda i: te.sum((a[i, r] - mean[i]) * (a[i, r] - mean[i]), axis=r), "square"
    )
    scale = te.compute((ROWS,), lambda i: T.rsqrt(square[i] / n + T.float32(1e-5)), "scale")
    return te.compute(SHAPE, lambda i, j: (a[i, j] - mean[i]) * scale[i], "N")


def transpose(a: Tensor) -> Tensor:
    """The transposed tensor."""
    return te.compute(SHAPE[::-1], lambda i, j: a[j, i], "B")


def row_sum(a: Tensor) -> Tensor:
    """The sum of each row."""
    k = te.reduce_axis(COLUMNS, "k")
    return te.compute((ROWS,), lambda i: te.sum(a[i, k], axis=k), "S")


def column_sum(a: Tensor) -> Tensor:
    """The sum of each column."""
    k = te.reduce_axis(ROWS, "k")
    return te.compute((COLUMNS,), lambda j: te.sum(a[k, j], axis=k), "S")


# --- Exact -----------------------------------------------------------------------------------


def exact_gelu(a: np.ndarray) -> np.ndarray:
    """In float64, elementwise by the standard library's erf."""
    return 0.5 * a * (1 + np.vectorize(math.erf)(a / math.sqrt(2)))


def exact_softmax(a: np.ndarray) -> np.ndarray:
    """In float64."""
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def exact_layer_norm(a: np.ndarray) -> np.ndarray:
    """In float64."""
    return (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)


# --- PyTorch's, imported when called ---------------------------------------------------------


def torch_gelu(a: Tensor) -> Tensor:
    """PyTorch's GELU."""
    import torch

    return torch.nn.functional.gelu(a)


def torch_softmax(a: Tensor) -> Tensor:
    """PyTorch's softmax of rows."""
    import torch

    return torch.softmax(a, 1)


def torch_layer_norm(a: Tensor) -> Tensor:
    """PyTorch's layer norm of rows."""
    import torch

    return torch.nn.functional.layer_norm(a, a.shape[1:])


def memory_cases() -> list[Case]:
    """All of them, with what peers call them."""
    return [*elementwise(), *by_rows()]


def elementwise() -> list[Case]:
    """Copies, additions, functions of elements."""
    return [
        case(
            *("copy", copy, lambda a: a),
            tolerance=0,
            flops_each=0,
            numpy=np.copy,
            torch=lambda a: a.clone(),
            onnx=(("Identity", ("i0",), {}),),
        ),
        case(
            *("add", add, lambda a, b: a + b),
            count=2,
            tolerance=8 * EPSILON,
            flops_each=1,
            numpy=np.add,
            torch=lambda a, b: a + b,
            onnx=(("Add", ("i0", "i1"), {}),),
        ),
        case(
            *("gelu", gelu, exact_gelu),
            tolerance=32 * EPSILON,
            flops_each=20,
            torch=torch_gelu,
            onnx=(("Gelu", ("i0",), {}),),
        ),
    ]


def by_rows() -> list[Case]:
    """Softmax, layer norm, transposition, sums."""
    return [
        case(
            *("softmax", softmax, exact_softmax),
            tolerance=64 * EPSILON,
            flops_each=20,
            torch=torch_softmax,
            onnx=(("Softmax", ("i0",), {"axis": 1}),),
        ),
        case(
            *("layer_norm", layer_norm, exact_layer_norm),
            tolerance=256 * EPSILON,
            flops_each=8,
            torch=torch_layer_norm,
        ),
        case(
            *("transpose", transpose, np.transpose),
            tolerance=0,
            flops_each=0,
            output_shape=SHAPE[::-1],
            numpy=lambda a: np.ascontiguousarray(a.T),
            torch=lambda a: a.T.contiguous(),
            onnx=(("Transpose", ("i0",), {"perm": [1, 0]}),),
        ),
        case(
            *("row_sum", row_sum, lambda a: a.sum(1)),
            output_shape=(ROWS,),
            tolerance=4 * EPSILON * COLUMNS,
            flops_each=1,
            numpy=lambda a: a.sum(1),
            torch=lambda a: a.sum(1),
        ),
        case(
            *("column_sum", column_sum, lambda a: a.sum(0)),
            output_shape=(COLUMNS,),
            tolerance=4 * EPSILON * ROWS,
            flops_each=1,
            numpy=lambda a: a.sum(0),
            torch=lambda a: a.sum(0),
        ),
    ]
