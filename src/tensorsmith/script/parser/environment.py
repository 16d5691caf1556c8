"""What the names of a script mean, at one place in it."""

from __future__ import annotations

import builtins
import difflib
import enum
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tensorsmith.errors import ScriptError


class Role(enum.Enum):
    """What a name of a script stands for, in words."""

    PARAMETER = "a parameter"
    LOOP = "a loop variable"
    ITERATOR = "a block iterator"
    VALUE = "a value"
    BUFFER = "a buffer"
    STATIC = "a value of the parser"


@dataclass(frozen=True)
class Meaning:
    """What a name means. `line` is that of its definition."""

    value: object
    role: Role
    line: int


TEXT_BUILTINS: Final[Mapping[str, object]] = {
    f.__name__: f for f in (range, enumerate, zip, len, min, max, abs, float)
}
"""What a parsed text may call besides T: nothing that could do harm or take long."""

PYTHON_BUILTINS: Final[Mapping[str, object]] = vars(builtins)


class Environment:
    """Scopes of names defined by the script, and below them the names of Python around it.

    outer: the names around the script, innermost first.
    """

    def __init__(self, outer: Sequence[Mapping[str, object]]) -> None:
        self._outer = tuple(outer)
        self._scopes: list[dict[str, Meaning]] = [{}]
        self._ended: dict[str, Meaning] = {}

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is defined inside ends with the scope."""
        self._scopes.append({})
        yield
        self._ended.update(self._scopes.pop())

    def find(self, name: str) -> Meaning | None:
        """What the script defined `name` as, if it is visible."""
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def value(self, name: str) -> object:
        """The value of `name`. Raises ScriptError if there is none."""
        meaning = self.find(name)
        if meaning is not None:
            return meaning.value
        for names in self._outer:
            if name in names:
                return names[name]
        raise self._unbound(name)

    def visible(self) -> dict[str, object]:
        """What the script has defined that is visible here."""
        return {name: m.value for scope in self._scopes for name, m in scope.items()}

    def define(self, name: str, value: object, role: Role, line: int) -> None:
        """Define `name` in the innermost scope. Raises ScriptError if it is defined already."""
        before = self.find(name)
        if before is not None and (before.role is not Role.STATIC or role is Role.PARAMETER):
            raise redefined(name, before)
        self._scopes[-1][name] = Meaning(value, role, line)

    def assign(self, name: str, value: object, line: int) -> None:
        """Give a name a value of the parser, also one that has such a value already."""
        before = self.find(name)
        if before is not None and before.role is not Role.STATIC:
            raise redefined(name, before)
        for scope in reversed(self._scopes):
            if name in scope:
                scope[name] = Meaning(value, Role.STATIC, line)
                return
        self._scopes[-1][name] = Meaning(value, Role.STATIC, line)

    def shadow(self, name: str, value: object, line: int) -> None:
        """Give a name a value of the parser in the innermost scope, whatever it means outside."""
        self._scopes[-1][name] = Meaning(value, Role.STATIC, line)

    def _unbound(self, name: str) -> ScriptError:
        ended = self._ended.get(name)
        if ended is not None:
            return ScriptError(
                f"{name!r} is not defined here",
                because=f"the {name!r} of line {ended.line} ends with the lines it stands in",
            )
        own = [n for scope in reversed(self._scopes) for n in scope]
        outer = [n for names in self._outer for n in names]
        close = difflib.get_close_matches(name, own, 1) or difflib.get_close_matches(name, outer, 1)
        return ScriptError(f"{name!r} is not defined", try_=repr(close[0]) if close else None)


def redefined(name: str, before: Meaning) -> ScriptError:
    """That `name` cannot be given another value."""
    if before.role in (Role.LOOP, Role.ITERATOR):
        what = f"{name!r} is {before.role.value}, and cannot be assigned to"
    else:
        what = f"{name!r} is defined already, as {before.role.value}"
    return ScriptError(
        what,
        because=f"a name is given once; line {before.line} did it",
        try_="another name; what changes while the program runs is an element of a buffer",
    )
