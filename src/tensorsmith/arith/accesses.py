"""The accesses of a statement: each load, store and region argument, with its surroundings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import (
    And,
    Const,
    Expr,
    Load,
    Not,
    Or,
    Select,
    Var,
    equal,
    postorder,
    substitute,
)
from tensorsmith.ir.stmt import (
    Alloc,
    Assert,
    Bind,
    Block,
    For,
    If,
    Invoke,
    IterKind,
    Seq,
    Stmt,
    Store,
    View,
    While,
)

MOST_GUARDS: Final = 32
"""Guards beyond these are dropped, so that deep nests of selects take linear space."""

Guards = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """A place that reads or writes a buffer.

    region: what one execution touches, in terms of variables defined outside of the statement, of
        `loops` and of `unknown`. Values bound by `Bind` and by nested blocks are written in.
    guards: conditions that hold whenever the access happens; free of loads.
    loops: the loops inside of the statement around the access, outermost first, in the same terms.
    unknown: variables inside of the statement whose values depend on data.
    stmt: the statement that holds the access.
    """

    region: Region
    is_write: bool
    guards: Guards
    loops: tuple[For, ...]
    unknown: frozenset[Var]
    stmt: Stmt

    @property
    def relaxed(self) -> frozenset[Expr]:
        """The variables of `loops`."""
        return frozenset(loop.var for loop in self.loops)


@dataclass(frozen=True, slots=True)
class _Place:
    guards: Guards = ()
    loops: tuple[For, ...] = ()
    reads: bool = True
    """Whether reads count here; not inside of a block that states its reads."""
    writes: bool = True

    def guarded(self, condition: Expr) -> _Place:
        loaded = _loaded(postorder(condition))
        guards = _with_guard(self.guards, condition, holds=True, loaded=loaded)
        return _Place(guards, self.loops, self.reads, self.writes)


def collect_accesses(stmt: Stmt, *, inside: bool = False) -> tuple[Access, ...]:
    """Every access of `stmt` to a buffer that is not allocated in it, in order of the text.

    inside: of a block that is `stmt` itself, take the inside alone: its body and init in terms of
        its iterators, with neither predicate nor bindings, whatever regions are written out on it.
    """
    walk = _Walk()
    if inside and isinstance(stmt, Block):
        init = [] if stmt.init is None else [(stmt.init, _Place(_first_point(stmt)))]
        walk.run([*init, (stmt.body, _Place())])
    else:
        walk.run([(stmt, _Place())])
    return tuple(
        Access(a.region, a.is_write, a.guards, a.loops, frozenset(walk.unknown), a.stmt)
        for a in walk.found
        if a.region.buffer not in walk.allocated
    )


@dataclass(slots=True)
class _Walk:
    """A walk in order of the text. Iterative: statements may be nested deeply."""

    found: list[Access] = field(default_factory=list)
    allocated: set[Buffer] = field(default_factory=set)
    values: dict[Expr, Expr] = field(default_factory=dict)
    """Variables that stand for load-free expressions of variables outside and of loops."""
    unknown: set[Var] = field(default_factory=set)

    def run(self, work: list[tuple[Stmt, _Place]]) -> None:
        stack = work[::-1]
        while stack:
            stmt, place = stack.pop()
            stack.extend(reversed(list(self._visit(stmt, place))))

    def _visit(self, stmt: Stmt, place: _Place) -> Iterable[tuple[Stmt, _Place]]:
        """Note the accesses of `stmt` itself; return its parts to visit."""
        match stmt:
            case Seq():
                return [(part, place) for part in stmt.stmts]
            case Store():
                self._loads((*stmt.indices, stmt.value), stmt, place)
                self._add(Region.point(stmt.buffer, stmt.indices), True, stmt, place)
            case Bind():
                self._loads((stmt.value,), stmt, place)
                self._define(stmt.var, stmt.value)
            case Alloc():
                self.allocated.add(stmt.buffer)
            case View():
                self._view(stmt, place)
            case Assert():
                self._loads((stmt.condition,), stmt, place)
            case Invoke():
                self._invoke(stmt, place)
            case If():
                return self._if(stmt, place)
            case While():
                self._loads((stmt.condition,), stmt, place)
                return [(stmt.body, place)]
            case For():
                return [self._for(stmt, place)]
            case Block():
                return self._block(stmt, place)
        return ()

    def _view(self, stmt: View, place: _Place) -> None:
        """What is done with a view may be done with all of its source."""
        self.allocated.add(stmt.buffer)
        self._loads((stmt.offset,), stmt, place)
        if isinstance(stmt.source, Buffer):
            self._add(stmt.source.region(), False, stmt, place)
            self._add(stmt.source.region(), True, stmt, place)
        else:
            self._loads((stmt.source,), stmt, place)

    def _if(self, stmt: If, place: _Place) -> list[tuple[Stmt, _Place]]:
        self._loads((stmt.condition,), stmt, place)
        condition = self._expand(stmt.condition)
        parts = [(stmt.then, place.guarded(condition))]
        if stmt.orelse is not None:
            parts.append((stmt.orelse, place.guarded(Not(condition))))
        return parts

    def _for(self, stmt: For, place: _Place) -> tuple[Stmt, _Place]:
        self._loads((stmt.start, stmt.extent), stmt, place)
        start, extent = self._expand(stmt.start), self._expand(stmt.extent)
        if self._depends_on_data(start, extent):
            self.unknown.add(stmt.var)
            return stmt.body, place
        loop = For(stmt.var, extent, stmt.body, stmt.kind, start, stmt.thread, stmt.attrs)
        return stmt.body, _Place(place.guards, (*place.loops, loop), place.reads, place.writes)

    def _block(self, block: Block, place: _Place) -> list[tuple[Stmt, _Place]]:
        self._loads((*(it.binding for it in block.iters), block.predicate), block, place)
        for it in block.iters:
            self._define(it.var, it.binding)
        place = place.guarded(self._expand(block.predicate))
        for stated, is_write in ((block.reads, False), (block.writes, True)):
            for region in stated or ():
                self._add(region, is_write, block, place)
        inner = _Place(
            place.guards,
            place.loops,
            place.reads and block.reads is None,
            place.writes and block.writes is None,
        )
        parts = [(block.body, inner)]
        if block.init is not None:
            first = inner
            for condition in _first_point(block):
                first = first.guarded(self._expand(condition))
            parts.insert(0, (block.init, first))
        return parts

    def _invoke(self, stmt: Invoke, place: _Place) -> None:
        for at, arg in enumerate(stmt.args):
            if isinstance(arg, Region):
                self._loads((e for pair in arg.ranges for e in pair), stmt, place)
                if at or not stmt.is_instruction:
                    self._add(arg, False, stmt, place)
                if not at or not stmt.is_instruction:
                    self._add(arg, True, stmt, place)
            else:
                self._loads((arg,), stmt, place)

    def _define(self, var: Var, value: Expr) -> None:
        value = self._expand(value)
        if self._depends_on_data(value):
            self.unknown.add(var)
        else:
            self.values[var] = value

    def _depends_on_data(self, *exprs: Expr) -> bool:
        return any(type(e) is Load or e in self.unknown for e in postorder(*exprs))

    def _expand(self, e: Expr) -> Expr:
        return substitute(e, self.values) if self.values else e

    def _loads(self, exprs: Iterable[Expr], stmt: Stmt, place: _Place) -> None:
        for load, guards in guarded_loads(tuple(exprs)):
            at = place
            for guard in guards:
                at = at.guarded(self._expand(guard))
            self._add(Region.point(load.buffer, load.indices), False, stmt, at)

    def _add(self, region: Region, is_write: bool, stmt: Stmt, place: _Place) -> None:
        if not (place.writes if is_write else place.reads):
            return
        ranges = [(self._expand(start), self._expand(extent)) for start, extent in region.ranges]
        region = Region(region.buffer, ranges)
        self.found.append(Access(region, is_write, place.guards, place.loops, frozenset(), stmt))


def _first_point(block: Block) -> Guards:
    """What holds when the init of `block` runs."""
    return tuple(equal(it.var, it.start) for it in block.iters if it.kind is IterKind.REDUCE)


def _with_guard(guards: Guards, condition: Expr, *, holds: bool, loaded: set[Expr]) -> Guards:
    """`guards` and those parts of `condition`, which holds or does not, that are free of loads."""
    if len(guards) >= MOST_GUARDS:
        return guards
    parts = list(islice(_parts(condition, holds=holds), MOST_GUARDS))
    for part, positive in reversed(parts):
        if type(part) is not Const and part not in loaded and len(guards) < MOST_GUARDS:
            guard = part if positive else Not(part)
            guards = guards if guard in guards else (*guards, guard)
    return guards


def _parts(condition: Expr, *, holds: bool) -> Iterator[tuple[Expr, bool]]:
    """What holds (True) or does not (False) where `condition` does, the last part first."""
    stack = [(condition, holds)]
    while stack:
        e, positive = stack.pop()
        if type(e) is Not:
            stack.append((e.args[0], not positive))
        elif type(e) is (And if positive else Or):
            stack.extend((a, positive) for a in e.args)
        else:
            yield e, positive


def _loaded(order: Iterable[Expr]) -> set[Expr]:
    """Those of the nodes, given in postorder, that are loads or have one below them."""
    loaded: set[Expr] = set()
    for e in order:
        if type(e) is Load or any(a in loaded for a in e.args):
            loaded.add(e)
    return loaded


def guarded_loads(roots: tuple[Expr, ...]) -> Iterator[tuple[Load, Guards]]:
    """Each distinct load under `roots` with conditions that hold whenever it is evaluated.

    `Select`, `And` and `Or` evaluate only what they must. A load that several users share gets the
    conditions common to all of them.
    """
    order = list(postorder(*roots))
    loaded = _loaded(order)
    guards: dict[Expr, Guards] = dict.fromkeys(roots, ())
    for e in reversed(order):
        if e not in loaded:
            continue
        own = guards[e]
        for arg, condition in zip(e.args, _conditions(e), strict=True):
            if arg not in loaded:
                continue
            reached = own
            if condition is not None:
                reached = _with_guard(own, condition[0], holds=condition[1], loaded=loaded)
            known = guards.get(arg)
            guards[arg] = reached if known is None else _common_prefix(known, reached)
    yield from ((e, guards[e]) for e in order if type(e) is Load)


def _conditions(e: Expr) -> tuple[tuple[Expr, bool] | None, ...]:
    """For each operand of `e`, what holds (True) or does not (False) where it is evaluated."""
    if type(e) is Select:
        return None, (e.condition, True), (e.condition, False)
    if type(e) is And:
        return None, (e.a, True)
    if type(e) is Or:
        return None, (e.a, False)
    return (None,) * len(e.args)


def _common_prefix(a: Guards, b: Guards) -> Guards:
    if a == b:
        return a
    length = 0
    while length < min(len(a), len(b)) and a[length] is b[length]:
        length += 1
    return a[:length]
