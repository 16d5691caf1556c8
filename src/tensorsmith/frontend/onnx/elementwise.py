"""Operators on elements: arithmetic, comparisons, logic, bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.strings import also_of_strings, equal_strings
from tensorsmith.ir import Buffer

_BROADCAST_BY_RULE: Final = 7
"""Since this version operands broadcast as in NumPy; before, an attribute said how."""


def one(op: str, *ignored: str, **attrs: Any) -> Converter:
    """The converter for an operator of one operand. ignored: attributes that change nothing."""

    def convert(node: Node) -> Buffer:
        node.ignore(*ignored)
        return node(op, node.tensor(), **attrs)

    return convert


def two(op: str) -> Converter:
    """The converter for an operator of two operands that broadcast."""

    def convert(node: Node) -> Buffer:
        a, b = aligned(node)
        return node(op, a, b)

    return convert


def aligned(node: Node) -> tuple[Buffer, Buffer]:
    """The two operands, the second one with the axes that old versions align it by."""
    a, b = node.tensor(0), node.tensor(1)
    if node.opset >= _BROADCAST_BY_RULE:
        return a, b
    node.ignore("consumed_inputs")
    axis = node.integer("axis", a.rank - b.rank)
    if not node.flag("broadcast") or b.rank == 0:
        return a, b
    axis = axis + a.rank if axis < 0 else axis
    after = a.rank - axis - b.rank
    if after < 0:
        node.wrong("the second operand has more axes than there are", given=f"{a!r}, {b!r}")
    return a, node("expand_dims", b, axes=tuple(range(b.rank, b.rank + after)))


def many(op: str) -> Converter:
    """The converter for an operator of any number of operands."""

    def convert(node: Node) -> Buffer:
        node.ignore("consumed_inputs")
        return node(op, *node.tensors())

    return convert


def mod(node: Node) -> Buffer:
    """Remainder: with the sign of the divisor, or (`fmod`) of the dividend."""
    a, b = node.tensor(0), node.tensor(1)
    return node("fmod" if node.flag("fmod") else "mod", a, b)


def power(node: Node) -> Buffer:
    """Power; the exponent may be of another type."""
    return node("pow", *aligned(node))


def bit_shift(node: Node) -> Buffer:
    """Shift to the left or to the right."""
    left = node.text("direction", choices=("LEFT", "RIGHT")) == "LEFT"
    return node("shift_left" if left else "shift_right", node.tensor(0), node.tensor(1))


def is_inf(node: Node) -> Buffer:
    """Whether elements are infinite, of the signs asked for."""
    negative = node.flag("detect_negative", default=True)
    positive = node.flag("detect_positive", default=True)
    return node("is_inf", node.tensor(), negative=negative, positive=positive)


def clip_with_attributes(node: Node) -> Buffer:
    """Clip whose bounds are attributes."""
    node.ignore("consumed_inputs")
    x = node.tensor()
    bounds = [
        node.builder.scalar(node.number(name), x.dtype, name) if node.has(name) else None
        for name in ("min", "max")
    ]
    return node("clip", x, *bounds)


def clip(node: Node) -> Buffer:
    """Clip whose bounds are operands."""
    return node("clip", node.tensor(), node.optional(1), node.optional(2))


def equal(node: Node) -> Buffer:
    """Whether elements are equal; of strings too."""
    if node.text_tensor():
        return equal_strings(node)
    return node("equal", *aligned(node))


def where(node: Node) -> Buffer:
    """Choice between two tensors, element by element."""
    return node("where", node.tensor(0), node.tensor(1), node.tensor(2))


def identity(node: Node) -> Any:
    """The operand itself, of any kind."""
    found = node.value(0)
    return node.tensor() if found is None else found


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "Abs": one("abs", "consumed_inputs"),
    "Acos": one("acos"),
    "Acosh": one("acosh"),
    "Add": two("add"),
    "And": two("logical_and"),
    "Asin": one("asin"),
    "Asinh": one("asinh"),
    "Atan": one("atan"),
    "Atanh": one("atanh"),
    "BitShift": bit_shift,
    "BitwiseAnd": two("bitwise_and"),
    "BitwiseNot": one("bitwise_not"),
    "BitwiseOr": two("bitwise_or"),
    "BitwiseXor": two("bitwise_xor"),
    "Ceil": one("ceil", "consumed_inputs"),
    "Clip": {1: clip_with_attributes, 11: clip},
    "Cos": one("cos"),
    "Cosh": one("cosh"),
    "Div": two("div"),
    "Equal": equal,
    "Erf": one("erf"),
    "Exp": one("exp", "consumed_inputs"),
    "Floor": one("floor", "consumed_inputs"),
    "Greater": two("greater"),
    "GreaterOrEqual": two("greater_equal"),
    "Identity": identity,
    "IsInf": is_inf,
    "IsNaN": one("is_nan"),
    "Less": two("less"),
    "LessOrEqual": two("less_equal"),
    "Log": one("log", "consumed_inputs"),
    "Max": many("max"),
    "Mean": many("mean"),
    "Min": many("min"),
    "Mod": mod,
    "Mul": two("mul"),
    "Neg": one("neg", "consumed_inputs"),
    "Not": one("logical_not"),
    "Or": two("logical_or"),
    "Pow": power,
    "Reciprocal": one("reciprocal", "consumed_inputs"),
    "Round": one("round"),
    "Sign": one("sign"),
    "Sin": one("sin"),
    "Sinh": one("sinh"),
    "Sqrt": one("sqrt", "consumed_inputs"),
    "Sub": two("sub"),
    "Sum": many("sum"),
    "Tan": one("tan"),
    "Tanh": one("tanh", "consumed_inputs"),
    "Where": also_of_strings(where, 1, 2),
    "Xor": two("logical_xor"),
}
"""By operator of ONNX's own domain."""
