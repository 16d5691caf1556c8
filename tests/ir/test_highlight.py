"""Colours of the script form."""

from __future__ import annotations

import html
import io
import re
import sys

import pytest

from tensorsmith import ir
from tensorsmith.ir import highlight

PROGRAM = ir.TensorProgram("f", (ir.Buffer("A", (4,)),), ir.Assert(ir.const(1, "bool"), "1 < 2"))
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch):
    def show(stream: io.StringIO, no_colour: str) -> str:
        monkeypatch.setenv("NO_COLOR", no_colour)
        monkeypatch.setattr(sys, "stdout", stream)
        PROGRAM.show()
        return stream.getvalue()

    return show


def test_a_terminal_gets_colours(shown) -> None:
    text = shown(Terminal(), "")
    assert "\x1b[" in text
    assert ESCAPES.sub("", text) == PROGRAM.script()


def test_a_file_and_no_color_get_plain_text(shown) -> None:
    assert shown(io.StringIO(), "") == PROGRAM.script()
    assert shown(Terminal(), "1") == PROGRAM.script()


def test_a_notebook_gets_html() -> None:
    for item in (PROGRAM, ir.IRModule.of(PROGRAM)):
        text = item._repr_html_()
        assert "<span" in text
        plain = html.unescape(re.sub(r"<[^>]*>", "", text))
        assert plain.strip() == item.script().strip()


def test_without_pygments_the_text_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygments", None)
    assert highlight.for_terminal("1 < 2") == "1 < 2"
    assert highlight.for_notebook("1 < 2") == "<pre>1 &lt; 2</pre>"
