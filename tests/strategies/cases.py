"""One property, two tests: hundreds of random cases by default, ten thousand marked slow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

Check = Callable[[st.DataObject], None]
SLOW_CASES = 10_000


def fast_and_slow(check: Check, *, fast: int = 120, slow: int = SLOW_CASES) -> tuple[Check, Check]:
    """Tests of `check`, which draws one case and asserts of it, with `fast` and with `slow` cases:
    the same ones each time, and new ones.

    Explaining a failure runs a slow check some hundred times more, and is left out: the case is
    shrunk and printed all the same.
    """
    phases = tuple(phase for phase in Phase if phase is not Phase.explain)

    def with_cases(number: int, *, is_slow: bool = False) -> Check:
        def test(data: st.DataObject) -> None:
            check(data)

        test.__doc__ = check.__doc__
        limits = settings(
            max_examples=number,
            deadline=None,
            derandomize=not is_slow,
            phases=phases,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        return limits(given(st.data())(test))

    return with_cases(fast), pytest.mark.slow(with_cases(slow, is_slow=True))
