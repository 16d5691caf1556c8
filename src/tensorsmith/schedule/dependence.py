"""What blocks do to buffers, and what follows for moving them.

A block is *complete* if each element that it writes has one value, whatever was there before: its
points may be computed anywhere, again, and only where they are needed. It is a *reduction* if that
holds of all points of its reduce iterators together. Everything else is *opaque* and stays where it
is. Source: Feng et al., TensorIR, ASPLOS 2023, section 3.1.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from tensorsmith.arith.accesses import collect_accesses
from tensorsmith.ir import (
    Alloc,
    Assert,
    Bind,
    Block,
    Buffer,
    Expr,
    For,
    Invoke,
    Iter,
    IterKind,
    Load,
    Region,
    Stmt,
    Store,
    TensorProgram,
    Var,
    View,
    While,
    free_vars,
    postorder,
)
from tensorsmith.ir.rewrite import buffer_exprs, children, expressions, statements
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.tree import Site, blocks_in, find_block, replace_stmt, sites


class BlockKind(enum.Enum):
    """What a block may be moved as."""

    COMPLETE = "complete"
    REDUCTION = "reduction"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class Effects:
    """The buffers that statements read and write, except those allocated inside of them."""

    reads: frozenset[Buffer]
    writes: frozenset[Buffer]


def effects(*stmts: Stmt) -> Effects:
    """What `stmts` read and write."""
    accesses = [a for s in stmts for a in collect_accesses(s)]
    return Effects(
        frozenset(a.region.buffer for a in accesses if not a.is_write),
        frozenset(a.region.buffer for a in accesses if a.is_write),
    )


def all_effects(*stmts: Stmt) -> Effects:
    """As `effects`, with the buffers that are allocated inside of `stmts`."""
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    for root in stmts:
        for s in statements(root):
            reads.update(e.buffer for e in postorder(*expressions(s)) if isinstance(e, Load))
            if isinstance(s, Store):
                writes.add(s.buffer)
            passed: tuple[object, ...] = ()
            if isinstance(s, Invoke):
                passed = tuple(a.buffer for a in s.args if isinstance(a, Region))
            elif isinstance(s, View):  # what is done with it is done with its source
                passed = (s.source,)
            both = {b for b in passed if isinstance(b, Buffer)}
            reads |= both
            writes |= both
    return Effects(frozenset(reads), frozenset(writes))


# --- Kinds of blocks -------------------------------------------------------------------------


def used_symbols(*stmts: Stmt) -> set[Var | Buffer]:
    """The variables and buffers that `stmts` use, at any depth."""
    found: set[Var | Buffer] = set()
    for root in stmts:
        for s in statements(root):
            for e in postorder(*expressions(s)):
                if isinstance(e, Var):
                    found.add(e)
                elif isinstance(e, Load):
                    found.add(e.buffer)
            if isinstance(s, (Store, Alloc)):
                found.add(s.buffer)
            elif isinstance(s, Invoke):
                found.update(a.buffer for a in s.args if isinstance(a, Region))
    for buffer in [b for b in found if isinstance(b, Buffer)]:
        found.update(e for e in postorder(*buffer_exprs(buffer)) if isinstance(e, Var))
    return found


def inside_symbols(block: Block) -> set[Var | Buffer]:
    """What the inside of a block uses: all but its bindings and its predicate."""
    inner = (block.body,) if block.init is None else (block.init, block.body)
    found = used_symbols(*inner)
    ranges = [e for it in block.iters for e in (it.start, it.extent)]
    regions = [*(block.reads or ()), *(block.writes or ())]
    ranges += [e for r in regions for pair in r.ranges for e in pair]
    found.update(e for e in postorder(*ranges) if isinstance(e, Var))
    return found


def repetitions(block: Block) -> tuple[Iter, ...]:
    """The opaque iterators that the inside does not use: they say that a loop repeats the block."""
    used = inside_symbols(block)
    return tuple(it for it in block.iters if it.kind is IterKind.OPAQUE and it.var not in used)


def why_opaque(block: Block) -> str | None:
    """Why the block is neither complete nor a reduction; None if it is one."""
    repeated = repetitions(block)
    for it in block.iters:
        if it.kind is IterKind.OPAQUE and it not in repeated:
            return f"its iterator {it.var.name!r} is opaque"
    for s in statements(block.body):
        if isinstance(s, Assert):
            return "it holds an assertion"
        if isinstance(s, While):
            return "it holds a while loop"
    init_writes = effects(block.init).writes if block.init is not None else frozenset()
    body = effects(replace(block, init=None))
    both = sorted(b.name for b in body.reads & body.writes)
    if block.attrs.get("accumulate"):
        return "it adds to what is there before"
    if any(it.kind is IterKind.REDUCE for it in block.iters):
        if missing := sorted(b.name for b in body.writes - init_writes):
            return f"it has reduce iterators and no init of {missing[0]!r}"
        return None
    return f"it reads and writes {both[0]!r}" if both else None


def block_kind(block: Block) -> BlockKind:
    """Whether the block is complete, a reduction, or opaque."""
    if why_opaque(block) is not None:
        return BlockKind.OPAQUE
    reduces = any(it.kind is IterKind.REDUCE for it in block.iters)
    return BlockKind.REDUCTION if reduces else BlockKind.COMPLETE


def interrupting_loop(site: Site) -> For | None:
    """The loop that repeats parts of the reduction at `site`, because it stands inside of a loop of
    the reduction: what is reduced there is then not each point once. None if there is none."""
    block = site.node
    assert isinstance(block, Block)
    reduced = set(free_vars(*(it.binding for it in block.iters if it.kind is IterKind.REDUCE)))
    repeated = set(free_vars(*(it.binding for it in repetitions(block))))
    is_inside = not reduced <= {loop.var for loop in site.loops}  # of iterators of blocks around
    for loop in site.loops:
        is_inside = is_inside or loop.var in reduced
        if is_inside and loop.var in repeated:
            return loop
    return None


def check_movable(block: Block, primitive: str) -> BlockKind:
    """Its kind. Raises ScheduleError if the block is opaque."""
    reason = why_opaque(block)
    if reason is not None:
        raise ScheduleError(
            f"{primitive}: block {block.name!r} is neither complete nor a reduction",
            because=reason,
            where=block.span,
        )
    return block_kind(block)


# --- Producers and consumers -----------------------------------------------------------------


def scope_of(program: TensorProgram, site: Site) -> Stmt:
    """The body of the block around a statement, or its init if it stands there; or the body of the
    program."""
    path = (*site.around, site.node)
    for outer, inner in reversed(list(pairwise(path))):
        if isinstance(outer, Block):
            return inner
    return program.body


def producers(program: TensorProgram, name: str) -> list[Block]:
    """The blocks of one scope that write what the block `name` reads, and stand before it."""
    return _related(program, name, before=True)


def consumers(program: TensorProgram, name: str) -> list[Block]:
    """The blocks of one scope that read what the block `name` writes, and stand after it."""
    return _related(program, name, before=False)


def _related(program: TensorProgram, name: str, *, before: bool) -> list[Block]:
    site = find_block(program, name)
    block = site.node
    own = effects(block)
    found: list[Block] = []
    passed = False
    for other in blocks_in(scope_of(program, site)):
        if other is block:
            passed = True
        elif passed is not before:
            theirs = effects(other)
            meet = theirs.writes & own.reads if before else theirs.reads & own.writes
            if meet:
                found.append(other)
    return found


def output_blocks(program: TensorProgram) -> list[Block]:
    """The outermost blocks that write parameters of the program."""
    params = set(program.buffers)
    return [b for b in blocks_in(program.body) if effects(b).writes & params]


def writers(scope: Stmt, buffer: Buffer) -> list[Stmt]:
    """The outermost blocks in `scope` that write `buffer`, and the statements outside of blocks."""
    return [s for s in units(scope) if buffer in effects(s).writes]


def is_written_elsewhere(program: TensorProgram, block: Block, buffer: Buffer) -> bool:
    """Whether anything outside of `block` writes `buffer`, at any depth."""
    return buffer in all_effects(replace_stmt(program, block, None).body).writes


def reads_itself(s: Stmt, buffer: Buffer) -> bool:
    """Whether the statement itself, not one inside of it, reads the buffer."""
    if isinstance(s, Invoke) and any(isinstance(a, Region) and a.buffer is buffer for a in s.args):
        return True
    if isinstance(s, View) and s.source is buffer:
        return True
    return any(isinstance(e, Load) and e.buffer is buffer for e in postorder(*expressions(s)))


def readers(scope: Stmt, buffer: Buffer) -> list[Stmt]:
    """The outermost blocks in `scope` that read `buffer`, and the statements outside of blocks."""
    return [s for s in units(scope) if buffer in effects(s).reads]


def units(scope: Stmt) -> Iterator[Stmt]:
    """The outermost blocks in `scope` and the simple statements outside of blocks, in order.

    A loop, condition or while outside of blocks that loads for its own expressions is one unit.
    """
    stack = [scope]
    while stack:
        s = stack.pop()
        inner = children(s)
        if isinstance(s, Block) or not inner or has_loads(*expressions(s)):
            yield s
        else:
            stack.extend(reversed(inner))


def allocation(program: TensorProgram, buffer: Buffer) -> Site | None:
    """Where `buffer` is allocated; None for a parameter."""
    for site in sites(program):
        if isinstance(site.node, Alloc) and site.node.buffer is buffer:
            return site
    return None


def uses_buffer(s: Stmt, buffer: Buffer) -> bool:
    """Whether `s` reads or writes `buffer`, at any depth."""
    return buffer in used_symbols(s)


def defined_in(stmts: Iterable[Stmt]) -> set[Var | Buffer]:
    """The variables and buffers that these statements (not those inside them) define."""
    found: set[Var | Buffer] = set()
    for s in stmts:
        match s:
            case For() | Bind():
                found.add(s.var)
            case Alloc():
                found.add(s.buffer)
            case Block():
                found.update(it.var for it in s.iters)
    return found


def has_loads(*exprs: Expr) -> bool:
    """Whether a value in memory decides an expression."""
    return any(isinstance(e, Load) for e in postorder(*exprs))
