"""Whether a value read from a text is what a primitive takes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from tensorsmith.ir import Expr, IndexMap
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef


def check_arguments(
    name: str, primitive: Callable[..., Any], arguments: Mapping[str, object]
) -> None:
    """Raise ScheduleError where an argument is of another type than the primitive declares.

    Only what a trace can hold is told apart; a type that is none of that accepts everything.
    """
    parameters = inspect.signature(primitive).parameters
    for key, value in arguments.items():
        declared = str(parameters[key].annotation)
        if not fits(value, declared):
            raise ScheduleError(
                f"{name} does not take {str(value)[:60]!r} for {key!r}", given=f"wanted: {declared}"
            )


def fits(value: object, declared: str) -> bool:
    """Whether the value is of a type, given as the text of an annotation.

    >>> fits([1, None], "Sequence[int | None]"), fits(["a"], "Sequence[int]"), fits(True, "int")
    (True, False, False)
    """
    return _fits(value, ast.parse(declared, mode="eval").body)


def _fits(value: object, declared: ast.expr) -> bool:
    match declared:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _fits(value, left) or _fits(value, right)
        case ast.Constant(value=None):
            return value is None
        case ast.Name(id=name):
            test = _TESTS.get(name)
            return test is None or test(value)
        case ast.Subscript(value=ast.Name(id="Sequence" | "list"), slice=inner):
            return isinstance(value, (list, tuple)) and all(_fits(v, inner) for v in value)
        case ast.Subscript(value=ast.Name(id="Callable")):
            return callable(value)
    return True


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TESTS: Final[Mapping[str, Callable[[object], bool]]] = {
    "BlockRef": lambda v: isinstance(v, BlockRef),
    "LoopRef": lambda v: isinstance(v, LoopRef),
    "IndexMap": lambda v: isinstance(v, IndexMap),
    "Expr": lambda v: isinstance(v, Expr),
    "ExprLike": lambda v: isinstance(v, Expr) or _is_number(v),
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "float": _is_number,
    "bool": lambda v: isinstance(v, bool),
    "str": lambda v: isinstance(v, str),
}
