"""Other iterators for a block: in another order, or as an index map makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tensorsmith.arith import Analyzer
from tensorsmith.ir import (
    Block,
    Const,
    Expr,
    ExprLike,
    For,
    IndexMap,
    Iter,
    IterKind,
    Stmt,
    TensorProgram,
    Var,
    free_vars,
)
from tensorsmith.ir.rewrite import map_exprs, substitute_stmt
from tensorsmith.ir.stmt import ZERO
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.layout import as_index_map, invert
from tensorsmith.schedule.nest import plain_nest
from tensorsmith.schedule.tree import find_block, replace_stmt


def reorder_block_iter_var(
    program: TensorProgram, name: str, new_order: Sequence[int]
) -> TensorProgram:
    """See `Schedule.reorder_block_iter_var`."""
    block = find_block(program, name).node
    assert isinstance(block, Block)
    if sorted(new_order) != list(range(len(block.iters))):
        raise ScheduleError(
            f"reorder_block_iter_var({name!r}): {list(new_order)} is not an order of the iterators",
            given=f"the block has {len(block.iters)}",
            try_="each position from 0 once",
            where=block.span,
        )
    iters = tuple(block.iters[k] for k in new_order)
    return replace_stmt(program, block, replace(block, iters=iters))


def transform_block_layout(
    program: TensorProgram, name: str, index_map: IndexMap | Callable[..., Sequence[ExprLike]]
) -> tuple[TensorProgram, list[Var]]:
    """See `Schedule.transform_block_layout`. Gives the variables of the new loops."""
    what = f"transform_block_layout({name!r})"
    nest = plain_nest(program, name, what)
    block = nest.block
    mapping = as_index_map(index_map, len(block.iters))
    _check_iterators(block, what)
    kinds = [_kind(block, mapping, output, what) for output in mapping.outputs]
    inverse, shape, padding = invert(mapping, [it.extent for it in block.iters], what)
    if not (isinstance(padding, Const) and not padding.value):
        raise ScheduleError(
            f"{what}: {mapping!r} is not a bijection onto a box",
            given=f"no point of the block has an image where {padding!r}",
            because="the new iterators would have points at which nothing is computed",
            where=block.span,
        )
    loops = [For(Var(f"ax{d}"), extent, block) for d, extent in enumerate(shape)]
    iters = tuple(
        Iter(Var(f"v_{x.var.name}"), x.extent, kind, x.var)
        for x, kind in zip(loops, kinds, strict=True)
    )
    facts = Analyzer()
    for it in iters:
        facts.bind(it.var, ZERO, it.extent)
    sources = [facts.simplify(e) for e in inverse(*(it.var for it in iters))]
    values: dict[Expr, Expr] = dict(zip((it.var for it in block.iters), sources, strict=True))
    inner = map_exprs(substitute_stmt(replace(block, iters=()), values), facts.simplify)
    assert isinstance(inner, Block)
    result: Stmt = replace(inner, iters=iters)
    for loop in reversed(loops):
        result = replace(loop, body=result)
    return replace_stmt(program, nest.root, result), [x.var for x in loops]


def _check_iterators(block: Block, what: str) -> None:
    for it in block.iters:
        if it.kind is IterKind.OPAQUE:
            raise ScheduleError(
                f"{what}: the iterator {it.var.name!r} is opaque",
                because="its values keep their order",
                where=block.span,
            )
        if it.start is not ZERO:
            raise ScheduleError(
                f"{what}: the iterator {it.var.name!r} starts at {it.start!r}, not at 0",
                where=block.span,
            )


def _kind(block: Block, mapping: IndexMap, output: Expr, what: str) -> IterKind:
    """The kind of a new iterator: that of all iterators that it depends on."""
    used = free_vars(output)
    kinds = {it.kind for v, it in zip(mapping.inputs, block.iters, strict=True) if v in used}
    if len(kinds) > 1:
        raise ScheduleError(
            f"{what}: {output!r} mixes spatial and reduce iterators",
            because="an iterator is either spatial or reduce",
            where=block.span,
        )
    return kinds.pop() if kinds else IterKind.SPATIAL
