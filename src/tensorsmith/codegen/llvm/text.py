"""The text of an LLVM function, with a place before each loop that inner code is hoisted to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

Lines: TypeAlias = "list[str | Lines]"


class Scope:
    """A region of a function that runs as a whole: a loop's body, a branch, or the function itself.

    lines: what it holds so far. before: the place just before it, where control surely passes, for
    code that its inside computes again and again. cache: values that hold in all of it.
    """

    __slots__ = ("before", "cache", "depth", "label", "lines")

    def __init__(self, depth: int, before: Lines, lines: Lines, label: str) -> None:
        self.depth = depth
        self.before = before
        self.lines = lines
        self.label = label
        self.cache: dict[object, tuple[str, int]] = {}


class Text:
    """Instructions of one function. Names are numbered; labels open basic blocks."""

    def __init__(self) -> None:
        self.root: Lines = []
        self.scopes: list[Scope] = [Scope(0, self.root, self.root, "entry")]
        self.counter = 0

    @property
    def depth(self) -> int:
        """How many loops and branches are open."""
        return len(self.scopes) - 1

    @property
    def label(self) -> str:
        """The basic block that is being written."""
        return self.scopes[-1].label

    def name(self, hint: str = "") -> str:
        """A new name of a value or label, without its ``%``."""
        self.counter += 1
        return f"{hint}{self.counter}"

    def line(self, text: str) -> None:
        """An instruction without a value, here."""
        self.scopes[-1].lines.append(f"  {text}")

    def value(self, text: str, depth: int | None = None) -> str:
        """An instruction with a value; at `depth`, before the loop or branch opened there, if that
        is not here."""
        name = f"%{self.name('v')}"
        if depth is None or depth == self.depth:
            self.scopes[-1].lines.append(f"  {name} = {text}")
        else:
            self.scopes[depth + 1].before.append(f"  {name} = {text}")
        return name

    def begin(self, label: str) -> None:
        """Open the basic block `label`, here."""
        scope = self.scopes[-1]
        scope.lines.append(f"{label}:")
        scope.label = label

    def open(self, before: Lines | None = None) -> None:
        """Open a scope at this point; code hoisted out of it will stand at this point, or at
        `before`: that of the scope that the other branch of the same condition had."""
        outer = self.scopes[-1]
        if before is None:
            before = []
            outer.lines.append(before)
        self.scopes.append(Scope(len(self.scopes), before, outer.lines, outer.label))

    def close(self) -> Lines:
        """Close the innermost scope; the basic block that it ended in goes on. Gives the place
        before it."""
        inner = self.scopes.pop()
        self.scopes[-1].label = inner.label
        return inner.before

    def render(self) -> str:
        """All lines."""
        return "\n".join(_flat(self.root))


def _flat(lines: Lines) -> Iterator[str]:
    stack: list[Iterator[str | Lines]] = [iter(lines)]
    while stack:
        item = next(stack[-1], None)
        if item is None:
            stack.pop()
        elif isinstance(item, str):
            yield item
        else:
            stack.append(iter(item))


def joined(items: Iterable[str]) -> str:
    """Operands with commas."""
    return ", ".join(items)
