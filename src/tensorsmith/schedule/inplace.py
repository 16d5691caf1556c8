"""Indices that are computed once and kept in a buffer; blocks that work in place on a copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorsmith.arith import simplify
from tensorsmith.arith.accesses import collect_accesses
from tensorsmith.arith.regions import clip_region, relaxed_region, union_region
from tensorsmith.ir import (
    Alloc,
    Block,
    Buffer,
    Cast,
    Const,
    Expr,
    Iter,
    IterKind,
    Load,
    Stmt,
    Store,
    TensorProgram,
    Var,
    dtype,
    free_vars,
    postorder,
    substitute,
    transform,
)
from tensorsmith.ir.rewrite import expressions, map_exprs, replace_buffers, statements
from tensorsmith.schedule.cache import check_all_written
from tensorsmith.schedule.copies import (
    after_alone,
    before_all,
    cached_buffer,
    copy_block,
    copy_of,
    fresh_block_name,
    insert,
    replace_by_id,
)
from tensorsmith.schedule.dependence import effects, has_loads, scope_of
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.independence import check_marked_loops
from tensorsmith.schedule.tree import block_names, find_block, fresh_name


def cache_index(
    program: TensorProgram, name: str, least_operations: int
) -> tuple[TensorProgram, list[str]]:
    """See `Schedule.cache_index`. Gives the names of the blocks that compute indices."""
    block = find_block(program, name).node
    assert isinstance(block, Block)
    names: list[str] = []
    for index in _costly_indices(block, least_operations):
        program, made = _with_index(program, name, index)
        names.append(made)
    return program, names


def _costly_indices(block: Block, least_operations: int) -> list[Expr]:
    """The subscripts of loads that are functions of the block's iterators, and cost as much."""
    own = {it.var for it in block.iters}
    found: dict[Expr, None] = {}
    for s in statements(block):
        for load in (e for e in postorder(*expressions(s)) if isinstance(e, Load)):
            for index in load.indices:
                used = set(free_vars(index))
                costs = sum(not isinstance(e, (Const, Var)) for e in postorder(index))
                if costs >= least_operations and used & own and not has_loads(index):
                    found[index] = None
    inside = {v for s in statements(block) for v in _defines(s, block)}
    return [e for e in found if not inside & set(free_vars(e))]


def _defines(s: Stmt, block: Block) -> set[Var]:
    if s is block:
        return set()
    if isinstance(s, Block):
        return {it.var for it in s.iters}
    var = getattr(s, "var", None)
    return {var} if isinstance(var, Var) else set()


def _with_index(program: TensorProgram, name: str, index: Expr) -> tuple[TensorProgram, str]:
    site = find_block(program, name)
    block = site.node
    assert isinstance(block, Block)
    root = scope_of(program, site)
    used = [it for it in block.iters if it.var in set(free_vars(index))]
    taken = {p.name for p in program.params} | {
        s.buffer.name for s in statements(program.body) if isinstance(s, Alloc)
    }
    shape = [simplify(it.start + it.extent) for it in used]
    new = Buffer(fresh_name(f"{name}_index", taken), shape, "int64")
    made_name = fresh_name(new.name, block_names(program))
    spot = before_all(program, root, [block], new)
    box = [(it.start, it.extent) for it in used]
    made, _ = copy_of(_index_block(made_name, new, used, index), box, spot.place())
    value = Cast(Load(new, tuple(it.var for it in used)), dtype("index"))

    def loads(e: Expr) -> Expr | None:
        if isinstance(e, Load) and index in e.indices:
            return Load(e.buffer, tuple(value if i is index else i for i in e.indices))
        return None

    changed = map_exprs(block, lambda e: transform(e, loads))
    assert isinstance(changed, Block)
    changed = replace(changed, reads=None)
    parts = [replace_by_id(p, {id(block): changed}) for p in spot.parts]
    return insert(program, root, spot, (made, *parts), new), made_name


def _index_block(name: str, target: Buffer, used: Sequence[Iter], index: Expr) -> Block:
    fresh = tuple(
        replace(it, kind=IterKind.SPATIAL, var=it.var.renamed(it.var.name)) for it in used
    )
    values: dict[Expr, Expr] = {a.var: b.var for a, b in zip(used, fresh, strict=True)}
    value = Cast(substitute(index, values), target.dtype)
    return Block(name, fresh, Store(target, tuple(it.var for it in fresh), value))


# --- In place --------------------------------------------------------------------------------


def cache_inplace(
    program: TensorProgram, name: str, which: int | str, scope: str
) -> tuple[TensorProgram, tuple[str, str]]:
    """See `Schedule.cache_inplace`. Gives the names of the blocks that copy in and out."""
    site = find_block(program, name)
    block = site.node
    assert isinstance(block, Block)
    buffer = _changed_in_place(block, which)
    root = scope_of(program, site)
    spot = after_alone(site, root, buffer)
    facts = spot.place().inside
    accesses = [a for a in collect_accesses(spot.parts[0]) if a.region.buffer is buffer]
    box = clip_region(union_region([relaxed_region(a, facts) for a in accesses], facts), facts)
    if any(spot.loops & set(free_vars(extent)) for _, extent in box.ranges):
        box = buffer.region()
    check_all_written(program, buffer, box, spot)
    new = cached_buffer(program, buffer, scope)
    first = fresh_block_name(program, f"{new.name}_in")
    last = fresh_block_name(program, f"{new.name}_out")
    into, repeating = copy_of(copy_block(first, new, buffer), box.ranges, spot.place())
    out, _ = copy_of(copy_block(last, buffer, new), box.ranges, spot.place())
    own = replace_by_id(spot.parts[0], {id(block): replace_buffers(block, {buffer: new})})
    program = insert(program, root, spot, (into, own, out), new, repeating)
    check_marked_loops(program, spot.around)
    return program, (first, last)


def _changed_in_place(block: Block, which: int | str) -> Buffer:
    found = effects(block)
    both = [b for b in _in_order(block) if b in found.reads & found.writes]
    if isinstance(which, str):
        named = [b for b in both if b.name == which]
        if named:
            return named[0]
    elif 0 <= which < len(both):
        return both[which]
    known = ", ".join(repr(b.name) for b in both) or "nothing"
    raise ScheduleError(
        f"cache_inplace: block {block.name!r} does not read and write a buffer {which!r}",
        try_=f"what it reads and writes: {known}, by name or by position",
        where=block.span,
    )


def _in_order(block: Block) -> list[Buffer]:
    return list(dict.fromkeys(a.region.buffer for a in collect_accesses(block)))
