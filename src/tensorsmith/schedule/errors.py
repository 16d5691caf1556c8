"""What goes wrong when a schedule asks for something that would change a program's meaning."""

from __future__ import annotations

from tensorsmith.errors import TensorsmithError


class ScheduleError(TensorsmithError, ValueError):
    """A schedule primitive is not legal here, or names something that is not there.

    The message says what would be violated, and `because` why it matters; nothing was changed.
    """
