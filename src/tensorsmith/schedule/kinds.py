"""How loops are carried out: parallel, vectorised, unrolled, bound to a hardware axis."""

from __future__ import annotations

from dataclasses import replace

from tensorsmith.ir import Block, For, IterKind, LoopKind, TensorProgram, Var, free_vars
from tensorsmith.ir.rewrite import statements
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.tree import blocks_in, find_loop, replace_stmt


def set_kind(
    program: TensorProgram, var: Var, kind: LoopKind, *, thread: str | None = None
) -> TensorProgram:
    """The program with the loop over `var` carried out as `kind` says."""
    loop = find_loop(program, var).node
    assert isinstance(loop, For)
    if loop.kind not in (LoopKind.SERIAL, kind):
        raise ScheduleError(
            f"loop {var.name!r} is {loop.kind.value} already", where=loop.span
        )
    if kind is not LoopKind.UNROLLED:
        check_independent(loop, kind)
    return replace_stmt(program, loop, replace(loop, kind=kind, thread=thread))


def check_independent(loop: For, kind: LoopKind) -> None:
    """Raise ScheduleError unless the iterations may run in any order: the loop's variable stands in
    bindings of spatial iterators only."""
    for block in blocks_in(loop.body):
        for it in block.iters:
            if it.kind is IterKind.SPATIAL or loop.var not in free_vars(it.binding):
                continue
            ways = {
                IterKind.REDUCE: "rfactor, to reduce parts of it apart",
                IterKind.OPAQUE: "another loop",
            }
            raise ScheduleError(
                f"loop {loop.var.name!r} cannot be {kind.value}: the {it.kind.value} iterator"
                f" {it.var.name!r} of block {block.name!r} depends on it",
                because="its iterations would write the same element at once",
                try_=ways[it.kind],
                where=loop.span,
            )
    outside = [s for s in statements(loop.body) if isinstance(s, Block)]
    if not outside:
        raise ScheduleError(
            f"loop {loop.var.name!r} cannot be {kind.value}: no block stands inside of it",
            because="what is independent is told by the iterators of blocks",
            where=loop.span,
        )
