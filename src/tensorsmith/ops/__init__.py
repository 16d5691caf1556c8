"""Operators, each once: its signature and its computation, from which all else is derived."""

from collections.abc import Mapping
from typing import Final

from tensorsmith.ops import (
    activations,
    bitwise,
    broadcast,
    compare,
    contract,
    einsum,
    elementwise,
    gather,
    movement,
    padding,
    reduce,
    shapes,
    slicing,
    softmax,
)
from tensorsmith.ops.builder import GraphBuilder
from tensorsmith.ops.operator import Operator, operators, table

OPERATORS: Final[Mapping[str, Operator]] = table(
    activations.OPERATORS,
    bitwise.OPERATORS,
    broadcast.OPERATORS,
    compare.OPERATORS,
    contract.OPERATORS,
    einsum.OPERATORS,
    elementwise.OPERATORS,
    gather.OPERATORS,
    movement.OPERATORS,
    padding.OPERATORS,
    reduce.OPERATORS,
    shapes.OPERATORS,
    slicing.OPERATORS,
    softmax.OPERATORS,
)
"""Every operator, by name."""

__all__ = ["OPERATORS", "GraphBuilder", "Operator", "operators", "table"]
