"""Checks of the regions that calls get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorsmith.ir import Region

if TYPE_CHECKING:
    from tensorsmith.codegen.llvm.function import Function


def check_region(function: Function, region: Region) -> None:
    """In a debug build: fail where a region leaves its buffer."""
    starts = tuple(start for start, _ in region.ranges)
    function.check_bounds(region.buffer, starts, tuple(extent for _, extent in region.ranges))
