"""Operators that memory limits: copies, elementwise functions, rows, transposition, sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from cases import EPSILON, Node, Operator, noise, normal
from work import Array

LARGE, SMALL = (4096, 1024), (128, 768)
SCORES = (1536, 128)
LAYER_NORM_EPSILON = 1e-5


def case(
    name: str,
    nodes: list[Node],
    reference: Callable[..., Array],
    *,
    tolerance: float,
    flops_each: float,
    shape: tuple[int, int] = LARGE,
    output_shape: tuple[int, ...] | None = None,
    count: int = 1,
    **others: Any,
) -> Operator:
    """A memory-bound case on `count` tensors of one shape; `others` are fields of `Operator`."""
    out = shape if output_shape is None else output_shape
    elements = math.prod(shape)
    return Operator(
        name=f"{name}_{shape[0]}x{shape[1]}",
        group="memory",
        nodes=nodes,
        inputs=normal(**dict.fromkeys("xy"[:count], shape)),
        reference=lambda *a: reference(*(x.astype(np.float64) for x in a)),
        tolerance=tolerance,
        flops=flops_each * elements,
        bytes=4.0 * (count * elements + math.prod(out)),
        output=("float32", out),
        **others,
    )


# --- Exact -----------------------------------------------------------------------------------


def exact_gelu(a: Array) -> Array:
    """In float64, elementwise by the standard library's erf."""
    return 0.5 * a * (1 + np.vectorize(math.erf)(a / math.sqrt(2)))


def softmax(a: Array) -> Array:
    """Of rows."""
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def exact_layer_norm(a: Array) -> Array:
    """In float64, with the scale and the shift of `layer_norm`."""
    normal_rows = (a - a.mean(1, keepdims=True)) / np.sqrt(
        a.var(1, keepdims=True) + LAYER_NORM_EPSILON
    )
    kept = layer_norm_constants(a.shape[1])
    return normal_rows * kept["scale"] + kept["shift"]


def layer_norm_constants(width: int) -> dict[str, Array]:
    """Scale and shift."""
    return {"scale": noise(width, seed=1), "shift": noise(width, seed=2)}


# --- Cases -----------------------------------------------------------------------------------


def torch_function(name: str, *args: object) -> Callable[[], Callable[..., Any]]:
    """A function of `torch.nn.functional`."""

    def make() -> Callable[..., Any]:
        import torch

        function = getattr(torch.nn.functional, name)
        return lambda *tensors: function(*tensors, *args)

    return make


def softmax_case(shape: tuple[int, int]) -> Operator:
    """Softmax of rows."""
    return case(
        "softmax",
        [("Softmax", ("x",), {"axis": 1})],
        softmax,
        shape=shape,
        tolerance=64 * EPSILON,
        flops_each=20,
        numpy=softmax,
        torch=torch_function("softmax", 1),
    )


def layer_norm(shape: tuple[int, int]) -> Operator:
    """Layer norm of rows, with scale and shift."""

    def of_torch() -> Callable[..., Any]:
        import torch

        kept = {n: torch.from_numpy(a) for n, a in layer_norm_constants(shape[1]).items()}
        layer = torch.nn.LayerNorm(shape[1], eps=LAYER_NORM_EPSILON)
        layer.weight.data, layer.bias.data = kept["scale"], kept["shift"]
        return layer

    attributes = {"axis": -1, "epsilon": LAYER_NORM_EPSILON}
    return case(
        "layer_norm",
        [("LayerNormalization", ("x", "scale", "shift"), attributes)],
        exact_layer_norm,
        shape=shape,
        tolerance=256 * EPSILON,
        flops_each=8,
        constants=lambda: layer_norm_constants(shape[1]),
        torch=of_torch,
    )


def elementwise() -> list[Operator]:
    """Additions, functions of elements, transposition."""
    return [
        case(
            "add",
            [("Add", ("x", "y"), {})],
            np.add,
            count=2,
            tolerance=8 * EPSILON,
            flops_each=1,
            numpy=np.add,
            torch=lambda: lambda x, y: x + y,
        ),
        case(
            "gelu",
            [("Gelu", ("x",), {})],
            exact_gelu,
            tolerance=32 * EPSILON,
            flops_each=20,
            torch=torch_function("gelu"),
        ),
        case(
            "transpose",
            [("Transpose", ("x",), {"perm": [1, 0]})],
            np.transpose,
            tolerance=0,
            flops_each=0,
            output_shape=LARGE[::-1],
            numpy=lambda x: np.ascontiguousarray(x.T),
            torch=lambda: lambda x: x.T.contiguous(),
        ),
    ]


def sums() -> list[Operator]:
    """Of rows and of columns."""

    def along(axis: int, name: str) -> Operator:
        return case(
            name,
            [("ReduceSum", ("x", "axes"), {"keepdims": 0})],
            lambda x: x.sum(axis),
            output_shape=(LARGE[1 - axis],),
            tolerance=4 * EPSILON * LARGE[axis],
            flops_each=1,
            constants=lambda: {"axes": np.array([axis], np.int64)},
            numpy=lambda x: x.sum(axis),
            torch=lambda: lambda x: x.sum(axis),
        )

    return [along(1, "row_sum"), along(0, "column_sum")]


def row_cases() -> list[Operator]:
    """All of them."""
    return [
        *(softmax_case(shape) for shape in (SCORES, LARGE)),
        *(layer_norm(shape) for shape in (SMALL, LARGE)),
        *elementwise(),
        *sums(),
    ]
