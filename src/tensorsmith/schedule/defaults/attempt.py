"""Steps of a schedule that are taken together, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable


def attempt(s: Schedule, action: Callable[[], object]) -> bool:
    """Do all of `action`, or nothing of it where a primitive is not legal."""
    module, length = s.module, len(s.trace.instructions)
    try:
        action()
    except ScheduleError:
        s.module = module
        del s.trace.instructions[length:]
        return False
    return True
