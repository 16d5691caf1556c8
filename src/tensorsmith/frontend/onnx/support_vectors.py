"""Support-vector machines of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tensorsmith.frontend.onnx.node import Node
from tensorsmith.frontend.onnx.scores import (
    TRANSFORMS,
    as_floats,
    labelled,
    labels_of,
    transformed,
)
from tensorsmith.frontend.onnx.types import Array
from tensorsmith.frontend.onnx.values import Read
from tensorsmith.ir import Buffer

_KERNELS: Final = ("LINEAR", "POLY", "RBF", "SIGMOID")


def _kernels(node: Node, x: Buffer, vectors: Array) -> Buffer:
    """The kernel of each row with each support vector."""
    kind = node.text("kernel_type", "LINEAR", _KERNELS)
    gamma, constant, degree = (*node.numbers("kernel_params", ()), 0.0, 0.0, 0.0)[:3]
    held = node.builder.constant(vectors, "vectors")
    how = {"gamma": gamma, "constant": constant, "degree": degree}
    return node("svm_kernel", x, held, kind=kind.lower(), **how)


def _vectors(node: Node, count: int) -> Array:
    given = np.array(node.numbers("support_vectors", ()), np.float32)
    if count < 1 or given.size % count:
        node.wrong(f"{given.size} numbers for {count} support vectors")
    return given.reshape(count, -1)


def svm_regressor(node: Node) -> Buffer:
    """A sum of kernels with support vectors."""
    x = as_floats(node, node.tensor())
    count = node.integer("n_supports", 0)
    coefficients = np.array(node.numbers("coefficients"), np.float32)
    if count > 0:
        x = _kernels(node, x, _vectors(node, count))
    else:
        node.ignore("kernel_type", "kernel_params", "support_vectors")
    weight = node.builder.constant(coefficients.reshape(-1, 1), "coefficients")
    rho = node.numbers("rho", (0.0,))
    scores = node("add", node("matmul", x, weight), node.builder.scalar(rho[0], "float32"))
    if node.flag("one_class"):
        inside = node("greater", scores, node.builder.scalar(0.0, "float32"))
        one, other = (node.builder.scalar(v, "float32") for v in (1.0, -1.0))
        scores = node("where", inside, one, other)
    return transformed(node, scores, node.text("post_transform", "NONE", TRANSFORMS))


def svm_classifier(node: Node) -> tuple[Read, ...]:
    """The class that wins most comparisons of two; and the scores of these, or probabilities."""
    x = as_floats(node, node.tensor())
    labels, named = labels_of(node)
    transform = node.text("post_transform", "NONE", TRANSFORMS)
    per_class = node.integers("vectors_per_class", ())
    if len(per_class) != len(labels) or any(c < 0 for c in per_class):
        node.unsupported("a classifier without support vectors for each class")
    scores = _comparisons(node, x, per_class)
    first, second = (node.numbers(n, ()) for n in ("prob_a", "prob_b"))
    votes = _votes(node, scores, len(labels))
    position = node("argmax", votes, axis=1, keep_dims=False)
    if first:
        scores = _probabilities(node, scores, (first, second), len(labels))
    elif len(labels) == 2:
        scores = node("concat", node("neg", scores), scores, axis=1)
    return labelled(node, position, labels, named=named), transformed(node, scores, transform)


def _pairs(count: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(count) for j in range(i + 1, count)]


def _comparisons(node: Node, x: Buffer, per_class: Sequence[int]) -> Buffer:
    """(rows, pairs): the score of the first class of each pair against the second."""
    total, classes = sum(per_class), len(per_class)
    kernels = _kernels(node, x, _vectors(node, total))
    coefficients = np.array(node.numbers("coefficients"), np.float32)
    if coefficients.size != (classes - 1) * total:
        node.wrong(f"{coefficients.size} coefficients for {classes} classes, {total} vectors")
    table = coefficients.reshape(classes - 1, total)
    starts = np.cumsum([0, *per_class])
    pairs = _pairs(classes)
    weight = np.zeros((total, len(pairs)), np.float32)
    for number, (i, j) in enumerate(pairs):
        own, other = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        weight[own, number] = table[j - 1, own]
        weight[other, number] = table[i, other]
    rho = np.array(node.numbers("rho"), np.float32)
    if rho.size != len(pairs):
        node.wrong(f"{rho.size} offsets for {len(pairs)} pairs of classes")
    scores = node("matmul", kernels, node.builder.constant(weight, "coefficients"))
    return node("add", scores, node.builder.constant(rho, "rho"))


def _votes(node: Node, scores: Buffer, classes: int) -> Buffer:
    """(rows, classes): how many comparisons each class wins."""
    pairs = _pairs(classes)
    wins, losses = (np.zeros((len(pairs), classes), np.float32) for _ in range(2))
    for number, (i, j) in enumerate(pairs):
        wins[number, i] = losses[number, j] = 1
    above = node("greater", scores, node.builder.scalar(0.0, "float32"))
    won = node("cast", above, dtype="float32")
    lost = node("cast", node("logical_not", above), dtype="float32")
    for_first = node("matmul", won, node.builder.constant(wins, "wins"))
    return node("add", for_first, node("matmul", lost, node.builder.constant(losses, "losses")))


def _probabilities(
    node: Node, scores: Buffer, curve: tuple[Sequence[float], Sequence[float]], classes: int
) -> Buffer:
    """(rows, classes): the probabilities that fit those of the pairs."""
    pairs = _pairs(classes)
    if any(len(c) != len(pairs) for c in curve):
        node.wrong(f"{len(curve[0])} curves of probability for {len(pairs)} pairs of classes")
    a, b = (node.builder.constant(np.array(c, np.float32), "curve") for c in curve)
    line = node("add", node("mul", scores, a), b)
    likely = node("sigmoid", node("neg", line))
    # A row of all pairs in both orders, by two tables that place and turn round.
    place, turned = (np.zeros((len(pairs), classes * classes), np.float32) for _ in range(2))
    for number, (i, j) in enumerate(pairs):
        place[number, i * classes + j] = 1
        turned[number, j * classes + i] = 1
    one = node.builder.scalar(1.0, "float32")
    forth = node("matmul", likely, node.builder.constant(place, "places"))
    back = node("matmul", node("sub", one, likely), node.builder.constant(turned, "places"))
    shape = (scores.shape[0], classes, classes)
    return node("pairwise_probabilities", node("reshape", node("add", forth, back), shape=shape))
