"""Random schedules with primitives on reductions, layouts, padding and tensor intrinsics."""

from __future__ import annotations

from hypothesis import strategies as st

from schedule.chains import chains
from schedule.harness import RULES, check_schedule
from schedule.tensor_rules import TENSOR_RULES
from strategies import programs
from strategies.cases import fast_and_slow
from tensorsmith.ir import TensorProgram
from tensorsmith.schedule import Schedule, ScheduleError

OTHERS = {
    name: RULES[name]
    for name in ("split", "reorder", "add_unit_loop", "vectorize", "reverse_compute_at")
}


def draw_schedule(draw, program: TensorProgram, most: int = 5) -> Schedule:
    """A schedule with at least some of the primitives of `TENSOR_RULES`."""
    s = Schedule(program)
    for _ in range(draw(st.integers(1, most))):
        kinds = OTHERS if draw(st.integers(0, 2)) == 0 else TENSOR_RULES
        rule = kinds[draw(st.sampled_from(sorted(kinds)))]
        try:
            rule(draw, s)
        except ScheduleError:
            continue
        except Exception as error:
            error.add_note(f"{s.program.script()}\n{s.trace}")
            raise
    return s


def schedules_keep_the_meaning(data):
    source = data.draw(st.sampled_from((programs(max_stages=3), chains())))
    program = data.draw(source)
    check_schedule(data.draw, program, draw_schedule(data.draw, program))


test_schedules_keep_the_meaning, test_schedules_keep_the_meaning_slow = fast_and_slow(
    schedules_keep_the_meaning, fast=60
)
