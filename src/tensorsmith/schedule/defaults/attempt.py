"""Steps of a schedule that are taken together, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tensorsmith.errors import TensorsmithError
from tensorsmith.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Fallback:
    """A rule that did not take a block of its kind, which a plainer one then took.

    rule: 'rows' (of two products, see `attention`), 'product', 'vectors' or 'threads'. reason: the
        error of the step that was not legal.
    """

    rule: str
    block: str
    reason: TensorsmithError


def attempt(s: Schedule, action: Callable[[], object]) -> TensorsmithError | None:
    """Do all of `action`, or nothing of it where a step is not legal: then the error tells why."""
    module, length = s.module, len(s.trace.instructions)
    try:
        action()
    except TensorsmithError as error:
        s.module = module
        del s.trace.instructions[length:]
        return error
    return None
