"""Blocks: their iterators, what they say of themselves, init, and body."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from tensorsmith.errors import ScriptError
from tensorsmith.ir.expr import Expr, Var
from tensorsmith.ir.stmt import Block, Iter, IterKind, Stmt
from tensorsmith.script.parser.environment import Role
from tensorsmith.script.terms import blocks as terms
from tensorsmith.script.terms.blocks import BlockStart, Clause, Iteration, Remap

if TYPE_CHECKING:
    from tensorsmith.script.parser.statements import StatementParser

_ITERATORS: Final = (terms.spatial, terms.reduce, terms.opaque, terms.remap)
_CLAUSES: Final = (terms.where, terms.reads, terms.writes, terms.block_attrs)


def parse_block(parser: StatementParser, node: ast.With, start: BlockStart) -> Block:
    """The block that a ``with`` opens."""
    header = _Header(parser)
    with parser.environment.scope():
        rest = list(node.body)
        while rest and header.take(rest[0]):
            del rest[0]
        init = _init(parser, rest[0]) if rest else None
        body = parser.sequence(rest if init is None else rest[1:])
    iters = tuple(header.iters)
    return Block(start.name, iters, body, init, span=parser.source.span(node), **header.clauses)


def _init(parser: StatementParser, node: ast.stmt) -> Stmt | None:
    if not isinstance(node, ast.With) or len(node.items) != 1:
        return None
    if parser.evaluator.callee(node.items[0].context_expr) is not terms.init:
        return None
    return parser.body(node.body)


class _Header:
    """The iterators and clauses at the start of a block."""

    def __init__(self, parser: StatementParser) -> None:
        self._parser = parser
        self.iters: list[Iter] = []
        self.clauses: dict[str, Any] = {}
        """The fields of the block that clauses have set."""

    def take(self, node: ast.stmt) -> bool:
        """Read `node` if it is a part of the header; else say that it is not."""
        if not isinstance(node, (ast.Assign, ast.Expr)):
            return False
        callee = self._parser.evaluator.callee(node.value)
        if isinstance(node, ast.Expr) and callee in _CLAUSES:
            self._clause(node)
        elif isinstance(node, ast.Assign) and callee in _ITERATORS:
            self._iterators(node)
        elif isinstance(node, ast.Assign) and self._parser.is_textual(node.value):
            self._parser.statement(node)
        else:
            return False
        return True

    def _clause(self, node: ast.Expr) -> None:
        clause = self._parser.evaluator.evaluate(node.value)
        assert isinstance(clause, Clause)
        if clause.field in self.clauses:
            function = ast.unparse(node.value).partition("(")[0]
            raise self._parser.error(node, f"a block has one {function}(...), and this is another")
        self.clauses[clause.field] = clause.value

    def _iterators(self, node: ast.Assign) -> None:
        value = self._parser.evaluator.evaluate(node.value)
        target = node.targets[0]
        if isinstance(value, Iteration):
            self._add(target, value)
            return
        assert isinstance(value, Remap)
        targets = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        if len(targets) != len(value.loops):
            raise self._parser.error(
                target, f"iterators need a name each: {len(targets)} for {len(value.loops)}"
            )
        with self._parser.source.place(node.value):
            iterations = [
                self._remapped(*pair) for pair in zip(value.kinds, value.loops, strict=True)
            ]
        for name, iteration in zip(targets, iterations, strict=True):
            self._add(name, iteration)

    def _remapped(self, kind: IterKind, loop: Expr) -> Iteration:
        found = self._parser.loops.get(loop) if isinstance(loop, Var) else None
        if found is None:
            raise ScriptError(
                f"T.remap takes variables of the loops around the block, and {loop!r} is none",
                try_="T.spatial(extent, value), T.reduce or T.opaque for other values",
            )
        start, extent = found
        return Iteration(kind, extent, loop, start)

    def _add(self, target: ast.expr, iteration: Iteration) -> None:
        var = Var(target.id if isinstance(target, ast.Name) else "")
        self._parser.define(target, var, Role.ITERATOR)
        it = Iter(var, iteration.extent, iteration.kind, iteration.binding, iteration.start)
        self.iters.append(it)
