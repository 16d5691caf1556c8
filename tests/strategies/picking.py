"""Drawing one of some things, cheaply.

A strategy takes longer to make than to draw from, and a draw from one of one's own as long as ten
from built-in ones. So these functions take `draw` themselves, as do those inside of strategies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


def pick(draw: st.DrawFn, choices: Sequence[T]) -> T:
    """One of `choices`; shrinks towards the first."""
    return choices[draw(st.integers(0, len(choices) - 1))]
