"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import Buffer

DIRECTIONS: Final = ("forward", "reverse", "bidirectional")
_TAKE_ALPHA: Final = frozenset(
    ["affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"]
)
_TAKE_BETA: Final = frozenset(["affine", "scaledtanh", "hardsigmoid"])
"""Activations that take a number from the lists of alphas and betas."""


def _attributes(node: Node, usual: tuple[str, ...]) -> dict[str, Any]:
    """The attributes that all recurrent layers have."""
    node.ignore("hidden_size")
    direction = node.text("direction", "forward", DIRECTIONS)
    count = 2 if direction == "bidirectional" else 1
    names = [n.lower() for n in node.texts("activations", usual * count)]
    if len(names) != len(usual) * count:
        node.wrong(f"{len(names)} activations for {count} directions of {len(usual)} each")
    alphas, betas = (iter(node.numbers(f"activation_{n}", ())) for n in ("alpha", "beta"))
    activations = tuple(
        (
            name,
            next(alphas, None) if name in _TAKE_ALPHA else None,
            next(betas, None) if name in _TAKE_BETA else None,
        )
        for name in names
    )
    return {
        "activations": activations,
        "direction": direction,
        "clip": node.number("clip") if node.has("clip") else None,
        "batch_first": node.flag("layout"),
    }


def _operands(node: Node, count: int) -> tuple[Buffer | None, ...]:
    return (node.tensor(0), node.tensor(1), node.tensor(2), *map(node.optional, range(3, count)))


def rnn(node: Node) -> tuple[Buffer, ...]:
    """The plain layer."""
    node.ignore("output_sequence")
    return node.apply("rnn", *_operands(node, 6), **_attributes(node, ("tanh",)))


def gru(node: Node) -> tuple[Buffer, ...]:
    """Gated recurrent units."""
    node.ignore("output_sequence")
    reset = node.flag("linear_before_reset")
    attrs = _attributes(node, ("sigmoid", "tanh"))
    return node.apply("gru", *_operands(node, 6), linear_before_reset=reset, **attrs)


def lstm(node: Node) -> tuple[Buffer, ...]:
    """Long short-term memory."""
    node.ignore("output_sequence")
    forget = node.flag("input_forget")
    attrs = _attributes(node, ("sigmoid", "tanh", "tanh"))
    return node.apply("lstm", *_operands(node, 8), input_forget=forget, **attrs)


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "GRU": gru,
    "LSTM": lstm,
    "RNN": rnn,
}
"""By operator of ONNX's own domain."""
