"""Terms of the script form that Python runs, because no decorator parsed the function."""

from __future__ import annotations

from typing import NoReturn

from tensorsmith.errors import ScriptError


def run_by_python(what: str) -> NoReturn:
    """Raise ScriptError: `what` was run by Python."""
    raise ScriptError(
        f"{what} has a meaning inside of a script function only",
        try_="the decorator @T.program on the function",
    )
