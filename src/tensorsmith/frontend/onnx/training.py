"""Steps of optimisers: the domain ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tensorsmith.frontend.onnx.arguments import as_scalar
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import Buffer

Step: TypeAlias = "Callable[[Node, Buffer, Buffer, tuple[Buffer, ...]], tuple[Buffer, ...]]"
"""Makes (node, rate, step number, (tensor, gradient, states...)) into a tensor and its states."""


def optimiser(step: Step, states: int) -> Converter:
    """The converter for an optimiser that keeps so many states a tensor."""

    def convert(node: Node) -> tuple[Buffer, ...]:
        rate, number = as_scalar(node, node.tensor(0)), as_scalar(node, node.tensor(1))
        rest = [node.tensor(n) for n in range(2, len(node.inputs))]
        count, left = divmod(len(rest), 2 + states)
        if left:
            node.wrong(f"{len(rest)} tensors in groups of {2 + states}")
        made = [step(node, rate, number, tuple(rest[k::count])) for k in range(count)]
        return tuple(row[k] for k in range(1 + states) for row in made)

    return convert


def _number(node: Node, value: float, like: Buffer) -> Buffer:
    return node.builder.scalar(value, like.dtype)


def _regularised(node: Node, x: Buffer, gradient: Buffer, name: str = "norm_coefficient") -> Buffer:
    """The gradient with that of a share of the squared norm."""
    share = node.number(name, 0.0)
    if not share:
        return gradient
    return node("add", node("mul", _number(node, share, x), x), gradient)


def adagrad(
    node: Node, rate: Buffer, number: Buffer, group: tuple[Buffer, ...]
) -> tuple[Buffer, ...]:
    """A step by the sum of squared gradients."""
    x, gradient, squares = group
    one = _number(node, 1.0, rate)
    decay = _number(node, node.number("decay_factor", 0.0), rate)
    count = node("cast", number, dtype=rate.dtype.name)
    slower = node("div", rate, node("add", one, node("mul", count, decay)))
    gradient = _regularised(node, x, gradient)
    total = node("add", squares, node("mul", gradient, gradient))
    epsilon = _number(node, node.number("epsilon", 1e-6), x)
    scale = node("add", node("sqrt", total), epsilon)
    move = node("div", node("mul", _as(node, slower, x), gradient), scale)
    return node("sub", x, move), total


def _as(node: Node, value: Buffer, like: Buffer) -> Buffer:
    return value if value.dtype is like.dtype else node("cast", value, dtype=like.dtype.name)


def _mixed(node: Node, share: float, old: Buffer, new: Buffer) -> Buffer:
    """share * old + (1 - share) * new."""
    kept = node("mul", _number(node, share, old), old)
    return node("add", kept, node("mul", _number(node, 1 - share, new), new))


def adam(node: Node, rate: Buffer, number: Buffer, group: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
    """A step by running means of gradients and their squares."""
    x, gradient, mean, squares = group
    alpha, beta = node.number("alpha", 0.9), node.number("beta", 0.999)
    gradient = _regularised(node, x, gradient)
    mean = _mixed(node, alpha, mean, gradient)
    squares = _mixed(node, beta, squares, node("mul", gradient, gradient))
    epsilon = _number(node, node.number("epsilon", 1e-6), x)
    scale = node("add", node("sqrt", squares), epsilon)
    adjusted = _as(node, _adjusted(node, rate, number, (alpha, beta)), x)
    moved = node("sub", x, node("div", node("mul", adjusted, mean), scale))
    after = _number(node, 1 - node.number("norm_coefficient_post", 0.0), x)
    return node("mul", after, moved), mean, squares


def _adjusted(node: Node, rate: Buffer, number: Buffer, shares: tuple[float, float]) -> Buffer:
    """The rate that makes up for means that began at 0."""
    one = _number(node, 1.0, rate)
    first, second = (node("sub", one, node("pow", _number(node, s, rate), number)) for s in shares)
    adjusted = node("div", node("mul", rate, node("sqrt", second)), first)
    begun = node("greater", number, _number(node, 0, number))
    return node("where", begun, adjusted, rate)


def momentum(
    node: Node, rate: Buffer, number: Buffer, group: tuple[Buffer, ...]
) -> tuple[Buffer, ...]:
    """A step by a running sum of gradients."""
    x, gradient, sum_ = group
    alpha, beta = node.number("alpha"), node.number("beta")
    mode = node.text("mode", choices=("standard", "nesterov"))
    gradient = _regularised(node, x, gradient)
    begun = node("greater", number, _number(node, 0, number))
    share = node("where", begun, _number(node, beta, x), _number(node, 1.0, x))
    kept = _number(node, alpha, x)
    sum_ = node("add", node("mul", kept, sum_), node("mul", share, gradient))
    way = sum_ if mode == "standard" else node("add", gradient, node("mul", kept, sum_))
    return node("sub", x, node("mul", _as(node, rate, x), way)), sum_


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "Adagrad": optimiser(adagrad, 1),
    "Adam": optimiser(adam, 2),
    "Momentum": optimiser(momentum, 1),
}
"""By operator of the domain ai.onnx.preview.training."""
