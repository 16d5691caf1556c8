"""Which loops may have all their iterations run side by side.

The iterations of a loop are independent if no two of them touch the same element of a buffer that
one of them writes. Buffers allocated in the body are each iteration's own. For every other buffer
that the body writes, this is shown as follows. Take the subscripts that all accesses to it have
in common, written in terms of the loop and of the loops inside its body. If different values of
these loop variables give different values of the subscripts, then accesses of two iterations
never meet. That is
checked by computing the subscripts for all of the values: nothing is assumed of their form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from tensorsmith.arith.accesses import Access, collect_accesses
from tensorsmith.errors import EvaluationError
from tensorsmith.evaluate.domain import Body
from tensorsmith.evaluate.rounding import Value
from tensorsmith.ir.buffer import Buffer
from tensorsmith.ir.expr import Const, Expr, Load, Var, free_vars, postorder
from tensorsmith.ir.stmt import Alloc, Bind, Block, For, Invoke, Stmt, View, While
from tensorsmith.verify.context import statements_under

Subscripts: TypeAlias = tuple[Expr, ...]
MAX_POINTS: Final = 1 << 22
"""Subscripts are computed for no more points than this."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be checked of a loop: for each buffer, one of the alternatives must tell apart."""

    buffers: tuple[tuple[Subscripts, ...], ...]
    loops: dict[Var, For]
    """The loops inside of the body whose variables the subscripts may have."""


class LaneFinder:
    """Finds out whether loops have independent iterations; remembers what it knows of each."""

    def __init__(self) -> None:
        self._plans: dict[For, _Plan | None] = {}
        self.views: set[Buffer] = set()
        """Buffers that may share memory with others."""

    def are_independent(
        self, loop: For, start: int, extent: int, axis: int, body: Body[Value]
    ) -> bool:
        """Whether the iterations of `loop` are independent of each other.

        axis: how many lane axes there are around. body: evaluates expressions where the loop
        stands.
        """
        if loop not in self._plans:
            self._plans[loop] = _plan(loop, self.views)
        plan = self._plans[loop]
        if plan is None:
            return False
        points = _Points(loop, start, extent, axis, body, plan.loops)
        return all(
            any(points.tell_apart(subscripts) for subscripts in alternatives)
            for alternatives in plan.buffers
        )


def _plan(loop: For, views: set[Buffer]) -> _Plan | None:
    """What to check of `loop`; None if its iterations cannot run side by side anyway."""
    inside = tuple(statements_under(loop.body))
    if not all(_can_run_as_lanes(stmt) for stmt in inside):
        return None
    if not _sizes_are_uniform(loop, inside):
        return None
    accesses = collect_accesses(loop.body)
    if any(a.is_write and a.region.buffer in views for a in accesses):
        return None
    buffers = []
    for buffer in {a.region.buffer: None for a in accesses if a.is_write}:
        common = _common_subscripts(buffer, accesses)
        if loop.var in common:
            continue  # its variable is a subscript of each access
        with_var = [s for s in common if loop.var in postorder(s)]
        if not with_var:
            return None
        buffers.append((*((s,) for s in with_var), common))
    return _Plan(tuple(buffers), {inner.var: inner for a in accesses for inner in a.loops})


def _can_run_as_lanes(stmt: Stmt) -> bool:
    """Whether the statement itself can be run for many iterations at once."""
    if isinstance(stmt, (While, Invoke, View)):
        return False
    return not isinstance(stmt, Block) or (stmt.reads is None and stmt.writes is None)


def _sizes_are_uniform(loop: For, inside: Iterable[Stmt]) -> bool:
    """Whether loops and buffers in the body have the same sizes in each iteration."""
    varying = {loop.var}
    sizes: list[Expr] = []
    for stmt in inside:
        if isinstance(stmt, For):
            sizes += [stmt.start, stmt.extent]
        elif isinstance(stmt, Alloc):
            sizes += stmt.buffer.shape
        elif isinstance(stmt, Bind):
            varying.add(stmt.var)
        elif isinstance(stmt, Block):
            sizes += [e for it in stmt.iters for e in (it.start, it.extent)]
            varying |= {it.var for it in stmt.iters}
    return not any(isinstance(e, Load) or e in varying for e in postorder(*sizes))


def _common_subscripts(buffer: Buffer, accesses: Iterable[Access]) -> Subscripts:
    """The subscripts of `buffer`, one a dimension, that all accesses to it have in common."""
    common: dict[int, Expr] | None = None
    for access in accesses:
        if access.region.buffer is buffer:
            usable = dict(_usable_subscripts(access))
            if common is None:
                common = usable
            else:
                common = {d: e for d, e in common.items() if usable.get(d) is e}
    return tuple((common or {}).values())


def _usable_subscripts(access: Access) -> Iterator[tuple[int, Expr]]:
    """The dimensions where the access is at one index, known without looking at data."""
    for axis, (index, extent) in enumerate(access.region.ranges):
        is_point = isinstance(extent, Const) and extent.value == 1
        if is_point and not _depends_on_data(index, access):
            yield axis, index


def _depends_on_data(index: Expr, access: Access) -> bool:
    return any(isinstance(e, Load) or e in access.unknown for e in postorder(index))


class _Points:
    """All values of the variables of a loop and of the loops in its body."""

    def __init__(
        self,
        loop: For,
        start: int,
        extent: int,
        axis: int,
        body: Body[Value],
        loops: dict[Var, For],
    ) -> None:
        self._values = {loop.var: _axis(start, extent, axis)}
        self._next_axis = axis + 1
        self._body = body
        self._loops = loops

    def tell_apart(self, subscripts: Subscripts) -> bool:
        """Whether different values of the loops in `subscripts` give different subscripts."""
        try:
            for var in free_vars(*subscripts):
                inner = self._loops.get(var)
                if inner is not None and var not in self._values and not self._add(inner):
                    return False
            given = {v: self._values[v] for v in postorder(*subscripts) if v in self._values}
            shape = np.broadcast_shapes(*(v.shape for v in given.values()))
            if prod(shape) > MAX_POINTS:
                return False
            values = [self._body.value_of(s, given) for s in subscripts]
        except EvaluationError:  # it will come up where the program gets there, if it does
            return False
        return _all_different(np.broadcast_arrays(*values, *given.values())[: len(values)])

    def _add(self, loop: For) -> bool:
        """Take in the values of an inner loop; False if they are not the same in all iterations."""
        if any(var in self._loops for var in free_vars(loop.start, loop.extent)):
            return False
        start = self._body.value_of(loop.start, {})
        extent = self._body.value_of(loop.extent, {})
        self._values[loop.var] = _axis(start, max(extent, 0), self._next_axis)
        self._next_axis += 1
        return True


def _axis(start: int, extent: int, axis: int) -> np.ndarray[Any, Any]:
    return np.arange(start, start + extent, dtype=np.int64).reshape((extent,) + (1,) * axis)


def _all_different(columns: Iterable[np.ndarray[Any, Any]]) -> bool:
    """Whether no two positions have the same values in all of the columns."""
    code: Any = 0
    size = 1
    for column in columns:
        if column.size == 0:
            return True
        low = int(column.min())
        extent = int(column.max()) - low + 1
        size *= extent
        if size > 1 << 62:
            return False
        code = code * extent + (column - low)
    flat = np.ravel(code)
    if size < flat.size:
        return False
    if size <= 8 * flat.size:
        seen = np.zeros(size, np.bool_)
        seen[flat] = True
        return int(np.count_nonzero(seen)) == flat.size
    return int(np.unique(flat).size) == flat.size
