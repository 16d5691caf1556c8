"""Activation functions and softmax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx.arguments import product
from tensorsmith.frontend.onnx.elementwise import one
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import Buffer

_SELU: Final = (1.67326319217681884765625, 1.05070102214813232421875)
_SELU_AT_FIRST: Final = (1.6732, 1.0507)


def with_alpha(op: str, default: float) -> Converter:
    """The converter for a function with one parameter."""

    def convert(node: Node) -> Buffer:
        node.ignore("consumed_inputs")
        return node(op, node.tensor(), alpha=node.number("alpha", default))

    return convert


def prelu(node: Node) -> Buffer:
    """A slope of its own below 0; at first one a channel, later as it broadcasts."""
    node.ignore("consumed_inputs")
    x, slope = node.tensor(0), node.tensor(1)
    if node.opset < 7 and slope.rank == 1 and x.rank > 2:
        slope = node("expand_dims", slope, axes=tuple(range(1, x.rank - 1)))
    return node("prelu", x, slope)


def hard_sigmoid(node: Node) -> Buffer:
    """A line between 0 and 1."""
    node.ignore("consumed_inputs")
    alpha, beta = node.number("alpha", 0.2), node.number("beta", 0.5)
    return node("hard_sigmoid", node.tensor(), alpha=alpha, beta=beta)


def selu(node: Node) -> Buffer:
    """A scaled exponential linear unit."""
    node.ignore("consumed_inputs")
    alpha, gamma = _SELU if node.opset >= 6 else _SELU_AT_FIRST
    return node(
        "selu",
        node.tensor(),
        alpha=node.number("alpha", alpha),
        gamma=node.number("gamma", gamma),
    )


def shrink(node: Node) -> Buffer:
    """Moved towards 0, and 0 near it."""
    bias, lambd = node.number("bias", 0.0), node.number("lambd", 0.5)
    return node("shrink", node.tensor(), bias=bias, lambd=lambd)


def gelu(node: Node) -> Buffer:
    """Times the normal distribution function, or its approximation."""
    approximate = node.text("approximate", "none", ("none", "tanh"))
    return node("gelu", node.tensor(), is_tanh=approximate == "tanh")


def softmax(op: str) -> Converter:
    """The converter for softmax along one axis."""

    def convert(node: Node) -> Buffer:
        return node(op, node.tensor(), axis=node.integer("axis", -1))

    return convert


def softmax_of_rows(op: str) -> Converter:
    """The converter for softmax over all axes from one on, as it was before opset 13."""

    def convert(node: Node) -> Buffer:
        x = node.tensor()
        axis = node.integer("axis", 1)
        axis = axis + x.rank if axis < 0 else axis
        if axis == x.rank - 1:
            return node(op, x, axis=-1)
        rows = node("reshape", x, shape=(product(x.shape[:axis]), product(x.shape[axis:])))
        return node("reshape", node(op, rows, axis=-1), shape=x.shape)

    return convert


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "Celu": with_alpha("celu", 1.0),
    "Elu": with_alpha("elu", 1.0),
    "Gelu": gelu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": one("hard_swish"),
    "Hardmax": {1: softmax_of_rows("hardmax"), 13: softmax("hardmax")},
    "LeakyRelu": with_alpha("leaky_relu", 0.01),
    "LogSoftmax": {1: softmax_of_rows("log_softmax"), 13: softmax("log_softmax")},
    "Mish": one("mish"),
    "PRelu": prelu,
    "Relu": one("relu", "consumed_inputs"),
    "Selu": selu,
    "Shrink": shrink,
    "Sigmoid": one("sigmoid", "consumed_inputs"),
    "Softmax": {1: softmax_of_rows("softmax"), 13: softmax("softmax")},
    "Softplus": one("softplus"),
    "Softsign": one("softsign"),
    "Swish": with_alpha("swish", 1.0),
    "ThresholdedRelu": with_alpha("thresholded_relu", 1.0),
}
"""By operator of ONNX's own domain."""
