"""Operators, each once: its signature and its computation, from which all else is derived."""

from collections.abc import Mapping
from typing import Final

from tensorsmith.ops import (
    activations,
    attention,
    bitwise,
    broadcast,
    cast,
    compare,
    contract,
    convolution,
    cumulative,
    einsum,
    elementwise,
    gather,
    linear_attention,
    losses,
    matrices,
    movement,
    normalize,
    padding,
    pooling,
    power,
    quantize,
    random,
    recurrent,
    reduce,
    resize,
    scatter,
    select,
    shapes,
    slicing,
    softmax,
    sort,
    unique,
)
from tensorsmith.ops.builder import GraphBuilder
from tensorsmith.ops.operator import Operator, operators, table

OPERATORS: Final[Mapping[str, Operator]] = table(
    activations.OPERATORS,
    attention.OPERATORS,
    bitwise.OPERATORS,
    broadcast.OPERATORS,
    cast.OPERATORS,
    compare.OPERATORS,
    contract.OPERATORS,
    convolution.OPERATORS,
    cumulative.OPERATORS,
    einsum.OPERATORS,
    elementwise.OPERATORS,
    gather.OPERATORS,
    linear_attention.OPERATORS,
    losses.OPERATORS,
    matrices.OPERATORS,
    movement.OPERATORS,
    normalize.OPERATORS,
    padding.OPERATORS,
    pooling.OPERATORS,
    power.OPERATORS,
    quantize.OPERATORS,
    random.OPERATORS,
    recurrent.OPERATORS,
    reduce.OPERATORS,
    resize.OPERATORS,
    scatter.OPERATORS,
    select.OPERATORS,
    shapes.OPERATORS,
    slicing.OPERATORS,
    softmax.OPERATORS,
    sort.OPERATORS,
    unique.OPERATORS,
)
"""Every operator, by name."""

__all__ = ["OPERATORS", "GraphBuilder", "Operator", "operators", "table"]
