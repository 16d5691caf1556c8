"""Where images in blocks of channels pay for what is put in blocks and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tensorsmith.graph.following import is_point
from tensorsmith.ir import Buffer, Const
from tensorsmith.ir.graph import Apply, Value

LEAST_FLOPS: Final = 256.0
"""Floating-point operations of convolutions that pay for one element put in blocks or back: it
takes some 0.5 ns, in which a core does 50, of which a convolution of blocks saves a fifth."""
USUAL: Final = 128.0
"""What an extent that is not known is taken to be."""


@dataclass(slots=True)
class Region:
    """Values in blocks that are computed from each other.

    work: operations of the convolutions. moved: elements that are put in blocks or back.
    """

    convolutions: list[Apply] = field(default_factory=list)
    work: float = 0.0
    moved: float = 0.0


class Regions:
    """The region of each value in blocks."""

    def __init__(self) -> None:
        self._of: dict[Value, Region] = {}

    def join(self, values: Iterable[Value]) -> Region:
        """One region of all these values, which those of them have that have none."""
        values = tuple(values)
        found = list({id(r): r for v in values if (r := self._of.get(v)) is not None}.values())
        whole = found[0] if found else Region()
        for other in found[1:]:
            whole.convolutions += other.convolutions
            whole.work += other.work
            whole.moved += other.moved
            self._of.update((v, whole) for v, r in self._of.items() if r is other)
        self._of.update((v, whole) for v in values)
        return whole

    def poor(self) -> list[Apply]:
        """The convolutions of regions that do not pay for what is moved."""
        all_ = {id(r): r for r in self._of.values()}.values()
        return [c for r in all_ if r.work < LEAST_FLOPS * r.moved for c in r.convolutions]


def elements(value: Buffer) -> float:
    """Elements of a tensor; extents that are not known count as usual ones."""
    size = 1.0
    for extent in value.shape:
        size *= float(extent.value) if isinstance(extent, Const) else USUAL
    return size


def moved_elements(value: Buffer) -> float:
    """Elements to move where a value is put in blocks or back: none of points."""
    return 0.0 if is_point(value) else elements(value)
