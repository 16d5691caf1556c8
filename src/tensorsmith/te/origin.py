"""Where in the user's source a definition was written."""

from __future__ import annotations

import inspect
import itertools
import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType

from tensorsmith.errors import Source, Span, TensorsmithError

_PACKAGE = __name__.rpartition(".")[0]


@lru_cache(maxsize=64)
def _source(path: str) -> Source:
    return Source(path, "".join(linecache.getlines(path)))


@lru_cache(maxsize=4096)
def _span(code: CodeType, instruction: int) -> Span | None:
    positions = next(itertools.islice(code.co_positions(), instruction // 2, None), None)
    line, end_line, column, end_column = positions or (None, None, None, None)
    if line is None:
        return None
    if end_line is None or column is None or end_column is None:
        return Span(_source(code.co_filename), line, 0, line, 0)
    return Span(_source(code.co_filename), line, column, end_line, end_column)


def caller() -> Span | None:
    """The call, in the nearest frame outside this package, that leads here."""
    frame = inspect.currentframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name != _PACKAGE and not name.startswith(_PACKAGE + "."):
            return _span(frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return None


@contextmanager
def placed(span: Span | None) -> Iterator[None]:
    """Gives errors raised inside, that have no place yet, the place `span`."""
    try:
        yield
    except TensorsmithError as error:
        error.at(span)
        raise
