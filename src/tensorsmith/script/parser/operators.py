"""Python's operators on values of a script: terms if an operand is one, else Python's results."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tensorsmith.errors import DTypeError, ScriptError, TensorsmithError
from tensorsmith.ir.expr import Expr, equal, not_equal

MAX_BITS: Final = 4096
"""Bits of an integer that the parser computes."""

_OPERATORS: Final[Mapping[type[ast.operator], Callable[[Any, Any], object]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}
_GROWING: Final = (ast.Mult, ast.Pow, ast.LShift)
_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], object]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_ON_EXPRS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Expr]]] = {
    ast.Eq: equal,
    ast.NotEq: not_equal,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_SYMBOLS: Final[Mapping[type[ast.AST], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.MatMult: "@",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


PYTHON_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What Python raises about wrong values."""
_CANNOT: Final = "Python cannot compute this: "


@contextmanager
def python_errors(
    prefix: str = _CANNOT, hint: Callable[[], str | None] = lambda: None
) -> Iterator[None]:
    """Turn what Python raises about wrong values into a ScriptError, which gives the hint."""
    try:
        yield
    except TensorsmithError:
        raise
    except PYTHON_ERRORS as error:
        raise ScriptError(f"{prefix}{error}", try_=hint()) from error


def operate(op: ast.operator, left: Any, right: Any, *, trusted: bool) -> Any:
    """``left op right``. Raises ScriptError or DTypeError.

    trusted: whether Python may compute with other values than numbers.
    """
    if isinstance(left, Expr) or isinstance(right, Expr):
        if isinstance(op, ast.Div) and not _has_float(left, right):
            raise DTypeError("`/` is the quotient of floats", try_="`//`, which rounds down")
        if isinstance(op, (ast.Pow, ast.MatMult)):
            raise ScriptError(
                f"expressions have no operator {_SYMBOLS[type(op)]!r}",
                try_="T.pow(a, b)" if isinstance(op, ast.Pow) else "loops",
            )
    else:
        _check_growth(op, left, right, trusted=trusted)
    try:
        return _OPERATORS[type(op)](left, right)
    except TensorsmithError:
        raise
    except PYTHON_ERRORS as error:
        raise ScriptError(f"{_CANNOT}{error}") from error


def _has_float(*values: Any) -> bool:
    return any(v.dtype.is_float if isinstance(v, Expr) else isinstance(v, float) for v in values)


def _check_growth(op: ast.operator, left: object, right: object, *, trusted: bool) -> None:
    """Refuse what would make a small script compute long or fill the memory."""
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        if not trusted:
            raise ScriptError(f"{_SYMBOLS[type(op)]!r} takes numbers in a parsed text")
        return
    if isinstance(left, int) and isinstance(right, int) and isinstance(op, _GROWING):
        bits = left.bit_length()
        sizes = {ast.Mult: bits + right.bit_length(), ast.LShift: bits + right}
        if sizes.get(type(op), bits * right) > MAX_BITS:
            raise ScriptError(f"the result has more than {MAX_BITS} bits")


def compare(op: ast.cmpop, left: Any, right: Any) -> Any:
    """``left op right`` of a comparison. Raises ScriptError or DTypeError."""
    if isinstance(left, Expr) or isinstance(right, Expr):
        on_exprs = _ON_EXPRS.get(type(op))
        if on_exprs is None:
            raise ScriptError(f"expressions have no operator {_SYMBOLS[type(op)]!r}")
        return on_exprs(left, right)
    with python_errors():
        return _COMPARISONS[type(op)](left, right)


def negate(op: ast.unaryop, value: Any) -> Any:
    """``-value``, ``~value`` or ``+value``. Raises ScriptError or DTypeError."""
    with python_errors():
        if isinstance(op, ast.USub):
            return -value
        return ~value if isinstance(op, ast.Invert) else +value
