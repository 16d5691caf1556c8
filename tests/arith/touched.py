"""Which elements a small program touches: found by running its loops, with no analysis at all."""

from __future__ import annotations

from arith.enumeration import TABLE
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import Expr, Load, Select, postorder
from tensorsmith.ir.fold import fold
from tensorsmith.ir.stmt import Alloc, Assert, Bind, Block, For, If, IterKind, Seq, Stmt, Store

Touched = dict[Buffer, set[tuple[int, ...]]]
DATA = 1
"""What every load yields."""


class Run:
    """Runs a statement; `reads` and `writes` collect the elements touched."""

    def __init__(self) -> None:
        self.reads: Touched = {}
        self.writes: Touched = {}

    def value(self, e: Expr, env: dict[Expr, object]) -> object:
        """The value of `e`; lazily, so that only loads that happen are noted."""
        if isinstance(e, Select):
            return self.value(e.a if self.value(e.condition, env) else e.b, env)
        if isinstance(e, Load):
            place = tuple(int(self.value(i, env)) for i in e.indices)
            self.reads.setdefault(e.buffer, set()).add(place)
            return DATA
        if any(isinstance(x, (Select, Load)) for x in postorder(e)):
            return TABLE[type(e)](e, *[self.value(a, env) for a in e.args])
        return fold(e, TABLE, dict(env))

    def run(self, stmt: Stmt, env: dict[Expr, object]) -> None:
        match stmt:
            case Seq():
                for part in stmt.stmts:
                    self.run(part, env)
            case Store():
                place = tuple(int(self.value(i, env)) for i in stmt.indices)
                self.value(stmt.value, env)
                self.writes.setdefault(stmt.buffer, set()).add(place)
            case Bind():
                env[stmt.var] = self.value(stmt.value, env)
            case If():
                chosen = stmt.then if self.value(stmt.condition, env) else stmt.orelse
                if chosen is not None:
                    self.run(chosen, env)
            case For():
                start, extent = self.value(stmt.start, env), self.value(stmt.extent, env)
                for v in range(int(start), int(start) + int(extent)):
                    self.run(stmt.body, {**env, stmt.var: v})
            case Block():
                self.block(stmt, env)
            case Alloc():
                pass
            case Assert():
                self.value(stmt.condition, env)
            case _:
                raise TypeError(stmt)

    def block(self, block: Block, env: dict[Expr, object]) -> None:
        if not self.value(block.predicate, env):
            return
        inside = {**env, **{it.var: self.value(it.binding, env) for it in block.iters}}
        self.inside(block, inside)

    def inside(self, block: Block, env: dict[Expr, object]) -> None:
        """One execution of a block's init and body."""
        firsts = (
            env[it.var] == self.value(it.start, env)
            for it in block.iters
            if it.kind is IterKind.REDUCE
        )
        if block.init is not None and all(firsts):
            self.run(block.init, env)
        self.run(block.body, env)


def elements(region: Region, env: dict[Expr, object]) -> list[tuple[int, int]]:
    """Start and stop of each dimension at given values."""
    run = Run()
    found = []
    for start, extent in region.ranges:
        first = int(run.value(start, env))
        found.append((first, first + int(run.value(extent, env))))
    return found


def covers(region: Region, env: dict[Expr, object], places: set[tuple[int, ...]]) -> bool:
    """Whether the box holds all these elements."""
    bounds = elements(region, env)
    return all(
        low <= at < high for place in places for at, (low, high) in zip(place, bounds, strict=True)
    )
