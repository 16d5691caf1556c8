"""Products of matrices and Einstein sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import Buffer


def matmul(node: Node) -> Buffer:
    """The product of matrices, or of stacks of them."""
    return node("matmul", node.tensor(0), node.tensor(1))


def gemm(node: Node) -> Buffer:
    """alpha * A @ B + beta * C."""
    node.ignore("broadcast")
    return node(
        "gemm",
        node.tensor(0),
        node.tensor(1),
        node.optional(2),
        trans_a=node.flag("transA"),
        trans_b=node.flag("transB"),
        alpha=node.number("alpha", 1.0),
        beta=node.number("beta", 1.0),
    )


def einsum(node: Node) -> Buffer:
    """An Einstein sum."""
    return node("einsum", *node.tensors(), equation=node.text("equation"))


def matmul_integer(node: Node) -> Buffer:
    """The product of matrices of bytes, less their zero points."""
    operands = (node.optional(n) for n in range(4))
    return node("matmul_integer", *operands)


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "Einsum": einsum,
    "Gemm": gemm,
    "MatMul": matmul,
    "MatMulInteger": matmul_integer,
}
"""By operator of ONNX's own domain."""
