"""The domain of NumPy values: walking a program over it runs the program. The reference
interpreter.

Many iterations at once. Where `tensorsmith.evaluate.lanes` proves that the iterations of a loop
do not touch each other's data, they are run side by side, as *lanes*: the loop variable is then
an array, and so is every value that depends on it. Each lane does what it would do alone, in the
same order, so results have the same bits; a reduction goes on step by step for all of its lanes.
The arrays of the lanes of the n-th such loop lie along the n-th axis from the end, so that values
of outer lanes broadcast with those of inner ones. Lanes that a branch does not take are masked
out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

import numpy as np

from tensorsmith.errors import (
    DTypeError,
    EvaluationError,
    OutOfBoundsError,
    ShapeError,
    UninitializedError,
)
from tensorsmith.evaluate.arguments import bind_arguments
from tensorsmith.evaluate.byte_views import HeldMemory, view_of_bytes
from tensorsmith.evaluate.domain import Body, Domain
from tensorsmith.evaluate.lanes import LaneFinder
from tensorsmith.evaluate.memory import Array, Memory
from tensorsmith.evaluate.operations import numpy_operations
from tensorsmith.evaluate.rounding import Value, as_index, carrier, constant
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.dtype import DType, Kind
from tensorsmith.ir.expr import Expr, Load, Var
from tensorsmith.ir.module import TensorProgram
from tensorsmith.ir.stmt import Alloc, Assert, Block, For, Invoke, Iter, Store, View, While

_INDEX: Final = int(Kind.INDEX)
_BITS: Final = int(Kind.BITS)
MAX_LANES: Final = 1 << 20
"""How many iterations run side by side at most, which bounds the memory that values take."""
MIN_LANES: Final = 4
"""Fewer iterations are faster one by one."""


class NumPyDomain(Domain[Value, Memory]):
    """Values are NumPy's. vectorize: whether independent iterations may run side by side."""

    values_depend_on_branch = True

    def __init__(
        self,
        *,
        externs: Mapping[str, Callable[..., object]] | None = None,
        vectorize: bool = True,
    ) -> None:
        self.operations = numpy_operations(self.any_active)
        self.externs = externs or {}
        self.lane_sizes: list[int] = []
        self.mask: Array | None = None
        self._branches: list[tuple[Array | None, Array]] = []
        self._finder = LaneFinder() if vectorize else None
        self.held = HeldMemory()

    def memory_dtype(self, dtype: DType) -> np.dtype[Any]:
        """The NumPy dtype of the elements of buffers of `dtype`."""
        if dtype.numpy is None or dtype.lanes != 1:
            raise DTypeError(f"the evaluator has no buffers of {dtype}")
        return dtype.numpy

    def argument(self, value: Value, dtype: DType) -> Value:
        """A number that is given for a scalar parameter."""
        return constant(value, dtype)

    # --- Calls ---

    def bind_parameters(
        self, program: TensorProgram, args: Sequence[Value | Memory]
    ) -> tuple[dict[Var, Value], dict[Buffer, Memory]]:
        return bind_arguments(program, args, self)

    def call_external(self, stmt: Invoke, args: Sequence[Value | Memory]) -> None:
        function = self.externs.get(stmt.callee) or self._runtime(stmt.callee)
        if function is None:
            raise EvaluationError(
                f"{self.program} calls {stmt.callee!r}, which is neither in the module nor given",
                given=f"externs {', '.join(sorted(self.externs)) or 'none'}",
                try_=f"interpret(..., externs={{{stmt.callee!r}: function}})",
            )
        function(*[a.data if isinstance(a, Memory) else a for a in args])
        for a in args:
            if isinstance(a, Memory) and a.defined is not None:
                a.defined[...] = True

    def _runtime(self, name: str) -> Callable[..., object] | None:
        """What the runtime has by itself under this name."""
        known: dict[str, Callable[..., object]] = {
            "ts_hold": self.held.hold,
            "ts_append": self.held.append,
            "ts_drop": self.held.drop,
        }
        return known.get(name)

    # --- Buffers ---

    def allocate(self, stmt: Alloc, shape: Sequence[Value]) -> Memory:
        sizes = tuple(shape)
        if any(size < 0 for size in sizes):
            raise ShapeError(f"{self.program} allocates {stmt.buffer.name!r} with shape {sizes}")
        lanes = tuple(reversed(self.lane_sizes))
        whole = lanes + sizes
        data = np.zeros(whole, self.memory_dtype(stmt.buffer.dtype))
        return Memory(data, np.zeros(whole, np.bool_), np.ix_(*map(np.arange, lanes)))

    def view_bytes(
        self, stmt: View, source: Value | Memory, offset: Value, shape: Sequence[Value]
    ) -> Memory:
        if self._finder is not None:
            self._finder.views.add(stmt.buffer)
            if isinstance(stmt.source, Buffer):
                self._finder.views.add(stmt.source)
        return view_of_bytes(stmt, source, int(offset), tuple(map(int, shape)), self)

    def view(self, region: Region, memory: Memory, ranges: Sequence[tuple[Value, Value]]) -> Memory:
        for axis, ((start, extent), size) in enumerate(zip(ranges, memory.shape, strict=True)):
            if start < 0 or extent < 0 or start + extent > size:
                raise OutOfBoundsError(
                    f"{self.program} passes {region!r}, which is outside of"
                    f" {region.buffer.name!r}, whose shape is {memory.shape}",
                    given=f"range {axis} is {start}:{start + extent}, the extent is {size}",
                )
        box: Any = (*(slice(start, start + extent) for start, extent in ranges), ...)
        defined = memory.defined
        return Memory(memory.data[box], None if defined is None else defined[box])

    def load(self, e: Load, memory: Memory, indices: Sequence[Value]) -> Value:
        place = self._place("reads", e.buffer, memory, indices)
        defined = memory.defined
        if defined is not None:
            undefined = np.logical_not(defined[place])
            if self.any_active(undefined):
                self._fail_uninitialized(e.buffer, indices, undefined)
        return self._from_memory(memory.data[place], e.dtype)

    def _from_memory(self, value: Value, dtype: DType) -> Value:
        if dtype.flag & _INDEX:
            return as_index(value)
        if dtype.flag & _BITS and dtype.bits < 8:
            return value.astype(carrier(dtype))
        return value

    def store(self, stmt: Store, memory: Memory, indices: Sequence[Value], value: Value) -> None:
        place = self._place("writes", stmt.buffer, memory, indices)
        data = memory.data
        if not data.flags.writeable:
            raise EvaluationError(
                f"{self.program} writes {stmt.buffer.name!r}, and its array is read-only",
                try_="a copy of the array as the argument",
            )
        if self.mask is not None:
            *where, values, mask = np.broadcast_arrays(*place, value, self.mask)
            place, value = tuple(w[mask] for w in where), values[mask]
        if data.dtype != getattr(value, "dtype", data.dtype):
            value = value.astype(data.dtype)
        data[place] = value
        if memory.defined is not None:
            memory.defined[place] = True

    def _place(
        self, verb: str, buffer: Buffer, memory: Memory, indices: Sequence[Value]
    ) -> tuple[Value, ...]:
        """The subscripts of the memory's array: checked, and inside of it also where masked out."""
        place: list[Value] = list(memory.lanes)
        for axis, (i, size) in enumerate(zip(indices, memory.shape, strict=True)):
            if type(i) is int:
                if not 0 <= i < size:
                    self._fail_bounds(verb, buffer, memory, indices, axis, np.True_)
            elif i.size and (i.min() < 0 or i.max() >= size):
                outside = (i < 0) | (i >= size)
                if self.any_active(outside):
                    self._fail_bounds(verb, buffer, memory, indices, axis, outside)
                place.append(np.where(outside, 0, i))  # masked lanes: any element will do
                continue
            place.append(i)
        return tuple(place)

    def _fail_bounds(
        self,
        verb: str,
        buffer: Buffer,
        memory: Memory,
        indices: Sequence[Value],
        axis: int,
        bad: Value,
    ) -> NoReturn:
        at = self._first(indices, bad)
        raise OutOfBoundsError(
            f"{self.program} {verb} {_element(buffer, at)}, which is outside of"
            f" {buffer.name!r}, whose shape is {memory.shape}",
            given=f"index {axis} is {at[axis]}, the extent is {memory.shape[axis]}",
        )

    def _fail_uninitialized(self, buffer: Buffer, indices: Sequence[Value], bad: Value) -> NoReturn:
        at = self._first(indices, bad)
        raise UninitializedError(
            f"{self.program} reads {_element(buffer, at)}, which nothing has written",
            because=f"{buffer.name!r} is a local buffer, whose content is undefined at first",
        )

    def _first(self, indices: Sequence[Value], bad: Value) -> tuple[int, ...]:
        """The indices at the first bad lane, as the loops count."""
        mask = True if self.mask is None else self.mask
        bad, *values = np.broadcast_arrays(np.logical_and(bad, mask), *indices)
        first = np.argmax(bad.ravel(order="F"))
        return tuple(int(v.ravel(order="F")[first]) for v in values)

    # --- Branches ---

    def any_active(self, bad: Value) -> bool:
        """Whether some lane that is not masked out is `bad`."""
        if type(bad) is bool:
            return bad
        if not np.any(bad):
            return False
        return self.mask is None or bool(np.any(bad & self.mask))

    def decide(self, condition: Value) -> bool | None:
        if np.ndim(condition) == 0:
            return bool(condition)
        if not self.any_active(condition):
            return False
        return None if self.any_active(~condition) else True

    def enter_then(self, condition: Value) -> None:
        self._branches.append((self.mask, condition))
        self.mask = condition if self.mask is None else self.mask & condition

    def enter_else(self) -> None:
        outer, condition = self._branches[-1]
        self.mask = ~condition if outer is None else outer & ~condition

    def leave(self) -> None:
        self.mask, _ = self._branches.pop()

    def merge(self, e: Expr, condition: Value, a: Value, b: Value) -> Value:
        return np.where(condition, a, b)

    # --- Statements ---

    def iterate(self, loop: For, start: Value, extent: Value, body: Body[Value]) -> None:
        if self._runs_as_lanes(loop, start, extent, body):
            axis = len(self.lane_sizes)
            self.lane_sizes.append(extent)
            body(lane_axis(start, extent, axis))
            self.lane_sizes.pop()
            return
        for value in range(start, start + extent):
            body(value)

    def _runs_as_lanes(self, loop: For, start: int, extent: int, body: Body[Value]) -> bool:
        if self._finder is None or extent < MIN_LANES:
            return False
        if extent * int(np.prod(self.lane_sizes, dtype=object)) > MAX_LANES:
            return False
        return self._finder.are_independent(loop, start, extent, len(self.lane_sizes), body)

    def repeat(self, loop: While, condition: Callable[[], Value], body: Callable[[], None]) -> None:
        while condition():
            body()

    def bind_iterator(
        self, block: Block, it: Iter, value: Value, start: Value, extent: Value
    ) -> Value:
        if type(value) is int and start <= value < start + extent:
            return value
        outside = np.logical_or(value < start, value >= start + extent)
        if self.any_active(outside):
            (at,) = self._first([value], outside)
            raise EvaluationError(
                f"iterator {it.var.name!r} of block {block.name!r} is {at}",
                because=f"it ranges over {start} <= {it.var.name} < {start + extent}",
            )
        return value

    def check(self, stmt: Assert, condition: Value) -> None:
        if self.any_active(np.logical_not(condition)):
            raise EvaluationError(
                f"{self.program}: {stmt.message}", because=f"not {stmt.condition!r}"
            )


def lane_axis(start: int, extent: int, axis: int) -> Array:
    """``start``, ..., ``start + extent - 1`` along the axis that is `axis` from the end."""
    return np.arange(start, start + extent, dtype=np.int64).reshape((extent,) + (1,) * axis)


def _element(buffer: Buffer, at: tuple[int, ...]) -> str:
    return f"{buffer.name}[{', '.join(map(str, at)) or '()'}]"
