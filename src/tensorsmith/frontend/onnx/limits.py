"""What a model file may ask for before it is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what reading a model takes. They hold back accidents and attacks, not models.

    nodes: of all graphs and functions together, functions counted once a call.
    depth: of branches and loops inside each other, and of functions that call functions.
    model_bytes: of the file itself; weights may lie outside of it.
    constant_bytes: of a constant that the file does not hold, but asks to make.
    sequence: elements of a sequence, and iterations of a loop that is read one by one.
    """

    nodes: int = 1_000_000
    depth: int = 64
    model_bytes: int = 2**31
    constant_bytes: int = 64 * MIB
    sequence: int = 4096


DEFAULT_LIMITS: Final = Limits()
"""Far beyond any model known."""
