"""Sorting, selection, and elements that are there or not: results whose sizes data decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx.arguments import count_of
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.strings import also_of_strings
from tensorsmith.ir import Buffer, Expr, as_expr


def top_k_by_attribute(node: Node) -> tuple[Buffer, ...]:
    """The greatest elements, whose number is an attribute."""
    return _top_k(node, as_expr(node.integer("k")))


def top_k(node: Node) -> tuple[Buffer, ...]:
    """The greatest or least elements, whose number is an operand."""
    counts = node.numbers_of(1, "k", low=0)
    node.ignore("sorted")
    if not counts or len(counts) != 1:
        node.wrong("k is one number")
    return _top_k(node, counts[0])


def _top_k(node: Node, k: Expr) -> tuple[Buffer, ...]:
    x = node.tensor()
    axis = node.integer("axis", -1)
    if not -x.rank <= axis < x.rank:
        node.wrong(f"the greatest along axis {axis}", given=f"a tensor of rank {x.rank}")
    node.builder.check(k <= x.shape[axis], "k is at most the extent of the axis")
    return node.apply("top_k", x, k=k, axis=axis, largest=node.flag("largest", default=True))


def nonzero(node: Node) -> Buffer:
    """The indices of elements that are not zero."""
    x = node.tensor()
    return node("nonzero", x, count=count_of(node, node("nonzero_count", x)))


def compress(node: Node) -> Buffer:
    """The slices for which a condition holds."""
    x, condition = node.tensor(0), node.tensor(1)
    axis = node.integer("axis") if node.has("axis") else None
    count = count_of(node, node("compress_count", condition))
    return node("compress", x, condition, count=count, axis=axis)


def unique(node: Node) -> tuple[Buffer, ...]:
    """Distinct elements or slices, and where they stand."""
    x = node.tensor()
    axis = node.integer("axis") if node.has("axis") else None
    count = count_of(node, node("unique_count", x, axis=axis))
    in_order = node.flag("sorted", default=True)
    return node.apply("unique", x, count=count, axis=axis, is_sorted=in_order)


def trilu(node: Node) -> Buffer:
    """The upper or lower triangle of matrices."""
    k = node.numbers_of(1, "k")
    diagonal = as_expr(0) if not k else k[0]
    return node("trilu", node.tensor(), k=diagonal, upper=node.flag("upper", default=True))


def running(op: str) -> Converter:
    """The converter for a sum or product of the elements up to each one."""

    def convert(node: Node) -> Buffer:
        axis = node.constants(1)
        return node(
            op,
            node.tensor(),
            axis=axis[0] if axis else 0,
            exclusive=node.flag("exclusive"),
            reverse=node.flag("reverse"),
        )

    return convert


def det(node: Node) -> Buffer:
    """The determinants of matrices."""
    return node("det", node.tensor())


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "Compress": also_of_strings(compress, 0),
    "CumProd": running("cumprod"),
    "CumSum": running("cumsum"),
    "Det": det,
    "NonZero": nonzero,
    "TopK": {1: top_k_by_attribute, 10: top_k},
    "Trilu": trilu,
    "Unique": unique,
}
"""By operator of ONNX's own domain."""
