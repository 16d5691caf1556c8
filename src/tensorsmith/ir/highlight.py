"""Colours for the script form, in a terminal and in a notebook. Plain text without pygments."""

from __future__ import annotations

import html
import sys

from tensorsmith.knobs import no_colour


def for_terminal(text: str) -> str:
    """`text` with the colours of a terminal; as it is where pygments is not installed."""
    try:
        import pygments
        from pygments.formatters import TerminalFormatter
        from pygments.lexers import PythonLexer
    except ImportError:
        return text
    return str(pygments.highlight(text, PythonLexer(), TerminalFormatter()))


def for_notebook(text: str) -> str:
    """`text` as HTML, in colours where pygments is installed."""
    try:
        import pygments
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import PythonLexer
    except ImportError:
        return f"<pre>{html.escape(text)}</pre>"
    return str(pygments.highlight(text, PythonLexer(), HtmlFormatter(noclasses=True)))


def show(text: str) -> None:
    """Write `text` to the standard output, in colours if that is a terminal which wants them."""
    colours = sys.stdout.isatty() and not no_colour()
    sys.stdout.write(for_terminal(text) if colours else text)
