"""Values and bindings of graph functions, as a script writes them.

Called by the parser, each function notes its arguments; the parser makes a binding of the note and
of the names and types that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tensorsmith.errors import DTypeError, ScriptError
from tensorsmith.ir.buffer import Buffer
from tensorsmith.ir.expr import Expr, ExprLike, as_expr
from tensorsmith.ir.graph import Opaque, Operand, Value
from tensorsmith.ir.stmt import Attrs
from tensorsmith.script.terms import checks
from tensorsmith.script.terms.attributes import attrs_of
from tensorsmith.script.terms.memory import Shape
from tensorsmith.script.terms.scalars import index_expr

Array = np.ndarray[Any, np.dtype[Any]]
Number: TypeAlias = "bool | int | float"


@dataclass(frozen=True)
class OpaqueType:
    """The type of a value that is no tensor: ``s: T.Opaque("strings", (n,))``."""

    kind: str
    shape: Shape = ()

    def named(self, name: str) -> Opaque:
        """A value of this type."""
        shape = self.shape if isinstance(self.shape, (tuple, list)) else (self.shape,)
        return Opaque(name, checks.string(self.kind, "a kind"), tuple(map(index_expr, shape)))


@dataclass(frozen=True)
class KnownNote:
    """A constant: its elements, or the hash of their content."""

    values: Number | Sequence[Number] | Array | None
    hash: str | None


@dataclass(frozen=True)
class ApplyNote:
    """An operator with its operands."""

    op: str
    operands: tuple[Buffer | None, ...]
    attrs: Attrs


@dataclass(frozen=True)
class ExternNote:
    """A call of an external function."""

    symbol: str
    operands: tuple[Value | Expr | None, ...]
    attrs: Attrs
    is_python: bool
    is_pure: bool


@dataclass(frozen=True)
class ReadNote:
    """Integers that become variables."""

    values: tuple[Expr, ...]


@dataclass(frozen=True)
class MatchNote:
    """Another view of a shape."""

    operand: Buffer


@dataclass(frozen=True)
class ReshapedNote:
    """Another shape of the same memory."""

    operand: Buffer


@dataclass(frozen=True)
class LoopNote:
    """A loop over a body that was defined before."""

    body: object
    initial: tuple[Value, ...]
    trip: Expr | None
    condition: Buffer | None
    has_condition: bool


@dataclass(frozen=True)
class SourceNote:
    """The nodes of a model that what follows comes from."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class OperatorName:
    """``T.op.matmul``: called, it is an operator with its operands and attributes."""

    name: str

    def __call__(self, *operands: Buffer | None, **attrs: object) -> ApplyNote:
        return ApplyNote(self.name, tuple(map(_tensor_or_none, operands)), attrs_of(attrs))


class OperatorNames:
    """The operators of `tensorsmith.ops`, each as ``T.op.name``."""

    def __getattr__(self, name: str) -> OperatorName:
        if name.startswith("__"):  # what Python asks of any object
            raise AttributeError(name)
        return OperatorName(name)


op = OperatorNames()


def apply(
    name: str, *operands: Buffer | None, attrs: Mapping[str, object] | None = None
) -> ApplyNote:
    """The operator called `name`, also one that is no name of Python: ``T.apply("and", a, b)``."""
    name = checks.string(name, "the name of an operator")
    return ApplyNote(name, tuple(map(_tensor_or_none, operands)), attrs_of(attrs))


def constant(
    values: Number | Sequence[Number] | Array | None = None, *, hash: str | None = None
) -> KnownNote:
    """A tensor that is known: ``c: T.Tensor((2,), "float32") = T.constant([1.0, 2.0])``.

    values: the elements in row-major order, or an array of NumPy. hash: instead of them, the hash
    of the content of an array that the parser is given.
    """
    if (values is None) is (hash is None):
        raise ScriptError("a constant has its elements, or the hash of their content")
    return KnownNote(values, hash)


def extern(
    symbol: str,
    *operands: Value | ExprLike | None,
    attrs: Mapping[str, object] | None = None,
    is_python: bool = False,
    is_pure: bool = True,
) -> ExternNote:
    """A call of an external function that gives new values."""
    given = tuple(
        o if o is None or isinstance(o, (Buffer, Opaque)) else as_expr(o) for o in operands
    )
    name = checks.string(symbol, "the name of an external function")
    return ExternNote(name, given, attrs_of(attrs), bool(is_python), bool(is_pure))


def read(*values: ExprLike) -> ReadNote:
    """Integers, which tensors may hold, as variables: ``k = T.read(T.index(count[()]))``."""
    return ReadNote(tuple(map(as_expr, values)))


def match_shape(operand: Buffer) -> MatchNote:
    """The same tensor with another view of its shape: ``y: T.Tensor((k, 4)) = T.match_shape(x)``.

    Dimensions that are declared and have no value yet get it here; the others are checked.
    """
    return MatchNote(_tensor(operand))


def reshaped(operand: Buffer) -> ReshapedNote:
    """The same elements in the same memory by another shape."""
    return ReshapedNote(_tensor(operand))


def loop(
    body: object,
    *initial: Value,
    trip: ExprLike | None = None,
    condition: Buffer | None = None,
    has_condition: bool = False,
) -> LoopNote:
    """A body, a function defined before, again and again: see `tensorsmith.ir.graph.Loop`."""
    states = tuple(map(_value, initial))
    count = None if trip is None else as_expr(trip)
    return LoopNote(body, states, count, _tensor_or_none(condition), bool(has_condition))


def source(*names: str) -> SourceNote:
    """The nodes of a model that the bindings from here on, to the end of the body, come from."""
    return SourceNote(tuple(checks.string(name, "the name of a node") for name in names))


def _value(value: object) -> Value:
    if isinstance(value, (Buffer, Opaque)):
        return value
    raise DTypeError(f"{value!r} is not a value of the graph function")


def _tensor(value: object) -> Buffer:
    if isinstance(value, Buffer):
        return value
    raise DTypeError(f"{value!r} is not a tensor of the graph function")


def _tensor_or_none(value: Operand | object) -> Buffer | None:
    return None if value is None else _tensor(value)
