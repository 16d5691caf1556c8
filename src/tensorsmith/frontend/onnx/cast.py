"""Casts to other element types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx import types
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.strings import numbers_of_strings, strings_of_numbers
from tensorsmith.frontend.onnx.values import Read
from tensorsmith.ir import Buffer


def cast_by_name(node: Node) -> Read:
    """Cast to a type that a string names."""
    name = node.text("to").lower()
    wanted = {"float": "float32", "double": "float64"}.get(name, name)
    if wanted not in types.NUMBERS:
        node.unsupported(f"there is no element type {name!r}")
    return casted(node, types.NUMBERS[wanted])


def cast(node: Node) -> Read:
    """Cast to a type that a number names."""
    return casted(node, node.integer("to"))


def cast_like(node: Node) -> Read:
    """Cast to the type of another tensor."""
    name = "string" if node.text_tensor(1) else node.tensor(1).dtype.name
    return casted(node, types.NUMBERS[name])


def casted(node: Node, number: int) -> Read:
    """The operand as elements of a type by ONNX's number."""
    saturate = node.flag("saturate", default=True)
    round_mode = node.text("round_mode", "up", ("up", "down", "nearest"))
    x = node.text_tensor()
    if number == types.STRING:
        return x or strings_of_numbers(node, node.tensor())
    wanted = types.element_type(number, "the result")
    if x is not None:
        return numbers_of_strings(node, x, wanted.name)
    tensor = node.tensor()
    if tensor.dtype is wanted:
        return tensor
    return node("cast", tensor, dtype=wanted.name, saturate=saturate, round_mode=round_mode)


def bit_cast(node: Node) -> Buffer:
    """The bits as another type."""
    wanted = types.element_type(node.integer("to"), "the result")
    return node("bitcast", node.tensor(), dtype=wanted.name)


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "BitCast": bit_cast,
    "Cast": {1: cast_by_name, 6: cast},
    "CastLike": cast_like,
}
"""By operator of ONNX's own domain."""
