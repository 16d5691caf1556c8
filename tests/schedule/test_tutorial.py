"""The steps of the tutorial on schedules, measured: the last one comes near the machine's peak."""

from __future__ import annotations

from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "schedules.md"
TRIES = 12
STEPS = ("three loops", "vectors", "a tile in registers", "packed", "default")


@pytest.mark.slow
def test_the_schedule_of_the_tutorial_comes_near_the_peak(capsys) -> None:
    """Both are measured in turns, and the best of each counts: others may use the machine, too."""
    document = Sybil(parsers=[PythonCodeBlockParser()]).parse(PAGE)
    for example in document.examples():
        example.evaluate()
    printed = capsys.readouterr().out
    assert [line[:20].rstrip() for line in printed.splitlines() if "of the peak" in line] == [
        *STEPS
    ]
    page = document.namespace
    final = page["packed"]().program
    tries = [(page["measure"](final, 10), page["measure_peak"](10)) for _ in range(TRIES)]
    reached, peak = map(max, zip(*tries, strict=True))
    assert reached > 0.85 * peak, f"{reached:.1f} of {peak:.1f} GFLOP/s"
