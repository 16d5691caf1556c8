"""Finding loops and blocks in a program, and putting others in their place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from tensorsmith.arith import Analyzer
from tensorsmith.errors import ArithError
from tensorsmith.ir import Block, For, If, Seq, Stmt, TensorProgram, Var, seq
from tensorsmith.ir.rewrite import children, with_children
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef


@dataclass(frozen=True, slots=True)
class Site:
    """Where a statement stands: itself, and the statements around it, outermost first."""

    node: Stmt
    around: tuple[Stmt, ...]

    @property
    def loops(self) -> tuple[For, ...]:
        """The loops around, outermost first, up to the innermost block around."""
        found: list[For] = []
        for s in reversed(self.around):
            if isinstance(s, Block):
                break
            if isinstance(s, For):
                found.append(s)
        return tuple(reversed(found))

    @property
    def parent_block(self) -> Block | None:
        """The innermost block around."""
        return next((s for s in reversed(self.around) if isinstance(s, Block)), None)

    def analyzer(self) -> Analyzer:
        """What is known of the variables where it stands: loops, iterators, conditions around."""
        facts = Analyzer()
        path = (*self.around, self.node)
        for outer, inner in pairwise(path):
            try:
                _learn(facts, outer, inner)
            except ArithError:  # dead code: anything may be said of it
                break
        return facts


def _learn(facts: Analyzer, outer: Stmt, inner: Stmt) -> None:
    match outer:
        case For():
            facts.bind(outer.var, outer.start, outer.extent)
        case Block():
            for it in outer.iters:
                facts.bind(it.var, it.start, it.extent)
        case If():
            facts.learn(outer.condition if inner is outer.then else ~outer.condition)


def sites(program: TensorProgram) -> Iterator[Site]:
    """Every statement of the program with what is around it, outer ones first."""
    stack = [Site(program.body, ())]
    while stack:
        site = stack.pop()
        yield site
        around = (*site.around, site.node)
        stack.extend(Site(c, around) for c in reversed(children(site.node)))


def find_block(program: TensorProgram, name: str) -> Site:
    """The block called `name`. Raises ScheduleError, with the names there are."""
    names: list[str] = []
    for site in sites(program):
        if isinstance(site.node, Block):
            if site.node.name == name:
                return site
            names.append(site.node.name)
    known = ", ".join(map(repr, names)) or "none"
    raise ScheduleError(f"{program.name!r} has no block {name!r}", try_=f"one of {known}")


def find_loop(program: TensorProgram, var: Var) -> Site:
    """The loop over `var`. Raises ScheduleError if it is no longer there."""
    for site in sites(program):
        if isinstance(site.node, For) and site.node.var is var:
            return site
    raise ScheduleError(
        f"{program.name!r} has no loop {var.name!r}",
        because="it was split, fused, or became part of an intrinsic",
        try_="the loops that the primitive returned",
    )


def find_node(program: TensorProgram, ref: BlockRef | LoopRef) -> Stmt:
    """The block or loop of `program` that `ref` names. Raises ScheduleError if it is not there."""
    if isinstance(ref, BlockRef):
        return find_block(program, ref.name).node
    return find_loop(program, ref.var).node


def blocks_in(s: Stmt) -> list[Block]:
    """The outermost blocks in `s`, in order; `s` itself if it is one."""
    if isinstance(s, Block):
        return [s]
    return [b for c in children(s) for b in blocks_in(c)]


def replace_stmt(program: TensorProgram, old: Stmt, new: Stmt | None) -> TensorProgram:
    """The program with `new` in the place of the statement `old` (by identity); None removes it,
    and what is left empty by that."""
    body = replaced(program.body, old, new)
    return replace(program, body=Seq(()) if body is None else body)


def replaced(s: Stmt, old: Stmt, new: Stmt | None) -> Stmt | None:
    """`s` with `new` in the place of `old`; None where nothing is left. See `replace_stmt`."""
    if s is old:
        return new
    parts = children(s)
    changed = [replaced(c, old, new) for c in parts]
    if all(a is b for a, b in zip(parts, changed, strict=True)):
        return s
    if isinstance(s, Seq):
        kept = [c for c in changed if c is not None]
        return seq(*kept) if kept else None
    if any(c is None for c in changed):
        if isinstance(s, If) and changed[0] is not None:
            return replace(s, orelse=None)
        return None
    return with_children(s, tuple(c for c in changed if c is not None))


def unique_block_names(program: TensorProgram) -> TensorProgram:
    """The program with blocks of one name numbered apart."""
    seen: set[str] = set()
    taken = {site.node.name for site in sites(program) if isinstance(site.node, Block)}

    def rename(s: Stmt) -> Stmt:
        s = with_children(s, tuple(rename(c) for c in children(s)))
        if not isinstance(s, Block):
            return s
        name = s.name
        if name in seen:
            name = fresh_name(s.name, taken)
            taken.add(name)
        seen.add(name)
        return s if name == s.name else replace(s, name=name)

    return replace(program, body=rename(program.body))


def fresh_name(name: str, taken: set[str]) -> str:
    """`name`, or it with the first number that makes it new."""
    if name not in taken:
        return name
    return next(n for k in range(1, len(taken) + 2) if (n := f"{name}_{k}") not in taken)


def block_names(program: TensorProgram) -> set[str]:
    """The names of all blocks."""
    return {site.node.name for site in sites(program) if isinstance(site.node, Block)}
