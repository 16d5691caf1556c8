"""From statements of Python to statements of tensor programs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from tensorsmith import script
from tensorsmith.errors import DTypeError, ScriptError, Span
from tensorsmith.ir.buffer import Buffer
from tensorsmith.ir.dtype import DType, bool_, index
from tensorsmith.ir.expr import Expr, Load, Var, as_expr
from tensorsmith.ir.stmt import (
    NO_ATTRS,
    Alloc,
    Assert,
    Bind,
    For,
    If,
    Invoke,
    LoopKind,
    Stmt,
    Store,
    View,
    While,
    seq,
)
from tensorsmith.script.parser import blocks
from tensorsmith.script.parser.environment import Environment, Role, redefined
from tensorsmith.script.parser.expressions import Evaluator, distance
from tensorsmith.script.parser.source import SourceText
from tensorsmith.script.terms.blocks import BlockStart, Clause, InitStart, Iteration, Remap
from tensorsmith.script.terms.calls import Invocation
from tensorsmith.script.terms.loops import Loops
from tensorsmith.script.terms.memory import Allocation, Viewing


class StatementParser:
    """Parses the statements of one function.

    loops: the start and extent of each loop that was met, by its variable.
    """

    def __init__(self, source: SourceText, environment: Environment, *, trusted: bool) -> None:
        self.source = source
        self.environment = environment
        self.evaluator = Evaluator(source, environment, trusted=trusted)
        self.loops: dict[Var, tuple[Expr, Expr]] = {}

    def body(self, nodes: Iterable[ast.stmt]) -> Stmt:
        """Statements in a scope of their own."""
        with self.environment.scope():
            return self.sequence(nodes)

    def sequence(self, nodes: Iterable[ast.stmt]) -> Stmt:
        """Statements, one after the other."""
        return seq(*(stmt for node in nodes for stmt in self.statement(node)))

    def statement(self, node: ast.stmt) -> list[Stmt]:
        """What one statement of Python means: nothing, one statement, or the unrolled ones."""
        handler = self._HANDLERS.get(type(node))
        if handler is None:
            raise self.error(node, f"{_describe(node)} cannot be used in a script", _hint(node))
        try:
            with self.source.place(node):
                return handler(self, node)
        except RecursionError:
            raise self.error(
                node, "this is nested too deeply", "T.alias to name a part of an expression"
            ) from None

    def error(self, node: ast.stmt | ast.expr, what: str, hint: str | None = None) -> ScriptError:
        """An error at `node`."""
        return ScriptError(what, where=self.source.span(node), try_=hint)

    def value(self, node: ast.expr, like: DType, what: str) -> Expr:
        """An expression that must be of the dtype `like`, as `what` is."""
        e = self.evaluator.expr(node, like)
        if e.dtype is not like:
            raise DTypeError(
                f"{what} is {like}, and the value is {e.dtype}",
                where=self.source.span(node),
                given=f"{e!r}: {e.dtype}",
                try_=f"T.{like}(...)",
            )
        return e

    def define(self, target: ast.expr | ast.arg, value: object, role: Role) -> None:
        """Give the name that `target` is a meaning."""
        if not isinstance(target, (ast.Name, ast.arg)):
            raise self.error(target, "this needs a plain name")
        name = target.id if isinstance(target, ast.Name) else target.arg
        with self.source.place(target):
            self.environment.define(name, value, role, self.source.span(target).line)

    # Assignments

    def _assign(self, node: ast.Assign) -> list[Stmt]:
        if len(node.targets) != 1:
            raise self.error(node, "an assignment has one target", "one assignment a line")
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            buffer = self._stored_buffer(target)
            value = self.value(node.value, buffer.dtype, repr(buffer.name))
            return [self._store(node, target, buffer, value)]
        value = self.evaluator.evaluate(node.value)
        if self.is_textual(node.value):
            with self.source.place(target):
                self.evaluator.assign_static(target, value)
            return []
        return self._define(node, target, value)

    def is_textual(self, node: ast.expr) -> bool:
        """Whether an assigned value is a matter of the parser alone."""
        callee = self.evaluator.callee(node)
        return callee is script.alias or callee is script.static

    def _define(self, node: ast.Assign, target: ast.expr, value: object) -> list[Stmt]:
        if isinstance(value, (Remap, Iteration)):
            raise self.error(node, _MISPLACED)
        if not isinstance(target, ast.Name):
            raise self.error(target, _NO_TARGET)
        span = self.source.span(node)
        if isinstance(value, (Allocation, Viewing)):
            with self.source.place(node.value):
                buffer = value.type.named(target.id, self.source.span(target))
            self.define(target, buffer, Role.BUFFER)
            if isinstance(value, Viewing):
                return [View(buffer, value.source, value.offset, span=span)]
            return [Alloc(buffer, span=span)]
        if isinstance(value, (Expr, bool, int, float)):
            return [self._bind(target, as_expr(value), span)]
        with self.source.place(target):
            self.environment.assign(target.id, value, span.line)
        return []

    def _bind(self, target: ast.Name, value: Expr, span: Span) -> Stmt:
        var = Var(target.id, value.dtype)
        self.define(target, var, Role.VALUE)
        return Bind(var, value, span=span)

    def _annotated(self, node: ast.AnnAssign) -> list[Stmt]:
        type_ = self.evaluator.evaluate(node.annotation)
        if (
            not isinstance(type_, DType)
            or node.value is None
            or not isinstance(node.target, ast.Name)
        ):
            raise self.error(node, "an annotated value reads `name: T.float32 = value`")
        value = self.value(node.value, type_, repr(node.target.id))
        return [self._bind(node.target, value, self.source.span(node))]

    def _augmented(self, node: ast.AugAssign) -> list[Stmt]:
        if isinstance(node.target, ast.Subscript):
            buffer = self._stored_buffer(node.target)
            before = self.evaluator.access(buffer, node.target)
            after = self._operate(node, before)
            return [self._store(node, node.target, buffer, as_expr(after))]
        if not isinstance(node.target, ast.Name):
            raise self.error(node.target, _NO_TARGET)
        name = node.target.id
        meaning = self.environment.find(name)
        if meaning is None:
            raise self.error(node, f"{name!r} is not defined by the script")
        if meaning.role is not Role.STATIC:
            raise redefined(name, meaning)
        after = self._operate(node, meaning.value)
        self.environment.assign(name, after, meaning.line)
        return []

    def _operate(self, node: ast.AugAssign, before: object) -> Any:
        return self.evaluator.operate(node.op, before, self.evaluator.evaluate(node.value))

    def _stored_buffer(self, target: ast.Subscript) -> Buffer:
        buffer = self.evaluator.evaluate(target.value)
        if not isinstance(buffer, Buffer):
            raise self.error(target, "only elements of buffers can be assigned to")
        return buffer

    def _store(self, node: ast.stmt, target: ast.Subscript, buffer: Buffer, value: Expr) -> Stmt:
        with self.source.place(target):
            access = self.evaluator.access(buffer, target)
            if not isinstance(access, Load):
                raise ScriptError(
                    "a store writes one element, not a region", try_="a loop over the elements"
                )
        return Store(buffer, access.indices, value, span=self.source.span(node))

    # Simple statements

    def _pass(self, node: ast.Pass) -> list[Stmt]:
        return []

    def _expression(self, node: ast.Expr) -> list[Stmt]:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return []
        value = self.evaluator.evaluate(node.value)
        if isinstance(value, Invocation):
            if value.inplace:
                raise self.error(node, "`inplace` has a meaning in graph functions only")
            return [Invoke(value.callee, value.args, span=self.source.span(node))]
        if isinstance(value, (Clause, Iteration, Remap)):
            raise self.error(node, _MISPLACED)
        if isinstance(value, (BlockStart, InitStart)):
            raise self.error(
                node, "a block and its init stand in a `with`", 'with T.block("name"):'
            )
        raise self.error(node, "this expression does nothing", "an assignment, or T.call(...)")

    def _assertion(self, node: ast.Assert) -> list[Stmt]:
        condition = self.evaluator.evaluate(node.test)
        message = "" if node.msg is None else self.evaluator.evaluate(node.msg)
        if not isinstance(message, str):
            raise self.error(node, "the message of an assertion is a string")
        if isinstance(condition, Expr):
            self._check_condition(node.test, condition)
            return [Assert(condition, message, span=self.source.span(node))]
        if not condition:
            raise self.error(node.test, f"the assertion fails: {message}")
        return []

    def _check_condition(self, node: ast.expr, condition: Expr) -> None:
        if not condition.dtype.is_bool:
            raise DTypeError(
                f"a condition is bool, and this is {condition.dtype}",
                where=self.source.span(node),
                try_="a comparison, as in x != 0",
            )

    # Control flow

    def _if(self, node: ast.If) -> list[Stmt]:
        condition = self.evaluator.evaluate(node.test)
        if not isinstance(condition, Expr):
            chosen = node.body if condition else node.orelse
            return [stmt for each in chosen for stmt in self.statement(each)]
        branches = [self._branch(node, condition)]
        # A chain of `elif` is a deep tree, which is walked without recursion.
        rest = node.orelse
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            chained = rest[0]
            condition = self.evaluator.evaluate(chained.test)
            if isinstance(condition, Expr):
                branches.append(self._branch(chained, condition))
                rest = chained.orelse
            else:
                rest = chained.body if condition else chained.orelse
        stmt = self.body(rest) if rest else None
        for branch in reversed(branches):
            stmt = replace(branch, orelse=stmt)
        assert stmt is not None
        return [stmt]

    def _branch(self, node: ast.If, condition: Expr) -> If:
        self._check_condition(node.test, condition)
        return If(condition, self.body(node.body), span=self.source.span(node))

    def _while(self, node: ast.While) -> list[Stmt]:
        if node.orelse:
            raise self.error(node.orelse[0], "a loop of a script has no `else`")
        condition = self.evaluator.expr(node.test, bool_)
        self._check_condition(node.test, condition)
        return [While(condition, self.body(node.body), span=self.source.span(node))]

    def _with(self, node: ast.With) -> list[Stmt]:
        item = node.items[0]
        if len(node.items) != 1 or item.optional_vars is not None:
            raise self.error(node, "`with` opens one block here, without `as`")
        value = self.evaluator.evaluate(item.context_expr)
        if isinstance(value, BlockStart):
            return [blocks.parse_block(self, node, value)]
        if isinstance(value, InitStart):
            raise self.error(
                item.context_expr, "T.init() stands once, at the start of a block, before its body"
            )
        raise self.error(node, "`with` opens a block here", 'with T.block("name"):')

    def _for(self, node: ast.For) -> list[Stmt]:
        if node.orelse:
            raise self.error(node.orelse[0], "a loop of a script has no `else`")
        if isinstance(node.iter, ast.Call) and self.evaluator.callee(node.iter) is range:
            loops: object = self._range(node.iter)
        else:
            loops = self.evaluator.evaluate(node.iter)
        if isinstance(loops, Loops):
            return [self._loops(node, loops)]
        return self._unrolled(node, loops)

    def _range(self, call: ast.Call) -> Loops:
        bounds = [self.evaluator.index(arg) for arg in call.args]
        if len(bounds) not in (1, 2) or call.keywords:
            raise self.error(
                call,
                "range takes an extent, or a start and a stop",
                "for a step: range(extent // step), and the variable times the step",
            )
        start, stop = bounds if len(bounds) == 2 else (as_expr(0), bounds[0])
        return Loops(LoopKind.SERIAL, (distance(start, stop),), start, None, NO_ATTRS)

    def _loops(self, node: ast.For, loops: Loops) -> Stmt:
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        if len(targets) != len(loops.extents):
            raise self.error(
                node.target,
                f"loops need a variable each: {len(targets)} for {len(loops.extents)} loops",
            )
        span = self.source.span(node)
        with self.environment.scope():
            variables = []
            for target, extent in zip(targets, loops.extents, strict=True):
                var = Var(target.id if isinstance(target, ast.Name) else "", index)
                self.define(target, var, Role.LOOP)
                self.loops[var] = loops.start, extent
                variables.append(var)
            stmt = self.sequence(node.body)
        for var, extent in zip(reversed(variables), reversed(loops.extents), strict=True):
            stmt = For(
                var, extent, stmt, loops.kind, loops.start, loops.thread, loops.attrs, span=span
            )
        return stmt

    def _unrolled(self, node: ast.For, iterable: object) -> list[Stmt]:
        unrolled: list[Stmt] = []
        with self.source.place(node.iter):
            for item in self.evaluator.items(iterable):
                with self.environment.scope():
                    self.evaluator.assign_static(node.target, item)
                    for each in node.body:
                        unrolled.extend(self.statement(each))
        return unrolled

    _HANDLERS: ClassVar[Mapping[type[ast.stmt], Callable[[StatementParser, Any], list[Stmt]]]] = {
        ast.AnnAssign: _annotated,
        ast.Assert: _assertion,
        ast.Assign: _assign,
        ast.AugAssign: _augmented,
        ast.Expr: _expression,
        ast.For: _for,
        ast.If: _if,
        ast.Pass: _pass,
        ast.While: _while,
        ast.With: _with,
    }


_NO_TARGET: Final = "only names and elements of buffers can be assigned to"
_MISPLACED: Final = (
    "iterators, T.where, T.reads, T.writes and T.block_attrs stand at the start of a block"
)


def _describe(node: ast.stmt) -> str:
    return _WORDS.get(type(node)) or f"the Python statement {type(node).__name__!r}"


def _hint(node: ast.stmt) -> str | None:
    return _HINTS.get(type(node))


_WORDS: Final[Mapping[type[ast.stmt], str]] = {
    ast.Return: "`return`",
    ast.Break: "`break`",
    ast.Continue: "`continue`",
    ast.Import: "`import`",
    ast.ImportFrom: "`import`",
    ast.Try: "`try`",
    ast.Raise: "`raise`",
    ast.FunctionDef: "a function in a function",
    ast.ClassDef: "a class",
    ast.Match: "`match`",
    ast.Delete: "`del`",
    ast.Global: "`global`",
    ast.Nonlocal: "`nonlocal`",
}
_HINTS: Final[Mapping[type[ast.stmt], str]] = {
    ast.Return: "results are written to a parameter",
    ast.Break: "a condition in a `while`, or an `if` around the rest of the body",
    ast.Continue: "an `if` around the rest of the body",
    ast.Raise: "assert condition, message",
    ast.FunctionDef: "a Python function around the script that returns an expression",
    ast.Match: "`if` and `elif`",
}
