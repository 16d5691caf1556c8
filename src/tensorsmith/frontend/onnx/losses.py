"""Losses of classification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import Buffer

_REDUCTIONS: Final = ("none", "sum", "mean")


def _ignored(node: Node) -> int | None:
    return node.integer("ignore_index") if node.has("ignore_index") else None


def negative_log_likelihood(node: Node) -> Buffer:
    """The negative of the logarithm of the probability of the right class."""
    return node(
        "negative_log_likelihood",
        node.tensor(0),
        node.tensor(1),
        node.optional(2),
        reduction=node.text("reduction", "mean", _REDUCTIONS),
        ignore_index=_ignored(node),
    )


def softmax_cross_entropy(node: Node) -> tuple[Buffer, ...]:
    """That of the softmax of scores."""
    return node.apply(
        "softmax_cross_entropy",
        node.tensor(0),
        node.tensor(1),
        node.optional(2),
        reduction=node.text("reduction", "mean", _REDUCTIONS),
        ignore_index=_ignored(node),
        with_log_probabilities=node.has_output(1),
    )


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "NegativeLogLikelihoodLoss": negative_log_likelihood,
    "SoftmaxCrossEntropyLoss": softmax_cross_entropy,
}
"""By operator of ONNX's own domain."""
