"""Shape-like arguments: attributes in old versions, operands in new ones, numbers or dimensions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING

from tensorsmith.ir import Buffer, Expr, as_expr
from tensorsmith.ir.expr import equal

if TYPE_CHECKING:
    from tensorsmith.frontend.onnx.node import Node


def axes_of(node: Node, number: int | None = 1, name: str = "axes") -> tuple[int, ...] | None:
    """Axes from the attribute, or else from an operand; None where neither is given."""
    given: tuple[int, ...] | None = node.integers(name, None)
    if given is not None or number is None:
        return given
    return node.constants(number)


def sizes_of(node: Node, number: int, name: str) -> tuple[Expr, ...] | None:
    """Sizes or positions from the attribute, or else from an operand; None if not given."""
    given: tuple[int, ...] | None = node.integers(name, None)
    if given is not None:
        return tuple(map(as_expr, given))
    return node.numbers_of(number)


def count_of(node: Node, count: Buffer, name: str = "count") -> Expr:
    """A number of elements that an operator has found: an extent."""
    (found,) = node.builder.integers(count, name, low=0)
    return found


def ask_equal(node: Node, a: Expr, b: Expr, message: str) -> None:
    """Have two extents agree: now if that can be told, else when the function runs."""
    node.builder.check(equal(a, b), message)


def as_scalar(node: Node, value: Buffer) -> Buffer:
    """A tensor of one element, as one of shape ()."""
    return value if value.rank == 0 else node("reshape", value, shape=())


def product(extents: Iterable[Expr]) -> Expr:
    """The product of extents; 1 of none."""
    one: Expr = as_expr(1)
    return reduce(lambda a, b: a * b, extents, one)
