"""The one traversal of programs, generic over a domain of values: see `Domain`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, Generic

import numpy as np

from tensorsmith.errors import EvaluationError, TensorsmithError
from tensorsmith.evaluate.domain import Domain, M, V
from tensorsmith.evaluate.expressions import evaluate_expr
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import And, Const, Eq, Expr, Load, Var
from tensorsmith.ir.module import IRModule, TensorProgram
from tensorsmith.ir.stmt import (
    TRUE,
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


def init_condition(block: Block) -> Expr:
    """Where the init of `block` runs: every reduce iterator has its first value."""
    first: list[Expr] = [Eq(it.var, it.start) for it in block.iters if it.kind is IterKind.REDUCE]
    return reduce(And, first) if first else TRUE


@dataclass(frozen=True, slots=True)
class _LoopBody(Generic[V, M]):
    walker: Walker[V, M]
    loop: For

    def __call__(self, value: V) -> None:
        self.walker.values[self.loop.var] = value
        self.walker.run(self.loop.body)

    def value_of(self, e: Expr, given: Mapping[Var, V]) -> V:
        return self.walker.evaluate(e, dict(given.items()))


class Walker(Generic[V, M]):
    """Walks programs over a domain. `call` is the way in."""

    def __init__(self, domain: Domain[V, M], functions: Mapping[str, TensorProgram]) -> None:
        self.domain = domain
        self.functions = functions
        self.values: dict[Var, V] = {}
        self.memories: dict[Buffer, M] = {}
        self._active: list[str] = []
        self._conditions: dict[Block, Expr] = {}
        self._constants: dict[Expr, V] = {}
        self._operations: dict[type[Expr], Callable[..., V]] = {
            **domain.operations,
            Var: self._variable,
            Load: self._load,
        }
        self._statements: Final[dict[type[Stmt], Callable[..., None]]] = {
            Seq: self._seq,
            Store: self._store,
            Bind: self._bind,
            Alloc: self._alloc,
            View: self._view,
            Assert: self._assert,
            Invoke: self._invoke,
            If: self._if,
            While: self._while,
            For: self._for,
            Block: self._block,
        }

    def call(self, program: TensorProgram, args: Sequence[V | M]) -> None:
        """Walk `program` with these arguments, values and buffers of the domain."""
        if program.name in self._active:
            raise EvaluationError(
                f"{program.name} calls itself",
                where=program.span,
                given=" -> ".join([*self._active, program.name]),
                because="programs do not recurse",
            )
        outer = self.values, self.memories, self.domain.program
        self._active.append(program.name)
        self.domain.program = program.name
        try:
            self.values, self.memories = self.domain.bind_parameters(program, args)
            with np.errstate(all="ignore"):  # infinities, NaN and wrapping are no accidents
                self.run(program.body)
        except TensorsmithError as error:
            error.at(program.span or f"in {program.name!r}")
            raise
        self.values, self.memories, self.domain.program = outer
        self._active.pop()

    def run(self, stmt: Stmt) -> None:
        """Walk one statement. Errors get its place."""
        try:
            self._statements[type(stmt)](stmt)
        except TensorsmithError as error:
            error.at(stmt.span)
            raise

    def evaluate(self, e: Expr, known: dict[Expr, V] | None = None) -> V:
        """The value of `e` here. `known` gives values of nodes, and receives those of all nodes."""
        kind = type(e)
        if kind is Const and e in self._constants:
            return self._constants[e]
        known = {} if known is None else known
        if kind is Var and e in self.values and e not in known:
            return self.values[e]
        if kind is Const:
            return self._constants.setdefault(e, self._operations[Const](e))
        return evaluate_expr(e, self.domain, self._operations, known)

    # --- Expressions ---

    def _variable(self, var: Var) -> V:
        try:
            return self.values[var]
        except KeyError:
            raise EvaluationError(
                f"{self.domain.program} uses the variable {var.name!r}, which has no value here",
                because="no parameter's shape, loop, block or binding around gives it one",
            ) from None

    def _load(self, e: Load, *indices: V) -> V:
        return self.domain.load(e, self._memory(e.buffer), indices)

    def _memory(self, buffer: Buffer) -> M:
        try:
            return self.memories[buffer]
        except KeyError:
            raise EvaluationError(
                f"{self.domain.program} uses the buffer {buffer.name!r}, which it has not got",
                because="it is neither a parameter nor allocated before",
            ) from None

    # --- Statements ---

    def _seq(self, stmt: Seq) -> None:
        for part in stmt.stmts:
            self.run(part)

    def _store(self, stmt: Store) -> None:
        known: dict[Expr, V] = {}
        indices = [self.evaluate(i, known) for i in stmt.indices]
        value = self.evaluate(stmt.value, known)
        self.domain.store(stmt, self._memory(stmt.buffer), indices, value)

    def _bind(self, stmt: Bind) -> None:
        self.values[stmt.var] = self.evaluate(stmt.value)

    def _alloc(self, stmt: Alloc) -> None:
        shape = [self.evaluate(extent) for extent in stmt.buffer.shape]
        self.memories[stmt.buffer] = self.domain.allocate(stmt, shape)

    def _view(self, stmt: View) -> None:
        shape = [self.evaluate(extent) for extent in stmt.buffer.shape]
        offset = self.evaluate(stmt.offset)
        source: V | M
        if isinstance(stmt.source, Buffer):
            source = self._memory(stmt.source)
        else:
            source = self.evaluate(stmt.source)
        self.memories[stmt.buffer] = self.domain.view_bytes(stmt, source, offset, shape)

    def _assert(self, stmt: Assert) -> None:
        self.domain.check(stmt, self.evaluate(stmt.condition))

    def _invoke(self, stmt: Invoke) -> None:
        args = [self._region(a) if isinstance(a, Region) else self.evaluate(a) for a in stmt.args]
        callee = self.functions.get(stmt.callee)
        if callee is None:
            self.domain.call_external(stmt, args)
        else:
            self.call(callee, args)

    def _region(self, region: Region) -> M:
        ranges = [(self.evaluate(start), self.evaluate(extent)) for start, extent in region.ranges]
        return self.domain.view(region, self._memory(region.buffer), ranges)

    def _if(self, stmt: If) -> None:
        self._branch(self.evaluate(stmt.condition), stmt.then, stmt.orelse)

    def _branch(
        self, condition: V, then: Stmt, orelse: Stmt | None, init_of: Block | None = None
    ) -> None:
        decision = self.domain.decide(condition)
        if decision is not None:
            taken = then if decision else orelse
            if taken is not None:
                self.run(taken)
            return
        if init_of is None:
            self.domain.enter_then(condition)
        else:
            self.domain.enter_init(init_of, condition)
        self.run(then)
        self.domain.enter_else()
        if orelse is not None:
            self.run(orelse)
        self.domain.leave()

    def _while(self, stmt: While) -> None:
        self.domain.repeat(stmt, lambda: self.evaluate(stmt.condition), lambda: self.run(stmt.body))

    def _for(self, stmt: For) -> None:
        start, extent = self.evaluate(stmt.start), self.evaluate(stmt.extent)
        self.domain.iterate(stmt, start, extent, _LoopBody(self, stmt))

    def _block(self, stmt: Block) -> None:
        if stmt.predicate is TRUE:
            self._block_point(stmt)
            return
        condition = self.evaluate(stmt.predicate)
        decision = self.domain.decide(condition)
        if decision:
            self._block_point(stmt)
        elif decision is None:
            self.domain.enter_then(condition)
            self._block_point(stmt)
            self.domain.enter_else()
            self.domain.leave()

    def _block_point(self, stmt: Block) -> None:
        known: dict[Expr, V] = {}
        for it in stmt.iters:
            value, start = self.evaluate(it.binding, known), self.evaluate(it.start, known)
            extent = self.evaluate(it.extent, known)
            self.values[it.var] = self.domain.bind_iterator(stmt, it, value, start, extent)
        if stmt.init is not None:
            condition = self._conditions.get(stmt)
            if condition is None:
                condition = self._conditions.setdefault(stmt, init_condition(stmt))
            self._branch(self.evaluate(condition), stmt.init, None, stmt)
        self.run(stmt.body)


def evaluate(
    program: TensorProgram | IRModule,
    domain: Domain[V, M],
    args: Sequence[V | M],
    *,
    entry: str | None = None,
) -> None:
    """Walk a program, or the function `entry` of a module, over `domain`.

    args: values and buffers of the domain, one a parameter. entry: may be left out for a module of
    one function. What the walk finds is in `domain` and in the buffers afterwards.
    """
    function, functions = find_entry(program, entry)
    Walker(domain, functions).call(function, args)


def find_entry(
    program: TensorProgram | IRModule, entry: str | None
) -> tuple[TensorProgram, Mapping[str, TensorProgram]]:
    """The function that an evaluation starts with, and all that it can call.

    Raises EvaluationError if a module has several functions and `entry` does not say which.
    """
    if isinstance(program, TensorProgram):
        return program, {program.name: program}
    if entry is not None:
        return program.program(entry), program.programs
    if len(program.programs) == 1:
        return next(iter(program.programs.values())), program.programs
    names = ", ".join(map(repr, program.programs)) or "none"
    raise EvaluationError(
        f"the module has {len(program.programs)} programs, and `entry` does not say which to run",
        given=f"programs {names}",
        try_="entry='...'",
    )
