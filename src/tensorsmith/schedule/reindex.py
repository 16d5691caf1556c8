"""Caches that are indexed by a block's iterators, or by any injective map of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tensorsmith.arith import Analyzer, simplify
from tensorsmith.arith.accesses import collect_accesses
from tensorsmith.arith.iter_map import Level, detect
from tensorsmith.errors import ArithError, ShapeError
from tensorsmith.ir import (
    Block,
    Buffer,
    Expr,
    ExprLike,
    IndexMap,
    Iter,
    IterKind,
    Load,
    Stmt,
    Store,
    TensorProgram,
    free_vars,
    postorder,
    transform,
)
from tensorsmith.ir.rewrite import expressions, map_exprs, statements, transform_stmt
from tensorsmith.schedule.cache import copy_out, indices_written, points_taken
from tensorsmith.schedule.copies import (
    after_alone,
    before_all,
    buffer_of,
    cached_buffer,
    copy_of,
    element_copy,
    fresh_block_name,
    insert,
    replace_by_id,
)
from tensorsmith.schedule.dependence import check_movable, has_loads, scope_of
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.independence import check_marked_loops
from tensorsmith.schedule.tree import find_block

ALL_KINDS = (IterKind.SPATIAL, IterKind.REDUCE, IterKind.OPAQUE)
MapLike = IndexMap | Callable[..., Sequence[ExprLike]]


def reindex_read(
    program: TensorProgram,
    name: str,
    which: int | str,
    scope: str | None,
    index_map: MapLike | None = None,
) -> tuple[TensorProgram, str]:
    """See `Schedule.reindex` and `reindex_cache_read`. Gives the name of the copy block."""
    site = find_block(program, name)
    block = site.node
    assert isinstance(block, Block)
    buffer = buffer_of(block, which, written=False)
    primitive = "reindex" if scope is None else "reindex_cache_read"
    indices = _indices_read(block, buffer, primitive)
    used, place = _place_in_cache(block, indices, index_map, ALL_KINDS)
    root = scope_of(program, site)
    spot = before_all(program, root, [block], buffer)
    taken = points_taken(site, spot, ALL_KINDS)
    if taken is None:
        raise ScheduleError(
            f"{primitive}: it cannot be said what block {name!r} reads in one iteration of the"
            " loops around the copy",
            where=block.span,
        )
    new = _new_buffer(program, buffer, scope, used, place)
    copy_name = fresh_block_name(program, new.name)
    copied = element_copy(copy_name, used, (new, place), (buffer, indices))
    made, repeating = copy_of(copied, [taken[it.var] for it in used], spot.place())

    def loads(e: Expr) -> Expr | None:
        return Load(new, place) if isinstance(e, Load) and e.buffer is buffer else None

    changed = _derived(map_exprs(block, lambda e: transform(e, loads)))
    parts = [replace_by_id(p, {id(block): changed}) for p in spot.parts]
    program = insert(program, root, spot, (made, *parts), new, repeating)
    check_marked_loops(program, spot.around)
    return program, copy_name


def reindex_write(
    program: TensorProgram,
    name: str,
    which: int | str,
    scope: str | None,
    index_map: MapLike | None = None,
) -> tuple[TensorProgram, str]:
    """See `Schedule.reindex` and `reindex_cache_write`. Gives the name of the copy block."""
    site = find_block(program, name)
    block = site.node
    assert isinstance(block, Block)
    check_movable(block, "reindex" if scope is None else "reindex_cache_write")
    buffer = buffer_of(block, which, written=True)
    indices = indices_written(block, buffer)
    used, place = _place_in_cache(block, indices, index_map, (IterKind.SPATIAL,))
    root = scope_of(program, site)
    spot = after_alone(site, root, buffer)
    new = _new_buffer(program, buffer, scope, used, place)
    copy_name = fresh_block_name(program, new.name)
    copied = copy_out(copy_name, site, spot, indices, (buffer, new), place)

    def loads(e: Expr) -> Expr | None:
        return Load(new, place) if isinstance(e, Load) and e.buffer is buffer else None

    def stores(s: Stmt) -> Stmt | None:
        if isinstance(s, Store) and s.buffer is buffer:
            return replace(s, buffer=new, indices=place)
        return None

    changed = transform_stmt(map_exprs(block, lambda e: transform(e, loads)), stores)
    own = replace_by_id(spot.parts[0], {id(block): _derived(changed)})
    program = insert(program, root, spot, (own, copied), new)
    check_marked_loops(program, spot.around)
    return program, copy_name


def _derived(s: Stmt) -> Stmt:
    """The block with its regions derived again."""
    assert isinstance(s, Block)
    return replace(s, reads=None, writes=None)


def _indices_read(block: Block, buffer: Buffer, primitive: str) -> tuple[Expr, ...]:
    """Where the block reads the buffer, one element a point, whatever the point."""
    accesses = [a for a in collect_accesses(block, inside=True) if a.region.buffer is buffer]
    loads = [e for s in statements(block) for e in _loads_of(s)]
    places = {e.indices for e in loads if e.buffer is buffer}
    plain = all(not (a.guards or a.loops or a.unknown) for a in accesses)
    if len(places) != 1 or not plain or has_loads(*next(iter(places))):
        raise ScheduleError(
            f"{primitive}: block {block.name!r} does not read one element of {buffer.name!r} at"
            " each of its points",
            because="the copy has one element for each point",
            where=block.span,
        )
    return next(iter(places))


def _loads_of(s: Stmt) -> list[Load]:
    return [e for e in postorder(*expressions(s)) if isinstance(e, Load)]


def _place_in_cache(
    block: Block,
    indices: tuple[Expr, ...],
    index_map: MapLike | None,
    kinds: Sequence[IterKind],
) -> tuple[list[Iter], tuple[Expr, ...]]:
    """The iterators that pick an element of the cache, and its indices in terms of them."""
    needed = set(free_vars(*indices))
    iters = [it for it in block.iters if it.kind in kinds]
    if index_map is None:
        used = [it for it in iters if it.var in needed]
        return used, tuple(it.var for it in used)
    variables = [it.var for it in block.iters]
    try:
        if not isinstance(index_map, IndexMap):
            index_map = IndexMap.of(index_map, len(variables))
        place = index_map(*variables)
    except (ShapeError, TypeError) as error:
        raise ScheduleError(
            f"the map must take the {len(variables)} iterators of block {block.name!r}",
            because=str(error),
        ) from None
    taken = set(free_vars(*place))
    if missing := sorted(v.name for v in needed - taken):
        raise ScheduleError(
            f"the map does not use the iterator {missing[0]!r} of block {block.name!r}",
            because="different elements would have one place",
        )
    used = [it for it in iters if it.var in taken]
    if len(used) < len(taken & set(variables)):
        raise ScheduleError(
            f"the map uses an iterator of block {block.name!r} that is not spatial",
            because="each of its values would have a place, and only the last is the result",
        )
    return used, place


def _new_buffer(
    program: TensorProgram,
    buffer: Buffer,
    scope: str | None,
    used: Sequence[Iter],
    place: tuple[Expr, ...],
) -> Buffer:
    """A buffer that has room for the places of all points of `used`."""
    ranges = {it.var: (it.start, it.extent) for it in used}
    try:
        found = detect(place, ranges, level=Level.INJECTIVE)
    except ArithError as error:
        raise ScheduleError(
            "the map is not proven to give each point a place of its own", because=error.what
        ) from None
    shape = [start + extent for start, extent in zip(found.starts, found.extents, strict=True)]
    facts = Analyzer()
    for it in used:
        facts.bind(it.var, it.start, it.extent)
    for index, extent in zip(place, shape, strict=True):
        if facts.prove((index >= 0) & (index < extent)) is not True:
            raise ScheduleError(
                f"the index {index!r} of the copy is not proven to be at least 0 and less than"
                f" {simplify(extent)!r}",
                because="every access must be known to lie inside of its buffer",
            )
    kind = "reindex" if scope is None else scope
    new = cached_buffer(program, buffer, kind, shape=tuple(map(simplify, shape)))
    return new.replace(scope=buffer.scope if scope is None else scope)
