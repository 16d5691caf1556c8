"""From a model to something that runs: passes, schedules and code generation, in one call."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from tensorsmith.compiler.compile import compile

if TYPE_CHECKING:
    from tensorsmith.compiler.lowering import Compilation, build, lower_model
    from tensorsmith.compiler.pipeline import PIPELINE, Event, Pass, run

__all__ = ["PIPELINE", "Compilation", "Event", "Pass", "build", "compile", "lower_model", "run"]

_HOMES: Final = {
    **dict.fromkeys(("Compilation", "build", "lower_model"), "tensorsmith.compiler.lowering"),
    **dict.fromkeys(("PIPELINE", "Event", "Pass", "run"), "tensorsmith.compiler.pipeline"),
}


def __getattr__(name: str) -> Any:
    """What is imported when it is first asked for: a model that is kept needs no compiler."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
