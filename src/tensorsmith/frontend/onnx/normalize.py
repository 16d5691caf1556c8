"""Normalisations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import Buffer


def batch_norm(node: Node) -> Buffer | tuple[Buffer | None, ...]:
    """By channels, with statistics that are given or, in training, those of the batch."""
    node.ignore("consumed_inputs")
    operands = tuple(node.tensor(n) for n in range(5))
    epsilon = node.number("epsilon", 1e-5)
    momentum = node.number("momentum", 0.9)
    spatial = node.flag("spatial", default=True)
    if not spatial:
        node.unsupported("statistics for each element", because="spatial is 0")
    trains = node.flag("training_mode")
    if node.opset < 14:
        trains = False
        if node.opset < 7 and not node.flag("is_test"):
            trains = node.has_output(1)
    if not trains:
        return node("batch_norm", *operands, epsilon=epsilon)
    made = node.apply("batch_norm_training", *operands, epsilon=epsilon, momentum=momentum)
    return made if node.opset >= 14 else (*made, *made[1:])


def instance_norm(node: Node) -> Buffer:
    """By channels of one image."""
    node.ignore("consumed_inputs")
    operands = (node.tensor(n) for n in range(3))
    return node("instance_norm", *operands, epsilon=node.number("epsilon", 1e-5))


def group_norm(node: Node) -> Buffer:
    """By groups of channels of one image."""
    node.ignore("stash_type")
    operands = (node.tensor(n) for n in range(3))
    groups, epsilon = node.integer("num_groups"), node.number("epsilon", 1e-5)
    return node("group_norm", *operands, groups=groups, epsilon=epsilon)


def layer_norm(node: Node) -> Buffer | tuple[Buffer, ...]:
    """Over the axes from one on."""
    node.ignore("stash_type")
    operands = (node.tensor(0), node.tensor(1), node.optional(2))
    axis, epsilon = node.integer("axis", -1), node.number("epsilon", 1e-5)
    statistics = node.has_output(1) or node.has_output(2)
    return node.apply(
        "layer_norm", *operands, axis=axis, epsilon=epsilon, with_statistics=statistics
    )


def rms_norm(node: Node) -> Buffer:
    """Over the root of the mean of squares."""
    node.ignore("stash_type")
    axis, epsilon = node.integer("axis", -1), node.number("epsilon", 1e-5)
    return node("rms_norm", node.tensor(0), node.tensor(1), axis=axis, epsilon=epsilon)


def lp_normalization(node: Node) -> Buffer:
    """Over a norm along an axis."""
    return node("lp_norm", node.tensor(), axis=node.integer("axis", -1), p=node.integer("p", 2))


def mean_variance_norm(node: Node) -> Buffer:
    """Less the mean, over the deviation."""
    return node("mean_variance_norm", node.tensor(), axes=node.integers("axes", (0, 2, 3)))


def lrn(node: Node) -> Buffer:
    """Over what neighbouring channels hold."""
    return node(
        "lrn",
        node.tensor(),
        size=node.integer("size"),
        alpha=node.number("alpha", 1e-4),
        beta=node.number("beta", 0.75),
        bias=node.number("bias", 1.0),
    )


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "BatchNormalization": batch_norm,
    "GroupNormalization": group_norm,
    "InstanceNormalization": instance_norm,
    "LRN": lrn,
    "LayerNormalization": layer_norm,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance_norm,
    "RMSNormalization": rms_norm,
}
"""By operator of ONNX's own domain."""
