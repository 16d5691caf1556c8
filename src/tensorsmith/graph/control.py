"""Control flow in host programs.

What sizes are known for before a branch or loop lies in memory that is there before it: both bodies
of a branch write the same place, a loop's states take turns in two, and its scans fill their
results row by row. Values of other sizes are copied at the end of a body to memory that a *cell*
holds (``ts_hold``, ``ts_append``), which is dropped where the sequence around ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tensorsmith.graph.lifetimes import is_counted, tensor
from tensorsmith.graph.memory import bytes_of
from tensorsmith.ir import (
    Alloc,
    And,
    Bind,
    Buffer,
    Cast,
    Expr,
    For,
    If,
    Invoke,
    Load,
    Lt,
    Max,
    Stmt,
    Store,
    Var,
    While,
    const,
)
from tensorsmith.ir.dtype import index, int64
from tensorsmith.ir.graph import Body, Branch, Loop, Value
from tensorsmith.ir.stmt import TRUE

if TYPE_CHECKING:
    from tensorsmith.graph.host import HostBuilder

ZERO = const(0)


@dataclass(slots=True)
class Number:
    """An integer in memory, which statements change."""

    buffer: Buffer

    @staticmethod
    def called(name: str) -> Number:
        """A new one."""
        return Number(Buffer(name, (1,), int64))

    def start(self, value: int = 0) -> list[Stmt]:
        """Its memory, and its first value."""
        return [Alloc(self.buffer), Store(self.buffer, (ZERO,), const(value, int64))]

    def set(self, value: Expr) -> Stmt:
        """Another value."""
        return Store(self.buffer, (ZERO,), Cast(value, int64))

    @property
    def value(self) -> Expr:
        """What it is now."""
        return Cast(Load(self.buffer, (ZERO,)), index)


@dataclass(slots=True)
class Held:
    """A value whose extents are known late: the cell of its memory, and a number for each extent
    that only runs tell. used: the bytes that have been appended."""

    value: Buffer
    cell: Buffer
    extents: dict[int, Number]
    used: Number = field(default_factory=lambda: Number.called("used"))

    @staticmethod
    def of(host: HostBuilder, value: Buffer) -> Held:
        """A new cell for a value, from here on."""
        cell = Buffer(f"{value.name}_cell", (1,), int64)
        host.held[host.lifetimes.root(value)] = cell
        host.cells.append(cell)
        open_ = [
            axis
            for axis, e in enumerate(value.shape)
            if isinstance(e, Var) and not host.is_bound(e)
        ]
        return Held(value, cell, {a: Number.called(f"{value.name}_extent") for a in open_})

    def start(self) -> list[Stmt]:
        """The cell, empty."""
        numbers = [s for n in self.extents.values() for s in n.start()]
        return [*Number(self.cell).start(), *numbers]

    def keep(self, source: Buffer) -> list[Stmt]:
        """Let the cell hold a copy of a value, and the numbers its extents."""
        size = Cast(bytes_of(source.shape, source.dtype.bytes), int64)
        hold = Invoke("ts_hold", (self.cell.region(), source.region(), size))
        return [hold, *(n.set(source.shape[axis]) for axis, n in self.extents.items())]

    def append(self, source: Buffer) -> list[Stmt]:
        """Let the cell hold a value after those that it holds. The first extent counts them."""
        size = bytes_of(source.shape, source.dtype.bytes)
        args = (self.cell.region(), source.region(), Cast(size, int64))
        append = Invoke("ts_append", (*args, Cast(self.used.value, int64)))
        inner = [n.set(source.shape[a - 1]) for a, n in self.extents.items() if a]
        return [append, self.used.set(self.used.value + size), *inner]

    def define(self, host: HostBuilder, value: Buffer) -> list[Stmt]:
        """A value of the same type in the memory that the cell holds now."""
        stmts: list[Stmt] = []
        for axis, number in self.extents.items():
            extent = value.shape[axis]
            if isinstance(extent, Var) and not host.is_bound(extent):
                stmts.extend(host.bound(extent, number.value))
        host.held[host.lifetimes.root(value)] = self.cell
        return [*stmts, *host.define(value)]


# --- Branches -----------------------------------------------------------------------------------


def branch(host: HostBuilder, b: Branch) -> list[Stmt]:
    """The statements of a branch."""
    held: dict[Value, Held] = {}
    stmts: list[Stmt] = []
    for result in map(tensor, b.results):
        if result in host.lifetimes.held:
            held[result] = Held.of(host, result)
            stmts.extend(held[result].start())
        else:
            stmts.extend(host.define(result))

    def body(side: Body) -> Stmt:
        def finish() -> list[Stmt]:
            pairs = zip(side.results, b.results, strict=True)
            return [s for v, r in pairs if r in held for s in held[r].keep(tensor(v))]

        return host.sequence(side.bindings, finish)

    stmts.append(If(Load(b.condition, ()), body(b.then), body(b.orelse), span=b.span))
    for place in held.values():
        stmts.extend(place.define(host, place.value))
    return stmts


# --- Loops --------------------------------------------------------------------------------------


def loop(host: HostBuilder, b: Loop) -> list[Stmt]:
    """The statements of a loop."""
    return _Loop(host, b).stmts()


class _Loop:
    """A loop on its way.

    held: states and scans that lie in cells, by their place among the results.
    """

    def __init__(self, host: HostBuilder, b: Loop) -> None:
        self.host = host
        self.loop = b
        self.count = len(b.initial)
        self.turn, self.turns = host.lifetimes.turns[b]
        self.held: dict[int, Held] = {}
        self.going = Buffer("going", (1,), "bool")
        self.at = Number.called("at")

    def stmts(self) -> list[Stmt]:
        """All of it."""
        stmts = self.begin()
        if is_counted(self.loop):
            trip = self.loop.trip
            assert trip is not None
            stmts.append(For(self.turn, trip, self.body()))
            total: Expr = Max(trip, ZERO)
        else:
            stmts.extend(self.repeated())
            total = self.at.value
        stmts.append(Bind(self.turns, total))
        return [*stmts, *self.end()]

    def begin(self) -> list[Stmt]:
        """Memory for what the loop gives, and the states before it."""
        stmts: list[Stmt] = []
        for n, result in enumerate(map(tensor, self.loop.results)):
            if result in self.host.lifetimes.held:
                place = self.held[n] = Held.of(self.host, result)
                stmts.extend(place.start())
                if n < self.count:
                    stmts.extend(place.keep(tensor(self.loop.initial[n])))
                else:
                    stmts.extend(place.used.start())
            elif n >= self.count:
                stmts.extend(self.host.define(result))
        return stmts

    def repeated(self) -> list[Stmt]:
        """The loop, as long as its condition holds and its bound is not reached."""
        b = self.loop
        start = TRUE if b.condition is None else Load(b.condition, ())
        stmts: list[Stmt] = [Alloc(self.going), Store(self.going, (ZERO,), start)]
        stmts.extend(self.at.start())
        goes_on: Expr = Load(self.going, (ZERO,))
        if b.trip is not None:
            goes_on = And(goes_on, Lt(self.at.value, b.trip))
        bound = self.host.bound(self.turn, self.at.value)
        return [*stmts, While(goes_on, self.body(bound))]

    def body(self, before: Sequence[Stmt] = ()) -> Stmt:
        """One iteration."""
        host, body = self.host, self.loop.body
        stmts = [*before]
        for variable in body.variables:
            stmts.extend(host.bound(variable, self.turn))
        for n, param in enumerate(map(tensor, body.params)):
            if n in self.held:
                stmts.extend(self.held[n].define(host, param))
        stmts.extend(host.arena(host.lifetimes.opened.get(body)))
        for n, param in enumerate(map(tensor, body.params)):
            if n not in self.held:
                stmts.extend(host.define(param))
        return host.sequence(body.bindings, self.finish, before=stmts)

    def finish(self) -> list[Stmt]:
        """The end of an iteration: what it gives is kept."""
        b = self.loop
        first = int(b.has_condition)
        stmts: list[Stmt] = []
        for n, place in self.held.items():
            made = tensor(b.body.results[first + n])
            stmts.extend(place.keep(made) if n < self.count else place.append(made))
        if b.has_condition:
            on = Load(tensor(b.body.results[0]), ())
            stmts.append(Store(self.going, (ZERO,), on))
        if not is_counted(b):
            stmts.append(self.at.set(self.turn + 1))
        return stmts

    def end(self) -> list[Stmt]:
        """The results, after the loop."""
        stmts: list[Stmt] = []
        for n, result in enumerate(map(tensor, self.loop.results)):
            if n >= self.count and n in self.held:
                counter = result.shape[0]
                if isinstance(counter, Var) and not self.host.is_bound(counter):
                    stmts.extend(self.host.bound(counter, self.turns))
            if n in self.held:
                stmts.extend(self.held[n].define(self.host, result))
            elif n < self.count:
                stmts.extend(self.host.define(result))
        return stmts
