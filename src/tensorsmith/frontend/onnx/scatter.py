"""Elements written at positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.positions import check_along, check_tuples
from tensorsmith.ir import Buffer

_REDUCTIONS: Final = ("none", "add", "mul", "max", "min")


def scatter_elements(node: Node) -> Buffer:
    """Updates written where GatherElements would read them."""
    data, positions, updates = (node.tensor(n) for n in range(3))
    axis = node.integer("axis", 0)
    reduction = node.text("reduction", "none", _REDUCTIONS)
    check_along(node, data, positions, axis)
    return node("scatter_elements", data, positions, updates, axis=axis, reduction=reduction)


def scatter_nd(node: Node) -> Buffer:
    """Updates written where GatherND would read them."""
    reduction = node.text("reduction", "none", _REDUCTIONS)
    data, positions, updates = (node.tensor(n) for n in range(3))
    check_tuples(node, data, positions)
    return node("scatter_nd", data, positions, updates, reduction=reduction)


def tensor_scatter(node: Node) -> Buffer:
    """A cache with what is new written at a position of each batch."""
    mode = node.text("mode", "linear", ("linear", "circular"))
    return node(
        "tensor_scatter",
        node.tensor(0),
        node.tensor(1),
        node.optional(2),
        axis=node.integer("axis", -2),
        circular=mode == "circular",
    )


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
}
"""By operator of ONNX's own domain."""
