"""What a term is made of, as far as it counts for equality, hashing and difference."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import numpy as np

from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.content import content_hash
from tensorsmith.ir.dtype import DType
from tensorsmith.ir.expr import Call, Cast, Const, Expr, Load, Reinterpret, Select, Var
from tensorsmith.ir.graph import (
    Alias,
    Apply,
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
)
from tensorsmith.ir.module import Function, IRModule, TensorProgram
from tensorsmith.ir.stmt import (
    Alloc,
    Assert,
    Bind,
    Block,
    For,
    If,
    Invoke,
    Iter,
    Seq,
    Stmt,
    Store,
    View,
    While,
)

Term: TypeAlias = Expr | Stmt | Function | IRModule
Symbol: TypeAlias = Var | Buffer | Opaque

FIELDS: Final[Mapping[type, tuple[str, ...]]] = {
    Store: ("buffer", "indices", "value"),
    Bind: ("value", "=var"),
    Alloc: ("=buffer",),
    View: ("source", "offset", "=buffer"),
    Assert: ("condition", "message"),
    Invoke: ("callee", "args"),
    If: ("condition", "then", "orelse"),
    While: ("condition", "body"),
    For: ("kind", "thread", "start", "extent", "=var", "attrs", "body"),
    Iter: ("kind", "start", "extent", "binding", "=var"),
    Block: ("iters", "predicate", "reads", "writes", "attrs", "init", "body"),
    Region: ("buffer", "ranges"),
    TensorProgram: ("=params", "attrs", "body"),
    Constant: ("data", "=result"),
    Apply: ("op", "operands", "attrs", "=results"),
    CallProgram: ("callee", "operands", "inplace", "=results"),
    CallExtern: ("symbol", "operands", "attrs", "is_python", "is_pure", "=results"),
    Dims: ("values", "=variables"),
    Check: ("condition", "message"),
    MatchShape: ("operand", "=result"),
    Alias: ("operand", "=result"),
    Body: ("=variables", "=params", "bindings", "results"),
    Branch: ("condition", "then", "orelse", "=results"),
    Loop: ("trip", "condition", "initial", "has_condition", "body", "=results"),
    GraphFunction: ("=params", "attrs", "body", "results"),
    IRModule: ("attrs", "functions"),
}
"""What of each class counts, in the order of the walk. '=' marks what defines a symbol."""

SYMBOL_FIELDS: Final[Mapping[type, tuple[str, ...]]] = {
    Var: ("dtype", "low", "high", "multiple_of"),
    Buffer: ("dtype", "shape", "strides", "offset", "layout", "scope", "align"),
    Opaque: ("kind", "shape"),
}
"""What of a variable and of a value counts, when it corresponds to another one."""


class Defined:
    """A symbol at the place of its definition."""

    __slots__ = ("symbol",)

    def __init__(self, symbol: Symbol) -> None:
        self.symbol = symbol


def statements(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements of `stmt` in order, sequences flattened at every depth."""
    flat: list[Stmt] = []
    stack = [stmt]
    while stack:
        top = stack.pop()
        if isinstance(top, Seq):
            stack.extend(reversed(top.stmts))
        else:
            flat.append(top)
    return tuple(flat)


def _defined(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(Defined(v) for v in value)
    assert isinstance(value, (Var, Buffer, Opaque))
    return Defined(value)


def fields_of(node: object, names: Iterable[str]) -> Iterator[tuple[str, object]]:
    """The fields of `node` as (label, value); statements as tuples of statements."""
    for name in names:
        if name[0] == "=":
            yield f".{name[1:]}", _defined(getattr(node, name[1:]))
        else:
            value = getattr(node, name)
            if isinstance(value, np.ndarray):
                value = np.asarray(value)  # one type, wherever its memory is
            yield f".{name}", statements(value) if isinstance(value, Stmt) else value


def operand_labels(e: Expr) -> tuple[str, ...]:
    """How the path of a difference names each operand of `e`."""
    if isinstance(e, Select):
        return (".condition", ".a", ".b")
    if isinstance(e, (Load, Call)):
        part = "indices" if isinstance(e, Load) else "args"
        return tuple(f".{part}[{k}]" for k in range(len(e.args)))
    return (".a", ".b")[: len(e.args)]


def own_text(e: Expr) -> str:
    """What makes up a node besides its class, its operands and its buffer."""
    if isinstance(e, Const):
        value = struct.pack("<d", e.value).hex() if isinstance(e.value, float) else e.value
        return f"{value}:{e.dtype.name}"
    if isinstance(e, (Cast, Reinterpret)):
        return e.dtype.name
    return e.intrinsic.name if isinstance(e, Call) else ""


def leaf_text(value: object) -> str:
    """A value that has no parts, with its type: 1, True and 1.0 are three."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, DType):
        return value.name
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name} {value.shape} {content_hash(value)}"
    return f"{type(value).__name__} {value!r}"
