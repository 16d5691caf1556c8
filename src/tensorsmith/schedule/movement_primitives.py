"""All primitives that move data or computations between places."""

from __future__ import annotations

from tensorsmith.schedule.cache_primitives import CachePrimitives
from tensorsmith.schedule.compute_location_primitives import ComputeLocationPrimitives


class MovementPrimitives(ComputeLocationPrimitives, CachePrimitives):
    """Where blocks are computed, and through which memory their data go."""
