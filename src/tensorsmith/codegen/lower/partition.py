"""Loops are cut into ranges of iterations where conditions are decided.

A guard such as ``i * 4 + j < n`` holds in all iterations of `i` but the last ones; a padding
condition such as ``0 <= i - 1`` in all but the first. The loop becomes up to three, one after the
other; the middle one is free of the conditions. A parallel loop stays one, and its body gets a
condition for each iteration instead, with a body for either case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from tensorsmith.arith import Analyzer
from tensorsmith.codegen.lower.blocks import is_empty, simplify_stmt
from tensorsmith.codegen.lower.conditions import Cut, Found, comparisons, cut, is_inside
from tensorsmith.codegen.lower.tree import loads_anything
from tensorsmith.errors import ArithError
from tensorsmith.ir import (
    Alloc,
    And,
    Bind,
    Const,
    Expr,
    For,
    If,
    LoopKind,
    Max,
    Min,
    Seq,
    Stmt,
    TensorProgram,
    const,
    equal,
    free_vars,
    seq,
    substitute,
    transform,
)
from tensorsmith.ir.instantiate import instantiate
from tensorsmith.ir.rewrite import children, map_exprs, with_children

MOST_STATEMENTS: Final = 1024
"""Statements that all copies of one program may add, unrolled ones counted as often as they are
unrolled."""
FEWEST: Final = 2
"""Iterations for which a copy that checks nothing is worth having."""
MOST_NESTED: Final = 3
"""How often a range may be cut again."""
LONG: Final = 64
"""Statements to run beside which one condition does not count."""
UNKNOWN: Final = 16
"""Iterations of a loop of which the call alone tells how many there are."""


def partition_loops(program: TensorProgram) -> TensorProgram:
    """Cut loops so that most of their iterations check nothing.

    Before: no blocks. After: the same, with more loops. Cost: a walk of its body for each loop, and
    at most `MOST_STATEMENTS` more statements.
    """
    body = _Partition().stmt(program.body)
    return program if body is program.body else replace(program, body=body)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A range of a loop: from `start` to before `end`. What holds there: `facts` in terms of the
    loop's variable, and `decided` conditions."""

    start: Expr
    end: Expr
    facts: tuple[Expr, ...]
    decided: dict[Expr, bool]


class _Partition:
    """One program on its way."""

    def __init__(self) -> None:
        self.facts = Analyzer()
        self.budget = MOST_STATEMENTS

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case For():
                return self.loop(s)
            case If():
                parts = [self.under(s.condition, s.then)]
                if s.orelse is not None:
                    parts.append(self.under(~s.condition, s.orelse))
                return with_children(s, tuple(parts))
            case Seq():
                with self.facts.scope():
                    new = tuple(self.in_sequence(x) for x in s.stmts)
                same = all(a is b for a, b in zip(new, s.stmts, strict=True))
                return s if same else seq(*new)
        return with_children(s, tuple(self.stmt(c) for c in children(s)))

    def in_sequence(self, s: Stmt) -> Stmt:
        if isinstance(s, Bind) and s.value.dtype.is_index and not loads_anything(s.value):
            self.facts.learn(equal(s.var, s.value))
        return self.stmt(s)

    def under(self, condition: Expr, body: Stmt) -> Stmt:
        with self.facts.scope():
            self.facts.learn(condition)
            return self.stmt(body)

    # --- Loops -------------------------------------------------------------------------------

    def loop(self, s: For, depth: int = 0) -> Stmt:
        if s.kind in (LoopKind.SERIAL, LoopKind.PARALLEL) and depth < MOST_NESTED:
            cuts = self.cuts(s)
            ends = [c for c in cuts if is_end(s, c)]
            if ends and len(cuts) > 1 and s.kind is LoopKind.SERIAL:  # it only becomes shorter
                return self.pieces(s, ends[:1], depth - 1)
            if cuts and self.cost(s, cuts) <= self.budget:
                if s.kind is LoopKind.PARALLEL:
                    return self.versions(s, cuts)
                return self.pieces(s, cuts, depth)
        return self.inside(s)

    def inside(self, s: For) -> Stmt:
        """The loop with only what is in it cut."""
        with self.facts.scope():
            try:
                self.facts.bind(s.var, s.start, s.extent)
            except ArithError:  # it never runs
                return s
            return with_children(s, (self.stmt(s.body),))

    def cuts(self, s: For) -> list[Cut]:
        found = (cut(s, c, self.facts) for c in comparisons(s) if not is_cheap_inside(s, c))
        once = dict.fromkeys(c for c in found if c is not None)
        return [c for c in once if is_inside(s, c.at, self.facts)]

    def cost(self, s: For, cuts: Sequence[Cut]) -> int:
        """How many statements more there are when a loop is cut: none where nothing is done on the
        other side of a cut."""
        if len(cuts) == 1 and cuts[0].is_sharp:
            other = {cuts[0].condition: not cuts[0].value}
            with self.facts.scope():
                if is_empty(simplify_stmt(instantiate(_with_decided(s.body, other)), self.facts)):
                    return 0
        return 2 * weight(s.body)

    def pieces(self, s: For, cuts: Sequence[Cut], depth: int) -> Stmt:
        """The loop as a head, a middle where all cuts are decided, and a tail."""
        start, end = s.start, s.start + s.extent
        low, high = (tuple(c for c in cuts if c.is_low is side) for side in (True, False))
        first = self.clamped(low, start, end, Max)
        last = self.clamped(high, first, end, Min)
        size = self.facts.simplify(last - first)
        if isinstance(size, Const) and size.value < FEWEST:
            return self.inside(s)
        self.budget -= self.cost(s, cuts)
        decided = {c.condition: c.value for c in cuts}
        bounds = tuple(s.var >= c.at if c.is_low else s.var < c.at for c in cuts)
        middle = _Piece(first, last, bounds, decided)
        done: dict[int, Stmt] = {1: self.piece(s, middle, depth)}
        if low:
            done[0] = self.piece(s, self.outside(s, low, start, first), depth)
        if high:
            done[2] = self.piece(s, self.outside(s, high, last, end), depth)
        return seq(*(done[k] for k in sorted(done)))

    def clamped(self, cuts: Sequence[Cut], start: Expr, end: Expr, join: type[Expr]) -> Expr:
        """Where the middle begins (Max of the cuts) or ends (Min), within the loop."""
        if not cuts:
            return self.facts.simplify(start if join is Max else end)
        at = reduce(join, (c.at for c in cuts))
        return self.facts.simplify(Max(Min(at, end), start))

    def outside(self, s: For, cuts: Sequence[Cut], start: Expr, end: Expr) -> _Piece:
        """The iterations on the other side of the cuts of one side."""
        if len(cuts) > 1:
            return _Piece(start, end, (), {})
        (c,) = cuts
        fact = s.var < c.at if c.is_low else s.var >= c.at
        return _Piece(start, end, (fact,), {c.condition: not c.value} if c.is_sharp else {})

    def piece(self, s: For, piece: _Piece, depth: int) -> Stmt:
        extent = self.facts.simplify(piece.end - piece.start)
        if isinstance(extent, Const) and extent.value <= 0:
            return Seq(())
        var = s.var.renamed(s.var.name)
        body = instantiate(_with_decided(s.body, piece.decided), {s.var: var})
        with self.facts.scope():  # these hold where the piece runs, which may be nowhere
            try:
                self.facts.bind(var, piece.start, extent)
            except ArithError:
                return Seq(())
            for fact in piece.facts:
                self.facts.learn(substitute(fact, {s.var: var}))
            body = simplify_stmt(body, self.facts)
        loop = replace(s, var=var, start=piece.start, extent=extent, body=body)
        simple = simplify_stmt(loop, self.facts)
        return self.loop(simple, depth + 1) if isinstance(simple, For) else self.stmt(simple)

    def versions(self, s: For, cuts: Sequence[Cut]) -> Stmt:
        """A parallel loop whose body is there twice: with all cuts decided, and as it was."""
        self.budget -= weight(s.body)
        with self.facts.scope():
            try:
                self.facts.bind(s.var, s.start, s.extent)
            except ArithError:  # it never runs
                return s
            tests = [s.var >= c.at if c.is_low else s.var < c.at for c in cuts]
            condition = self.facts.simplify(reduce(lambda a, b: a & b, tests))
            decided = _with_decided(s.body, {c.condition: c.value for c in cuts})
            with self.facts.scope():
                self.facts.learn(condition)
                then = self.stmt(simplify_stmt(instantiate(decided), self.facts))
            with self.facts.scope():
                self.facts.learn(~condition)
                other = s.body
                if len(cuts) == 1 and cuts[0].is_sharp:
                    other = _with_decided(other, {cuts[0].condition: not cuts[0].value})
                orelse = self.stmt(simplify_stmt(other, self.facts))
        body = If(condition, then, None if is_empty(orelse) else orelse, span=s.span)
        return replace(s, body=body)


def _with_decided(s: Stmt, decided: dict[Expr, bool]) -> Stmt:
    """`s` with conditions replaced by what they are."""
    values: dict[Expr, Expr] = {c: const(int(v), "bool") for c, v in decided.items()}
    cache: dict[Expr, Expr] = {}
    return map_exprs(s, lambda e: transform(e, values.get, cache)) if values else s


def is_end(s: For, c: Cut) -> bool:
    """Whether nothing is done in the iterations on the other side of a cut."""
    return c.is_sharp and c.value and _asks_first(s.body, c.condition)


def _asks_first(s: Stmt, condition: Expr) -> bool:
    """Whether a statement does nothing unless a condition holds."""
    match s:
        case If(orelse=None):
            return condition in _conjuncts(s.condition) or _asks_first(s.then, condition)
        case Seq() | For():
            return all(_asks_first(c, condition) for c in children(s))
    return isinstance(s, (Alloc, Bind))


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    if isinstance(condition, And):
        for part in condition.args:
            yield from _conjuncts(part)
    else:
        yield condition


def is_cheap_inside(s: For, found: Found) -> bool:
    """Whether a condition costs next to nothing where it is, so that `s` need not be cut.

    That is where a loop inside will be cut, each range of which runs for long; or where it is
    asked a few times beside loops that run for long.
    """
    used = set(free_vars(found.condition))
    for at, loop in reversed(list(enumerate(found.loops))):
        if loop.kind is LoopKind.SERIAL and loop.var in used:
            inner = {x.var for x in found.loops[at + 1 :]}
            return inner.isdisjoint(used) and effort(loop.body) >= LONG
    if not found.loops or any(x.kind is not LoopKind.UNROLLED for x in found.loops):
        return False
    return effort(s.body) >= LONG * weight(found.loops[0])


def effort(s: Stmt) -> int:
    """How many statements are run; loops of unknown extents are taken to run `UNKNOWN` times."""
    inner = sum(effort(c) for c in children(s))
    if isinstance(s, For):
        return inner * (int(s.extent.value) if isinstance(s.extent, Const) else UNKNOWN)
    return inner + (0 if isinstance(s, Seq) else 1)


def weight(s: Stmt) -> int:
    """How many statements `s` is, unrolled loops as often as they run."""
    inner = sum(weight(c) for c in children(s))
    if isinstance(s, For) and s.kind is LoopKind.UNROLLED and isinstance(s.extent, Const):
        return inner * max(int(s.extent.value), 1)
    return inner + (0 if isinstance(s, Seq) else 1)
