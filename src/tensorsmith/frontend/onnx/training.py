"""Steps of optimisers: the domain ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tensorsmith.frontend.onnx.arguments import as_scalar
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import Buffer


def optimiser(op: str, states: int, attributes: Callable[[Node], Mapping[str, Any]]) -> Converter:
    """The converter for an optimiser that keeps so many states a tensor.

    Operands and results of all tensors stand together by what they are: first the tensors, then
    their gradients, then their states.
    """

    def convert(node: Node) -> tuple[Buffer, ...]:
        rate, number = as_scalar(node, node.tensor(0)), as_scalar(node, node.tensor(1))
        rest = [node.tensor(n) for n in range(2, len(node.inputs))]
        count, left = divmod(len(rest), 2 + states)
        if left or not count:
            node.wrong(f"{len(rest)} tensors in groups of {2 + states}")
        attrs = attributes(node)
        made = [node.apply(op, rate, number, *rest[k::count], **attrs) for k in range(count)]
        return tuple(row[k] for k in range(1 + states) for row in made)

    return convert


def _adagrad(node: Node) -> Mapping[str, Any]:
    return {
        "decay": node.number("decay_factor", 0.0),
        "epsilon": node.number("epsilon", 0.0),
        "penalty": node.number("norm_coefficient", 0.0),
    }


def _adam(node: Node) -> Mapping[str, Any]:
    return {
        "alpha": node.number("alpha", 0.9),
        "beta": node.number("beta", 0.999),
        "epsilon": node.number("epsilon", 0.0),
        "penalty": node.number("norm_coefficient", 0.0),
        "penalty_after": node.number("norm_coefficient_post", 0.0),
    }


def _momentum(node: Node) -> Mapping[str, Any]:
    mode = node.text("mode", choices=("standard", "nesterov"))
    return {
        "alpha": node.number("alpha"),
        "beta": node.number("beta"),
        "penalty": node.number("norm_coefficient"),
        "is_nesterov": mode == "nesterov",
    }


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "Adagrad": optimiser("adagrad", 1, _adagrad),
    "Adam": optimiser("adam", 2, _adam),
    "Momentum": optimiser("momentum", 1, _momentum),
}
"""By operator of the domain ai.onnx.preview.training."""
