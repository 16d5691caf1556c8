"""Computing values where they are used, or results where they are made.

`compute_inline` puts what a block computes into its consumers; `reverse_compute_inline` puts what a
block does with a value into the block that makes it; `fuse_reduction_epilogue` starts a reduction
from what would be combined with its result.
"""

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
    Add,
    And,
    Binary,
    BitAnd,
    BitOr,
    BitXor,
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
    Max,
    Min,
    Mul,
    Or,
    Region,
    Stmt,
    Store,
    TensorProgram,
    Var,
    While,
    equal,
    free_vars,
    postorder,
    substitute,
    transform,
)
from tensorsmith.ir.rewrite import children, expressions, map_exprs, statements, transform_stmt
from tensorsmith.ir.stmt import TRUE
from tensorsmith.schedule.dependence import (
    allocation,
    check_movable,
    defined_in,
    effects,
    inside_symbols,
    used_symbols,
    why_opaque,
    writers,
)
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.tree import Site, find_block, replace_stmt, replaced, sites

COMBINING = (Add, Mul, Min, Max, And, Or, BitAnd, BitOr, BitXor)
"""Operations that are commutative and associative (of floats, up to rounding)."""


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
    if len(writers(program.body, buffer)) > 1:
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
        it.var: it.start
        for it in iters
        if isinstance(it.extent, Const) and it.extent.value == 1
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


def _between(first: Site, second: Site, primitive: str) -> tuple[tuple[Stmt, ...], list[Stmt]]:
    """The statements around both, and those side by side from the one to the other, without the two
    themselves. Raises ScheduleError if they do not stand in this order."""
    a, b = (*first.around, first.node), (*second.around, second.node)
    count = sum(1 for _ in takewhile(lambda p: p[0] is p[1], zip(a, b, strict=False)))
    order = list(children(a[count - 1]))
    at, to = order.index(a[count]), order.index(b[count])
    if at >= to or isinstance(a[count - 1], (If, Block)):
        raise ScheduleError(
            f"{primitive}: {_name(second.node)} does not stand after {_name(first.node)}",
            where=first.node.span,
        )
    parts: list[Stmt | None] = list(order[at : to + 1])
    parts[0] = replaced(order[at], first.node, None)
    parts[-1] = replaced(order[to], second.node, None)
    return a[:count], [p for p in parts if p is not None]


def _name(s: Stmt) -> str:
    return f"block {s.name!r}" if isinstance(s, Block) else "what reads it"


def _check_same_values(
    primitive: str, first: Site, second: Site, buffer: Buffer, kept: set[Buffer]
) -> None:
    """What the first block computes is the same at the second: none of `kept` is written between,
    and where loops are around both, each iteration reads what it computed."""
    shared, between = _between(first, second, primitive)
    for s in between:
        if met := sorted(b.name for b in effects(s).writes & kept):
            raise ScheduleError(
                f"{primitive}: {met[0]!r} is written between {_name(first.node)} and"
                f" {_name(second.node)}",
                because="other values would be read",
                where=first.node.span,
            )
    loops = [s for s in shared if isinstance(s, (For, While))]
    if not loops or not effects(loops[0]).writes & kept:
        return
    body = shared[-1]
    facts = Site(body, shared[:-1]).analyzer()
    accesses = [a for a in collect_accesses(body) if a.region.buffer is buffer]
    if not reads_are_written(accesses, body, facts):
        raise ScheduleError(
            f"{primitive}: {_name(second.node)} may read what {_name(first.node)} computed in an"
            " earlier iteration",
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
    users = [s for s in sites(program) if s.node is not block and _reads_itself(s.node, buffer)]
    for user in users:
        _check_user(user, site, buffer, block)
        _check_same_values("compute_inline", site, user, buffer, kept)

    def value(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer is not buffer:
            return None
        found = invert(store.indices, _used_iters(block), e.indices)
        assert found is not None
        return substitute(store.value, found[0])

    if users and invert(store.indices, _used_iters(block), store.indices) is None:
        raise _no_inverse("compute_inline", block, buffer)
    home = allocation(program, buffer)
    program = replace_stmt(program, block, None)
    if home is not None:
        program = replace_stmt(program, home.node, None)
    return replace(program, body=_with_loads(program.body, value, buffer))


def _used_iters(block: Block) -> list[Iter]:
    used = inside_symbols(block)
    return [it for it in block.iters if it.var in used]


def _no_inverse(primitive: str, block: Block, buffer: Buffer) -> ScheduleError:
    return ScheduleError(
        f"{primitive}: it cannot be said which point of block {block.name!r} belongs to an element"
        f" of {buffer.name!r}",
        because="the map from its iterators to the element has no known inverse",
        where=block.span,
    )


def _reads_itself(s: Stmt, buffer: Buffer) -> bool:
    """Whether the statement itself, not one inside of it, reads the buffer."""
    if isinstance(s, Invoke) and any(isinstance(a, Region) and a.buffer is buffer for a in s.args):
        return True
    roots = tuple(expressions(s))
    return any(isinstance(e, Load) and e.buffer is buffer for e in postorder(*roots))


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
        name = sorted(x.name for x in hidden)[0]
        raise ScheduleError(
            f"compute_inline: block {block.name!r} uses {name!r}, which is not defined at what"
            f" reads {buffer.name!r}",
            where=block.span,
        )


def _shared(a: Site, b: Site) -> list[Stmt]:
    return [x for x, y in takewhile(lambda p: p[0] is p[1], zip(a.around, b.around, strict=False))]


def _with_loads(s: Stmt, change: Callable[[Expr], Expr | None], buffer: Buffer) -> Stmt:
    """`s` with loads changed; regions of reads that named the buffer are derived again."""
    cache: dict[Expr, Expr] = {}
    changed = map_exprs(s, lambda e: transform(e, change, cache))

    def regions(x: Stmt) -> Stmt | None:
        if isinstance(x, Block) and any(r.buffer is buffer for r in x.reads or ()):
            return replace(x, reads=None)
        return None

    return transform_stmt(changed, regions)


# --- Into the producer -----------------------------------------------------------------------


def reverse_compute_inline(program: TensorProgram, name: str) -> TensorProgram:
    """See `Schedule.reverse_compute_inline`."""
    consumer = find_block(program, name)
    producer, values, guard = _joined(program, consumer, "reverse_compute_inline")
    block, made = consumer.node, producer.node
    assert isinstance(block, Block)
    assert isinstance(made, Block)
    if any(it.kind is not IterKind.SPATIAL for it in made.iters):
        raise ScheduleError(
            f"reverse_compute_inline: block {made.name!r} has iterators that are not spatial",
            because="its values are not final when it writes them",
            try_="reverse_compute_at, or fuse_reduction_epilogue",
            where=made.span,
        )
    store, source = only_store(block, "reverse_compute_inline"), made.body
    assert isinstance(source, Store)
    value = _with_value(substitute(store.value, values), source.buffer, source.value)
    indices = tuple(
        _with_value(substitute(i, values), source.buffer, source.value) for i in store.indices
    )
    body: Stmt = replace(store, indices=indices, value=value)
    if guard is not TRUE:
        body = If(guard, body, span=store.span)
    new = replace(block, iters=made.iters, predicate=made.predicate, body=body)
    return _replace_pair(program, producer, consumer, new, source.buffer)


def _with_value(e: Expr, buffer: Buffer, value: Expr) -> Expr:
    return transform(
        e, lambda x: value if isinstance(x, Load) and x.buffer is buffer else None
    )


def _replace_pair(
    program: TensorProgram, producer: Site, consumer: Site, new: Block, buffer: Buffer
) -> TensorProgram:
    """The program with one block in the place of the producer, and without the consumer."""
    home = allocation(program, buffer)
    program = replace_stmt(program, consumer.node, None)
    program = replace_stmt(program, producer.node, new)
    return program if home is None else replace_stmt(program, home.node, None)


def _joined(
    program: TensorProgram, consumer: Site, primitive: str
) -> tuple[Site, dict[Expr, Expr], Expr]:
    """The block that makes what `consumer` reads, the consumer's iterators in terms of its, and
    where the consumer has such a point. Raises ScheduleError if they cannot be one."""
    block = consumer.node
    assert isinstance(block, Block)
    reason = why_opaque(block) or (
        None if all(it.kind is IterKind.SPATIAL for it in block.iters) else "it does not"
    )
    if reason:
        raise ScheduleError(
            f"{primitive}: block {block.name!r} is not one value for each of its points",
            because=reason if reason != "it does not" else "it has iterators that are not spatial",
            where=block.span,
        )
    store = only_store(block, primitive)
    loads = [e for e in postorder(*store.indices, store.value) if isinstance(e, Load)]
    local = dict.fromkeys(e.buffer for e in loads if e.buffer not in program.buffers)
    made = [(b, w) for b in local for w in writers(program.body, b) if isinstance(w, Block)]
    if len(made) != 1:
        raise ScheduleError(
            f"{primitive}: block {block.name!r} reads what {len(made)} blocks make, not one",
            try_="compute_inline for the others, first",
            where=block.span,
        )
    buffer, writer = made[0]
    producer = find_block(program, writer.name)
    local_result(program, writer, primitive)
    _check_only_reader(program, buffer, block, writer, primitive)
    kept = set(effects(block).reads) - {buffer}
    target = store.buffer
    _check_same_values(primitive, producer, consumer, buffer, kept)
    _check_target_free(primitive, producer, consumer, target)
    values, guard = _points_joined(primitive, writer, block, loads, buffer)
    return producer, values, guard


def _check_only_reader(
    program: TensorProgram, buffer: Buffer, block: Block, writer: Block, primitive: str
) -> None:
    for s in sites(program):
        inside = any(s.node is x for b in (block, writer) for x in statements(b))
        if not inside and _reads_itself(s.node, buffer):
            raise ScheduleError(
                f"{primitive}: block {block.name!r} is not the only one to read {buffer.name!r}",
                because="the values would no longer be there for others",
                where=block.span,
            )


def _check_target_free(primitive: str, first: Site, second: Site, target: Buffer) -> None:
    shared, between = _between(first, second, primitive)
    block = second.node
    assert isinstance(block, Block)
    hidden = defined_in(between) & used_symbols(block)
    if hidden:
        raise ScheduleError(
            f"{primitive}: block {block.name!r} uses {sorted(x.name for x in hidden)[0]!r}, which is"
            f" not defined at {_name(first.node)}",
            where=block.span,
        )
    found = effects(*between)
    if target in found.reads | found.writes or target in effects(first.node).reads:
        raise ScheduleError(
            f"{primitive}: {target.name!r}, which block {block.name!r} writes, is used before it",
            because="it would be written earlier than it was",
            where=block.span,
        )
    own = (*first.around[len(shared) :], *second.around[len(shared) :])
    if any(isinstance(s, (If, While)) for s in own):
        raise ScheduleError(
            f"{primitive}: a condition stands between block {block.name!r} and {_name(first.node)}",
            because="one would run where the other does not",
            where=block.span,
        )


def _points_joined(
    primitive: str, writer: Block, block: Block, loads: Sequence[Load], buffer: Buffer
) -> tuple[dict[Expr, Expr], Expr]:
    places = dict.fromkeys(e.indices for e in loads if e.buffer is buffer)
    source = writer.body
    assert isinstance(source, Store)
    if len(places) != 1:
        raise ScheduleError(
            f"{primitive}: block {block.name!r} reads several elements of {buffer.name!r} at a point",
            because="they are made at different points",
            where=block.span,
        )
    found = invert(next(iter(places)), block.iters, source.indices)
    if found is None:
        raise _no_inverse(primitive, block, buffer)
    values, conditions = found
    facts = Analyzer()
    for it in writer.iters:
        facts.bind(it.var, it.start, it.extent)
    guard: Expr = TRUE
    for condition in conditions:
        if facts.prove(condition) is not True:
            guard = condition if guard is TRUE else And(guard, condition)
    return {v: facts.simplify(e) for v, e in values.items()}, guard


# --- Reductions ------------------------------------------------------------------------------


def fuse_reduction_epilogue(program: TensorProgram, reduction: str, epilogue: str) -> TensorProgram:
    """See `Schedule.fuse_reduction_epilogue`."""
    primitive = "fuse_reduction_epilogue"
    consumer = find_block(program, epilogue)
    producer, values, guard = _joined(program, consumer, primitive)
    block, made = consumer.node, producer.node
    assert isinstance(block, Block)
    assert isinstance(made, Block)
    if made.name != reduction:
        raise ScheduleError(
            f"{primitive}: block {epilogue!r} uses the result of block {made.name!r},"
            f" not of {reduction!r}",
            where=block.span,
        )
    operation = _combining(made, primitive)
    store, init = only_store(block, primitive), made.init
    assert isinstance(init, Store)
    if guard is not TRUE:
        raise ScheduleError(
            f"{primitive}: block {epilogue!r} does not use all that block {reduction!r} computes",
            because="every result starts from what is combined with it",
            where=block.span,
        )
    other = _other_operand(store.value, init.buffer, operation)
    if other is None:
        raise ScheduleError(
            f"{primitive}: block {epilogue!r} does not combine the result with one more value by"
            f" the reduction's own {operation.__name__.lower()}",
            because="nothing else can be done before the reduction instead of after it",
            try_="reverse_compute_at, to do it as soon as a part is reduced",
            where=block.span,
        )
    indices = tuple(substitute(i, values) for i in store.indices)
    start = operation(init.value, substitute(other, values))
    body = _accumulating(made, init.buffer, store.buffer, indices)
    new = replace(made, init=replace(init, buffer=store.buffer, indices=indices, value=start), body=body)
    return _replace_pair(program, producer, consumer, new, init.buffer)


def _combining(block: Block, primitive: str) -> type[Binary]:
    """The operation of a reduction of the form ``x = x op term``."""
    store = block.body
    if isinstance(store, Store) and isinstance(block.init, Store) and why_opaque(block) is None:
        value = store.value
        if isinstance(value, COMBINING) and store.indices == block.init.indices:
            own = Load(store.buffer, store.indices)
            rest = [a for a in value.args if a is not own]
            inside = (e for a in rest for e in postorder(a))
            if len(rest) == 1 and not any(
                isinstance(e, Load) and e.buffer is store.buffer for e in inside
            ):
                return type(value)
    raise ScheduleError(
        f"{primitive}: block {block.name!r} is no reduction of the form x = x op value",
        because="the start value of another cannot take part in it",
        where=block.span,
    )


def _other_operand(value: Expr, buffer: Buffer, operation: type[Binary]) -> Expr | None:
    if type(value) is not operation:
        return None
    parts = [isinstance(a, Load) and a.buffer is buffer for a in value.args]
    if parts.count(True) != 1:
        return None
    other = value.args[parts.index(False)]
    used = (e for e in postorder(other) if isinstance(e, Load))
    return None if any(e.buffer is buffer for e in used) else other


def _accumulating(
    block: Block, old: Buffer, new: Buffer, indices: tuple[Expr, ...]
) -> Stmt:
    store = block.body
    assert isinstance(store, Store)
    value = _with_value(store.value, old, Load(new, indices))
    return replace(store, buffer=new, indices=indices, value=value)
