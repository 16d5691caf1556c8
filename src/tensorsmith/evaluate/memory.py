"""What stands for a buffer where values are NumPy's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What a buffer holds.

    defined: which elements have been written; None if all of them count as written.
    lanes: the indices of the leading axes of `data`, one a lane axis, if each lane has its own
    copy.
    """

    data: Array
    defined: Array | None = None
    lanes: tuple[Array, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one copy."""
        whole: tuple[int, ...] = self.data.shape
        return whole[len(self.lanes) :]
