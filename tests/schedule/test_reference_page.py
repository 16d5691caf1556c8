"""The reference page of the primitives is what the docstrings say."""

import importlib.util
from pathlib import Path

import pytest

from tensorsmith.schedule.primitive import PRIMITIVES

TOOL = Path(__file__).resolve().parents[2] / "tools" / "schedule_reference.py"
spec = importlib.util.spec_from_file_location("schedule_reference", TOOL)
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def test_the_page_is_up_to_date():
    assert tool.PAGE.read_text() == tool.page(), "run: python tools/schedule_reference.py"


def test_every_primitive_is_on_the_page():
    assert sorted(n for _, names in tool.families() for n in names) == sorted(PRIMITIVES)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_primitive_says_what_it_does_and_when_it_is_refused(name):
    summary, conditions = tool.described(PRIMITIVES[name])
    assert summary
    assert conditions


@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_primitive_is_shown_by_an_example(name):
    assert ">>>" in (PRIMITIVES[name].__doc__ or "")


def test_parts_of_a_docstring():
    def primitive():
        """Does it.

        At length. Not legal
        if so.

        >>> no
        """

    assert tool.described(primitive) == ("Does it.", "Not legal if so.")
