"""Padding a contraction to multiples of a tile, by copies into larger buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tensorsmith.arith import Analyzer, simplify
from tensorsmith.arith.accesses import guarded_loads
from tensorsmith.ir import (
    Alloc,
    Bind,
    Block,
    Buffer,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    Iter,
    IterKind,
    Load,
    Select,
    Seq,
    Stmt,
    Store,
    TensorProgram,
    TruncDiv,
    TruncMod,
    Var,
    const,
    free_vars,
    postorder,
    seq,
    substitute,
    transform,
)
from tensorsmith.ir.rewrite import map_exprs, statements, transform_stmt
from tensorsmith.ir.stmt import ZERO
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.layout import spatial_loops
from tensorsmith.schedule.nest import Nest, all_of, describe, plain_nest
from tensorsmith.schedule.reducer import Reducer, reducer_of, update
from tensorsmith.schedule.tree import block_names, find_block, fresh_name, replace_stmt

Point = tuple[Buffer, tuple[Expr, ...]]
"""A buffer and the subscripts of an access."""


@dataclass(frozen=True, slots=True)
class _Copy:
    """An accessed buffer and the padded one in its place, which is accessed `at` other subscripts.

    iters: those for the dimensions of the padded buffer; none where these are the buffer's own.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    iters: tuple[Iter, ...]
    padded: Buffer
    at: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class _Padding:
    """One pad_einsum under way.

    extents: the padded extents of the iterators that get padding.
    facts: what is known of the iterators inside of the block, as it is now.
    """

    what: str
    nest: Nest
    extents: Mapping[Var, Expr]
    facts: Analyzer

    @property
    def block(self) -> Block:
        """The block."""
        return self.nest.block

    def extent(self, it: Iter) -> Expr:
        """The extent of an iterator with its padding."""
        return self.extents.get(it.var, it.extent)

    def refusal(self, problem: str, because: str) -> ScheduleError:
        """An error about the block."""
        return ScheduleError(f"{self.what}: {problem}", because=because, where=self.block.span)


def pad_einsum(
    program: TensorProgram, name: str, padding: Sequence[int]
) -> tuple[TensorProgram, list[str], list[str]]:
    """See `Schedule.pad_einsum`. Gives the names of the blocks that pad, and that copy back."""
    work = _prepared(program, name, padding)
    if not work.extents:
        return program, [], []
    inputs, outputs = _copies(work)
    reducer = _padded_reducer(work)
    pad = {c: const(0, c.buffer.dtype) for c in inputs}
    guard = False
    if reducer is not None:
        value = _pad_value(work, reducer)
        guard = value is None
        if value is not None:
            pad = {c: value if c.buffer.dtype is value.dtype else pad[c] for c in inputs}
    taken = block_names(program)
    pads = [_named(f"{c.padded.name}", taken) for c in inputs]
    backs = [_named(f"{c.buffer.name}_unpad", taken) for c in outputs]
    stmts = [
        *(Alloc(c.padded) for c in (*inputs, *outputs)),
        *(_pad_nest(c, n, pad[c], work) for c, n in zip(inputs, pads, strict=True)),
        _padded_nest(work, [*inputs, *outputs], reducer if guard else None),
        *(_unpad_nest(c, n) for c, n in zip(outputs, backs, strict=True)),
    ]
    return replace_stmt(program, work.nest.root, seq(*stmts)), pads, backs


def _named(name: str, taken: set[str]) -> str:
    made = fresh_name(name, taken)
    taken.add(made)
    return made


def _prepared(program: TensorProgram, name: str, padding: Sequence[int]) -> _Padding:
    what = f"pad_einsum({name!r})"
    nest = plain_nest(program, name, what)
    block = nest.block
    if len(padding) != len(block.iters) or any(m < 1 for m in padding):
        raise ScheduleError(
            f"{what}: padding={list(padding)} is not one multiple an iterator",
            given=f"the block has {len(block.iters)} iterators",
            try_="a positive number for each, 1 for no padding",
            where=block.span,
        )
    facts = find_block(program, name).analyzer()
    extents: dict[Var, Expr] = {}
    for it, multiple in zip(block.iters, padding, strict=True):
        extent = facts.simplify((it.extent + multiple - 1) // multiple * multiple)
        if not facts.equal(extent, it.extent):
            extents[it.var] = extent
    for it in block.iters:
        facts.bind(it.var, it.start, it.extent)
    work = _Padding(what, nest, extents, facts)
    _check_iterators(work)
    _check_body(work)
    return work


def _check_iterators(work: _Padding) -> None:
    for it in work.block.iters:
        if it.var in work.extents and it.kind is IterKind.OPAQUE:
            raise work.refusal(
                f"the iterator {it.var.name!r} is opaque", "its values keep their order"
            )
        if it.start is not ZERO:
            raise work.refusal(
                f"the iterator {it.var.name!r} starts at {it.start!r}",
                "padded buffers begin at 0",
            )


def _check_body(work: _Padding) -> None:
    """The block only stores and binds, and does nothing that could fail on padding."""
    for s in _inside(work.block):
        if not isinstance(s, (Seq, Store, Bind)):
            raise work.refusal(
                f"block {work.block.name!r} holds {describe(s)}",
                "only stores and bindings can be done on padding, too",
            )
        values = _values(s)
        for e in postorder(*values):
            division = isinstance(e, (FloorDiv, FloorMod, TruncDiv, TruncMod))
            if division and not (isinstance(e.args[1], Const) and e.args[1].value):
                raise work.refusal(f"it divides by {e.args[1]!r}", "on padding that may be 0")
        if any(guards for _, guards in guarded_loads(tuple(values))):
            raise work.refusal(
                "it loads under a condition", "what is not loaded need not be there to be copied"
            )


def _inside(block: Block) -> list[Stmt]:
    parts = [block.body] if block.init is None else [block.init, block.body]
    return [s for part in parts for s in statements(part)]


def _values(s: Stmt) -> list[Expr]:
    match s:
        case Store():
            return [*s.indices, s.value]
        case Bind():
            return [s.value]
    return []


# --- What is copied --------------------------------------------------------------------------


def _copies(work: _Padding) -> tuple[list[_Copy], list[_Copy]]:
    """The accesses to be made to padded buffers: of inputs and of outputs."""
    stores: dict[Point, None] = {}
    loads: dict[Point, None] = {}
    for s in _inside(work.block):
        if isinstance(s, Store):
            stores[s.buffer, s.indices] = None
        for e in postorder(*_values(s)):
            if isinstance(e, Load):
                loads[e.buffer, e.indices] = None
    results = dict(stores.keys())
    for buffer, indices in (*stores, *loads):
        if buffer in results and results[buffer] != indices:
            raise work.refusal(
                f"it accesses {buffer.name!r} at several places", "one copy would not be enough"
            )
    _check_results(work, results, loads)
    inputs = [p for p in loads if p[0] not in results]
    made = [_copy(work, p, may_grow=True) for p in inputs], [_copy(work, p) for p in stores]
    return [c for c in made[0] if c is not None], [c for c in made[1] if c is not None]


def _check_results(
    work: _Padding, results: Mapping[Buffer, tuple[Expr, ...]], loads: Mapping[Point, None]
) -> None:
    init = work.block.init
    started = {s.buffer for s in statements(init) if isinstance(s, Store)} if init else set()
    for buffer, indices in results.items():
        if (buffer, indices) in loads and buffer not in started:
            raise work.refusal(
                f"it reads its result {buffer.name!r}, and has no init of it",
                "what is there before is not in the padded buffer (pad_einsum comes before"
                " decompose_reduction)",
            )
        for it in work.block.iters:
            if it.kind is IterKind.SPATIAL and it.var in work.extents and it.var not in indices:
                raise work.refusal(
                    f"{it.var.name!r} is no subscript of its result {buffer.name!r}",
                    "a point of the padding would overwrite a value",
                )


def _copy(work: _Padding, point: Point, *, may_grow: bool = False) -> _Copy | None:
    """The padded buffer for an access; None if it has no padded iterator. may_grow: whether it may
    keep the dimensions of the buffer, where iterators share subscripts."""
    buffer, indices = point
    if not any(v in work.extents for v in free_vars(*indices)) and not _bound(work, indices):
        return None
    by_var: dict[Expr, Iter] = {it.var: it for it in work.block.iters}
    iters: dict[Iter, None] = {}
    for index in indices:
        if index in by_var:
            iters[by_var[index]] = None
        elif _bound(work, (index,)) or any(v in by_var for v in free_vars(index)):
            shape = _grown(work, point) if may_grow and not _bound(work, indices) else None
            if shape is None:
                raise work.refusal(
                    f"the subscript {index!r} of {buffer.name!r} is not an iterator",
                    "a padded buffer has one dimension an iterator",
                )
            return _Copy(buffer, indices, (), _padded(buffer, shape), indices)
    at = tuple(it.var for it in iters)
    shape = [work.extent(it) for it in iters]
    return _Copy(buffer, indices, tuple(iters), _padded(buffer, shape), at)


def _padded(buffer: Buffer, shape: Sequence[Expr]) -> Buffer:
    return Buffer(f"{buffer.name}_pad", shape, buffer.dtype, scope=buffer.scope)


def _grown(work: _Padding, point: Point) -> list[Expr] | None:
    """The extents of a buffer with room for what spatial iterators reach in their padding; None if
    a subscript is no multiple of such an iterator and a rest."""
    buffer, indices = point
    own = {it.var for it in work.block.iters}
    shape = list(buffer.shape)
    for d, index in enumerate(indices):
        for it in work.block.iters:
            if it.var not in work.extents or it.var not in free_vars(index):
                continue
            step = work.facts.simplify(substitute(index, {it.var: it.var + 1}) - index)
            if own.intersection(free_vars(step)) or work.facts.prove(step >= 0) is not True:
                return None
            if it.kind is not IterKind.SPATIAL:
                return None
            more = step * (work.extent(it) - it.extent)
            shape[d] = work.facts.simplify(shape[d] + more)
    return shape


def _bound(work: _Padding, indices: Sequence[Expr]) -> bool:
    """Whether subscripts use what a `Bind` of the block or a load defines."""
    local = {s.var for s in _inside(work.block) if isinstance(s, Bind)}
    return any(e in local or isinstance(e, Load) for e in postorder(*indices))


# --- What padding contributes ----------------------------------------------------------------


def _padded_reducer(work: _Padding) -> Reducer | None:
    """The block's reducer, if reduce iterators get padding."""
    reduce = [it for it in work.block.iters if it.kind is IterKind.REDUCE]
    if not any(it.var in work.extents for it in reduce):
        return None
    return reducer_of(work.block, work.what)


def _pad_value(work: _Padding, reducer: Reducer) -> Const | None:
    """What to pad the inputs with so that padding contributes nothing; None if there is no such
    value: then a condition keeps the padding out."""
    if len(reducer.values) != 1:
        return None
    (value,), (neutral,) = reducer.values, reducer.neutral
    zero = const(0, value.dtype)
    for candidate in (zero, neutral):
        assert isinstance(candidate, Const)
        if all(_contributes_nothing(it, value, candidate, neutral) for it in _padded_reduce(work)):
            return candidate
    return None


def _padded_reduce(work: _Padding) -> list[Iter]:
    return [it for it in work.block.iters if it.kind is IterKind.REDUCE and it.var in work.extents]


def _contributes_nothing(it: Iter, value: Expr, pad: Const, neutral: Expr) -> bool:
    """Whether `value` is neutral where all that `it` subscripts is `pad`."""

    def padded(e: Expr) -> Expr | None:
        if isinstance(e, Load) and it.var in free_vars(*e.indices):
            return pad if e.dtype is pad.dtype else const(0, e.dtype)
        return None

    return simplify(transform(value, padded)) is neutral


# --- The new statements ----------------------------------------------------------------------


def _pad_nest(copy: _Copy, name: str, pad: Expr, work: _Padding) -> Stmt:
    """Copy an input, with `pad` where the iterators are beyond their extents."""
    if not copy.iters:
        return _grow_nest(copy, name, pad, work)
    names = [it.binding.name for it in copy.iters if isinstance(it.binding, Var)]
    iters, around = spatial_loops(copy.padded.shape, names)
    values: dict[Expr, Expr] = {
        old.var: new.var for old, new in zip(copy.iters, iters, strict=True)
    }
    element = Load(copy.buffer, tuple(substitute(i, values) for i in copy.indices))
    inside = [
        new.var < old.extent
        for old, new in zip(copy.iters, iters, strict=True)
        if old.var in work.extents
    ]
    value = Select(all_of(inside), element, pad)
    store = Store(copy.padded, tuple(it.var for it in iters), value)
    return around(Block(name, iters, store, span=work.block.span))


def _grow_nest(copy: _Copy, name: str, pad: Expr, work: _Padding) -> Stmt:
    """Copy an input to a buffer of the same dimensions, with `pad` behind it."""
    iters, around = spatial_loops(copy.padded.shape)
    at = tuple(it.var for it in iters)
    sizes = zip(at, copy.buffer.shape, copy.padded.shape, strict=True)
    inside = [v < old for v, old, new in sizes if old is not new]
    value = Select(all_of(inside), Load(copy.buffer, at), pad)
    return around(Block(name, iters, Store(copy.padded, at, value), span=work.block.span))


def _unpad_nest(copy: _Copy, name: str) -> Stmt:
    """Copy the valid part of an output to where it belongs."""
    names = [it.binding.name for it in copy.iters if isinstance(it.binding, Var)]
    iters, around = spatial_loops([it.extent for it in copy.iters], names)
    values: dict[Expr, Expr] = {
        old.var: new.var for old, new in zip(copy.iters, iters, strict=True)
    }
    element = Load(copy.padded, tuple(it.var for it in iters))
    indices = tuple(substitute(i, values) for i in copy.indices)
    return around(Block(name, iters, Store(copy.buffer, indices, element)))


def _padded_nest(work: _Padding, copies: Sequence[_Copy], guarded: Reducer | None) -> Stmt:
    """The block over the padded ranges, on the padded buffers."""
    block = work.block
    body = block.body
    if guarded is not None:
        inside = all_of([it.var < it.extent for it in _padded_reduce(work)])
        pairs = zip(guarded.values, guarded.neutral, strict=True)
        new = tuple(Select(inside, v, n) for v, n in pairs)
        body = update(guarded.buffers, [s.indices for s in guarded.stores], guarded, new)
    iters = tuple(replace(it, extent=work.extent(it)) for it in block.iters)
    init = None if block.init is None else _redirected(block.init, copies)
    result: Stmt = replace(block, iters=iters, init=init, body=_redirected(body, copies))
    bound = {it.binding: work.extent(it) for it in block.iters}
    for loop in reversed(work.nest.loops):
        result = replace(loop, extent=bound.get(loop.var, loop.extent), body=result)
    return result


def _redirected(s: Stmt, copies: Sequence[_Copy]) -> Stmt:
    """`s` with the accesses made to the padded buffers."""
    new: dict[Point, Point] = {(c.buffer, c.indices): (c.padded, c.at) for c in copies}

    def loads(e: Expr) -> Expr | None:
        if isinstance(e, Load) and (found := new.get((e.buffer, e.indices))) is not None:
            return Load(*found)
        return None

    def stores(x: Stmt) -> Stmt | None:
        if isinstance(x, Store) and (found := new.get((x.buffer, x.indices))) is not None:
            return replace(x, buffer=found[0], indices=found[1])
        return None

    cache: dict[Expr, Expr] = {}
    return transform_stmt(map_exprs(s, lambda e: transform(e, loads, cache)), stores)
