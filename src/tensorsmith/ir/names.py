"""Names in printed text: unique where they are visible, and the user's own where that is free."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from tensorsmith.ir.expr import Var

if TYPE_CHECKING:
    from tensorsmith.ir.buffer import Buffer
    from tensorsmith.ir.graph import Opaque

Named: TypeAlias = "Var | Buffer | Opaque"

RESERVED: Final = frozenset(keyword.kwlist) | frozenset(
    [
        "T",
        "Module",
        "range",
        "len",
        "min",
        "max",
        "abs",
        "int",
        "float",
        "bool",
        "str",
        "list",
        "tuple",
        "dict",
        "enumerate",
        "zip",
        "sum",
    ]
)
"""Names that no variable gets: they mean something else in a script."""

_NOT_A_LETTER: Final = re.compile(r"\W", re.ASCII)


def is_plain_name(name: str) -> bool:
    """Whether Python reads `name` as an identifier, spelt the same, and does not mangle it."""
    return (
        name.isidentifier()
        and not name.startswith("__")
        and (name.isascii() or unicodedata.normalize("NFKC", name) == name)
    )


def identifier(name: str) -> str:
    """`name`, or the nearest Python identifier.

    >>> identifier("conv/1:0")
    'conv_1_0'
    """
    if is_plain_name(name):
        return name
    letters = _NOT_A_LETTER.sub("_", name).lstrip("_")
    return letters if letters[:1].isalpha() else f"v{letters}"


class Names:
    """Gives each variable, buffer and other value a name of its own among those that are visible.

    A name that is taken gets the first free suffix ``_1``, ``_2``, ... Names given inside a `scope`
    are free again after it, so that loops in sequence may all run over ``i``.
    """

    def __init__(self, reserved: Iterable[str] = RESERVED) -> None:
        self._taken = set(reserved)
        self._names: dict[Named, str] = {}
        self._next_suffix: dict[str, int] = {}
        self._undo: list[tuple[Named | None, str, str, int]] = []

    def of(self, named: Named) -> str:
        """The name of a variable or value, chosen when it is first asked for."""
        found = self._names.get(named)
        if found is None:
            found = self._choose(named.name, named)
            self._names[named] = found
        return found

    def fresh(self, wanted: str) -> str:
        """A free name, `wanted` if possible."""
        return self._choose(wanted, None)

    def reserve(self, names: Iterable[str]) -> None:
        """Give none of these names from now on."""
        self._taken.update(names)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names that are given inside end with the scope."""
        mark = len(self._undo)
        yield
        while len(self._undo) > mark:
            named, name, base, suffix = self._undo.pop()
            self._taken.discard(name)
            self._next_suffix[base] = suffix
            if named is not None:
                del self._names[named]

    def _choose(self, wanted: str, named: Named | None) -> str:
        base = name = identifier(wanted)
        before = suffix = self._next_suffix.get(base, 1)
        stem = base if base.strip("_") else "v"  # `__1` would not be a plain name
        while name in self._taken:
            name = f"{stem}_{suffix}"
            suffix += 1
        self._next_suffix[base] = suffix
        self._taken.add(name)
        self._undo.append((named, name, base, before))
        return name
