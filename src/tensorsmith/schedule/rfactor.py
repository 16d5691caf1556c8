"""Reducing parts of a reduction apart from each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorsmith.arith import conjuncts, simplify
from tensorsmith.ir import (
    Alloc,
    Block,
    Buffer,
    Expr,
    For,
    If,
    Iter,
    IterKind,
    Load,
    Stmt,
    Store,
    TensorProgram,
    Var,
    free_vars,
    seq,
    substitute,
)
from tensorsmith.ir.stmt import TRUE
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.nest import all_of, copy_loops
from tensorsmith.schedule.reducer import Reducer, reducer_of, update
from tensorsmith.schedule.reduction import ReductionLoops, reduction_loops, split_conditions
from tensorsmith.schedule.tree import (
    block_names,
    blocks_in,
    find_loop,
    fresh_name,
    replace_stmt,
)


@dataclass(frozen=True, slots=True)
class _Factoring:
    """One rfactor under way.

    loop: the loop whose iterations get results of their own.
    spatial: the conditions on spatial loops; reduce: those on loops of the reduction alone.
    axis: the dimension of the partial results that `loop` gets, counted from 0.
    """

    block: Block
    reducer: Reducer
    loops: ReductionLoops
    loop: For
    spatial: Sequence[Expr]
    reduce: Sequence[Expr]
    axis: int

    @property
    def outermost(self) -> For:
        """The outermost loop of the reduction."""
        return self.loops.inner[0]

    @property
    def spatial_iters(self) -> list[Iter]:
        """The iterators that tell the elements of the results."""
        return [it for it in self.block.iters if it.kind is not IterKind.REDUCE]

    def partial_indices(self, indices: Sequence[Expr], at: Expr) -> tuple[Expr, ...]:
        """Where the partial result lies that iteration `at` adds to the element at `indices`."""
        return _inserted(indices, self.axis, simplify(at - self.loop.start))


def _inserted(values: Sequence[Expr], axis: int, new: Expr) -> tuple[Expr, ...]:
    return (*values[:axis], new, *values[axis:])


def rfactor(
    program: TensorProgram, loop_var: Var, factor_axis: int = 0
) -> tuple[TensorProgram, str]:
    """See `Schedule.rfactor`. Gives the name of the block of the partial results."""
    work = _prepared(program, loop_var, factor_axis)
    name = fresh_name(f"{work.block.name}_rf", block_names(program))
    buffers = [
        Buffer(
            f"{b.name}_rf",
            _inserted(b.shape, work.axis, work.loop.extent),
            b.dtype,
            scope=b.scope,
        )
        for b in work.reducer.buffers
    ]
    program = replace_stmt(program, work.block, _partial_block(work, name, buffers))
    nest = find_loop(program, work.outermost.var).node
    allocs = [Alloc(b) for b in buffers]
    final = _final_nest(work, buffers)
    return replace_stmt(program, nest, seq(*allocs, nest, final)), name


def _prepared(program: TensorProgram, loop_var: Var, factor_axis: int) -> _Factoring:
    """All that is known of the reduction; raises ScheduleError unless it can be factored."""
    site = find_loop(program, loop_var)
    loop = site.node
    assert isinstance(loop, For)
    what = f"rfactor({loop_var.name!r})"
    inside = blocks_in(loop)
    if len(inside) != 1:
        raise ScheduleError(
            f"{what}: the loop holds {len(inside)} blocks",
            because="it must hold the reduction alone",
            where=loop.span,
        )
    (block,) = inside
    around = (*site.loops, loop)
    outer = next((x for x in around if _reduces(block, x.var)), loop)
    loops = reduction_loops(program, block.name, outer.var, what)
    if loop_var not in loops.reduce:
        raise ScheduleError(
            f"{what}: no reduce iterator of block {block.name!r} depends on the loop",
            because="there is nothing to factor",
            where=loop.span,
        )
    reducer = reducer_of(block, what)
    _check_nest(loops, what)
    spatial, reduce = split_conditions(loops, conjuncts(block.predicate), what)
    axis = _axis(reducer, factor_axis, what)
    return _Factoring(
        block, reducer, loops, loop, [c for c in spatial if c is not TRUE], reduce, axis
    )


def _reduces(block: Block, var: Var) -> bool:
    return any(it.kind is IterKind.REDUCE and var in free_vars(it.binding) for it in block.iters)


def _check_nest(loops: ReductionLoops, what: str) -> None:
    """The loops of the reduction hold the block alone, and are a box."""
    inner: Stmt = loops.block
    for loop in reversed(loops.inner):
        if loop.body is not inner:
            raise ScheduleError(
                f"{what}: loop {loop.var.name!r} holds more than the block",
                because="the partial results must be complete before they are combined",
                try_="a nest that holds the block alone",
                where=loop.span,
            )
        inner = loop
    around = {loop.var for loop in loops.site.loops}
    for loop in loops.inner:
        if loop.var in loops.reduce:
            used = around.intersection(free_vars(loop.start, loop.extent))
            if used:
                raise ScheduleError(
                    f"{what}: the range of loop {loop.var.name!r} depends on {used.pop().name!r}",
                    because="each element needs partial results of the same number",
                    where=loop.span,
                )


def _axis(reducer: Reducer, factor_axis: int, what: str) -> int:
    rank = reducer.buffers[0].rank
    axis = factor_axis if factor_axis >= 0 else factor_axis + rank + 1
    if not 0 <= axis <= rank or any(b.rank != rank for b in reducer.buffers):
        raise ScheduleError(
            f"{what}: factor_axis={factor_axis} is no place among the dimensions of"
            f" {reducer.buffers[0].name!r}",
            given=f"it has rank {rank}",
            try_=f"a number from {-rank - 1} to {rank}",
        )
    return axis


def _partial_block(work: _Factoring, name: str, buffers: Sequence[Buffer]) -> Block:
    """The block of the partial results: the factored loop is a spatial iterator of it, and each
    other loop of the reduction a reduce iterator."""
    factored = _iterator(work.loop, IterKind.SPATIAL)
    reduce = [
        _iterator(x, IterKind.REDUCE)
        for x in work.loops.inner
        if x.var in work.loops.reduce and x is not work.loop
    ]
    points: dict[Expr, Expr] = {it.binding: it.var for it in (factored, *reduce)}
    values: dict[Expr, Expr] = {
        it.var: simplify(substitute(it.binding, points))
        for it in work.block.iters
        if it.kind is IterKind.REDUCE
    }
    reducer = work.reducer
    indices = [work.partial_indices(s.indices, factored.var) for s in reducer.stores]
    new = tuple(substitute(v, values) for v in reducer.values)
    init = seq(*map(Store, buffers, indices, reducer.neutral))
    body = update(buffers, indices, reducer, new)
    condition = substitute(all_of(work.reduce), points)
    if condition is not TRUE:
        body = If(condition, body)
    return replace(
        work.block,
        name=name,
        iters=(*work.spatial_iters, factored, *reduce),
        predicate=all_of(work.spatial),
        init=init if reduce else None,
        body=body if reduce else seq(init, body),
        reads=None,
        writes=None,
    )


def _iterator(loop: For, kind: IterKind) -> Iter:
    return Iter(loop.var.renamed(f"v{loop.var.name}"), loop.extent, kind, loop.var, loop.start)


def _final_nest(work: _Factoring, buffers: Sequence[Buffer]) -> Stmt:
    """The loops and the block, called as the old one, that combine the partial results."""
    keep = {*work.loops.spatial}
    values, around = copy_loops(work.loops.inner, keep, "out")
    _, around_last = copy_loops([work.loop], {work.loop.var}, "out")
    last = around_last(work.block)
    assert isinstance(last, For)
    new_vars = {it.var: it.var.renamed(it.var.name) for it in work.spatial_iters}
    at = Iter(
        work.loop.var.renamed(f"v{work.loop.var.name}"),
        work.loop.extent,
        IterKind.REDUCE,
        last.var,
        work.loop.start,
    )
    iters = [
        replace(it, var=new_vars[it.var], binding=substitute(it.binding, values))
        for it in work.spatial_iters
    ]
    renaming: dict[Expr, Expr] = dict(new_vars.items())
    reducer = work.reducer
    indices = [tuple(substitute(i, renaming) for i in s.indices) for s in reducer.stores]
    partial: tuple[Expr, ...] = tuple(
        Load(b, work.partial_indices(i, at.var)) for b, i in zip(buffers, indices, strict=True)
    )
    starts = [substitute(e, renaming) for e in reducer.starts]
    block = replace(
        work.block,
        iters=(*iters, at),
        predicate=substitute(all_of(work.spatial), values),
        init=seq(*map(Store, reducer.buffers, indices, starts)),
        body=update(reducer.buffers, indices, reducer, partial),
        reads=None,
        writes=None,
    )
    return around(replace(last, body=block))
