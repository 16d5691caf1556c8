"""The structural hash: a digest of a term's parts, in which symbols and nodes are numbers."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping

from tensorsmith.ir.buffer import Buffer, IndexMap
from tensorsmith.ir.expr import Expr, Load, Var
from tensorsmith.ir.graph import GraphFunction, Opaque
from tensorsmith.ir.module import TensorProgram
from tensorsmith.ir.parts import (
    FIELDS,
    SYMBOL_FIELDS,
    Defined,
    Symbol,
    Term,
    fields_of,
    leaf_text,
    own_text,
    statements,
)
from tensorsmith.ir.stmt import Stmt


def structural_hash(x: Term) -> str:
    """A hex digest which terms that are equal share, in every process and on every machine.

    Free variables and buffers count by the position of their first use.
    """
    hasher = _Hasher()
    hasher.walk(x)
    return hashlib.blake2b("\n".join(hasher.tokens).encode(), digest_size=16).hexdigest()


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
        if isinstance(value, (Buffer, Opaque)):
            self.tokens.append(self._symbol(value))
            return []
        if isinstance(value, Defined):
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
            self.tokens.append(leaf_text(value))
            return []
        self.tokens.append(type(value).__name__)
        return [field for _, field in fields_of(value, names)]

    def _closed(self, value: object) -> object:
        """The digest of a function of a module, which has numbers of its own; else `value`."""
        return (
            structural_hash(value) if isinstance(value, (TensorProgram, GraphFunction)) else value
        )

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
                text = f"{type(e).__name__} {own_text(e)}{buffer} {operands}"
            self.tokens.append(text)
            nodes[e] = len(nodes)
        return f"expr {nodes[root]}"

    def _symbol(self, symbol: Symbol) -> str:
        number = self.symbols.get(symbol)
        if number is None:
            number = self.symbols[symbol] = next(self.fresh)
            self.tokens.append(f"{type(symbol).__name__} {number}")
            for _, value in fields_of(symbol, SYMBOL_FIELDS[type(symbol)]):
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
