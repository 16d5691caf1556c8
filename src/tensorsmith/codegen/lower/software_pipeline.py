"""Loops whose statements work on different iterations at the same time.

The annotation ``software_pipeline_stage`` gives each statement of a loop a stage. In round t a
statement of stage s does iteration ``t - s``; so what a first stage loads is there when a later one
needs it. ``software_pipeline_order`` gives the order of the statements in a round. A block with
``double_buffer`` makes the loop around it a pipeline of two stages: it, and the rest.

A buffer that carries values from one stage to another one gets as many copies as there are
iterations under way between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensorsmith.arith import Analyzer
from tensorsmith.arith.accesses import collect_accesses
from tensorsmith.codegen.lower.tree import map_scopes
from tensorsmith.errors import CodegenError
from tensorsmith.ir import (
    Alloc,
    Bind,
    Buffer,
    Expr,
    For,
    If,
    Invoke,
    Load,
    LoopKind,
    Region,
    Seq,
    Stmt,
    Store,
    TensorProgram,
    const,
    seq,
    transform,
)
from tensorsmith.ir.instantiate import instantiate
from tensorsmith.ir.rewrite import map_exprs, statements, transform_stmt
from tensorsmith.ir.stmt import ZERO

STAGE: Final = "software_pipeline_stage"
ORDER: Final = "software_pipeline_order"
DOUBLE: Final = "double_buffer"
MOST_STAGES: Final = 8


def pipeline_loops(program: TensorProgram) -> TensorProgram:
    """Carry out the annotations `STAGE`, `ORDER` and `DOUBLE`.

    Before: no blocks; buffers of one iteration are allocated in it. After: the annotations are
    gone. A loop has conditions for its first and last rounds, which `partition_loops` takes out.
    Raises CodegenError where a statement would come before one that it needs.
    """

    def change(s: Stmt, facts: Analyzer) -> Stmt | None:
        if not isinstance(s, For) or s.kind is not LoopKind.SERIAL:
            return None
        parts = list(s.body.stmts) if isinstance(s.body, Seq) else [s.body]
        steps = [x for x in parts if not isinstance(x, Alloc)]
        if STAGE in s.attrs:
            stages, order = _annotated(s, len(steps))
        elif len(steps) > 1 and any(map(_is_doubled, steps)):
            stages = [0 if _is_doubled(x) else 1 for x in steps]
            order = sorted(range(len(steps)), key=lambda k: -stages[k])
        else:
            return None
        buffers = [x.buffer for x in parts if isinstance(x, Alloc)]
        return _Pipeline(s, [_plain(x) for x in steps], stages, order, buffers).run()

    return map_scopes(program, change)


def _annotated(s: For, count: int) -> tuple[list[int], list[int]]:
    """The stage of each statement, and the statements in the order of a round."""
    stages = _numbers(s, STAGE, count)
    places = _numbers(s, ORDER, count) if ORDER in s.attrs else list(range(count))
    if max(stages, default=0) >= MOST_STAGES or min(stages, default=0) < 0:
        raise CodegenError(
            f"the stages of loop {s.var.name!r} are {stages}",
            where=s.span,
            because=f"stages are from 0 to {MOST_STAGES - 1}",
        )
    if sorted(places) != list(range(count)):
        raise CodegenError(
            f"the order of loop {s.var.name!r} is {places}",
            where=s.span,
            because=f"each of its {count} statements has a place of its own",
        )
    return stages, sorted(range(count), key=places.__getitem__)


def _numbers(s: For, key: str, count: int) -> list[int]:
    value = s.attrs[key]
    numbers = [x for x in value if isinstance(x, int)] if isinstance(value, tuple) else []
    if not isinstance(value, tuple) or len(numbers) != len(value) or len(value) != count:
        raise CodegenError(
            f"{key!r} of loop {s.var.name!r} is {value!r}",
            where=s.span,
            because=f"the loop has {count} statements, and it must have a number for each",
        )
    return numbers


def _is_doubled(s: Stmt) -> bool:
    return any(isinstance(x, For) and x.attrs.get(DOUBLE) for x in statements(s))


def _plain(s: Stmt) -> Stmt:
    """Without the annotation `DOUBLE`."""

    def change(x: Stmt) -> Stmt | None:
        if not isinstance(x, For) or DOUBLE not in x.attrs:
            return None
        return replace(x, attrs={k: v for k, v in x.attrs.items() if k != DOUBLE})

    return transform_stmt(s, change)


@dataclass(slots=True)
class _Pipeline:
    """One loop on its way. buffers: those that are allocated in an iteration."""

    loop: For
    steps: list[Stmt]
    stages: list[int]
    order: list[int]
    buffers: list[Buffer]

    def run(self) -> Stmt:
        loop, last = self.loop, max(self.stages)
        self.check()
        versions = {b: self.versions(b) for b in self.buffers}
        held = {
            b: b.replace(shape=(const(count), *b.shape)) for b, count in versions.items() if count
        }
        rounds = loop.var.renamed(loop.var.name)
        body: list[Stmt] = []
        for k in self.order:
            stage = self.stages[k]
            done = rounds - stage if stage else rounds
            step = _in_versions(self.steps[k], held, loop.var - loop.start)
            step = instantiate(step, {loop.var: loop.start + done})
            condition = done < loop.extent
            if stage:
                condition = (done >= 0) & condition
            body.append(If(condition, step, span=loop.span))
        attrs = {k: v for k, v in loop.attrs.items() if k not in (STAGE, ORDER)}
        new = replace(
            loop, var=rounds, start=ZERO, extent=loop.extent + last, body=seq(*body), attrs=attrs
        )
        allocs = [Alloc(b, span=loop.span) for b in held.values()]
        plain = [Alloc(b, span=loop.span) for b in self.buffers if b not in held]
        return seq(*allocs, *plain, new)

    def versions(self, b: Buffer) -> int:
        """How many iterations use `b` at once; 0 where nothing does."""
        using = [s for x, s in zip(self.steps, self.stages, strict=True) if b in touched(x)]
        if not using:
            return 0
        if b.strides is not None or b.layout is not None or b.offset is not ZERO:
            raise CodegenError(
                f"{b.name!r} cannot have copies for the stages of loop {self.loop.var.name!r}",
                where=self.loop.span,
                because="it has strides, an offset or a layout of its own",
            )
        return max(using) - min(using) + 1

    def check(self) -> None:
        """Raise CodegenError unless each statement still comes after those that it needs."""
        for x in self.steps:
            if isinstance(x, Bind):
                raise CodegenError(
                    f"{x.var.name!r} is bound in loop {self.loop.var.name!r}, which has stages",
                    where=x.span or self.loop.span,
                    because="a name does not last from one stage to another one",
                    try_="a local buffer",
                )
        place = {k: at for at, k in enumerate(self.order)}
        uses = [touched(x) for x in self.steps]
        for b in range(len(self.steps)):
            for a in range(b):
                shared = [x for x in uses[a] if x in uses[b] and (uses[a][x] or uses[b][x])]
                if not shared or self.keeps(a, b, place, shared):
                    continue
                raise CodegenError(
                    f"the stages of loop {self.loop.var.name!r} would change the order in which"
                    f" {shared[0].name!r} is used",
                    given=f"stages {self.stages}, order {self.order}",
                    because=f"statement {b} needs what statement {a} did before it",
                    where=self.loop.span,
                )

    def keeps(self, a: int, b: int, place: dict[int, int], shared: Sequence[Buffer]) -> bool:
        first, second = self.stages[a], self.stages[b]
        if any(x not in self.buffers for x in shared):
            return first == second and place[a] < place[b]
        return first < second or (first == second and place[a] < place[b])


def touched(s: Stmt) -> dict[Buffer, bool]:
    """The buffers that `s` uses, and whether it writes to them."""
    found: dict[Buffer, bool] = {}
    for a in collect_accesses(s):
        found[a.region.buffer] = found.get(a.region.buffer, False) or a.is_write
    return found


def _in_versions(s: Stmt, held: dict[Buffer, Buffer], iteration: Expr) -> Stmt:
    """`s` on the copies that belong to an iteration."""

    def at(b: Buffer) -> Expr:
        return iteration % held[b].shape[0]

    def loads(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in held:
            return Load(held[e.buffer], (at(e.buffer), *e.indices))
        return None

    def argument(a: Expr | Region) -> Expr | Region:
        if not isinstance(a, Region) or a.buffer not in held:
            return a
        raise CodegenError(
            f"{a.buffer.name!r} is passed to a call, and cannot have copies for stages",
            try_="a callee that is small enough to be written in",
        )

    def change(x: Stmt) -> Stmt | None:
        if isinstance(x, Store) and x.buffer in held:
            return replace(x, buffer=held[x.buffer], indices=(at(x.buffer), *x.indices))
        if isinstance(x, Invoke):
            return replace(x, args=tuple(argument(a) for a in x.args))
        return None

    cache: dict[Expr, Expr] = {}
    return transform_stmt(map_exprs(s, lambda e: transform(e, loads, cache)), change)
