"""The environment variables that Tensorsmith heeds. No other module reads `os.environ`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tensorsmith.errors import TensorsmithError

MIB: Final = 2**20


def no_colour() -> bool:
    """Whether ``NO_COLOR`` is set, by which a user asks for plain text. See no-color.org."""
    return bool(os.environ.get("NO_COLOR"))


def cache_is_on() -> bool:
    """Whether compiled code is kept on disk: not if ``TENSORSMITH_CACHE`` is 0."""
    return os.environ.get("TENSORSMITH_CACHE", "") != "0"


def cache_folder() -> Path:
    """Where compiled code is kept: ``TENSORSMITH_CACHE_DIR``, or the platform's cache folder."""
    if given := os.environ.get("TENSORSMITH_CACHE_DIR"):
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_cache_dir("tensorsmith", appauthor=False)) / "code"


def cache_limit_bytes() -> int:
    """How large the cache may grow: ``TENSORSMITH_CACHE_MIB`` mebibytes, 1024 if it is not set.

    Raises TensorsmithError if it is no whole number.
    """
    given = os.environ.get("TENSORSMITH_CACHE_MIB", "") or "1024"
    if not given.isdecimal():
        raise TensorsmithError(
            f"TENSORSMITH_CACHE_MIB must be a whole number of mebibytes, not {given!r}"
        )
    return int(given) * MIB
