"""How buffers lie in memory: other layouts, and groups of axes that are kept apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tensorsmith.arith import Analyzer
from tensorsmith.arith.index_map import (
    PaddedInverse,
    inverse_with_padding,
    is_identity,
    map_ranges,
)
from tensorsmith.arith.regions import block_regions
from tensorsmith.errors import ArithError, ShapeError
from tensorsmith.ir import (
    Alloc,
    Block,
    Buffer,
    Const,
    Expr,
    ExprLike,
    For,
    If,
    IndexMap,
    Invoke,
    Iter,
    IterKind,
    Load,
    LoopKind,
    Region,
    Select,
    Stmt,
    Store,
    TensorProgram,
    Var,
    as_expr,
    seq,
    substitute,
    transform,
)
from tensorsmith.ir.rewrite import map_exprs, replace_buffers, statements, transform_stmt
from tensorsmith.ir.stmt import ZERO
from tensorsmith.schedule.dependence import allocation
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.nest import Nest, plain_nest
from tensorsmith.schedule.placement import counters, place_of
from tensorsmith.schedule.tree import block_names, find_block, fresh_name, replace_stmt, sites
from tensorsmith.verify import problems

BufferSpec = str | Sequence[int | str]
"""A buffer of a block: its name, or a position and 'read' or 'write'."""


def pick_buffer(program: TensorProgram, block_name: str, spec: BufferSpec) -> Buffer:
    """The buffer that `spec` names among those that the block accesses.

    Positions count in the order of first access; what a block both reads and writes counts as
    written only. Raises ScheduleError, with what there is.
    """
    block = find_block(program, block_name).node
    assert isinstance(block, Block)
    reads, writes = block_regions(block)
    written = [r.buffer for r in writes]
    read = [r.buffer for r in reads if r.buffer not in written]
    if isinstance(spec, str):
        candidates = [b for b in (*written, *read) if b.name == spec]
        if len(candidates) == 1:
            return candidates[0]
    else:
        position, access = spec
        buffers = {"read": read, "write": written}.get(str(access), [])
        if isinstance(position, int) and 0 <= position < len(buffers):
            return buffers[position]
    raise ScheduleError(
        f"block {block_name!r} has no buffer {spec!r}, or more than one",
        given=f"it reads {_names(read)}, and writes {_names(written)}",
        try_="a name, or a position and 'read' or 'write', such as (0, 'read')",
        where=block.span,
    )


def _names(buffers: Sequence[Buffer]) -> str:
    return ", ".join(b.name for b in buffers) or "nothing"


def as_index_map(given: IndexMap | Callable[..., Sequence[ExprLike]], rank: int) -> IndexMap:
    """`given`, or the map of a Python function. Raises ScheduleError for another rank."""
    try:
        made = given if isinstance(given, IndexMap) else IndexMap.of(given, rank)
    except TypeError as error:
        raise ScheduleError(
            f"the index map does not take {rank} indices", because=str(error)
        ) from None
    if len(made.inputs) != rank:
        raise ScheduleError(
            f"the index map takes {len(made.inputs)} indices, and {rank} are needed"
        )
    return made


def invert(index_map: IndexMap, shape: Sequence[Expr], what: str) -> PaddedInverse:
    """The inverse of an injective map on `shape`. Raises ScheduleError if it is not injective."""
    try:
        return inverse_with_padding(index_map, shape)
    except (ArithError, ShapeError) as error:
        raise ScheduleError(
            f"{what}: {index_map!r} is not injective on indices of shape {tuple(shape)!r}",
            because=error.what,
        ) from None


@dataclass(frozen=True, slots=True)
class _Change:
    """One relayout: the buffer as it was and will be."""

    what: str
    old: Buffer
    new: Buffer
    index_map: IndexMap
    inverse: PaddedInverse
    pad_value: Expr | None


def transform_layout(
    program: TensorProgram,
    block_name: str,
    spec: BufferSpec,
    index_map: IndexMap | Callable[..., Sequence[ExprLike]],
    *,
    pad_value: ExprLike | None = None,
    change_parameter: bool = False,
) -> TensorProgram:
    """See `Schedule.transform_layout`."""
    buffer = pick_buffer(program, block_name, spec)
    what = f"transform_layout({block_name!r}, {buffer.name!r})"
    _check_plain(program, buffer, what)
    mapping = as_index_map(index_map, buffer.rank)
    inverse = invert(mapping, buffer.shape, what)
    if buffer in program.buffers:
        if not change_parameter or pad_value is not None:
            raise ScheduleError(
                f"{what}: {buffer.name!r} is a parameter",
                because="callers pass it in the layout it has"
                if pad_value is None
                else "what callers pass in the padding is not the program's to say",
                try_="change_parameter=True, if callers are to pass another layout, or cache_read",
                where=buffer.span,
            )
        return replace_everywhere(program, buffer, buffer.replace(layout=mapping))
    value = None if pad_value is None else as_expr(pad_value, buffer.dtype)
    new = buffer.replace(shape=inverse.shape)
    change = _Change(what, buffer, new, mapping, inverse, value)
    nest = _writer_nest(program, buffer)
    if nest is not None:
        program = replace_stmt(program, nest.root, _iterated(nest, change))
    program = _transformed(program, change)
    if nest is None and value is not None:
        program = _with_fill(program, change, value)
    if not all(isinstance(e, Const) for e in inverse.shape):
        _check_provable(program, what)
    return program


def _check_provable(program: TensorProgram, what: str) -> None:
    """That new subscripts are in bounds follows from the map, but must also be seen in the text."""
    for problem in problems(program):
        raise ScheduleError(
            f"{what}: with this layout the program cannot be shown to be right",
            because=problem.what,
            try_="tiles that divide what dimensions are multiples of, or constant extents",
        )


def _check_plain(program: TensorProgram, buffer: Buffer, what: str) -> None:
    if buffer.strides is not None or buffer.layout is not None:
        has = "strides" if buffer.strides is not None else "a layout"
        raise ScheduleError(f"{what}: {buffer.name!r} has {has} already", where=buffer.span)
    for s in statements(program.body):
        if not isinstance(s, Invoke):
            continue
        if any(isinstance(a, Region) and a.buffer is buffer for a in s.args):
            raise ScheduleError(
                f"{what}: {buffer.name!r} is passed to {s.callee!r}",
                because="a callee sees a region as a box with strides",
                try_="a copy of it (cache_read, cache_write)",
                where=s.span,
            )


def replace_everywhere(program: TensorProgram, old: Buffer, new: Buffer) -> TensorProgram:
    """The program with `new`, of the same shape, in the place of a parameter or allocation."""
    params = tuple(new if p is old else p for p in program.params)
    return replace(program, params=params, body=replace_buffers(program.body, {old: new}))


def _transformed(program: TensorProgram, change: _Change) -> TensorProgram:
    """All accesses of the old buffer made to the new one."""
    facts = Analyzer()
    cache: dict[Expr, Expr] = {}

    def moved(indices: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(facts.simplify(i) for i in change.index_map(*indices))

    def loads(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer is change.old:
            return Load(change.new, moved(e.indices))
        return None

    def own(s: Stmt) -> Stmt | None:
        if isinstance(s, Store) and s.buffer is change.old:
            return replace(s, buffer=change.new, indices=moved(s.indices))
        if isinstance(s, Alloc) and s.buffer is change.old:
            return replace(s, buffer=change.new)
        if isinstance(s, Block) and (s.reads is not None or s.writes is not None):
            return replace(s, reads=_boxes(s.reads, change), writes=_boxes(s.writes, change))
        return None

    body = map_exprs(program.body, lambda e: transform(e, loads, cache))
    return replace(program, body=transform_stmt(body, own))


def _boxes(regions: tuple[Region, ...] | None, change: _Change) -> tuple[Region, ...] | None:
    """Regions that are written out, as boxes of the new buffer around their images."""
    if regions is None:
        return None
    made: list[Region] = []
    for r in regions:
        if r.buffer is not change.old:
            made.append(r)
            continue
        try:
            made.append(Region(change.new, map_ranges(change.index_map, r.ranges)))
        except ArithError as error:
            raise ScheduleError(
                f"{change.what}: the region {r!r} has no box around its image", because=error.what
            ) from None
    return tuple(made)


def _writer_nest(program: TensorProgram, buffer: Buffer) -> Nest | None:
    """The nest of the block that writes each element of `buffer` once, by its own loops; None if
    there is no such block, or something else writes, too."""
    writers = [s for s in statements(program.body) if isinstance(s, Store) and s.buffer is buffer]
    if len(writers) != 1:
        return None
    (store,) = writers
    block = next(
        (x.node for x in sites(program) if isinstance(x.node, Block) and x.node.body is store), None
    )
    if not isinstance(block, Block) or block.init is not None:
        return None
    if tuple(it.var for it in block.iters) != store.indices:
        return None
    facts = Analyzer()
    for it, extent in zip(block.iters, buffer.shape, strict=True):
        if it.kind is not IterKind.SPATIAL or not facts.equal(it.extent, extent):
            return None
    try:
        nest = plain_nest(program, block.name, "transform_layout")
    except ScheduleError:
        return None
    unmarked = all(not x.attrs and x.kind is LoopKind.SERIAL for x in nest.loops)
    unmarked = unmarked and nest.block.reads is None and nest.block.writes is None
    starts = all(it.start is ZERO for it in block.iters)
    return nest if unmarked and starts else None


def _iterated(nest: Nest, change: _Change) -> Stmt:
    """The writer's nest over the elements of the new buffer; its store is still to the old one's
    indices, which `_transformed` does not see, so it stores to the new buffer already."""
    store = nest.block.body
    assert isinstance(store, Store)
    inverse, _, padding = change.inverse
    iters, around = spatial_loops(change.new.shape)
    new_vars = tuple(it.var for it in iters)
    facts = facts_of(iters)
    source = tuple(facts.simplify(i) for i in inverse(*new_vars))
    values: dict[Expr, Expr] = dict(zip((it.var for it in nest.block.iters), source, strict=True))
    value = substitute(store.value, values)
    padded = facts.simplify(substitute(padding, dict(zip(inverse.inputs, new_vars, strict=True))))
    body: Stmt = Store(change.new, new_vars, value, span=store.span)
    if not isinstance(padded, Const):
        if change.pad_value is None:
            body = If(facts.simplify(~padded), body)
        else:
            body = Store(change.new, new_vars, Select(padded, change.pad_value, value))
    return around(replace(nest.block, iters=iters, body=body))


def _with_fill(program: TensorProgram, change: _Change, value: Expr) -> TensorProgram:
    """The program with a block that stores `value` to the padding, behind the allocation."""
    inverse, _, padding = change.inverse
    iters, around = spatial_loops(change.new.shape)
    new_vars = tuple(it.var for it in iters)
    facts = facts_of(iters)
    padded = facts.simplify(substitute(padding, dict(zip(inverse.inputs, new_vars, strict=True))))
    if isinstance(padded, Const):
        return program
    name = fresh_name(f"{change.new.name}_pad", block_names(program))
    alloc = allocation(program, change.new)
    assert alloc is not None
    repeated = counters(place_of(alloc))
    fill = around(Block(name, (*repeated, *iters), If(padded, Store(change.new, new_vars, value))))
    return replace_stmt(program, alloc.node, seq(alloc.node, fill))


def spatial_loops(
    shape: Sequence[Expr], names: Sequence[str] = ()
) -> tuple[tuple[Iter, ...], Callable[[Stmt], Stmt]]:
    """Spatial iterators over `shape`, each with a loop of its own, and what puts those around."""
    loops = [
        For(Var(names[d] if d < len(names) else f"ax{d}"), extent, seq())
        for d, extent in enumerate(shape)
    ]
    iters = tuple(Iter(Var(f"v_{x.var.name}"), x.extent, IterKind.SPATIAL, x.var) for x in loops)

    def around(body: Stmt) -> Stmt:
        for loop in reversed(loops):
            body = replace(loop, body=body)
        return body

    return iters, around


def facts_of(iters: Sequence[Iter]) -> Analyzer:
    """What is known of the iterators of a block."""
    facts = Analyzer()
    for it in iters:
        facts.bind(it.var, it.start, it.extent)
    return facts


def set_axis_separator(
    program: TensorProgram, block_name: str, spec: BufferSpec, separators: Sequence[int]
) -> TensorProgram:
    """See `Schedule.set_axis_separator`."""
    buffer = pick_buffer(program, block_name, spec)
    what = f"set_axis_separator({block_name!r}, {buffer.name!r})"
    if buffer.strides is not None or (
        buffer.layout is not None and not is_identity(buffer.layout, buffer.shape)
    ):
        has = "strides" if buffer.strides is not None else "a layout"
        raise ScheduleError(f"{what}: {buffer.name!r} has {has} already", where=buffer.span)
    cuts = list(separators)
    if cuts != sorted(set(cuts)) or (cuts and not 0 < cuts[0] <= cuts[-1] < buffer.rank):
        raise ScheduleError(
            f"{what}: separators stand between axes, in rising order",
            given=f"separators={cuts}, and {buffer.name!r} has rank {buffer.rank}",
        )
    inputs = [Var(f"i{d}") for d in range(buffer.rank)]
    outputs: list[Expr] = []
    for first, stop in zip([0, *cuts], [*cuts, buffer.rank], strict=True):
        flat: Expr = ZERO
        for d in range(first, stop):
            flat = flat * buffer.shape[d] + inputs[d] if d > first else inputs[d]
        outputs.append(flat)
    new = buffer.replace(layout=IndexMap(inputs, outputs))
    return replace_everywhere(program, buffer, new)
