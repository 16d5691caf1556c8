"""Computing values where they are used: what a block computes becomes part of its consumers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile

from tensorsmith.arith import Analyzer
from tensorsmith.arith.accesses import collect_accesses
from tensorsmith.arith.iter_inverse import inverse
from tensorsmith.arith.iter_map import Level, detect
from tensorsmith.arith.privacy import reads_are_written
from tensorsmith.errors import ArithError
from tensorsmith.ir import (
    Block,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Invoke,
    Iter,
    IterKind,
    Load,
    Stmt,
    Store,
    TensorProgram,
    Var,
    While,
    equal,
    free_vars,
    substitute,
    transform,
)
from tensorsmith.ir.rewrite import children, map_exprs, transform_stmt
from tensorsmith.ir.stmt import TRUE
from tensorsmith.schedule.dependence import (
    all_effects,
    allocation,
    check_movable,
    defined_in,
    effects,
    inside_symbols,
    is_written_elsewhere,
    reads_itself,
)
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.tree import Site, find_block, replace_stmt, replaced, sites
from tensorsmith.verify import problems
from tensorsmith.verify.errors import BoundsError

# --- What blocks compute ---------------------------------------------------------------------


def only_store(block: Block, primitive: str) -> Store:
    """The store that is all of the block's body. Raises ScheduleError if there is more."""
    if isinstance(block.body, Store):
        return block.body
    raise ScheduleError(
        f"{primitive}: the body of block {block.name!r} is not a single store",
        because="only an expression can take the place of another",
        where=block.span,
    )


def local_result(program: TensorProgram, block: Block, primitive: str) -> Buffer:
    """The local buffer that the block alone writes. Raises ScheduleError otherwise."""
    buffer = only_store(block, primitive).buffer
    if buffer in program.buffers:
        raise ScheduleError(
            f"{primitive}: block {block.name!r} writes the parameter {buffer.name!r}",
            because="the caller sees it",
            where=block.span,
        )
    if is_written_elsewhere(program, block, buffer):
        raise ScheduleError(
            f"{primitive}: block {block.name!r} is not the only one to write {buffer.name!r}",
            because="its elements would not all be what this block computes",
            where=block.span,
        )
    return buffer


def invert(
    indices: Sequence[Expr], iters: Sequence[Iter], at: Sequence[Expr]
) -> tuple[dict[Expr, Expr], list[Expr]] | None:
    """The iterators' values for which `indices` are `at`, and when there are any: conditions on
    `at`. None if the map from iterators to indices has no inverse that could be said."""
    own = {it.var: it for it in iters}
    facts = Analyzer()
    values: dict[Expr, Expr] = {}
    checked: list[tuple[Expr, Expr]] = []
    for index, place in zip(indices, at, strict=True):
        moving = [v for v in free_vars(index) if v in own]
        rest = facts.simplify(index - moving[0]) if len(moving) == 1 else index
        if len(moving) == 1 and moving[0] not in values and moving[0] not in free_vars(rest):
            values[moving[0]] = facts.simplify(place - rest)
        else:
            checked.append((index, place))
    unit: dict[Expr, Expr] = {
        it.var: it.start for it in iters if isinstance(it.extent, Const) and it.extent.value == 1
    }
    missing = own.keys() - values.keys() - unit.keys()
    if missing:
        found = _general_inverse(indices, iters, at)
        if found is None or missing - found.keys():
            return None
        values, checked = found, list(zip(indices, at, strict=True))
    values = {**unit, **values}
    conditions = [equal(substitute(index, values), place) for index, place in checked]
    for it in iters:
        value = values[it.var]
        conditions += [it.start <= value, value < it.start + it.extent]
    return values, conditions


def _general_inverse(
    indices: Sequence[Expr], iters: Sequence[Iter], at: Sequence[Expr]
) -> dict[Expr, Expr] | None:
    ranges = {it.var: (it.start, it.extent) for it in iters}
    outputs = [Var(f"o{d}") for d in range(len(indices))]
    try:
        detected = detect(indices, ranges, TRUE, level=Level.INJECTIVE)
        found = inverse(detected, outputs)
    except ArithError:
        return None
    places: dict[Expr, Expr] = dict(zip(outputs, at, strict=True))
    return {v: substitute(e, places) for v, e in found.items()}


# --- What stands between ---------------------------------------------------------------------


def between(first: Site, second: Site, primitive: str) -> tuple[tuple[Stmt, ...], list[Stmt]]:
    """The statements around both, and those side by side from the one to the other, without the two
    themselves. Raises ScheduleError if they do not stand in this order."""
    a, b = (*first.around, first.node), (*second.around, second.node)
    count = sum(1 for _ in takewhile(lambda p: p[0] is p[1], zip(a, b, strict=False)))
    order = list(children(a[count - 1]))
    at, to = order.index(a[count]), order.index(b[count])
    if at >= to or isinstance(a[count - 1], (If, Block)):
        raise ScheduleError(
            f"{primitive}: {name_of(second.node)} does not stand after {name_of(first.node)}",
            where=first.node.span,
        )
    parts: list[Stmt | None] = list(order[at : to + 1])
    parts[0] = replaced(order[at], first.node, None)
    parts[-1] = replaced(order[to], second.node, None)
    return a[:count], [p for p in parts if p is not None]


def name_of(s: Stmt) -> str:
    """How an error names a statement."""
    return f"block {s.name!r}" if isinstance(s, Block) else "what reads it"


def check_same_values(
    primitive: str, first: Site, second: Site, buffer: Buffer, kept: set[Buffer]
) -> None:
    """What the first block computes is the same at the second: none of `kept` is written between,
    and where loops are around both, each iteration reads what it computed."""
    shared, passed = between(first, second, primitive)
    for s in passed:
        if met := sorted(b.name for b in all_effects(s).writes & kept):
            raise ScheduleError(
                f"{primitive}: {met[0]!r} is written between {name_of(first.node)} and"
                f" {name_of(second.node)}",
                because="other values would be read",
                where=first.node.span,
            )
    loops = [s for s in shared if isinstance(s, (For, While))]
    if not loops or not all_effects(loops[0]).writes & kept:
        return
    body = shared[-1]
    facts = Site(body, shared[:-1]).analyzer()
    accesses = [a for a in collect_accesses(body) if a.region.buffer is buffer]
    if not reads_are_written(accesses, body, facts):
        raise ScheduleError(
            f"{primitive}: {name_of(second.node)} may read what {name_of(first.node)} computed in"
            " an earlier iteration",
            because=f"what {buffer.name!r} is computed from has changed since",
            where=first.node.span,
        )


# --- Into consumers --------------------------------------------------------------------------


def compute_inline(program: TensorProgram, name: str) -> TensorProgram:
    """See `Schedule.compute_inline`."""
    site = find_block(program, name)
    block = site.node
    assert isinstance(block, Block)
    check_movable(block, "compute_inline")
    buffer = local_result(program, block, "compute_inline")
    store = only_store(block, "compute_inline")
    if any(it.kind is IterKind.REDUCE for it in block.iters):
        raise ScheduleError(
            f"compute_inline: block {name!r} is a reduction",
            because="an expression has no place for its loop",
            try_="compute_at",
            where=block.span,
        )
    kept = set(effects(block).reads)
    users = [s for s in sites(program) if s.node is not block and reads_itself(s.node, buffer)]
    for user in users:
        _check_user(user, site, buffer, block)
        check_same_values("compute_inline", site, user, buffer, kept)

    def value(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer is not buffer:
            return None
        found = invert(store.indices, _used_iters(block), e.indices)
        assert found is not None
        return substitute(store.value, found[0])

    if users and invert(store.indices, _used_iters(block), store.indices) is None:
        raise no_inverse("compute_inline", block, buffer)
    home = allocation(program, buffer)
    program = replace_stmt(program, block, None)
    if home is not None:
        program = replace_stmt(program, home.node, None)
    inlined = replace(program, body=with_loads(program.body, value, buffer))
    check_bounds(inlined, "compute_inline", block)
    return inlined


def check_bounds(program: TensorProgram, primitive: str, block: Block) -> None:
    """Raise ScheduleError if accesses of a program that was put together are not proven to lie
    inside of their buffers: what was known of them in one block may not be known in the other."""
    for problem in problems(program):
        if isinstance(problem, BoundsError):
            raise ScheduleError(
                f"{primitive}: what block {block.name!r} accesses cannot be proven to lie inside of"
                " its buffers any more",
                because=problem.what,
                where=block.span,
            )


def _used_iters(block: Block) -> list[Iter]:
    used = inside_symbols(block)
    return [it for it in block.iters if it.var in used]


def no_inverse(primitive: str, block: Block, buffer: Buffer) -> ScheduleError:
    """The error that an element of `buffer` belongs to no point that could be said."""
    return ScheduleError(
        f"{primitive}: it cannot be said which point of block {block.name!r} belongs to an element"
        f" of {buffer.name!r}",
        because="the map from its iterators to the element has no known inverse",
        where=block.span,
    )


def _check_user(user: Site, site: Site, buffer: Buffer, block: Block) -> None:
    if isinstance(user.node, Invoke):
        raise ScheduleError(
            f"compute_inline: {buffer.name!r} is passed to {user.node.callee!r}",
            because="a call takes memory, not a value",
            where=user.node.span,
        )
    if block in user.around:
        raise ScheduleError(f"compute_inline: block {block.name!r} reads what it writes")
    own = site.around[len(_shared(site, user)) :]
    hidden = defined_in(
        (*own, *(c for s in own for c in children(s) if c is not block))
    ) & inside_symbols(block)
    if hidden - {buffer}:
        name = min(x.name for x in hidden)
        raise ScheduleError(
            f"compute_inline: block {block.name!r} uses {name!r}, which is not defined at what"
            f" reads {buffer.name!r}",
            where=block.span,
        )


def _shared(a: Site, b: Site) -> list[Stmt]:
    return [x for x, y in takewhile(lambda p: p[0] is p[1], zip(a.around, b.around, strict=False))]


def with_loads(s: Stmt, change: Callable[[Expr], Expr | None], buffer: Buffer) -> Stmt:
    """`s` with loads changed; regions of reads that named the buffer are derived again."""
    cache: dict[Expr, Expr] = {}
    changed = map_exprs(s, lambda e: transform(e, change, cache))

    def regions(x: Stmt) -> Stmt | None:
        if isinstance(x, Block) and any(r.buffer is buffer for r in x.reads or ()):
            return replace(x, reads=None)
        return None

    return transform_stmt(changed, regions)
