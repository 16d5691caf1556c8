"""What an operator needs of its operands' extents, beyond what is known when it is applied.

A computation says it with `require`. What cannot hold is an error at once. What is known to hold
costs nothing. The rest is collected by whoever builds a graph (`tensorsmith.ops.builder`), which
has it checked when the function runs, before the operator does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.ir import Expr

Requirements = dict[Expr, str]
"""Conditions over dimensions, and what to say where one does not hold."""

_collected: Final[ContextVar[Requirements | None]] = ContextVar("collected", default=None)


def require(condition: Expr, message: str, *, given: str | None = None) -> None:
    """Have `condition` hold. Raises ShapeError with `message` if it cannot."""
    proved = Analyzer().prove(condition)
    if proved is False:
        raise ShapeError(message, given=given)
    found = _collected.get()
    if proved is None and found is not None:
        found.setdefault(condition, message)


@contextmanager
def collecting() -> Iterator[Requirements]:
    """Collect what the computations inside require and what is not known to hold."""
    found: Requirements = {}
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)
