"""Putting a tensor intrinsic in the place of the loops that it computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorsmith.arith import Analyzer
from tensorsmith.ir import (
    Block,
    Buffer,
    Expr,
    Invoke,
    Load,
    Region,
    Stmt,
    Store,
    TensorProgram,
    Var,
    const,
    substitute,
    transform,
)
from tensorsmith.ir.instantiate import instantiate
from tensorsmith.ir.rewrite import map_exprs, transform_stmt
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.intrinsic import TensorIntrinsic
from tensorsmith.schedule.match import (
    Match,
    NoMatchError,
    View,
    actual_strides,
    match_program,
)
from tensorsmith.schedule.tree import block_names, find_block, fresh_name, replace_stmt


def tensorize(program: TensorProgram, name: str, intrinsic: TensorIntrinsic) -> TensorProgram:
    """See `Schedule.tensorize`: the inside of block `name` replaced by the implementation."""
    site = find_block(program, name)
    block = site.node
    assert isinstance(block, Block)
    facts = site.analyzer()
    for it in block.iters:
        facts.bind(it.var, it.start, it.extent)
    try:
        match = match_program(intrinsic.description, block.body, facts)
    except NoMatchError as error:
        raise ScheduleError(
            f"tensorize({name!r}): the block does not compute what {intrinsic.name!r} does",
            because=error.reason,
            given=f"it computes\n{_indented(block.body)}",
            try_="the loops of the intrinsic as innermost ones, and the init moved out"
            " (decompose_reduction)",
            where=block.span,
        ) from None
    body = _implementation(program, intrinsic, match, facts)
    attrs = {**block.attrs, "tensor_intrinsic": intrinsic.name}
    new = replace(block, body=body, attrs=attrs, reads=None, writes=None)
    return replace_stmt(program, block, new)


def _indented(s: Stmt) -> str:
    return "\n".join("    " + line for line in repr(s).splitlines())


def _implementation(
    program: TensorProgram, intrinsic: TensorIntrinsic, match: Match, facts: Analyzer
) -> Stmt:
    """The body of the implementation on the operands that were matched."""
    views: dict[Buffer, View] = {}
    values: dict[Var, Expr] = dict(match.values)
    described, implemented = intrinsic.description.params, intrinsic.implementation.params
    for a, b in zip(described, implemented, strict=True):
        if isinstance(a, Buffer) and isinstance(b, Buffer):
            views[b] = match.views[a]
            _bind(b, a, match, values)
        elif isinstance(a, Var) and isinstance(b, Var):
            values[b] = match.values[a]
    unknown = [v.name for v in intrinsic.implementation.dims if v not in values]
    if unknown:
        raise ScheduleError(
            f"the implementation of {intrinsic.name!r} uses {', '.join(unknown)}, which its"
            " description does not tell"
        )
    body = instantiate(intrinsic.implementation.body, values)
    return _renamed(_moved(body, views, facts), block_names(program))


def _bind(implemented: Buffer, described: Buffer, match: Match, values: dict[Var, Expr]) -> None:
    """What the variables in the shape, strides and offset of an implementation's parameter are."""
    view = match.views[described]
    strides = actual_strides(view.buffer)
    assert strides is not None
    known: dict[Expr, Expr] = dict(match.values.items())
    for own, other in zip(implemented.shape, described.shape, strict=True):
        if isinstance(own, Var):
            values.setdefault(own, substitute(other, known))
    for d, own in enumerate(implemented.strides or ()):
        axis = view.axis(d)
        if isinstance(own, Var):
            values.setdefault(own, const(0) if axis is None else strides[axis])
    if isinstance(implemented.offset, Var):
        offset: Expr = view.buffer.offset
        for start, stride in zip(view.base, strides, strict=True):
            offset = offset + start * stride
        values.setdefault(implemented.offset, offset)


def _moved(body: Stmt, views: Mapping[Buffer, View], facts: Analyzer) -> Stmt:
    """`body` with its accesses of parameters made to the boxes in which they lie."""

    def loads(e: Expr) -> Expr | None:
        if isinstance(e, Load) and (view := views.get(e.buffer)) is not None:
            return Load(view.buffer, simplified(view.indices(e.indices)))
        return None

    def simplified(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(facts.simplify(i) for i in indices)

    def region(r: Region) -> Region:
        view = views.get(r.buffer)
        if view is None:
            return r
        starts = simplified(view.indices([start for start, _ in r.ranges]))
        extents = [const(1) if d is None else r.ranges[d][1] for d in view.dims]
        return Region(view.buffer, zip(starts, extents, strict=True))

    def own(s: Stmt) -> Stmt | None:
        match s:
            case Store() if s.buffer in views:
                view = views[s.buffer]
                return replace(s, buffer=view.buffer, indices=simplified(view.indices(s.indices)))
            case Invoke():
                args = (region(a) if isinstance(a, Region) else a for a in s.args)
                return replace(s, args=tuple(args))
            case Block():
                return replace(
                    s,
                    reads=None if s.reads is None else tuple(map(region, s.reads)),
                    writes=None if s.writes is None else tuple(map(region, s.writes)),
                )
        return None

    cache: dict[Expr, Expr] = {}
    return transform_stmt(map_exprs(body, lambda e: transform(e, loads, cache)), own)


def _renamed(body: Stmt, taken: set[str]) -> Stmt:
    """`body` with its blocks called differently from all others."""

    def rename(s: Stmt) -> Stmt | None:
        if not isinstance(s, Block):
            return None
        name = fresh_name(s.name, taken)
        taken.add(name)
        return replace(s, name=name)

    return transform_stmt(body, rename)
