"""How the channels of images lie: on an axis of their own, or in blocks.

A *plain* tensor of images is (n, c, *image). A *blocked* one is (n, c / b, *image, b): runs of b
channels stand next to each other, so that a vector of them is read at once whatever the image is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.ir import Const, Expr, as_expr
from tensorsmith.ops.indexing import is_one
from tensorsmith.te import ReduceAxis, Tensor


@dataclass(frozen=True, slots=True)
class Channels:
    """So many channels, in blocks of `block`; all on one axis if it is 0.

    Raises ShapeError if they are not a known multiple of the block.
    """

    extent: Expr
    block: int = 0

    def __post_init__(self) -> None:
        if self.block < 0 or (self.block and not self._fits()):
            raise ShapeError(
                f"channels in blocks of {self.block}, which do not fill them",
                given=f"{self.extent!r} channels",
            )

    def _fits(self) -> bool:
        return isinstance(self.extent, Const) and int(self.extent.value) % self.block == 0

    @property
    def lead(self) -> Expr:
        """The extent of the axis before those of the image."""
        if not self.block:
            return self.extent
        assert isinstance(self.extent, Const)
        return as_expr(int(self.extent.value) // self.block)

    @property
    def trail(self) -> tuple[Expr, ...]:
        """The extents of the axes after those of the image: that of a block, if there are any."""
        return (as_expr(self.block),) if self.block else ()

    def number(self, lead: Expr, trail: Sequence[Expr]) -> Expr:
        """Which channel stands at a position of `lead` and `trail`."""
        if not trail:
            return lead
        return trail[0] if is_one(self.lead) else lead * self.block + trail[0]

    def axes(self) -> tuple[ReduceAxis, ...]:
        """Reduction axes over the channels: those of the blocks, and in a block."""
        if not self.block:
            return (te.reduce_axis(self.extent, "c"),)
        return te.reduce_axis(self.lead, "co"), te.reduce_axis(self.block, "ci")

    def part(self, groups: int) -> Channels:
        """The channels of one of `groups` equal runs."""
        return Channels(Analyzer().simplify(self.extent // groups), self.block)


def channels_of(images: Tensor, rank: int) -> Channels:
    """How the channels of images of `rank` dimensions lie.

    Raises ShapeError unless they are plain or blocked.
    """
    if images.rank == rank + 2:
        return Channels(images.shape[1])
    block = images.shape[-1] if images.rank == rank + 3 else None
    if not isinstance(block, Const) or int(block.value) < 1:
        raise ShapeError(
            f"images of {rank} dimensions, whose channels are on one axis or in blocks",
            given=repr(images),
        )
    size = int(block.value)
    return Channels(Analyzer().simplify(images.shape[1] * size), size)
