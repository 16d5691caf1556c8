"""Whether the iterations of a loop may run in any order, or at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from tensorsmith.arith.accesses import Access, collect_accesses
from tensorsmith.arith.privacy import reads_are_written, touch_apart
from tensorsmith.errors import ArithError
from tensorsmith.ir import (
    Alloc,
    Assert,
    Block,
    Buffer,
    Expr,
    For,
    If,
    Invoke,
    Iter,
    IterKind,
    LoopKind,
    Seq,
    Stmt,
    TensorProgram,
    While,
    free_vars,
)
from tensorsmith.ir.rewrite import children, statements
from tensorsmith.schedule.dependence import uses_buffer
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.tree import Site, find_loop, sites

WAYS = {
    IterKind.REDUCE: "rfactor, to reduce parts of it apart",
    IterKind.OPAQUE: "another loop",
}


def check_independent(program: TensorProgram, site: Site, kind: LoopKind) -> None:
    """Raise ScheduleError unless the iterations of the loop at `site` may run in any order.

    The loop's variable must reach spatial iterators only, and in each buffer every iteration must
    touch what no other one writes, or have what it reads from itself: a local buffer that nothing
    outside of the loop uses, of which each iteration writes what it reads.
    """
    loop = site.node
    assert isinstance(loop, For)
    what = f"loop {loop.var.name!r} cannot be {kind.value}"
    _check_iterators(loop, what)
    _check_calls(loop.body, loop, what)
    for buffer, accesses in meetings(site):
        if not _is_private(program, site, buffer):
            raise _carried(loop, buffer, accesses, what)


def meetings(site: Site) -> Iterator[tuple[Buffer, list[Access]]]:
    """The buffers in which iterations of the loop at `site` may touch what another one writes, each
    with the accesses to it in the loop."""
    loop = site.node
    assert isinstance(loop, For)
    facts = site.analyzer()
    by_buffer: dict[Buffer, list[Access]] = {}
    for a in collect_accesses(loop.body):
        by_buffer.setdefault(a.region.buffer, []).append(a)
    try:
        facts.bind(loop.var, loop.start, loop.extent)
        for buffer, accesses in by_buffer.items():
            if not touch_apart(loop, accesses, facts):
                yield buffer, accesses
    except ArithError:  # dead code: nothing runs
        return


def check_marked_loops(program: TensorProgram, loops: Iterable[Stmt]) -> None:
    """`check_independent` for those of `loops` that are parallel, vectorised or bound.

    For primitives that move blocks into such loops.
    """
    for s in loops:
        if isinstance(s, For) and s.kind not in (LoopKind.SERIAL, LoopKind.UNROLLED):
            check_independent(program, find_loop(program, s.var), s.kind)


def _check_iterators(loop: For, what: str) -> None:
    """The variable reaches spatial iterators only, also by way of blocks around blocks."""
    moving: set[Expr] = {loop.var}
    for block in statements(loop.body):
        if not isinstance(block, Block):
            continue
        for it in block.iters:
            if not moving.intersection(free_vars(it.binding)):
                continue
            moving.add(it.var)
            if it.kind is IterKind.SPATIAL or _only_repeats(block, it):
                continue
            raise ScheduleError(
                f"{what}: the {it.kind.value} iterator {it.var.name!r} of block {block.name!r}"
                " depends on it",
                because="its iterations would write the same element at once",
                try_=WAYS[it.kind],
                where=loop.span,
            )


def _only_repeats(block: Block, it: Iter) -> bool:
    """Whether the order of an opaque iterator matters by way of buffers alone, which are checked
    apart: the block computes again, for instance, what several iterations need."""
    return it.kind is IterKind.OPAQUE and not any(
        isinstance(s, (Invoke, Assert, While)) for s in statements(block)
    )


def _check_calls(s: Stmt, loop: For, what: str) -> None:
    """Calls stand in blocks, which say what is independent of them."""
    if isinstance(s, Block):
        return
    if isinstance(s, Invoke):
        raise ScheduleError(
            f"{what}: {s.callee!r} is called outside of a block",
            because="what a call does besides writing its arguments is for a block to say",
            where=loop.span,
        )
    for inner in children(s):
        _check_calls(inner, loop, what)


def _is_private(program: TensorProgram, site: Site, buffer: Buffer) -> bool:
    """Whether each iteration can have a buffer of its own, as lowering then gives it one.

    That needs a plain local buffer, used in this loop alone, of which the iterations of this loop
    and of the loops between it and the allocation read only what they wrote.
    """
    if buffer.layout is not None or buffer.strides is not None:
        return False
    around = _path_from_allocation(program, site, buffer)
    if around is None:
        return False
    for at, s in enumerate(around):
        if not isinstance(s, For):
            continue
        facts = Site(s, site.around[: len(site.around) - len(around) + 1 + at]).analyzer()
        facts.bind(s.var, s.start, s.extent)
        accesses = [a for a in collect_accesses(s.body) if a.region.buffer is buffer]
        if not (reads_are_written(accesses, s.body, facts) or touch_apart(s, accesses, facts)):
            return False
    loop = around[-1]
    assert isinstance(loop, For)
    facts = site.analyzer()
    facts.bind(loop.var, loop.start, loop.extent)
    accesses = [a for a in collect_accesses(loop.body) if a.region.buffer is buffer]
    return reads_are_written(accesses, loop.body, facts)


def _path_from_allocation(
    program: TensorProgram, site: Site, buffer: Buffer
) -> tuple[Stmt, ...] | None:
    """The statements from below the allocation of `buffer` down to the loop at `site`, if all uses
    are in that loop and only loops, conditions and sequences are between."""
    found = [s for s in sites(program) if isinstance(s.node, Alloc) and s.node.buffer is buffer]
    if len(found) != 1:
        return None
    scope = found[0].around
    below = site.around[len(scope) :]
    path = (*below, site.node)
    if site.around[: len(scope)] != scope or not all(isinstance(s, (For, If, Seq)) for s in path):
        return None
    holder = scope[-1] if scope else program.body
    for outer, inner in pairwise((holder, *path)):
        beside = (c for c in children(outer) if c is not inner and c is not found[0].node)
        if any(uses_buffer(c, buffer) for c in beside):
            return None
    return path


def _carried(loop: For, buffer: Buffer, accesses: list[Access], what: str) -> ScheduleError:
    write = next(a for a in accesses if a.is_write)
    moving = any(loop.var in free_vars(start) for start, _ in write.region.ranges)
    if moving:
        because = "one iteration may use or overwrite what another one wrote"
    else:
        because = f"every iteration writes the same part of {buffer.name!r}"
    return ScheduleError(
        f"{what}: its iterations meet in {buffer.name!r}",
        given=f"an iteration touches {write.region!r}",
        because=because,
        try_="a loop whose iterations write different elements, or a buffer for each iteration",
        where=loop.span,
    )
