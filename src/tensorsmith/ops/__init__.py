"""Operators, each once: its signature and its computation, from which all else is derived."""

from collections.abc import Mapping
from typing import Final

from tensorsmith.ops import (
    activations,
    bitwise,
    broadcast,
    cast,
    compare,
    contract,
    convolution,
    einsum,
    elementwise,
    gather,
    movement,
    padding,
    pooling,
    reduce,
    scatter,
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
    cast.OPERATORS,
    compare.OPERATORS,
    contract.OPERATORS,
    convolution.OPERATORS,
    einsum.OPERATORS,
    elementwise.OPERATORS,
    gather.OPERATORS,
    movement.OPERATORS,
    padding.OPERATORS,
    pooling.OPERATORS,
    reduce.OPERATORS,
    scatter.OPERATORS,
    shapes.OPERATORS,
    slicing.OPERATORS,
    softmax.OPERATORS,
)
"""Every operator, by name."""

__all__ = ["OPERATORS", "GraphBuilder", "Operator", "operators", "table"]
