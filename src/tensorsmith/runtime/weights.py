"""Constants of a model as one piece of memory."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from tensorsmith.errors import DTypeError

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

WEIGHT_ALIGN: Final = 64
"""What divides the address of the first byte."""


def aligned(weights: Array) -> Array:
    """The bytes where they lie, if that is a multiple of 64; else a copy. Read-only."""
    if weights.dtype != np.uint8 or weights.ndim != 1:
        raise DTypeError(f"weights are bytes, not {weights.dtype} of rank {weights.ndim}")
    if weights.ctypes.data % WEIGHT_ALIGN or not weights.flags.c_contiguous:
        memory = np.empty(weights.size + WEIGHT_ALIGN, np.uint8)
        start = -memory.ctypes.data % WEIGHT_ALIGN
        moved = memory[start : start + weights.size]
        moved[:] = weights
        weights = moved
    view = weights.view()
    view.flags.writeable = False
    return view
