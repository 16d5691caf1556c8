"""The environment variables that Tensorsmith heeds. No other module reads `os.environ`."""

from __future__ import annotations

import os


def no_colour() -> bool:
    """Whether ``NO_COLOR`` is set, by which a user asks for plain text. See no-color.org."""
    return bool(os.environ.get("NO_COLOR"))
