"""Random schedules of random programs do what the programs do."""

import pytest

from schedule.harness import RULES, check_schedule, draw_schedule
from strategies import programs
from strategies.cases import fast_and_slow
from tensorsmith.schedule.primitive import PRIMITIVES


def schedules_keep_the_meaning(data):
    program = data.draw(programs(max_stages=3))
    check_schedule(data.draw, program, draw_schedule(data.draw, program))


test_schedules_keep_the_meaning, test_schedules_keep_the_meaning_slow = fast_and_slow(
    schedules_keep_the_meaning, fast=40
)
