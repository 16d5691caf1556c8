"""What the verifier knows at the place where it is."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from tensorsmith.arith import Analyzer, conjuncts
from tensorsmith.errors import ArithError, Span
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.dtype import Kind
from tensorsmith.ir.expr import Const, Expr, Load, Var, const, postorder, substitute
from tensorsmith.ir.module import IRModule, TensorProgram
from tensorsmith.ir.stmt import ZERO, Block, For, If, Invoke, Seq, Stmt, Store, View, While
from tensorsmith.verify.errors import VerifyError

Symbol: TypeAlias = Var | Buffer


MOST_CONJUNCTS: Final = 64
MOST_FACTS: Final = 400
"""Conditions beyond these, of one conjunction and at one place, are not used: each fact makes all
proofs slower."""


class Role(enum.Enum):
    """What defines a symbol."""

    PARAMETER = "parameter"
    DIMENSION = "dimension"
    LOOP = "loop variable"
    ITERATOR = "iterator"
    BINDING = "binding"
    ALLOCATION = "allocation"
    VIEW = "view"


ISOLATED: Final = frozenset({Role.LOOP, Role.BINDING})
"""Roles of what a block must not take from around it."""


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a symbol was defined, as what, and inside of how many blocks."""

    role: Role
    block_depth: int
    place: Span | str | None


@dataclass(frozen=True, slots=True)
class Range:
    """The fact ``start <= var < start + extent``."""

    var: Var
    start: Expr
    extent: Expr


Fact: TypeAlias = Range | Expr
"""A range, or a condition that holds."""


class Context:
    """The state of a walk over one program: scopes, facts, place, and the problems found so far.

    visible, ended: symbols in scope, and those whose scope has ended.
    data_dependent: variables whose values depend on loaded data or on a scalar parameter.
    values: bindings whose value stands for the variable wherever it is in scope.
    loops: the loops around, up to the next block or `while`; their variables feed block bindings.
    conditions: the conditions of `if` around, since the same place.
    facts: what the analyzer was told of, in order.
    iterator_ranges: start and extent of the iterators of blocks around.
    ranges: start and extent of every variable that the analyzer has a range of.
    proven: conditions that were shown to hold here.
    written: buffers that hold something by now: an earlier statement has written to them.
    """

    def __init__(self, program: TensorProgram, module: IRModule) -> None:
        self.program = program
        self.module = module
        self.analyzer = Analyzer()
        self.problems: list[VerifyError] = []
        self.place: Span | str | None = program.span or f"in {program.name!r}"
        self.visible: dict[Symbol, Definition] = {}
        self.ended: dict[Symbol, Definition] = {}
        self.block_names: list[str] = []
        self.unreachable = False
        self.data_dependent: set[Var] = set()
        self.values: dict[Expr, Expr] = {}
        self.loops: tuple[For, ...] = ()
        self.conditions: tuple[Expr, ...] = ()
        self.facts: tuple[Fact, ...] = ()
        self.iterator_ranges: dict[Var, tuple[Expr, Expr]] = {}
        self.ranges: dict[Expr, tuple[Expr, Expr]] = {}
        self.proven: frozenset[Expr] = frozenset()
        self.written: set[Buffer] = set()
        self.mutable = written_buffers(program.body)
        self._reported: set[tuple[type[VerifyError], object]] = set()

    def report(
        self,
        error: type[VerifyError],
        what: str,
        *,
        about: object = None,
        given: str | None = None,
        because: str | None = None,
        try_: str | None = None,
    ) -> None:
        """Note a problem at this place; one error a class and thing that it is `about`."""
        if about is not None:
            if (error, about) in self._reported:
                return
            self._reported.add((error, about))
        self.problems.append(error(what, where=self.place, given=given, because=because, try_=try_))

    @contextmanager
    def at(self, stmt: Stmt) -> Iterator[None]:
        """Problems inside are placed at `stmt`, as far as it knows its place."""
        before = self.place
        self.place = stmt.span or before
        try:
            yield
        finally:
            self.place = before

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Definitions and facts inside end with it."""
        visible, values, facts = dict(self.visible), self.values, self.facts
        loops, conditions, unreachable = self.loops, self.conditions, self.unreachable
        proven = self.proven
        try:
            with self.analyzer.scope():
                yield
        finally:
            for symbol, definition in self.visible.items():
                if symbol not in visible:
                    self.ended[symbol] = definition
            self.visible, self.values, self.facts = visible, values, facts
            self.loops, self.conditions, self.unreachable = loops, conditions, unreachable
            self.proven = proven

    # --- Facts -------------------------------------------------------------------------------

    def resolve(self, e: Expr) -> Expr:
        """`e` with bindings replaced by their values, where those stay what they were."""
        return substitute(e, self.values) if self.values else e

    def bind_value(self, var: Var, value: Expr) -> None:
        """Let `var` be `value` from here on."""
        if self.depends_on_data(value):
            self.data_dependent.add(var)
        if value.dtype.flag & (Kind.INTEGER | Kind.BOOL) and self.is_stable(value):
            self.values = {**self.values, var: self.resolve(value)}

    def bind_range(self, var: Var, start: Expr, extent: Expr) -> None:
        """Let `var` range over ``start <= var < start + extent``, if that can be at all."""
        start, extent = self.resolve(start), self.resolve(extent)
        if self.depends_on_data(start) or self.depends_on_data(extent):
            self.data_dependent.add(var)
        if not (self.is_stable(start) and self.is_stable(extent)):
            return
        if self.prove(extent <= 0) is True:
            self.unreachable = True
        else:
            self.analyzer.bind(var, start, extent)
            self.facts = (*self.facts, Range(var, start, extent))
            self.ranges[var] = start, extent

    def assume(self, condition: Expr) -> None:
        """Let `condition` hold from here on; what follows is unreachable if it cannot."""
        for part in conjuncts(self.resolve(condition))[:MOST_CONJUNCTS]:
            if self.is_stable(part) and len(self.facts) < MOST_FACTS:
                try:
                    self.analyzer.assume(part)
                except ArithError:
                    self.unreachable = True
                else:
                    self.facts = (*self.facts, part)

    def assume_around(self, condition: Expr) -> None:
        """Let the condition of an `if` hold, and cut the loops around blocks inside."""
        self.assume(condition)
        self.conditions = (*self.conditions, *conjuncts(self.resolve(condition)))

    def prove(self, condition: Expr) -> bool | None:
        """Whether `condition` holds here: always, never, or perhaps (None)."""
        if condition in self.proven:
            return True
        answer = self.analyzer.prove(condition)
        if answer is True:
            self.proven = self.proven | {condition}
        return answer

    def depends_on_data(self, e: Expr) -> bool:
        """Whether a load or a scalar parameter decides the value of `e`."""
        return any(type(n) is Load or n in self.data_dependent for n in postorder(e))

    def is_stable(self, e: Expr) -> bool:
        """Whether `e` reads nothing that the program may write: then it stays what it is."""
        return not any(type(n) is Load and n.buffer in self.mutable for n in postorder(e))


def stop_of(start: Expr, extent: Expr) -> Expr:
    """``start + extent``, as people write it."""
    if isinstance(start, Const) and isinstance(extent, Const):
        return const(int(start.value) + int(extent.value))
    return extent if start is ZERO else start + extent


def is_index(e: Expr) -> bool:
    """Whether `e` is a single ``index``."""
    return bool(e.dtype.flag & Kind.INDEX) and e.dtype.lanes == 1


def written_buffers(root: Stmt) -> frozenset[Buffer]:
    """The buffers that some statement under `root` may write, itself or through a view: what is
    viewed counts as written, as do the views."""
    written: set[Buffer] = set()
    for stmt in statements_under(root):
        if isinstance(stmt, View):
            written.add(stmt.buffer)
            if isinstance(stmt.source, Buffer):
                written.add(stmt.source)
        elif isinstance(stmt, Store):
            written.add(stmt.buffer)
        elif isinstance(stmt, Invoke):
            written.update(a.buffer for a in stmt.args if isinstance(a, Region))
    return frozenset(written)


def statements_under(root: Stmt, *, blocks: bool = True) -> Iterator[Stmt]:
    """`root` and every statement in it, in order of the text.

    blocks: whether to look into blocks; those that are left out are still yielded.
    """
    stack = [root]
    while stack:
        stmt = stack.pop()
        yield stmt
        stack.extend(reversed(tuple(children(stmt, blocks=blocks))))


def children(stmt: Stmt, *, blocks: bool = True) -> Iterable[Stmt]:
    """The statements that `stmt` holds directly, in order of the text."""
    match stmt:
        case Seq():
            return stmt.stmts
        case If():
            return (stmt.then,) if stmt.orelse is None else (stmt.then, stmt.orelse)
        case For() | While():
            return (stmt.body,)
        case Block() if blocks:
            return (stmt.body,) if stmt.init is None else (stmt.init, stmt.body)
    return ()
