"""Contractions: packed, tiled for registers and caches, on threads."""

from __future__ import annotations

from tensorsmith.schedule.refs import BlockRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.target import Target


def schedule_contraction(s: Schedule, block: BlockRef, target: Target) -> None:
    """Schedule a block that is a contraction."""
