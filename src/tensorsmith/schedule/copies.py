"""Copies of buffers: the blocks that make them, and where these may stand."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorsmith.arith.accesses import collect_accesses
from tensorsmith.ir import (
    Alloc,
    Bind,
    Block,
    Buffer,
    Expr,
    For,
    If,
    Iter,
    IterKind,
    Load,
    LoopKind,
    Seq,
    Stmt,
    Store,
    TensorProgram,
    Var,
    View,
    While,
    free_vars,
    seq,
    substitute,
)
from tensorsmith.ir.rewrite import buffer_exprs, children, statements, with_children
from tensorsmith.ir.stmt import ZERO
from tensorsmith.schedule.dependence import all_effects, units
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.placement import Place, Range, place_of, regenerate
from tensorsmith.schedule.tree import Site, block_names, fresh_name, replace_stmt


def buffer_of(block: Block, which: int | str, *, written: bool) -> Buffer:
    """The buffer that a block reads or writes, by position in the order of first access, or name.

    Raises ScheduleError, with the names there are.
    """
    accesses = collect_accesses(block)
    found = list(dict.fromkeys(a.region.buffer for a in accesses if a.is_write is written))
    if not written:
        own = {a.region.buffer for a in accesses if a.is_write}
        found = [b for b in found if b not in own]
    if isinstance(which, str):
        named = [b for b in found if b.name == which]
        if named:
            return named[0]
    elif 0 <= which < len(found):
        return found[which]
    verb = "writes" if written else "reads"
    known = ", ".join(repr(b.name) for b in found) or "nothing"
    raise ScheduleError(
        f"block {block.name!r} {verb} no buffer {which!r}",
        try_=f"what it {verb}: {known}, by name or by position",
        where=block.span,
    )


def cached_buffer(program: TensorProgram, buffer: Buffer, scope: str, **fields: object) -> Buffer:
    """A dense local buffer like `buffer`, named after it and its scope."""
    taken = {p.name for p in program.params} | {
        s.buffer.name for s in statements(program.body) if isinstance(s, Alloc)
    }
    name = fresh_name(f"{buffer.name}_{scope.replace('.', '_')}", taken)
    kept: dict[str, object] = {"strides": None, "offset": ZERO, "layout": None, "span": None}
    return buffer.replace(name=name, scope=scope, **{**kept, **fields})


def allocate_in(program: TensorProgram, scope: Stmt, buffer: Buffer) -> TensorProgram:
    """The program with `buffer` allocated at the start of a scope."""
    return replace_stmt(program, scope, seq(Alloc(buffer), scope))


def copy_block(name: str, target: Buffer, source: Buffer) -> Block:
    """A block, without loops, that copies all of `source` to the same place of `target`."""
    iters = tuple(
        Iter(v := Var(f"v{d}"), extent, IterKind.SPATIAL, v)
        for d, extent in enumerate(source.shape)
    )
    at = tuple(it.var for it in iters)
    return Block(name, iters, Store(target, at, Load(source, at)))


def copy_of(
    block: Block, box: Sequence[Range], place: Place, *, may_repeat: bool = True
) -> tuple[Stmt, set[Var]]:
    """A copy block under loops at `place`, for a box of its iterators. See `regenerate`."""
    needed = {it.var: r for it, r in zip(block.iters, box, strict=True)}
    return regenerate(block, needed, place, preserve_unit_loops=True, may_repeat=may_repeat)


Element = tuple[Buffer, tuple[Expr, ...]]
"""A buffer and indices."""


def element_copy(name: str, iters: Sequence[Iter], target: Element, source: Element) -> Block:
    """A block, without loops, that copies an element for each point of `iters`."""
    fresh = tuple(
        replace(it, kind=IterKind.SPATIAL, var=it.var.renamed(it.var.name)) for it in iters
    )
    values: dict[Expr, Expr] = {a.var: b.var for a, b in zip(iters, fresh, strict=True)}
    to, at = (tuple(substitute(i, values) for i in where) for _, where in (target, source))
    return Block(name, fresh, Store(target[0], to, Load(source[0], at)))


def fresh_block_name(program: TensorProgram, name: str) -> str:
    """`name`, or it with a number where a block has it."""
    return fresh_name(name, block_names(program))


@dataclass(frozen=True, slots=True)
class Spot:
    """Statements side by side, and the statement around: a sequence, or what has one child."""

    parts: tuple[Stmt, ...]
    around: tuple[Stmt, ...]

    def place(self) -> Place:
        """The place, with what is known there."""
        return place_of(Site(self.parts[0], self.around))

    @property
    def loops(self) -> set[Var]:
        """The variables of the loops around."""
        return {s.var for s in self.around if isinstance(s, For)}


def before_all(program: TensorProgram, root: Stmt, using: Sequence[Block], buffer: Buffer) -> Spot:
    """The outermost statements that hold all of `using`, and do not write the buffer."""
    around = path_to(program.body, root)
    here = root
    while True:
        parts = here.stmts if isinstance(here, Seq) else (here,)
        holding = [k for k, p in enumerate(parts) if _holds(p, using)]
        span = parts[holding[0] : holding[-1] + 1]
        outer = (*around, here) if isinstance(here, Seq) else around
        if buffer not in all_effects(*span).writes and not _allocates(span, buffer):
            return Spot(span, outer)
        if len(span) != 1 or isinstance(span[0], Block):
            raise ScheduleError(
                f"{buffer.name!r} is written between the blocks that read it",
                given=", ".join(repr(b.name) for b in using),
                because="one copy cannot have the values before and after",
                try_="a cache for each of them",
            )
        around = (*outer, span[0])
        inside = [c for c in children(span[0]) if _holds(c, using)]
        if len(inside) != 1:
            raise ScheduleError(f"no place is common to all readers of {buffer.name!r}")
        here = inside[0]


def _allocates(stmts: Sequence[Stmt], buffer: Buffer) -> bool:
    """Whether the buffer is there inside of the statements only."""
    found = (s for root in stmts for s in statements(root))
    return any(isinstance(s, (Alloc, View)) and s.buffer is buffer for s in found)


def path_to(s: Stmt, target: Stmt) -> tuple[Stmt, ...]:
    """The statements around `target` in `s`."""
    stack: list[tuple[Stmt, tuple[Stmt, ...]]] = [(s, ())]
    while stack:
        x, around = stack.pop()
        if x is target:
            return around
        stack.extend((c, (*around, x)) for c in children(x))
    raise AssertionError(target)


def _holds(s: Stmt, blocks: Sequence[Block]) -> bool:
    return any(x is b for x in statements(s) for b in blocks)


def after_alone(site: Site, root: Stmt, buffer: Buffer) -> Spot:
    """The outermost statement with the block in which nothing else touches the buffer."""
    path = (*site.around, site.node)
    first = next(k for k, s in enumerate(path) if s is root)
    conditional = [k + 1 for k, s in enumerate(path) if isinstance(s, (If, While))]
    for at in range(max([first, *conditional]), len(path)):
        s = path[at]
        if isinstance(s, Seq):
            continue
        others = [u for u in units(s) if u is not site.node]
        touched = all_effects(*others)
        if buffer not in touched.reads | touched.writes and not _allocates(others, buffer):
            return Spot((s,), path[:at])
    raise AssertionError(site.node)


def replace_by_id(s: Stmt, changes: Mapping[int, Stmt]) -> Stmt:
    """`s` with statements replaced, by their identity."""
    if id(s) in changes:
        return changes[id(s)]
    return with_children(s, tuple(replace_by_id(c, changes) for c in children(s)))


def insert(
    program: TensorProgram,
    root: Stmt,
    spot: Spot,
    parts: Sequence[Stmt],
    new: Buffer,
    repeating: Collection[Var] = (),
) -> TensorProgram:
    """The program with `parts` in the place of the spot's, and `new` allocated in the scope, or in
    the innermost loop of `repeating` that runs in parallel."""
    if spot.around and isinstance(around := spot.around[-1], Seq):
        at = next(k for k, p in enumerate(around.stmts) if p is spot.parts[0])
        inner = (*around.stmts[:at], *parts, *around.stmts[at + len(spot.parts) :])
        old: Stmt = around
        changed = seq(*inner)
    else:
        old, changed = spot.parts[0], seq(*parts)
    racing = [
        s
        for s in spot.around
        if isinstance(s, For)
        and s.var in repeating
        and s.kind in (LoopKind.PARALLEL, LoopKind.THREAD)
    ]
    home = racing[-1].body if racing else root
    if old is home:
        return replace_stmt(program, home, seq(Alloc(new), changed))
    return replace_stmt(allocate_in(program, home, new), old, changed)


def allocated_first(program: TensorProgram, buffers: Collection[Buffer]) -> TensorProgram:
    """The program with allocations of `buffers` at the start of the sequences they stand in, where
    their shapes do not use what is bound there."""
    for s in [x for x in statements(program.body) if isinstance(x, Seq)]:
        bound = {x.var for x in s.stmts if isinstance(x, Bind)}
        early = [
            x
            for x in s.stmts
            if isinstance(x, Alloc)
            and x.buffer in buffers
            and not bound & set(free_vars(*buffer_exprs(x.buffer)))
        ]
        rest = [x for x in s.stmts if x not in early]
        if early and (*early, *rest) != s.stmts:
            program = replace_stmt(program, s, replace(s, stmts=(*early, *rest)))
    return program
