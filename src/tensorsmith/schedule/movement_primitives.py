"""All primitives that move data or computations between places."""

from __future__ import annotations

from tensorsmith.schedule.cache_primitives import CachePrimitives
from tensorsmith.schedule.compute_location_primitives import ComputeLocationPrimitives
from tensorsmith.schedule.inline_primitives import InlinePrimitives
from tensorsmith.schedule.reindex_primitives import ReindexPrimitives
from tensorsmith.schedule.storage_primitives import StoragePrimitives


class MovementPrimitives(
    ComputeLocationPrimitives,
    CachePrimitives,
    ReindexPrimitives,
    InlinePrimitives,
    StoragePrimitives,
):
    """Where blocks are computed, and through which memory their data go."""
