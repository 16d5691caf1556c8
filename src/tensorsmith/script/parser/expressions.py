"""The values of expressions: of Python where Python can tell, else terms of the representation.

Numbers, lists and functions of the script's surroundings are computed with as Python does. As soon
as an operand is an `Expr`, the operation is one, too.
"""

from __future__ import annotations

import ast
import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, ClassVar, Final

import numpy as np

from tensorsmith import script
from tensorsmith.errors import ScriptError, ShapeError, TensorsmithError
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.dtype import DType, bool_
from tensorsmith.ir.expr import Add, And, Const, Expr, Load, Not, Or, Sub, as_expr, select
from tensorsmith.ir.intrinsic import INTRINSICS
from tensorsmith.ir.module import TensorProgram
from tensorsmith.script.parser.environment import Environment
from tensorsmith.script.parser.operators import compare, negate, operate, python_errors
from tensorsmith.script.parser.source import SourceText
from tensorsmith.script.terms import scalars
from tensorsmith.script.terms.graphs import OperatorName, OperatorNames
from tensorsmith.script.terms.scalars import index_expr

MAX_ITERATIONS: Final = 100_000
"""Iterations that the parser itself makes for one script."""
_OUTSIDE_ONLY: Final = frozenset(
    {
        "graph",
        "module",
        "parse_expr",
        "parse_graph",
        "parse_index_map",
        "parse_module",
        "parse_program",
        "program",
    }
)
_BUFFER_FIELDS: Final = frozenset({"dtype", "name", "rank", "scope", "shape", "strides"})

_FOR_EXPRS: Final = ((min, scalars.min), (max, scalars.max), (abs, INTRINSICS["abs"]))
"""What Python's own functions mean of expressions."""


class ScriptFunction:
    """A lambda of a script, evaluated by the parser."""

    def __init__(self, evaluator: Evaluator, node: ast.Lambda) -> None:
        self._evaluator = evaluator
        self._node = node
        self.parameters = tuple(a.arg for a in node.args.args)

    def __call__(self, *args: Any) -> Any:
        """The value of the body for these arguments."""
        if len(args) != len(self.parameters):
            raise ScriptError(f"the lambda takes {len(self.parameters)} arguments, not {len(args)}")
        environment = self._evaluator.environment
        with environment.scope():
            for name, arg in zip(self.parameters, args, strict=True):
                environment.shadow(name, arg, self._node.lineno)
            return self._evaluator.evaluate(self._node.body)


class Evaluator:
    """Evaluates the expressions of one script.

    trusted: whether the script is part of the running program, so that it may use all of Python. A
        text that was parsed may not: it can do nothing but build terms.
    """

    def __init__(self, source: SourceText, environment: Environment, *, trusted: bool) -> None:
        self.source = source
        self.environment = environment
        self._trusted = trusted
        self._iterations = 0

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an expression. Errors get the place of the innermost part at fault."""
        handler = self._HANDLERS.get(type(node))
        try:
            if handler is None:
                raise ScriptError(f"{_describe(node)} cannot be used in a script")
            return handler(self, node)
        except TensorsmithError as error:
            error.at(self.source.span(node))
            raise

    def expr(self, node: ast.expr, like: DType | None = None) -> Expr:
        """The value of an expression as a scalar; a Python number takes the dtype `like`."""
        value = self.evaluate(node)
        with self.source.place(node):
            return as_expr(value, like)

    def callee(self, node: ast.expr) -> object:
        """What a call calls, if that is a plain or dotted name; else None."""
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            return self.evaluate(node.func)
        return None

    def items(self, iterable: object) -> Iterable[Any]:
        """The items that the parser itself runs over, within a limit for the script."""
        if isinstance(iterable, (Expr, str)) or not isinstance(iterable, Iterable):
            raise ScriptError(
                f"a loop cannot run over {iterable!r}",
                try_="range(extent), T.grid(...), or a Python list, which is unrolled",
            )
        left = MAX_ITERATIONS - self._iterations
        too_many = isinstance(iterable, (range, list, tuple)) and iterable[left:]
        for item in () if too_many else islice(iterable, left):
            self._iterations += 1
            yield item
        if too_many or self._iterations >= MAX_ITERATIONS:
            raise ScriptError(f"the script unrolls to more than {MAX_ITERATIONS} iterations")

    # Leaves and displays

    def _constant(self, node: ast.Constant) -> object:
        if node.value is None or isinstance(node.value, (bool, int, float, str)):
            return node.value
        raise ScriptError(f"{node.value!r} cannot be used in a script")

    def _name(self, node: ast.Name) -> object:
        return _plain(self.environment.value(node.id))

    def _tuple(self, node: ast.Tuple) -> tuple[object, ...]:
        return tuple(self._elements(node.elts))

    def _list(self, node: ast.List) -> list[object]:
        return self._elements(node.elts)

    def _elements(self, nodes: Iterable[ast.expr]) -> list[object]:
        values: list[object] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values.extend(self.items(self.evaluate(node.value)))
            else:
                values.append(self.evaluate(node))
        return values

    def _dict(self, node: ast.Dict) -> dict[object, object]:
        if None in node.keys:
            raise ScriptError("`**` cannot be used in a dictionary of a script")
        keys = [self.evaluate(k) for k in node.keys if k is not None]
        return dict(zip(keys, map(self.evaluate, node.values), strict=True))

    def _lambda(self, node: ast.Lambda) -> ScriptFunction:
        a = node.args
        if a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs or a.defaults:
            raise ScriptError("a lambda of a script takes plain arguments without defaults")
        return ScriptFunction(self, node)

    def _named(self, node: ast.NamedExpr) -> object:
        value = self.evaluate(node.value)
        self.environment.shadow(node.target.id, value, self.source.span(node).line)
        return value

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> list[object]:
        values: list[object] = []
        with self.environment.scope():
            self._generate(node, 0, values)
        return values

    def _generate(
        self, node: ast.ListComp | ast.GeneratorExp, depth: int, values: list[object]
    ) -> None:
        if depth == len(node.generators):
            values.append(self.evaluate(node.elt))
            return
        generator = node.generators[depth]
        for item in self.items(self.evaluate(generator.iter)):
            self.assign_static(generator.target, item)
            if all(self.evaluate(condition) for condition in generator.ifs):
                self._generate(node, depth + 1, values)

    def _formatted(self, node: ast.JoinedStr) -> str:
        if not self._trusted:
            raise ScriptError("a formatted string cannot be used in a parsed text")
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                parts.append(str(self.evaluate(part.value)))
            elif isinstance(part, ast.Constant):
                parts.append(str(part.value))
        return "".join(parts)

    def assign_static(self, target: ast.expr, value: object) -> None:
        """Give the names of an assignment target values of the parser."""
        if isinstance(target, ast.Name):
            self.environment.assign(target.id, value, self.source.span(target).line)
            return
        if not isinstance(target, (ast.Tuple, ast.List)):
            raise ScriptError("only names can be assigned to here", where=self.source.span(target))
        values = list(self.items(value))
        if len(values) != len(target.elts):
            raise ScriptError(
                f"{len(values)} values for {len(target.elts)} names", where=self.source.span(target)
            )
        for part, item in zip(target.elts, values, strict=True):
            self.assign_static(part, item)

    # Operators

    def _binary(self, node: ast.BinOp) -> object:
        # A long sum is a deep tree on its left side, which is walked without recursion.
        chain = [node]
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
        value = self.evaluate(chain[-1].left)
        for each in reversed(chain):
            right = self.evaluate(each.right)
            try:
                value = self.operate(each.op, value, right)
            except TensorsmithError as error:
                error.at(self.source.span(each))
                raise
        return value

    def operate(self, op: ast.operator, left: object, right: object) -> Any:
        """``left op right``. Raises ScriptError or DTypeError."""
        return operate(op, left, right, trusted=self._trusted)

    def _unary(self, node: ast.UnaryOp) -> object:
        value = self.evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            return Not(value) if isinstance(value, Expr) else not value
        return negate(node.op, value)

    def _logic(self, node: ast.BoolOp) -> object:
        is_or = isinstance(node.op, ast.Or)
        value = self.evaluate(node.values[0])
        for each in node.values[1:]:
            if isinstance(value, Expr):
                value = (Or if is_or else And)(value, self.expr(each, bool_))
            elif bool(value) is is_or:
                return value
            else:
                value = self.evaluate(each)
        return value

    def _compare(self, node: ast.Compare) -> object:
        result: object = True
        left = self.evaluate(node.left)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(right_node)
            part = compare(op, left, right)
            if not isinstance(result, Expr):
                result = part if result else result
            else:
                result = And(result, as_expr(part))
            left = right
        return result

    def _choice(self, node: ast.IfExp) -> object:
        condition = self.evaluate(node.test)
        if not isinstance(condition, Expr):
            return self.evaluate(node.body if condition else node.orelse)
        return select(condition, self.evaluate(node.body), self.evaluate(node.orelse))

    # Subscripts

    def _subscript(self, node: ast.Subscript) -> object:
        value = self.evaluate(node.value)
        if isinstance(value, Buffer):
            return self.access(value, node)
        key = self.evaluate(node.slice)
        if isinstance(key, Expr) or isinstance(value, Expr):
            given = "a scalar has no elements" if isinstance(value, Expr) else None
            raise ScriptError("only a buffer can be indexed by an expression", because=given)
        with python_errors():
            return _plain(value[key])

    def _slice(self, node: ast.Slice) -> slice:
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if p is None else self.evaluate(p) for p in parts))

    def access(self, buffer: Buffer, node: ast.Subscript) -> Load | Region:
        """The element of a buffer that a subscript names, or the region if there are slices."""
        axes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not any(isinstance(axis, ast.Slice) for axis in axes):
            return Load(buffer, tuple(map(self.index, axes)))
        if len(axes) != buffer.rank:
            raise ShapeError(
                f"{buffer.name!r} has rank {buffer.rank}, and is sliced with {len(axes)} axes",
                given=repr(buffer),
            )
        ranges = (self._range(a, extent) for a, extent in zip(axes, buffer.shape, strict=True))
        return Region(buffer, ranges)

    def index(self, node: ast.expr) -> Expr:
        """The value of an expression as an index."""
        value = self.evaluate(node)
        with self.source.place(node):
            return index_expr(value)

    def _range(self, axis: ast.expr, extent: Expr) -> tuple[Expr, Expr]:
        if not isinstance(axis, ast.Slice):
            return self.index(axis), as_expr(1)
        if axis.step is not None:
            raise ScriptError("a region has no step", where=self.source.span(axis.step))
        start = as_expr(0) if axis.lower is None else self.index(axis.lower)
        stop = extent if axis.upper is None else self.index(axis.upper)
        return start, distance(start, stop)

    # Attributes and calls

    def _attribute(self, node: ast.Attribute) -> object:
        value = self.evaluate(node.value)
        if value is script:
            return _of_namespace(node.attr)
        if isinstance(value, OperatorNames):
            return OperatorName(node.attr)
        if isinstance(value, Buffer) and node.attr in _BUFFER_FIELDS:
            return getattr(value, node.attr)
        if not self._trusted:
            raise ScriptError(f"{ast.unparse(node.value)} has no {node.attr!r} in a parsed text")
        with python_errors():
            return _plain(getattr(value, node.attr))

    def _call(self, node: ast.Call) -> object:
        function = self.evaluate(node.func)
        name = _name_of(node.func)
        if isinstance(function, TensorProgram):
            raise ScriptError(
                f"{name!r} is a tensor program", try_=f"T.call({function.name!r}, ...) to call it"
            )
        if _is_outside_only(function):
            raise ScriptError(f"{name} cannot be called inside of a script function")
        args = self._elements(node.args)
        if any(k.arg is None for k in node.keywords):
            raise ScriptError("`**` cannot be used in a call of a script")
        named = {k.arg: self.evaluate(k.value) for k in node.keywords if k.arg is not None}
        function = self._for_exprs(function, args)
        if not callable(function):
            raise ScriptError(f"{name} is not a function: {function!r}")
        called = function
        with python_errors(f"{name}: ", lambda: _signature(name, called, args)):
            return _plain(called(*args, **named))

    def _for_exprs(self, function: object, args: list[object]) -> object:
        if not any(isinstance(a, Expr) for a in args):
            return function
        return next((new for old, new in _FOR_EXPRS if function is old), function)

    _HANDLERS: ClassVar[Mapping[type[ast.expr], Callable[[Evaluator, Any], Any]]] = {
        ast.Attribute: _attribute,
        ast.BinOp: _binary,
        ast.BoolOp: _logic,
        ast.Call: _call,
        ast.Compare: _compare,
        ast.Constant: _constant,
        ast.Dict: _dict,
        ast.GeneratorExp: _comprehension,
        ast.IfExp: _choice,
        ast.JoinedStr: _formatted,
        ast.Lambda: _lambda,
        ast.List: _list,
        ast.ListComp: _comprehension,
        ast.Name: _name,
        ast.NamedExpr: _named,
        ast.Slice: _slice,
        ast.Subscript: _subscript,
        ast.Tuple: _tuple,
        ast.UnaryOp: _unary,
    }


def _name_of(node: ast.expr) -> str:
    """The text of what is called. `ast.unparse` is slow, and nearly all calls are ``T.name``."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ast.unparse(node)


def _plain(value: object) -> object:
    """NumPy's scalars as Python's, which leave the operator to the other operand."""
    return value.item() if isinstance(value, np.generic) else value


def _describe(node: ast.AST) -> str:
    words = _WORDS.get(type(node))
    return words or f"the Python construct {type(node).__name__!r}"


def distance(start: Expr, stop: Expr) -> Expr:
    """``stop - start``, without the difference where that can be read off."""
    if isinstance(start, Const) and start.value == 0:
        return stop
    if isinstance(start, Const) and isinstance(stop, Const):
        return as_expr(int(stop.value) - int(start.value))
    if isinstance(stop, Add) and stop.a is start:
        return stop.b
    return Sub(stop, start)


def _of_namespace(name: str) -> object:
    known = dir(script)
    found = getattr(script, name, None) if not name.startswith("_") else None
    if found is None or not (name in known or isinstance(found, DType)):
        close = difflib.get_close_matches(name, known, 1)
        raise ScriptError(f"T has no {name!r}", try_=f"T.{close[0]}" if close else None)
    return found


def _is_outside_only(function: object) -> bool:
    name = getattr(function, "__name__", "")
    return name in _OUTSIDE_ONLY and getattr(script, name) is function


def _signature(name: str, function: Callable[..., object], args: list[object]) -> str | None:
    """How a function is called, or what may help where it was given an expression by mistake."""
    module = getattr(function, "__module__", None) or ""
    if module.startswith("tensorsmith."):
        return f"{name}({', '.join(inspect.signature(function).parameters)})"
    if any(isinstance(a, Expr) for a in args):
        return "T.static(...) where the value is made, if the parser can know it"
    return None


_WORDS: Final[Mapping[type[ast.AST], str]] = {
    ast.Await: "`await`",
    ast.Yield: "`yield`",
    ast.YieldFrom: "`yield from`",
    ast.Set: "a set",
    ast.SetComp: "a set",
    ast.DictComp: "a dictionary comprehension",
    ast.Starred: "`*`",
}
