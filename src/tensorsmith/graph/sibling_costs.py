"""Whether products of one tensor are faster as one product: a model of the time of each way.

Apart, each product starts threads of its own, and reads the tensor again. As one, results that
something else than a product reads are copied out of the whole. What the sums themselves take is
the same, so where that is long nothing is gained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from tensorsmith.graph.blocks import block_size
from tensorsmith.ir import Buffer, Const
from tensorsmith.ir.graph import Apply

START_CYCLES: Final = 3000.0
"""Cycles to call a kernel and have threads begin and end it."""
SUMS: Final = 27.0
"""Multiply-adds a cycle that products reach."""
READ_CYCLES: Final = 0.1
"""Cycles to read an element, or to write one, from a cache that all cores share."""
WEIGHT_CYCLES: Final = 0.4
"""Cycles to read an element of a weight, from memory."""
LEAST_SHARE: Final = 0.01
"""The share of the time that has to be saved."""
USUAL: Final = 4.0
"""What an extent that is not known is taken to be: what is gained is gained in short calls."""


@dataclass(frozen=True, slots=True)
class Family:
    """Products of one tensor that can be one.

    members: the products, in order. followers: of each operator that follows all of them alike,
    one after the other, the one of each member. axis: of results, over what weights make.
    weight_axis: the same of weights.
    """

    members: tuple[Apply, ...]
    followers: tuple[tuple[Apply, ...], ...]
    axis: int
    weight_axis: int

    @property
    def applies(self) -> tuple[Apply, ...]:
        """All operators that become parts of one."""
        return (*self.members, *(a for level in self.followers for a in level))

    @property
    def last(self) -> tuple[Apply, ...]:
        """Of each member the operator that gives what others read."""
        return self.followers[-1] if self.followers else self.members

    @property
    def extents(self) -> tuple[int, ...]:
        """How much of the axis each member makes."""
        return tuple(int(e.value) for m in self.members if isinstance(e := self._made(m), Const))

    def _made(self, member: Apply) -> object:
        weight = member.operands[1]
        assert weight is not None
        return weight.shape[self.weight_axis]


def pays(family: Family, moved: Sequence[Buffer]) -> bool:
    """Whether the products are faster as one. moved: the results that are copied out of it."""
    first = family.members[0]
    if first.op == "conv" and not keeps_blocks(family.extents):
        return False
    x, weight = first.operands[:2]
    assert x is not None
    assert weight is not None
    depth = _elements(weight) / family.extents[0]
    made = sum(_elements(m.results[0]) for m in family.members)
    whole = made * depth / SUMS + depth * sum(family.extents) * WEIGHT_CYCLES
    saved = (len(family.members) - 1) * (START_CYCLES + _elements(x) * READ_CYCLES)
    lost = sum(START_CYCLES + 2 * _elements(v) * READ_CYCLES for v in moved)
    return saved - lost >= LEAST_SHARE * whole


def keeps_blocks(extents: Sequence[int]) -> bool:
    """Whether the channels of images, side by side, are in blocks as large as those of each."""
    together = block_size(extents, is_exact=True)
    return all(block_size([e]) <= together for e in extents)


def _elements(value: Buffer) -> float:
    return prod(float(e.value) if isinstance(e, Const) else USUAL for e in value.shape)
