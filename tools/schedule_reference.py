"""Writes docs/reference/schedule.md: every schedule primitive, what it does, when it is refused.

Everything on the page is taken from the docstrings. Run `python tools/schedule_reference.py` after
one has changed; a test fails while the page is not up to date.
"""

import inspect
import re
from pathlib import Path

from tensorsmith.schedule import Schedule
from tensorsmith.schedule.annotations import ANNOTATIONS
from tensorsmith.schedule.primitive import PRIMITIVES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "schedule.md"

CONDITIONS = ("Not legal", "Not possible", "Always legal", "Arguments and conditions as for")
"""How the part of a docstring begins that says when a primitive is refused."""

INTRODUCTION = """\
# Schedule primitives

<!-- Made by tools/schedule_reference.py from the docstrings; changes belong there. -->

A `Schedule` holds a module of [tensor programs](../design/representation.md) and changes it by
*primitives*. Each checks first that the program will compute the same; if it will not, or this
cannot be seen, it raises `ScheduleError`, says what would be violated, and has changed nothing.
What was done is kept in `Schedule.trace`, which prints as the calls that do it again, and goes to
JSON and back.

`help(Schedule.split)` shows a program before and after; so do the docstrings of all primitives.
"""


def page() -> str:
    """The text of the page."""
    parts = [INTRODUCTION]
    for family, names in families():
        title = inspect.getdoc(family).splitlines()[0].rstrip(".")
        parts.append(f"## {title}\n\n{table(names)}")
    parts.append(annotations())
    return "\n".join(parts)


def families() -> list[tuple[type, list[str]]]:
    """The classes that make up `Schedule`, with the names of their primitives."""
    found = []
    for cls in Schedule.__mro__:
        names = [n for n, method in vars(cls).items() if PRIMITIVES.get(n) is method]
        if names:
            found.append((cls, names))
    return found


def table(names: list[str]) -> str:
    """One row a primitive."""
    rows = ["| primitive | does | refused |", "| --- | --- | --- |"]
    for name in names:
        summary, conditions = described(PRIMITIVES[name])
        rows.append(f"| `{name}({parameters(name)})` | {cell(summary)} | {cell(conditions)} |")
    return "\n".join(rows) + "\n"


def parameters(name: str) -> str:
    """The names of a primitive's parameters."""
    shown = []
    for p in list(inspect.signature(PRIMITIVES[name]).parameters.values())[1:]:
        star = "*" if p.kind is inspect.Parameter.VAR_POSITIONAL else ""
        default = "" if p.default is inspect.Parameter.empty else f"={p.default!r}"
        shown.append(f"{star}{p.name.rstrip('_')}{default}")
    return ", ".join(shown)


def described(primitive: object) -> tuple[str, str]:
    """What a primitive does, and when it is refused, from its docstring."""
    text = (inspect.getdoc(primitive) or "").partition(">>>")[0]
    paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", text) if p.strip()]
    conditions = []
    for at, paragraph in enumerate(paragraphs):
        starts = [paragraph.find(c) for c in CONDITIONS if c in paragraph]
        if starts:
            conditions.append(paragraph[min(starts) :])
            paragraphs[at] = paragraph[: min(starts)].strip()
    summary = next((p for p in paragraphs if p), "")
    return summary, " ".join(conditions)


def cell(text: str) -> str:
    """Text that stands in a cell: names as code, no column marks."""
    return text.replace("|", "\\|")


def annotations() -> str:
    """The keys of annotations that mean something."""
    rows = [f"| `{key}` | {cell(meaning)} |" for key, meaning in ANNOTATIONS.items()]
    head = "## Annotations that lowering gives a meaning to\n\n| key | meaning |\n| --- | --- |\n"
    return head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE}: {len(PRIMITIVES)} primitives")
