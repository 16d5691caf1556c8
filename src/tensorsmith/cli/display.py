"""What the command prints: tables, progress and JSON. Nothing but JSON goes to standard output
when JSON is asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

PIPE_WIDTH: Final = 200
"""Columns of a table that no terminal limits."""
NUMBERS: Final = (
    "share",
    "ms",
    "us",
    "calls",
    "GFLOP/s",
    "GB/s",
    "of limit",
    "ratio",
    "bytes",
    "count",
)


def out() -> Console:
    """The console of results."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, soft_wrap=True, width=PIPE_WIDTH)


def notes() -> Console:
    """The console of progress and errors, which keeps standard output clean."""
    return Console(stderr=True, highlight=False)


def print_json(data: Any) -> None:
    """Print `data` as JSON."""
    sys.stdout.write(json.dumps(data, indent=1, default=str) + "\n")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """Print rows under columns; columns of numbers are aligned to the right."""
    justify: Literal["left", "right"]
    made = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        justify = "right" if column.endswith(NUMBERS) else "left"
        made.add_column(column, justify=justify, no_wrap=True)
    for row in rows:
        made.add_row(*(str(cell) for cell in row))
    out().print(made)


@contextmanager
def working(text: str, *, quiet: bool = False) -> Iterator[Progress | None]:
    """Show that long work goes on, on a terminal."""
    console = notes()
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(text)
        yield progress


def size_text(count: float) -> str:
    """Bytes as people read them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def shorter(parts: Sequence[str], most: int = 100) -> str:
    """The parts in a row, as many as fit into so many characters, and how many do not."""
    shown: list[str] = []
    for part in parts:
        if shown and sum(map(len, shown)) + len(part) > most:
            return f"{', '.join(shown)} and {len(parts) - len(shown)} more"
        shown.append(part if len(part) <= most else f"{part[: most - 3]}...")
    return ", ".join(shown)
