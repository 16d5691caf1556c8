"""From a model to something that runs: passes, schedules and code generation, in one call."""

from tensorsmith.compiler.compile import Compilation, build, compile, lower_model
from tensorsmith.compiler.pipeline import PIPELINE, Event, Pass, run

__all__ = ["PIPELINE", "Compilation", "Event", "Pass", "build", "compile", "lower_model", "run"]
