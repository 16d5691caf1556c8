"""From a function of Python to a tensor program."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from tensorsmith.errors import DTypeError, ScriptError
from tensorsmith.ir.dtype import DType
from tensorsmith.ir.expr import Var
from tensorsmith.ir.module import Param, TensorProgram
from tensorsmith.ir.stmt import Attrs
from tensorsmith.script.parser.environment import Environment, Role
from tensorsmith.script.parser.source import SourceText
from tensorsmith.script.parser.statements import StatementParser
from tensorsmith.script.terms.memory import BufferType, ScalarType


def parse_function(
    source: SourceText,
    node: ast.FunctionDef,
    outer: Sequence[Mapping[str, object]],
    *,
    name: str | None = None,
    attrs: Attrs,
    trusted: bool,
) -> TensorProgram:
    """The tensor program that a function describes.

    outer: the names around the function, innermost first.
    name: that of the program, if not the function's own.
    trusted: see `Evaluator`.
    Raises ScriptError, DTypeError or ShapeError, at the place in the source.
    """
    parser = StatementParser(source, Environment(outer), trusted=trusted)
    params = _params(parser, node)
    body = parser.sequence(node.body)
    own_name = node.name if name is None else name
    return TensorProgram(own_name, params, body, attrs, span=source.span(node))


def _params(parser: StatementParser, node: ast.FunctionDef) -> tuple[Param, ...]:
    a = node.args
    if a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs or a.defaults:
        raise parser.error(node, "a tensor program has plain parameters, without defaults")
    seen: set[str] = set()
    for arg in a.args:
        if arg.arg in seen:
            raise ScriptError(
                f"two parameters are called {arg.arg!r}", where=parser.source.span(arg)
            )
        seen.add(arg.arg)
    # Scalars first: the shapes of buffers may use them, also those that come later.
    scalars = {arg.arg: var for arg in a.args if (var := _scalar(parser, arg)) is not None}
    return tuple(scalars[arg.arg] if arg.arg in scalars else _buffer(parser, arg) for arg in a.args)


def _scalar(parser: StatementParser, arg: ast.arg) -> Var | None:
    if arg.annotation is None:
        raise ScriptError(
            f"the parameter {arg.arg!r} has no type",
            where=parser.source.span(arg),
            try_=f'{arg.arg}: T.Buffer(shape, "float32"), or {arg.arg}: T.int32',
        )
    annotation = arg.annotation
    if parser.evaluator.callee(annotation) is BufferType:
        return None
    type_ = parser.evaluator.evaluate(annotation)
    with parser.source.place(annotation):
        if isinstance(type_, DType):
            var = Var(arg.arg, type_)
        elif isinstance(type_, ScalarType):
            var = type_.named(arg.arg)
        elif isinstance(type_, BufferType):
            return None
        else:
            raise DTypeError(
                f"{type_!r} is not the type of a parameter",
                try_='T.Buffer(shape, "float32"), or T.int32',
            )
    parser.define(arg, var, Role.PARAMETER)
    return var


def _buffer(parser: StatementParser, arg: ast.arg) -> Param:
    assert arg.annotation is not None
    annotation = arg.annotation
    type_ = parser.evaluator.evaluate(annotation)
    assert isinstance(type_, BufferType)
    with parser.source.place(annotation):
        buffer = type_.named(arg.arg, parser.source.span(arg))
    parser.define(arg, buffer, Role.PARAMETER)
    return buffer
