"""Fast schedules without search, from an analytic model of the machine.

`default` looks at what a program's blocks compute and applies one rule to each nest; the rules are
programs of schedule primitives with decisions (tile sizes, vector widths, threads). Here the model
takes the decisions.
"""

from tensorsmith.schedule.defaults.attempt import Fallback
from tensorsmith.schedule.defaults.rules import default, default_schedule

__all__ = ["Fallback", "default", "default_schedule"]
