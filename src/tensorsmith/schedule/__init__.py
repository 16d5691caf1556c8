"""The schedule language: primitives on tensor programs, checked and recorded."""

from tensorsmith.schedule.defaults import Fallback, default, default_schedule
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.trace import Trace

__all__ = [
    "BlockRef",
    "Fallback",
    "LoopRef",
    "Schedule",
    "ScheduleError",
    "Trace",
    "default",
    "default_schedule",
]
