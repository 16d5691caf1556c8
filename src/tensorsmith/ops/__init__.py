"""Operators, each once: its signature and its computation, from which all else is derived."""

from collections.abc import Mapping
from typing import Final

from tensorsmith.ops import (
    bitwise,
    broadcast,
    compare,
    elementwise,
    gather,
    movement,
    padding,
    reduce,
    shapes,
    slicing,
)
from tensorsmith.ops.builder import GraphBuilder
from tensorsmith.ops.operator import Operator, operators, table

OPERATORS: Final[Mapping[str, Operator]] = table(
    bitwise.OPERATORS,
    broadcast.OPERATORS,
    compare.OPERATORS,
    elementwise.OPERATORS,
    gather.OPERATORS,
    movement.OPERATORS,
    padding.OPERATORS,
    reduce.OPERATORS,
    shapes.OPERATORS,
    slicing.OPERATORS,
)
"""Every operator, by name."""

__all__ = ["OPERATORS", "GraphBuilder", "Operator", "operators", "table"]
