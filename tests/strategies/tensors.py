"""What a program under construction knows: its buffers, dimensions, and how large values may get.

Floats are kept to whole numbers that the dtype holds exactly, unless `World.exact` is off. Then a
sum in any order has the same bits, and a program may be compared with a rescheduled one without
tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st

from strategies.picking import pick
from tensorsmith.ir import (
    Alloc,
    Buffer,
    Const,
    DType,
    Expr,
    IndexMap,
    Kind,
    Max,
    Min,
    Mul,
    Stmt,
    Var,
    const,
)

T = TypeVar("T")
LARGEST_EXTENT = 8
"""No extent of a program exceeds this, symbolic ones by the values that `arguments` gives them."""

_EXACT = {"float16": 1 << 11, "bfloat16": 1 << 8, "float32": 1 << 24, "float64": 1 << 53}
"""Up to here every whole number is in the dtype."""

_ARGUMENT = 4
"""The magnitude of the whole numbers that fill float parameters."""


@dataclass(frozen=True, slots=True)
class Value:
    """An expression; if it is a float, a whole number of at most this magnitude."""

    expr: Expr
    bound: int = 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """A buffer whose every element has been written, with values of at most this magnitude."""

    buffer: Buffer
    bound: int = _ARGUMENT


@dataclass(frozen=True, slots=True)
class Axis:
    """A place on an axis: ``0 <= index < extent`` holds wherever it is used."""

    index: Expr
    extent: Expr


Point = Sequence[Axis]


@dataclass
class World:
    """A program under construction."""

    draw: st.DrawFn
    exact: bool
    extents: tuple[Expr, ...] = ()
    params: list[Buffer | Var] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    """What may be read."""
    outputs: list[Tensor] = field(default_factory=list)
    """What may be changed: results and intermediate buffers, all of them written already."""
    body: list[Stmt] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)

    def name(self, stem: str) -> str:
        """`stem` with a number that makes it new."""
        self.names[stem] = number = self.names.get(stem, -1) + 1
        return f"{stem}{number}"

    def pick(self, choices: Sequence[T]) -> T:
        """One of `choices`; shrinks towards the first."""
        return pick(self.draw, choices)

    def chance(self, one_in: int) -> bool:
        """True now and then; shrinks to False."""
        return self.draw(st.integers(1, one_in)) == one_in

    def result(self, shape: Sequence[Expr], dtype: DType) -> Buffer:
        """A new buffer to write: a parameter, or a local one that is allocated here."""
        if self.draw(st.booleans()):
            buffer = Buffer(self.name("out"), shape, dtype)
            self.params.append(buffer)
        else:
            scope = self.pick(("global", "local"))
            place = self.placement(shape) if self.chance(4) else {}
            buffer = Buffer(self.name("tmp"), shape, dtype, scope=scope, **place)
            self.body.append(Alloc(buffer))
        return buffer

    def placement(self, shape: Sequence[Expr]) -> dict[str, Any]:
        """Where the elements of a local buffer lie: aligned, padded or transposed."""
        how = self.draw(st.integers(0, 3))
        if how == 0 or not shape:
            return {"align": 64}
        if how == 1:  # reversed, as a transposed or a column-major buffer is
            inputs = tuple(Var(f"d{axis}") for axis in range(len(shape)))
            return {"layout": IndexMap(inputs, inputs[::-1])}
        strides: list[Expr] = [const(1 if how == 2 else 2)]
        for extent in reversed(shape[1:]):  # rows one element apart
            strides.insert(0, strides[0] * (extent + 1))
        return {"strides": strides}

    def written(self, buffer: Buffer, bound: int) -> None:
        """From here on `buffer` may be read and changed."""
        tensor = Tensor(buffer, bound)
        self.tensors.append(tensor)
        self.outputs.append(tensor)

    def forget(self, buffer: Buffer) -> None:
        """The values of `buffer` have changed, and their bound no longer holds."""
        self.tensors = [t for t in self.tensors if t.buffer is not buffer]
        self.outputs = [t for t in self.outputs if t.buffer is not buffer]

    def fits(self, value: Value) -> Value:
        """`value`, clamped if it is a float that would leave the exact whole numbers."""
        dtype = value.expr.dtype
        if not self.exact or not dtype.flag & Kind.FLOAT or value.bound <= _EXACT[dtype.name] >> 1:
            return value
        return clamped(value.expr, 8)

    def room(self, dtype: DType) -> int:
        """The magnitude that a float of `dtype` may have to be exact."""
        return _EXACT[dtype.name] >> 1


def clamped(e: Expr, limit: int) -> Value:
    """`e` held between ``-limit`` and ``limit``."""
    low, high = (const(float(x) if e.dtype.is_float else x, e.dtype) for x in (-limit, limit))
    return Value(Max(Min(e, high), low), limit)


def largest_extent(extent: Expr) -> int:
    """No value of `extent`, a product of dimensions and constants, is larger."""
    if isinstance(extent, Mul):
        return largest_extent(extent.a) * largest_extent(extent.b)
    return int(extent.value) if isinstance(extent, Const) else LARGEST_EXTENT
