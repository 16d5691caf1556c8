"""From a function of Python to a graph function."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np

from tensorsmith.errors import DTypeError, ScriptError, ShapeError, Span
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.content import content_hash
from tensorsmith.ir.dtype import DType, Kind
from tensorsmith.ir.expr import Const, Expr, Var
from tensorsmith.ir.graph import (
    Alias,
    Apply,
    Binding,
    Body,
    Branch,
    CallExtern,
    CallProgram,
    Check,
    Constant,
    Dims,
    GraphFunction,
    Loop,
    MatchShape,
    Opaque,
    Value,
)
from tensorsmith.ir.stmt import Attrs
from tensorsmith.script.parser.environment import Environment, Role
from tensorsmith.script.parser.expressions import Evaluator
from tensorsmith.script.parser.source import SourceText
from tensorsmith.script.terms.calls import Invocation
from tensorsmith.script.terms.graphs import (
    ApplyNote,
    ExternNote,
    KnownNote,
    LoopNote,
    MatchNote,
    OpaqueType,
    ReadNote,
    ReshapedNote,
    SourceNote,
)
from tensorsmith.script.terms.memory import BufferType, ScalarType

Array = np.ndarray[Any, np.dtype[Any]]
Note: TypeAlias = (
    "ApplyNote | ExternNote | KnownNote | LoopNote | MatchNote | ReshapedNote | Invocation"
)
_NOTES: Final = (ApplyNote, ExternNote, KnownNote, LoopNote, MatchNote, ReshapedNote, Invocation)
MAX_DEPTH: Final = 64
"""Bodies inside of each other."""


@dataclass
class _Lines:
    """The bindings of one body under way. declared: the types of names that get a value later."""

    bindings: list[Binding] = field(default_factory=list)
    declared: dict[str, object] = field(default_factory=dict)


def parse_graph_function(
    source: SourceText,
    node: ast.FunctionDef,
    outer: Sequence[Mapping[str, object]],
    *,
    name: str | None = None,
    attrs: Attrs,
    trusted: bool,
    constants: Mapping[str, Array],
) -> GraphFunction:
    """The graph function that a function describes. As `parse_function` otherwise.

    constants: arrays by the hash of their content, for the constants that the text names so.
    """
    parser = _GraphParser(source, Environment(outer), constants, trusted=trusted)
    params = parser.params(node)
    if any(isinstance(p, Var) for p in params):
        raise ScriptError("a graph function takes tensors, no scalars", where=source.span(node))
    lines, results = parser.function_body(node)
    own_name = node.name if name is None else name
    values = tuple(p for p in params if not isinstance(p, Var))
    return GraphFunction(own_name, values, tuple(lines), results, attrs, span=source.span(node))


class _GraphParser:
    """Parses the statements of one graph function."""

    def __init__(
        self,
        source: SourceText,
        environment: Environment,
        constants: Mapping[str, Array],
        *,
        trusted: bool,
    ) -> None:
        self.source = source
        self.environment = environment
        self.evaluator = Evaluator(source, environment, trusted=trusted)
        self._constants = constants
        self._sources: tuple[str, ...] = ()
        self._lines = _Lines()
        self._depth = 0

    # Functions and bodies

    def params(self, node: ast.FunctionDef) -> tuple[Value | Var, ...]:
        """The parameters, each with the type of its annotation."""
        a = node.args
        if a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs or a.defaults:
            raise self._error(node, "a graph function has plain parameters, without defaults")
        found: list[Value | Var] = []
        for arg in a.args:
            if arg.annotation is None:
                raise ScriptError(
                    f"the parameter {arg.arg!r} has no type",
                    where=self.source.span(arg),
                    try_=f'{arg.arg}: T.Tensor(shape, "float32")',
                )
            type_ = self.evaluator.evaluate(arg.annotation)
            with self.source.place(arg):
                made = self._named(type_, arg.arg, self.source.span(arg))
                self.environment.define(arg.arg, made, Role.PARAMETER, arg.lineno)
            found.append(made)
        return tuple(found)

    def function_body(self, node: ast.FunctionDef) -> tuple[tuple[Binding, ...], tuple[Value, ...]]:
        """The bindings of a function, and what it returns at its end."""
        *nodes, last = node.body
        if not isinstance(last, ast.Return):
            raise self._error(last, "a graph function ends with `return` and its results")
        bindings = self._sequence(nodes)
        with self.source.place(last):
            return bindings, self._values(last.value)

    def _sequence(self, nodes: Iterable[ast.stmt]) -> tuple[Binding, ...]:
        outer, self._lines = self._lines, _Lines()
        for node in nodes:
            self._statement(node)
        if waiting := next(iter(self._lines.declared), None):
            raise ScriptError(f"{waiting!r} is declared, and gets no value")
        lines, self._lines = self._lines, outer
        return tuple(lines.bindings)

    def _statement(self, node: ast.stmt) -> None:
        handler = self._HANDLERS.get(type(node))
        if handler is None:
            raise self._error(node, "this statement cannot be used in a graph function")
        try:
            with self.source.place(node):
                handler(self, node)
        except RecursionError:
            raise self._error(node, "this is nested too deeply") from None

    def _error(self, node: ast.stmt | ast.expr, what: str, hint: str | None = None) -> ScriptError:
        return ScriptError(what, where=self.source.span(node), try_=hint)

    # Names and types

    def _named(self, type_: object, name: str, span: Span) -> Value | Var:
        if isinstance(type_, BufferType):
            return type_.named(name, span)
        if isinstance(type_, OpaqueType):
            return type_.named(name)
        if isinstance(type_, ScalarType):
            return type_.named(name)
        if isinstance(type_, DType):
            return Var(name, type_)
        raise DTypeError(f"{type_!r} is not the type of a value", try_='T.Tensor(shape, "float32")')

    def _new_value(self, target: ast.expr, type_: object) -> Value:
        assert isinstance(target, ast.Name)
        made = self._named(type_, target.id, self.source.span(target))
        if isinstance(made, Var):
            raise self._error(target, f"{target.id!r} is a tensor, and its type is a scalar's")
        return made

    def _define(self, target: ast.expr, value: Value | Var) -> None:
        if not isinstance(target, ast.Name):
            raise self._error(target, "this needs a plain name")
        with self.source.place(target):
            self.environment.define(target.id, value, Role.VALUE, target.lineno)

    def _declared(self, targets: Sequence[ast.expr]) -> list[object]:
        """The types that lines before have declared for the targets, which now get their value."""
        types = []
        for target in targets:
            name = target.id if isinstance(target, ast.Name) else ""
            if name not in self._lines.declared:
                raise self._error(
                    target,
                    f"{name!r} has no type" if name else "this needs a plain name",
                    f'{name or "x"}: T.Tensor(shape, "float32"), on this line or one before',
                )
            types.append(self._lines.declared.pop(name))
        return types

    def _values(self, node: ast.expr | None) -> tuple[Value, ...]:
        """The values that an expression names."""
        value = () if node is None else self.evaluator.evaluate(node)
        values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        if wrong := [v for v in values if not isinstance(v, (Buffer, Opaque))]:
            raise DTypeError(f"{wrong[0]!r} is not a value of the graph function")
        return values

    # Statements

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            raise self._error(node, "an assignment has one target", "one assignment a line")
        target = node.targets[0]
        value = self.evaluator.evaluate(node.value)
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        if isinstance(value, ReadNote):
            self._read(targets, value, self.source.span(node))
        elif isinstance(value, _NOTES):
            self._bind(targets, self._declared(targets), value, self.source.span(node))
        else:
            with self.source.place(target):
                self.evaluator.assign_static(target, value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        target = node.target
        if not isinstance(target, ast.Name):
            raise self._error(target, "this needs a plain name")
        type_ = self.evaluator.evaluate(node.annotation)
        if node.value is None:
            if target.id in self._lines.declared:
                raise self._error(node, f"{target.id!r} is declared already")
            self._lines.declared[target.id] = type_
            return
        value = self.evaluator.evaluate(node.value)
        span = self.source.span(node)
        if isinstance(value, ReadNote):
            self._lines.declared[target.id] = type_
            self._read([target], value, span)
        elif isinstance(value, _NOTES):
            self._bind([target], [type_], value, span)
        else:
            raise self._error(node.value, "this is no operator, call or constant")

    def _read(self, targets: Sequence[ast.expr], note: ReadNote, span: Span) -> None:
        if len(targets) != len(note.values):
            raise ScriptError(f"{len(note.values)} values for {len(targets)} names")
        variables = []
        for target, value in zip(targets, note.values, strict=True):
            name = target.id if isinstance(target, ast.Name) else ""
            made = self._named(self._lines.declared.pop(name, value.dtype), name, span)
            if not isinstance(made, Var):
                raise self._error(target, f"{name!r} is an integer, and its type is a tensor's")
            self._define(target, made)
            variables.append(made)
        self._emit(Dims(tuple(variables), note.values, sources=self._sources, span=span))

    def _emit(self, binding: Binding) -> None:
        self._lines.bindings.append(binding)

    def _bind(
        self, targets: Sequence[ast.expr], types: Sequence[object], note: Note, span: Span
    ) -> None:
        results = tuple(self._new_value(t, type_) for t, type_ in zip(targets, types, strict=True))
        self._emit(self._binding(results, note, span))
        for target, result in zip(targets, results, strict=True):
            self._define(target, result)

    def _binding(self, results: tuple[Value, ...], note: Note, span: Span) -> Binding:
        place: dict[str, Any] = {"sources": self._sources, "span": span}
        if isinstance(note, ExternNote):
            how = (note.symbol, note.operands, note.attrs, note.is_python, note.is_pure)
            return CallExtern(results, *how, **place)
        if isinstance(note, LoopNote):
            if not isinstance(note.body, Body):
                raise ScriptError("the body of a loop is a function that stands before it")
            states = (note.trip, note.condition, note.initial, note.body, note.has_condition)
            return Loop(results, *states, **place)
        tensors = tuple(r for r in results if isinstance(r, Buffer))
        if len(tensors) < len(results):
            raise ScriptError("operators and programs give tensors, and nothing else")
        if isinstance(note, ApplyNote):
            return Apply(tensors, note.op, note.operands, note.attrs, **place)
        if isinstance(note, Invocation):
            operands = tuple(_operand(a) for a in note.args)
            return CallProgram(tensors, note.callee, operands, note.inplace, **place)
        if len(tensors) != 1:
            raise ScriptError("this gives one tensor")
        if isinstance(note, MatchNote):
            return MatchShape(tensors[0], note.operand, **place)
        if isinstance(note, ReshapedNote):
            return Alias(tensors[0], note.operand, **place)
        return Constant(tensors[0], self._array(tensors[0], note), **place)

    def _array(self, result: Buffer, note: KnownNote) -> Array:
        """The elements of a constant of the type of `result`."""
        shape = tuple(int(e.value) for e in result.shape if isinstance(e, Const))
        dtype = result.dtype
        if len(shape) < result.rank or dtype.numpy is None or dtype.lanes > 1:
            raise ShapeError("a constant has a shape of numbers, and elements that are numbers")
        if note.hash is not None:
            data = self._constants.get(note.hash)
            if data is None:
                raise ScriptError(
                    f"the constant {result.name!r} is not in the text, and was not given with it",
                    given=f"hash {note.hash}",
                    try_="constants={hash: array}, as `constants_of` gives them",
                )
            if content_hash(data) != note.hash:
                raise ScriptError(f"the array given for {result.name!r} has another content")
        elif isinstance(note.values, np.ndarray):
            data = note.values
        else:
            data = _of_numbers(note.values, dtype)
            if data.size == int(np.prod(shape, dtype=object)):
                data = data.reshape(shape)
        if data.shape != shape or data.dtype != dtype.numpy:
            raise ShapeError(
                f"the constant {result.name!r} is {dtype} of shape {shape}, and its elements are"
                f" {data.dtype} of shape {data.shape}"
            )
        return data

    def _expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        value = self.evaluator.evaluate(node.value)
        if isinstance(value, SourceNote):
            self._sources = value.names
        elif isinstance(value, ReadNote):
            self._read([], value, self.source.span(node))
        elif isinstance(value, _NOTES):
            self._bind([], [], value, self.source.span(node))
        else:
            raise self._error(node, "this expression does nothing")

    def _assertion(self, node: ast.Assert) -> None:
        condition = self.evaluator.evaluate(node.test)
        message = "" if node.msg is None else self.evaluator.evaluate(node.msg)
        if not isinstance(message, str):
            raise self._error(node, "the message of an assertion is a string")
        if isinstance(condition, Expr):
            span = self.source.span(node)
            self._emit(Check(condition, message, sources=self._sources, span=span))
        elif not condition:
            raise self._error(node.test, f"the assertion fails: {message}")

    def _pass(self, node: ast.Pass) -> None:
        return

    # Control flow

    def _loop_body(self, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            raise self._error(node, "the body of a loop has no decorator")
        with self._inside(node):
            params = self.params(node)
            bindings, results = self.function_body(node)
        states = tuple(p for p in params if not isinstance(p, Var))
        variables = tuple(p for p in params if isinstance(p, Var))
        body = Body(states, bindings, results, variables)
        self.environment.assign(node.name, body, node.lineno)

    def _if(self, node: ast.If) -> None:
        condition = self.evaluator.evaluate(node.test)
        if not isinstance(condition, Buffer):
            raise self._error(node.test, "a branch is decided by a boolean tensor of shape ()")
        place: dict[str, Any] = {"sources": self._sources, "span": self.source.span(node)}
        targets = self._given(node.body)
        types = self._declared(targets)
        then = self._branch_body(node.body, targets)
        orelse = self._branch_body(node.orelse, targets)
        results = tuple(self._new_value(t, type_) for t, type_ in zip(targets, types, strict=True))
        self._emit(Branch(results, condition, then, orelse, **place))
        for target, result in zip(targets, results, strict=True):
            self._define(target, result)

    def _given(self, nodes: Sequence[ast.stmt]) -> list[ast.expr]:
        """The names to which the last statement of a branch gives its results."""
        last = nodes[-1]
        if not isinstance(last, ast.Assign) or len(last.targets) != 1:
            return []
        target = last.targets[0]
        targets = list(target.elts) if isinstance(target, ast.Tuple) else [target]
        names = [t.id if isinstance(t, ast.Name) else "" for t in targets]
        return targets if all(n in self._lines.declared for n in names) else []

    def _branch_body(self, nodes: Sequence[ast.stmt], targets: Sequence[ast.expr]) -> Body:
        if not targets:
            with self._inside(nodes[0]) if nodes else self.environment.scope():
                return Body((), self._sequence(nodes), ())
        wanted = [t.id for t in targets if isinstance(t, ast.Name)]
        last = nodes[-1] if nodes else None
        given = last.targets[0] if isinstance(last, ast.Assign) else None
        parts = given.elts if isinstance(given, ast.Tuple) else [given]
        names = [p.id for p in parts if isinstance(p, ast.Name)]
        if not isinstance(last, ast.Assign) or names != wanted:
            raise ScriptError(
                "both sides of a branch end by giving the same names their values",
                given=f"one side gives {', '.join(wanted)}",
            )
        with self._inside(last):
            bindings = self._sequence(nodes[:-1])
            with self.source.place(last):
                return Body((), bindings, self._values(last.value))

    @contextmanager
    def _inside(self, node: ast.stmt) -> Iterator[None]:
        """One body deeper, in a scope of its own."""
        if self._depth >= MAX_DEPTH:
            raise self._error(node, f"bodies are nested more than {MAX_DEPTH} deep")
        sources = self._sources
        self._depth += 1
        with self.environment.scope():
            yield
        self._depth -= 1
        self._sources = sources

    _HANDLERS: ClassVar[Mapping[type[ast.stmt], Callable[[_GraphParser, Any], None]]] = {
        ast.AnnAssign: _annotated,
        ast.Assert: _assertion,
        ast.Assign: _assign,
        ast.Expr: _expression,
        ast.FunctionDef: _loop_body,
        ast.If: _if,
        ast.Pass: _pass,
    }


def _operand(argument: Expr | Region) -> Buffer | Expr:
    if isinstance(argument, Expr):
        return argument
    if argument.ranges != argument.buffer.region().ranges:
        raise ScriptError("a graph function passes whole tensors, not regions of them")
    return argument.buffer


def _of_numbers(values: object, dtype: DType) -> Array:
    """An array of numbers, as constants of `dtype` are rounded."""
    numbers = list(values) if isinstance(values, (list, tuple)) else [values]
    elements = [Const(_number(n), dtype).value for n in numbers]
    kind = np.float64 if dtype.is_float or dtype.kind is Kind.STORAGE else object
    return np.array(elements, kind).astype(dtype.numpy)


def _number(value: object) -> bool | int | float:
    if isinstance(value, (bool, int, float)):
        return value
    raise DTypeError(f"{value!r} is not an element of a constant")
