"""Structural equality, hashing and difference, up to the names of variables and buffers.

Two terms are equal when one becomes the other by renaming what it defines: parameters, dimensions,
values, loop variables, iterators, bindings, allocations, inputs of index maps. Names (also of
blocks and of a program by itself), spans, nodes of a model, and the nesting of sequences do not
count. Facts about variables, dtypes, scopes, attributes, messages, constants and the names of a
module's functions do; the order of functions and attributes does not.

A program is closed, so its dimensions correspond by position. What is free in a bare expression or
statement means something outside of it, and corresponds to itself only, unless `map_free_vars`.

All walks are iterative, and visit each pair of expression nodes once: a shared subexpression costs
nothing, and no depth overflows Python's stack.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tensorsmith.errors import Span
from tensorsmith.ir.buffer import Buffer, IndexMap
from tensorsmith.ir.expr import Expr, Load, Var
from tensorsmith.ir.graph import GraphFunction, Opaque
from tensorsmith.ir.hashing import structural_hash
from tensorsmith.ir.module import IRModule, TensorProgram
from tensorsmith.ir.parts import (
    FIELDS,
    SYMBOL_FIELDS,
    Defined,
    Symbol,
    Term,
    fields_of,
    leaf_text,
    operand_labels,
    own_text,
    statements,
)
from tensorsmith.ir.stmt import Iter, Stmt

__all__ = ["Difference", "Term", "diff", "statements", "structural_equal", "structural_hash"]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two terms differ.

    path: the way from the root, such as ``body[0].body[1].value.a``.
    what: in which way they differ.
    left, right: the two sides as text.
    left_span, right_span: where the innermost statements around them were written.
    """

    path: str
    what: str
    left: str
    right: str
    left_span: Span | None = None
    right_span: Span | None = None

    def __str__(self) -> str:
        lines = [f"first difference at {self.path or 'the root'}: {self.what}"]
        sides = (("left", self.left, self.left_span), ("right", self.right, self.right_span))
        for label, text, span in sides:
            place = f"  ({span})" if span is not None else ""
            first, *rest = text.splitlines() or [""]
            lines.append(f"  {label + ':':<7}{first}{place}")
            lines.extend(f"         {line}" for line in rest)
        return "\n".join(lines)


def structural_equal(a: Term, b: Term, *, map_free_vars: bool = False) -> bool:
    """Whether the two are equal up to renaming; linear in their distinct nodes.

    map_free_vars: let what is free in a bare expression or statement correspond by the position of
        its first use, instead of only to itself.
    """
    return a is b or diff(a, b, map_free_vars=map_free_vars) is None


def diff(a: Term, b: Term, *, map_free_vars: bool = False) -> Difference | None:
    """The first difference between two terms, in the order of their text; None if they are equal.

    map_free_vars: as for `structural_equal`.
    """
    closed = isinstance(a, (TensorProgram, GraphFunction, IRModule))
    return _Matcher(map_free=closed or map_free_vars).run(a, b, None)


class _Path:
    """The way to a node: a label, the way to its parent, and the spans passed on the way."""

    __slots__ = ("label", "parent", "spans")

    def __init__(self, label: str, parent: _Path | None, left: object, right: object) -> None:
        self.label = label
        self.parent = parent
        outer = parent.spans if parent is not None else (None, None)
        self.spans: tuple[Span | None, Span | None] = (
            getattr(left, "span", None) or outer[0],
            getattr(right, "span", None) or outer[1],
        )

    def __str__(self) -> str:
        labels = []
        path: _Path | None = self
        while path is not None:
            labels.append(path.label)
            path = path.parent
        return "".join(reversed(labels)).lstrip(".")


_Item: TypeAlias = "tuple[object, object, _Path]"


class _DifferentError(Exception):
    """Ends the walk with what was found."""

    def __init__(self, found: Difference) -> None:
        super().__init__()
        self.found = found


def _different(what: str, left: object, right: object, path: _Path) -> _DifferentError:
    return _DifferentError(Difference(str(path), what, _text(left), _text(right), *path.spans))


def _text(value: object) -> str:
    """One side of a difference for people; long statements are cut."""
    if value is None:
        return "nothing"
    if isinstance(value, Defined):
        return _text(value.symbol)
    if isinstance(value, Var):
        facts = (("low", value.low), ("high", value.high))
        known = [f"{name}={fact}" for name, fact in facts if fact is not None]
        known += [f"multiple_of={value.multiple_of}"] if value.multiple_of != 1 else []
        return " ".join([f"{value.name}: {value.dtype}", *known])
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    if isinstance(value, Iter):
        return f"{_text(value.var)} = {value.kind.value}({value.extent!r}, {value.binding!r})"
    lines = repr(value).splitlines()
    return "\n".join(lines if len(lines) <= 6 else [*lines[:5], "..."])


class _Matcher:
    """Walks two terms at once and keeps which symbols correspond."""

    def __init__(self, *, map_free: bool) -> None:
        self.map_free = map_free
        self.to_right: dict[Symbol, Symbol] = {}
        self.to_left: dict[Symbol, Symbol] = {}
        self.matched: dict[Expr, Expr] = {}

    def run(self, left: object, right: object, parent: _Path | None) -> Difference | None:
        """The first difference of two values."""
        try:
            self.walk(left, right, _Path("", parent, left, right))
        except _DifferentError as different:
            return different.found
        return None

    def walk(self, left: object, right: object, path: _Path) -> None:
        """Raise _DifferentError where the two differ first."""
        if isinstance(left, Stmt) and isinstance(right, Stmt):
            left, right = statements(left), statements(right)
        stack: list[_Item] = [(left, right, path)]
        while stack:
            stack.extend(reversed(self._visit(*stack.pop())))

    def _visit(self, left: object, right: object, path: _Path) -> list[_Item]:
        """Compare the two themselves; return the pairs that make up the rest, in order."""
        if type(left) is not type(right) and not (
            isinstance(left, Mapping) and isinstance(right, Mapping)
        ):
            raise _different("different kinds", left, right, path)
        if isinstance(left, Expr) and isinstance(right, Expr):
            return self._visit_expr(left, right, path)
        if isinstance(left, (Buffer, Opaque)) and isinstance(right, (Buffer, Opaque)):
            return self._use(left, right, path)
        if isinstance(left, Defined) and isinstance(right, Defined):
            return self._define(left.symbol, right.symbol, path)
        if isinstance(left, tuple) and isinstance(right, tuple):
            return self._visit_tuple(left, right, path)
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            return self._visit_mapping(left, right, path)
        if isinstance(left, IndexMap) and isinstance(right, IndexMap):
            return self._visit_index_map(left, right, path)
        if (names := FIELDS.get(type(left))) is not None:
            return self._pairs(left, right, names, path)
        if left is not right and leaf_text(left) != leaf_text(right):
            raise _different("different values", left, right, path)
        return []

    def _pairs(self, left: object, right: object, names: Iterable[str], path: _Path) -> list[_Item]:
        sides = zip(fields_of(left, names), fields_of(right, names), strict=True)
        return [(a, b, _Path(label, path, a, b)) for (label, a), (_, b) in sides]

    def _visit_expr(self, left: Expr, right: Expr, path: _Path) -> list[_Item]:
        if self.matched.get(left) is right:
            return []
        if isinstance(left, Var) and isinstance(right, Var):
            return self._use(left, right, path)
        if len(left.args) != len(right.args) or own_text(left) != own_text(right):
            raise _different("different expressions", left, right, path)
        # Any difference below ends the whole walk, so the pair may be taken as equal already.
        self.matched[left] = right
        labels = operand_labels(left)
        items: list[_Item] = [
            (a, b, _Path(label, path, None, None))
            for label, a, b in zip(labels, left.args, right.args, strict=True)
        ]
        if isinstance(left, Load) and isinstance(right, Load):
            inner = _Path(".buffer", path, None, None)
            items.insert(0, (left.buffer, right.buffer, inner))
        return items

    def _visit_tuple(
        self, left: tuple[object, ...], right: tuple[object, ...], path: _Path
    ) -> list[_Item]:
        sequences = any(isinstance(s, Stmt) for s in (*left[:1], *right[:1]))
        if len(left) != len(right) and not sequences:
            raise _different(f"{len(left)} against {len(right)} parts", left, right, path)
        pairs = zip(left, right, strict=False)
        items: list[_Item] = [(a, b, _Path(f"[{k}]", path, a, b)) for k, (a, b) in enumerate(pairs)]
        if len(left) != len(right):  # of statements, the first that differs says more
            common = len(items)
            extra = (left[common:] or (None,))[0], (right[common:] or (None,))[0]
            items.append((*extra, _Path(f"[{common}]", path, *extra)))
        return items

    def _visit_mapping(
        self, left: Mapping[str, object], right: Mapping[str, object], path: _Path
    ) -> list[_Item]:
        items: list[_Item] = []
        for key in sorted({*left, *right}):
            inner = _Path(f"[{key!r}]", path, left.get(key), right.get(key))
            if key not in left or key not in right:
                what = f"{key!r} is on one side only"
                raise _different(what, left.get(key), right.get(key), inner)
            a, b = left[key], right[key]
            if not isinstance(a, (TensorProgram, GraphFunction)):
                items.append((a, b, inner))
            elif a is not b and (found := _Matcher(map_free=True).run(a, b, inner)) is not None:
                raise _DifferentError(found)
        return items

    def _visit_index_map(self, left: IndexMap, right: IndexMap, path: _Path) -> list[_Item]:
        """The inputs correspond inside the maps alone: a map may be shared between buffers."""
        inner = _Matcher(map_free=self.map_free)
        inner.to_right = {s: t for s, t in self.to_right.items() if s not in left.inputs}
        inner.to_left = {t: s for t, s in self.to_left.items() if t not in right.inputs}
        inputs = tuple(map(Defined, left.inputs)), tuple(map(Defined, right.inputs))
        inner.walk(*inputs, _Path(".inputs", path, None, None))
        inner.walk(left.outputs, right.outputs, _Path(".outputs", path, None, None))
        for symbol, other in inner.to_right.items():
            if symbol not in left.inputs:
                self.to_right.setdefault(symbol, other)
                self.to_left.setdefault(other, symbol)
        return []

    def _use(self, left: Symbol, right: Symbol, path: _Path) -> list[_Item]:
        if left in self.to_right or right in self.to_left:
            if self.to_right.get(left) is not right:
                raise _different(self._mismatch(left, right), left, right, path)
            return []
        if left is not right and not self.map_free:
            raise _different("two free symbols", left, right, path)
        return self._correspond(left, right, path)

    def _define(self, left: Symbol, right: Symbol, path: _Path) -> list[_Item]:
        if type(left) is not type(right):
            raise _different("different kinds", left, right, path)
        if left in self.to_right or right in self.to_left:
            return self._use(left, right, path)
        return self._correspond(left, right, path)

    def _correspond(self, left: Symbol, right: Symbol, path: _Path) -> list[_Item]:
        self.to_right[left] = right
        self.to_left[right] = left
        return self._pairs(left, right, SYMBOL_FIELDS[type(left)], path)

    def _mismatch(self, left: Symbol, right: Symbol) -> str:
        if (known := self.to_right.get(left)) is not None:
            return f"{left.name!r} corresponds to {known.name!r}, not to {right.name!r}"
        other = self.to_left[right].name
        return f"{right.name!r} corresponds to {other!r}, not to {left.name!r}"
