"""Schedules of programs given as text."""

from tensorsmith.schedule import Schedule
from tensorsmith.script import parse_program
from tensorsmith.verify import verify


def schedule_of(text: str) -> Schedule:
    """The schedule of a well-formed program in script form, without its import line."""
    program = parse_program(f"from tensorsmith import script as T\n{text}")
    verify(program)
    return Schedule(program)
