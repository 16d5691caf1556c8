"""The loops around a block, and copies of them for other blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensorsmith.arith import conjuncts
from tensorsmith.ir import (
    Alloc,
    Assert,
    Bind,
    Block,
    Expr,
    For,
    If,
    Invoke,
    Load,
    Seq,
    Stmt,
    Store,
    TensorProgram,
    While,
    postorder,
)
from tensorsmith.ir.rewrite import substitute_stmt
from tensorsmith.ir.stmt import TRUE
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.tree import find_block

_KINDS: Final[dict[type[Stmt], str]] = {
    Alloc: "an allocation",
    Assert: "an assertion",
    Bind: "a binding",
    Block: "a block",
    For: "a loop",
    If: "an if",
    Invoke: "a call",
    Seq: "a sequence",
    Store: "a store",
    While: "a while loop",
}


def describe(s: Stmt) -> str:
    """What sort of statement this is, in words."""
    return _KINDS[type(s)]


@dataclass(frozen=True, slots=True)
class Nest:
    """A block and the loops that hold it alone, outermost first."""

    block: Block
    loops: tuple[For, ...]

    @property
    def root(self) -> Stmt:
        """The outermost loop, or the block where there is none."""
        return self.loops[0] if self.loops else self.block


def sole_nest(program: TensorProgram, name: str) -> Nest:
    """The block called `name` with as many loops around as hold nothing else."""
    site = find_block(program, name)
    assert isinstance(site.node, Block)
    loops: list[For] = []
    inner: Stmt = site.node
    for s in reversed(site.around):
        if not isinstance(s, For) or s.body is not inner:
            break
        loops.append(s)
        inner = s
    return Nest(site.node, tuple(reversed(loops)))


def plain_nest(program: TensorProgram, name: str, primitive: str) -> Nest:
    """The nest of a block whose iterators each are a loop of their own.

    Raises ScheduleError unless the block has no predicate and every iterator is bound to a loop of
    the same range that holds the block alone, one loop an iterator.
    """
    nest = sole_nest(program, name)
    block = nest.block
    own: dict[Expr, For] = {loop.var: loop for loop in nest.loops}
    used = [own[it.binding] for it in block.iters if it.binding in own]
    facts = find_block(program, name).analyzer()
    same = len(used) == len(set(used)) == len(block.iters) and all(
        facts.equal(loop.start, it.start) and facts.equal(loop.extent, it.extent)
        for loop, it in zip(used, block.iters, strict=True)
    )
    if not same or block.predicate is not TRUE:
        raise ScheduleError(
            f"{primitive}: not every iterator of block {name!r} is a loop of its own",
            because="the loops are made anew from the iterators",
            try_=f"{primitive} before the loops are split, fused or moved",
            where=block.span,
        )
    held = [k for k, loop in enumerate(nest.loops) if loop in used]
    return Nest(block, nest.loops[min(held, default=len(nest.loops)) :])


def copy_loops(
    loops: Sequence[For], keep: Collection[Expr], suffix: str
) -> tuple[dict[Expr, Expr], Callable[[Stmt], Stmt]]:
    """New loops like those of `loops` whose variables are in `keep`, of the same kinds.

    Gives what stands for each old variable, and a function that puts the loops around a statement.
    """
    kept = [loop for loop in loops if loop.var in keep]
    values: dict[Expr, Expr] = {}
    new: list[For] = []
    for loop in kept:
        var = loop.var.renamed(f"{loop.var.name}_{suffix}")
        header = substitute_stmt(replace(loop, body=Seq(())), values)
        assert isinstance(header, For)
        new.append(replace(header, var=var))
        values[loop.var] = var

    def around(body: Stmt) -> Stmt:
        for loop in reversed(new):
            body = replace(loop, body=body)
        return body

    return values, around


def conditions_between(outer: Stmt, site_path: Sequence[Stmt]) -> list[Expr]:
    """The conditions under which the last statement of `site_path` is done once `outer`, which is
    one before it, is: those of each `If`, and the predicate of a block at the end.

    Raises ScheduleError where more than loops, sequences and conditions free of data stand between.
    """
    at = next(k for k, s in enumerate(site_path) if s is outer)
    found: list[Expr] = []
    for s, inner in zip(site_path[at:], site_path[at + 1 :], strict=False):
        if isinstance(s, If):
            found += conjuncts(s.condition if inner is s.then else ~s.condition)
        elif not isinstance(s, (For, Seq)):
            raise ScheduleError(
                f"{describe(s)} stands between the loop and the block",
                because="how often the block runs is not known",
                where=s.span,
            )
    last = site_path[-1]
    if isinstance(last, Block):
        found += conjuncts(last.predicate)
    if any(isinstance(e, Load) for e in postorder(*found)):
        raise ScheduleError(
            "data decides whether the block runs",
            given=", ".join(map(repr, found)),
            where=last.span,
        )
    return [c for c in found if c is not TRUE]


def all_of(conditions: Sequence[Expr]) -> Expr:
    """The conjunction; true of none."""
    result: Expr = TRUE
    for c in conditions:
        result = c if result is TRUE else result & c
    return result
