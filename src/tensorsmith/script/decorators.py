"""The decorators of the script form: from functions of the running program to terms."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from types import FrameType, FunctionType
from typing import Any, overload

from tensorsmith.errors import ScriptError
from tensorsmith.ir.graph import GraphFunction
from tensorsmith.ir.module import IRModule, TensorProgram
from tensorsmith.script.parser.environment import PYTHON_BUILTINS
from tensorsmith.script.parser.functions import parse_function
from tensorsmith.script.parser.graphs import parse_graph_function
from tensorsmith.script.parser.source import SourceText, function_source
from tensorsmith.script.terms.attributes import attrs_of
from tensorsmith.verify import verify


@overload
def program(function: Callable[..., Any], /) -> TensorProgram: ...


@overload
def program(
    *, name: str | None = None, attrs: Mapping[str, object] | None = None
) -> Callable[[Callable[..., Any]], TensorProgram]: ...


def program(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    attrs: Mapping[str, object] | None = None,
) -> TensorProgram | Callable[[Callable[..., Any]], TensorProgram]:
    """Make a tensor program of a function, by parsing its source. The function is never run.

    Values of the Python scopes around the function can be used in it. name: of the program, if not
    the function's own. attrs: its attributes.
    Raises ScriptError, DTypeError or ShapeError, at the place in the source, or what
    `tensorsmith.verify.verify` finds.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to the caller's names

    def decorate(function: Callable[..., Any]) -> TensorProgram:
        return _parse(function, frame, name, attrs)

    return decorate if function is None else decorate(function)


@overload
def graph(function: Callable[..., Any], /) -> GraphFunction: ...


@overload
def graph(
    *, name: str | None = None, attrs: Mapping[str, object] | None = None
) -> Callable[[Callable[..., Any]], GraphFunction]: ...


def graph(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    attrs: Mapping[str, object] | None = None,
) -> GraphFunction | Callable[[Callable[..., Any]], GraphFunction]:
    """Make a graph function of a function, as `program` makes a tensor program.

    Not verified: it may call functions of the module that it will stand in.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to the caller's names

    def decorate(function: Callable[..., Any]) -> GraphFunction:
        source, node, outer = _parts("T.graph", function, frame)
        return parse_graph_function(
            source, node, outer, name=name, attrs=attrs_of(attrs), trusted=True, constants={}
        )

    return decorate if function is None else decorate(function)


def _parse(
    function: Callable[..., Any],
    frame: FrameType,
    name: str | None,
    attrs: Mapping[str, object] | None,
) -> TensorProgram:
    source, node, outer = _parts("T.program", function, frame)
    result = parse_function(source, node, outer, name=name, attrs=attrs_of(attrs), trusted=True)
    verify(result)
    return result


def _parts(
    decorator: str, function: Callable[..., Any], frame: FrameType
) -> tuple[SourceText, ast.FunctionDef, tuple[Mapping[str, object], ...]]:
    """The source of a function, and the names around it."""
    if not isinstance(function, FunctionType):
        raise ScriptError(f"{decorator} is for a function, and {function!r} is none")
    source, node = function_source(function)
    names = (_closure(function), *_locals(frame), function.__globals__, PYTHON_BUILTINS)
    return source, node, names


def _closure(function: FunctionType) -> dict[str, object]:
    """The variables of functions around that the function uses, as far as they have a value."""
    names = function.__code__.co_freevars
    found = {}
    for name, cell in zip(names, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _locals(frame: FrameType) -> list[Mapping[str, object]]:
    """The local names where the decorator stands, and around the classes that it stands in."""
    scopes: list[Mapping[str, object]] = [frame.f_locals]
    around: FrameType | None = frame
    while around is not None and _is_class_body(around):
        around = around.f_back
        if around is not None:
            scopes.append(around.f_locals)
    return scopes


def _is_class_body(frame: FrameType) -> bool:
    is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
    return not is_function and frame.f_locals is not frame.f_globals


@overload
def module(cls: type, /) -> IRModule: ...


@overload
def module(*, attrs: Mapping[str, object] | None = None) -> Callable[[type], IRModule]: ...


def module(
    cls: type | None = None, /, *, attrs: Mapping[str, object] | None = None
) -> IRModule | Callable[[type], IRModule]:
    """Make a module of a class whose functions are tensor programs and graph functions.

    Raises ScriptError if a function lacks the decorator `program` or `graph`, or what
    `tensorsmith.verify.verify` finds.
    """

    def decorate(cls: type) -> IRModule:
        members = vars(cls).values()
        for member in members:
            if isinstance(member, FunctionType):
                raise ScriptError(
                    f"{member.__name__!r} of module {cls.__name__!r} is not a tensor program",
                    try_="the decorator @T.program",
                )
        functions = (m for m in members if isinstance(m, (TensorProgram, GraphFunction)))
        result = IRModule.of(*functions, attrs=attrs_of(attrs))
        verify(result)
        return result

    return decorate if cls is None else decorate(cls)
