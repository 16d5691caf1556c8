"""Writes the instructions of one LLVM function as text."""

from __future__ import annotations

import struct

from tensorsmith.codegen.llvm.types import float_literal, suffix, vector

OVERLOADED_BY_OPERAND = frozenset({"vector.reduce.or", "is.fpclass"})
"""Intrinsics whose name is made of their operand's type, since their result's follows from it."""


class Builder:
    """The body of one function. Every instruction gives the name of its value.

    A vector type is spelt as an element type and a number of lanes; one lane is a scalar.

    >>> b = Builder()
    >>> y = b.emit("fmul", "<8 x float>", "%x", "%x")
    >>> b.line(f"ret <8 x float> {y}")
    >>> print(b.text())
      %v1 = fmul <8 x float> %x, %x
      ret <8 x float> %v1
    """

    __slots__ = ("declarations", "lines", "names")

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        """The `declare` line of each intrinsic that is called, by its symbol."""
        self.names = 0

    def name(self) -> str:
        """A name that no value or label has yet, without its ``%``."""
        self.names += 1
        return f"v{self.names}"

    def line(self, text: str) -> None:
        """An instruction that has no value."""
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """An instruction, spelt out; the name of its value."""
        name = f"%{self.name()}"
        self.lines.append(f"  {name} = {text}")
        return name

    def emit(self, opcode: str, type: str, *operands: str) -> str:
        """An instruction on operands of one type: ``fadd``, ``icmp eq``, ``fneg``, ..."""
        return self.value(f"{opcode} {type} {', '.join(operands)}")

    def convert(self, opcode: str, source: str, operand: str, target: str) -> str:
        """A conversion between types: ``bitcast``, ``sext``, ``fptrunc``, ..."""
        return self.value(f"{opcode} {source} {operand} to {target}")

    def select(self, condition_type: str, condition: str, type: str, a: str, b: str) -> str:
        """In each lane `a` where `condition` holds, else `b`."""
        return self.value(f"select {condition_type} {condition}, {type} {a}, {type} {b}")

    def call(self, symbol: str, result: str, *operands: tuple[str, str]) -> str:
        """A call of a function that is declared or defined elsewhere; operands as (type, value)."""
        listed = ", ".join(f"{type} {value}" for type, value in operands)
        return self.value(f"call {result} @{symbol}({listed})")

    def intrinsic(self, name: str, element: str, lanes: int, *operands: str) -> str:
        """A call of ``llvm.<name>`` on operands of one type, which its result has, too.

        An operand ``true`` or ``false`` is the flag that some intrinsics take as the last one.
        """
        type, symbol = vector(element, lanes), f"llvm.{name}.{suffix(element, lanes)}"
        result = "i1" if name in OVERLOADED_BY_OPERAND else type
        types = ["i1" if o in ("true", "false") else type for o in operands]
        self.declarations[symbol] = f"declare {result} @{symbol}({', '.join(types)})"
        return self.call(symbol, result, *zip(types, operands, strict=True))

    def phi(self, type: str, *incoming: tuple[str, str]) -> str:
        """The value that belongs to the block control came from; incoming as (value, label)."""
        return self.value(f"phi {type} {', '.join(f'[ {v}, %{label} ]' for v, label in incoming)}")

    def label(self, label: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{label}:")

    def branch(self, target: str) -> None:
        """Go to a label."""
        self.line(f"br label %{target}")

    def branch_if(self, condition: str, then: str, otherwise: str) -> None:
        """Go to one of two labels."""
        self.line(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines)


def constant(element: str, lanes: int, value: float) -> str:
    """The constant `value` in every lane, as an operand of type `element` times `lanes`.

    One of type ``float`` is rounded to it.
    """
    if element == "float":
        (rounded,) = struct.unpack("<f", struct.pack("<f", value))
        spelt = float_literal(rounded)
    elif element == "double":
        spelt = float_literal(float(value))
    elif element == "i1":
        spelt = "true" if value else "false"
    else:
        spelt = str(value)
    return spelt if lanes == 1 else f"splat ({element} {spelt})"
