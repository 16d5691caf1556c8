"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx.arguments import axes_of
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import Buffer


def reduction(op: str) -> Converter:
    """The converter for a reduction over axes of an attribute or operand, else over all."""

    def convert(node: Node) -> Buffer:
        x = node.tensor()
        axes = axes_of(node)
        keep = node.flag("keepdims", default=True)
        nothing = node.flag("noop_with_empty_axes")
        if not axes:
            axes = () if nothing else None
        return node(op, x, axes=axes, keep_dims=keep)

    return convert


def position(op: str) -> Converter:
    """The converter for the position of an extreme element."""

    def convert(node: Node) -> Buffer:
        return node(
            op,
            node.tensor(),
            axis=node.integer("axis", 0),
            keep_dims=node.flag("keepdims", default=True),
            select_last_index=node.flag("select_last_index"),
        )

    return convert


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "ArgMax": position("argmax"),
    "ArgMin": position("argmin"),
    "ReduceL1": reduction("reduce_l1"),
    "ReduceL2": reduction("reduce_l2"),
    "ReduceLogSum": reduction("reduce_log_sum"),
    "ReduceLogSumExp": reduction("reduce_log_sum_exp"),
    "ReduceMax": reduction("reduce_max"),
    "ReduceMean": reduction("reduce_mean"),
    "ReduceMin": reduction("reduce_min"),
    "ReduceProd": reduction("reduce_prod"),
    "ReduceSum": reduction("reduce_sum"),
    "ReduceSumSquare": reduction("reduce_sum_square"),
}
"""By operator of ONNX's own domain."""
