"""Scores of classes: as probabilities, and as the labels of the best."""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorsmith.frontend.onnx.node import Node
from tensorsmith.frontend.onnx.strings import taken_strings
from tensorsmith.frontend.onnx.values import Read
from tensorsmith.ir import Buffer, Opaque

TRANSFORMS: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""What is done with scores at the end, by ONNX's number."""


def transformed(node: Node, scores: Buffer, transform: str) -> Buffer:
    """Scores as probabilities, if that is asked for."""
    if transform == "NONE":
        return scores
    return node("score_transform", scores, kind=transform.lower())


def with_other_class(node: Node, scores: Buffer, transform: str) -> Buffer:
    """The scores of two classes, of the second of which there is a column of scores."""
    likely = transformed(node, scores, transform)
    one = node.builder.scalar(1.0, "float32")
    return node("concat", node("sub", one, likely), likely, axis=1)


def as_floats(node: Node, x: Buffer) -> Buffer:
    """Numbers as float32."""
    return x if x.dtype.name == "float32" else node("cast", x, dtype="float32")


def labels_of(node: Node) -> tuple[list[str] | list[int], bool]:
    """The names or numbers of classes, and whether they are names."""
    names = node.texts("classlabels_strings", None)
    for attribute in ("classlabels_ints", "classlabels_int64s"):
        numbers = node.integers(attribute, None)
        if numbers:
            return list(numbers), False
    if not names:
        node.wrong("the classes have no labels")
    return list(names), True


def labelled(node: Node, position: Buffer, labels: list[str] | list[int], *, named: bool) -> Read:
    """The labels at positions."""
    table = node.reader.constant(np.array(labels, object if named else np.int64), "labels")
    if isinstance(table, Opaque):
        return taken_strings(node, (table,), position)
    return node("gather", table, position, axis=0)
