"""Structural equality, hashing and difference, up to the names of variables and buffers.

Two terms are equal when one becomes the other by renaming what it defines: parameters, dimensions,
loop variables, iterators, bindings, allocations, inputs of index maps. Names (also of blocks and of
a program by itself), spans, and the nesting of sequences do not count. Facts about variables,
dtypes, scopes, attributes, messages and the names of a module's functions do; the order of
functions and attributes does not.

A program is closed, so its dimensions correspond by position. What is free in a bare expression or
statement means something outside of it, and corresponds to itself only, unless `map_free_vars`.

All walks are iterative, and visit each pair of expression nodes once: a shared subexpression costs
nothing, and no depth overflows Python's stack.
"""

from __future__ import annotations

import enum
import hashlib
import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from tensorsmith.errors import Span
from tensorsmith.ir.buffer import Buffer, IndexMap, Region
from tensorsmith.ir.dtype import DType
from tensorsmith.ir.expr import Call, Cast, Const, Expr, Load, Reinterpret, Select, Var
from tensorsmith.ir.module import IRModule, TensorProgram
from tensorsmith.ir.stmt import (
    Alloc,
    Assert,
    Bind,
    Block,
    For,
    If,
    Invoke,
    Iter,
    Seq,
    Stmt,
    Store,
    While,
)

Term: TypeAlias = Expr | Stmt | TensorProgram | IRModule
Symbol: TypeAlias = Var | Buffer

FIELDS: Final[Mapping[type, tuple[str, ...]]] = {
    Store: ("buffer", "indices", "value"),
    Bind: ("value", "=var"),
    Alloc: ("=buffer",),
    Assert: ("condition", "message"),
    Invoke: ("callee", "args"),
    If: ("condition", "then", "orelse"),
    While: ("condition", "body"),
    For: ("kind", "thread", "start", "extent", "=var", "attrs", "body"),
    Iter: ("kind", "start", "extent", "binding", "=var"),
    Block: ("iters", "predicate", "reads", "writes", "attrs", "init", "body"),
    Region: ("buffer", "ranges"),
    TensorProgram: ("=params", "attrs", "body"),
    IRModule: ("attrs", "functions"),
}
"""What of each class counts, in the order of the walk. '=' marks what defines a symbol."""

SYMBOL_FIELDS: Final[Mapping[type, tuple[str, ...]]] = {
    Var: ("dtype", "low", "high", "multiple_of"),
    Buffer: ("dtype", "shape", "strides", "offset", "layout", "scope", "align"),
}
"""What of a variable and of a buffer counts, when it corresponds to another one."""


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


def structural_hash(x: Term) -> str:
    """A hex digest which terms that are equal share, in every process and on every machine.

    Free variables and buffers count by the position of their first use.
    """
    hasher = _Hasher()
    hasher.walk(x)
    return hashlib.blake2b("\n".join(hasher.tokens).encode(), digest_size=16).hexdigest()


def diff(a: Term, b: Term, *, map_free_vars: bool = False) -> Difference | None:
    """The first difference between two terms, in the order of their text; None if they are equal.

    map_free_vars: as for `structural_equal`.
    """
    closed = isinstance(a, (TensorProgram, IRModule))
    return _Matcher(map_free=closed or map_free_vars).run(a, b, None)


# --- Parts of a term -------------------------------------------------------------------------


class _Defined:
    """A symbol at the place of its definition."""

    __slots__ = ("symbol",)

    def __init__(self, symbol: Symbol) -> None:
        self.symbol = symbol


def statements(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements of `stmt` in order, sequences flattened at every depth."""
    flat: list[Stmt] = []
    stack = [stmt]
    while stack:
        top = stack.pop()
        if isinstance(top, Seq):
            stack.extend(reversed(top.stmts))
        else:
            flat.append(top)
    return tuple(flat)


def _defined(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(_Defined(v) for v in value)
    assert isinstance(value, (Var, Buffer))
    return _Defined(value)


def _fields(node: object, names: Iterable[str]) -> Iterator[tuple[str, object]]:
    """The fields of `node` as (label, value); statements as tuples of statements."""
    for name in names:
        if name[0] == "=":
            yield f".{name[1:]}", _defined(getattr(node, name[1:]))
        else:
            value = getattr(node, name)
            yield f".{name}", statements(value) if isinstance(value, Stmt) else value


def _operand_labels(e: Expr) -> tuple[str, ...]:
    if isinstance(e, Select):
        return (".condition", ".a", ".b")
    if isinstance(e, (Load, Call)):
        part = "indices" if isinstance(e, Load) else "args"
        return tuple(f".{part}[{k}]" for k in range(len(e.args)))
    return (".a", ".b")[: len(e.args)]


def _own(e: Expr) -> str:
    """What makes up a node besides its class, its operands and its buffer."""
    if isinstance(e, Const):
        value = struct.pack("<d", e.value).hex() if isinstance(e.value, float) else e.value
        return f"{value}:{e.dtype.name}"
    if isinstance(e, (Cast, Reinterpret)):
        return e.dtype.name
    return e.intrinsic.name if isinstance(e, Call) else ""


def _leaf(value: object) -> str:
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, DType):
        return value.name
    return f"{type(value).__name__} {value!r}"


# --- Hashing ---------------------------------------------------------------------------------


class _Hasher:
    """Writes a term as tokens in which symbols and expression nodes are numbers."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.symbols: dict[Symbol, int] = {}
        self.nodes: dict[Expr, int] = {}
        self.fresh = itertools.count()

    def walk(self, root: object) -> None:
        """Append the tokens of `root`."""
        stack: list[object] = [statements(root) if isinstance(root, Stmt) else root]
        while stack:
            stack.extend(reversed(self._visit(stack.pop())))

    def _visit(self, value: object) -> list[object]:
        """Append the tokens of `value` itself; return what comes after them."""
        if isinstance(value, Expr):
            self.tokens.append(self._expr(value))
            return []
        if isinstance(value, Buffer):
            self.tokens.append(self._symbol(value))
            return []
        if isinstance(value, _Defined):
            self.tokens.append(f"define {self._symbol(value.symbol)}")
            return []
        if isinstance(value, tuple):
            self.tokens.append(f"{len(value)} items")
            return list(value)
        if isinstance(value, Mapping):
            keys = sorted(value)
            self.tokens.append(f"keys {keys}")
            return [self._closed(value[key]) for key in keys]
        names = FIELDS.get(type(value))
        if names is None:
            self.tokens.append(_leaf(value))
            return []
        self.tokens.append(type(value).__name__)
        return [field for _, field in _fields(value, names)]

    def _closed(self, value: object) -> object:
        """The digest of a function of a module, which has numbers of its own; else `value`."""
        return structural_hash(value) if isinstance(value, TensorProgram) else value

    def _expr(self, root: Expr) -> str:
        """The number of `root`, after the tokens of those nodes under it that are new."""
        nodes = self.nodes
        stack = [root]
        while stack:
            e = stack[-1]
            if e in nodes:
                stack.pop()
                continue
            pending = [a for a in e.args if a not in nodes]
            if pending:
                stack.extend(reversed(pending))
                continue
            stack.pop()
            if isinstance(e, Var):
                text = self._symbol(e)
            else:
                buffer = self._symbol(e.buffer) if isinstance(e, Load) else ""
                operands = " ".join([str(nodes[a]) for a in e.args])
                text = f"{type(e).__name__} {_own(e)}{buffer} {operands}"
            self.tokens.append(text)
            nodes[e] = len(nodes)
        return f"expr {nodes[root]}"

    def _symbol(self, symbol: Symbol) -> str:
        number = self.symbols.get(symbol)
        if number is None:
            number = self.symbols[symbol] = next(self.fresh)
            self.tokens.append(f"{type(symbol).__name__} {number}")
            for _, value in _fields(symbol, SYMBOL_FIELDS[type(symbol)]):
                if isinstance(value, IndexMap):
                    self._index_map(value)
                else:
                    self.walk(value)
        return f"#{number}"

    def _index_map(self, index_map: IndexMap) -> None:
        """The inputs are numbered anew each time: maps may be shared between buffers."""
        inner = _Hasher()
        inner.fresh = self.fresh
        inner.symbols = {s: n for s, n in self.symbols.items() if s not in index_map.inputs}
        for position, v in enumerate(index_map.inputs):
            inner.tokens.append(f"input {v.dtype.name} {v.low} {v.high} {v.multiple_of}")
            inner.symbols[v] = -1 - position
        inner.walk(index_map.outputs)
        self.tokens.extend(inner.tokens)
        for symbol, number in inner.symbols.items():
            if number >= 0:
                self.symbols.setdefault(symbol, number)


# --- Difference ------------------------------------------------------------------------------


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
    if isinstance(value, _Defined):
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
        if isinstance(left, Buffer) and isinstance(right, Buffer):
            return self._use(left, right, path)
        if isinstance(left, _Defined) and isinstance(right, _Defined):
            return self._define(left.symbol, right.symbol, path)
        if isinstance(left, tuple) and isinstance(right, tuple):
            return self._visit_tuple(left, right, path)
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            return self._visit_mapping(left, right, path)
        if isinstance(left, IndexMap) and isinstance(right, IndexMap):
            return self._visit_index_map(left, right, path)
        if (names := FIELDS.get(type(left))) is not None:
            return self._pairs(left, right, names, path)
        if _leaf(left) != _leaf(right):
            raise _different("different values", left, right, path)
        return []

    def _pairs(self, left: object, right: object, names: Iterable[str], path: _Path) -> list[_Item]:
        sides = zip(_fields(left, names), _fields(right, names), strict=True)
        return [(a, b, _Path(label, path, a, b)) for (label, a), (_, b) in sides]

    def _visit_expr(self, left: Expr, right: Expr, path: _Path) -> list[_Item]:
        if self.matched.get(left) is right:
            return []
        if isinstance(left, Var) and isinstance(right, Var):
            return self._use(left, right, path)
        if len(left.args) != len(right.args) or _own(left) != _own(right):
            raise _different("different expressions", left, right, path)
        # Any difference below ends the whole walk, so the pair may be taken as equal already.
        self.matched[left] = right
        labels = _operand_labels(left)
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
            if not isinstance(a, TensorProgram):
                items.append((a, b, inner))
            elif a is not b and (found := _Matcher(map_free=True).run(a, b, inner)) is not None:
                raise _DifferentError(found)
        return items

    def _visit_index_map(self, left: IndexMap, right: IndexMap, path: _Path) -> list[_Item]:
        """The inputs correspond inside the maps alone: a map may be shared between buffers."""
        inner = _Matcher(map_free=self.map_free)
        inner.to_right = {s: t for s, t in self.to_right.items() if s not in left.inputs}
        inner.to_left = {t: s for t, s in self.to_left.items() if t not in right.inputs}
        inputs = tuple(map(_Defined, left.inputs)), tuple(map(_Defined, right.inputs))
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
