"""The text of scripts: where it comes from, and where in it a syntax tree stands."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from tensorsmith.errors import ScriptError, Source, Span, TensorsmithError

Node: TypeAlias = ast.stmt | ast.expr | ast.arg

_TOO_DEEP: Final = "the script is nested deeper than Python's parser takes"


class SourceText:
    """A text, and the places of its syntax tree.

    first_line: the number of the first line of `text` in the file.
    """

    def __init__(self, name: str, text: str, first_line: int = 1) -> None:
        self.source = Source(name, text, first_line)
        self._lines = text.split("\n")
        # Python parses an indented text only inside of something.
        self._wrapped = text[:1] in (" ", "\t")

    def parse(self) -> list[ast.stmt]:
        """The statements of the text. Raises ScriptError where Python does not accept it."""
        text = f"if 1:\n{self.source.text}" if self._wrapped else self.source.text
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            raise self._syntax_error(error) from None
        except (RecursionError, MemoryError):
            raise ScriptError(
                _TOO_DEEP, where=self.source.name, try_="T.alias to name a part of an expression"
            ) from None
        except ValueError as error:
            raise ScriptError(f"Python cannot read the text: {error}") from None
        if not self._wrapped:
            return tree.body
        outer = tree.body[0]
        assert isinstance(outer, ast.If)
        return outer.body

    def _syntax_error(self, error: SyntaxError) -> ScriptError:
        line = self._file_line(error.lineno or 1)
        column = max(0, (error.offset or 1) - 1)
        end = max(column + 1, (error.end_offset or 0) - 1)
        if error.end_lineno != error.lineno:
            end = column + 1
        where = Span(self.source, line, column, line, end)
        return ScriptError(f"Python cannot read this: {error.msg}", where=where)

    def _file_line(self, line: int) -> int:
        return line - int(self._wrapped) + self.source.first_line - 1

    def span(self, node: Node) -> Span:
        """Where `node` stands."""
        line, end_line = self._file_line(node.lineno), self._file_line(node.end_lineno or 0)
        column = self._characters(line, node.col_offset)
        end_column = self._characters(end_line, node.end_col_offset or 0)
        return Span(self.source, line, column, end_line, end_column)

    @contextmanager
    def place(self, node: Node) -> Iterator[None]:
        """Errors from inside are about `node`, unless they have a place already."""
        try:
            yield
        except TensorsmithError as error:
            error.at(self.span(node))
            raise

    def _characters(self, line: int, offset: int) -> int:
        """The column in characters; Python's syntax trees count bytes of UTF-8."""
        text = self._lines[line - self.source.first_line]
        return offset if text.isascii() else len(text.encode()[:offset].decode())


def function_source(function: Callable[..., object]) -> tuple[SourceText, ast.FunctionDef]:
    """The source of a function of the running program. Raises ScriptError if there is none."""
    name = getattr(function, "__name__", repr(function))
    try:
        lines, first_line = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or "<unknown>"
    except (OSError, TypeError):
        raise ScriptError(
            f"the source of {name!r} is not at hand",
            because="a script is parsed from its source, which Python has for files and notebooks",
            try_="put the function in a file, or give its text to parse_program",
        ) from None
    source = SourceText(file, "".join(lines), first_line)
    for node in source.parse():
        if isinstance(node, ast.FunctionDef):
            return source, node
    raise ScriptError(f"{name!r} is not a plain function", try_="def, with the decorator T.program")
