"""Using results where they are made: what a block does with a value becomes part of the block that
makes it, or, of a reduction, part of what it starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorsmith.arith import Analyzer
from tensorsmith.ir import (
    Add,
    And,
    Binary,
    BitAnd,
    BitOr,
    BitXor,
    Block,
    Buffer,
    Expr,
    If,
    IterKind,
    Load,
    Max,
    Min,
    Mul,
    Or,
    Stmt,
    Store,
    TensorProgram,
    While,
    postorder,
    substitute,
    transform,
)
from tensorsmith.ir.rewrite import statements
from tensorsmith.ir.stmt import TRUE
from tensorsmith.schedule.copies import allocated_first
from tensorsmith.schedule.dependence import (
    allocation,
    defined_in,
    effects,
    reads_itself,
    scope_of,
    used_symbols,
    why_opaque,
    writers,
)
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.inline import (
    between,
    check_bounds,
    check_same_values,
    invert,
    local_result,
    name_of,
    no_inverse,
    only_store,
)
from tensorsmith.schedule.tree import Site, find_block, replace_stmt, sites

COMBINING = (Add, Mul, Min, Max, And, Or, BitAnd, BitOr, BitXor)
"""Operations that are commutative and associative (of floats, up to rounding)."""


def reverse_compute_inline(program: TensorProgram, name: str) -> TensorProgram:
    """See `Schedule.reverse_compute_inline`."""
    program = allocated_first(program, effects(find_block(program, name).node).writes)
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
    joined = _replace_pair(program, producer, consumer, new, source.buffer)
    check_bounds(joined, "reverse_compute_inline", block)
    return joined


def _with_value(e: Expr, buffer: Buffer, value: Expr) -> Expr:
    return transform(e, lambda x: value if isinstance(x, Load) and x.buffer is buffer else None)


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
    scope = scope_of(program, consumer)
    made = [(b, w) for b in local for w in writers(scope, b) if isinstance(w, Block)]
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
    check_same_values(primitive, producer, consumer, buffer, kept)
    _check_target_free(primitive, producer, consumer, target)
    values, guard = _points_joined(primitive, writer, block, loads, buffer)
    return producer, values, guard


def _check_only_reader(
    program: TensorProgram, buffer: Buffer, block: Block, writer: Block, primitive: str
) -> None:
    for s in sites(program):
        inside = any(s.node is x for b in (block, writer) for x in statements(b))
        if not inside and reads_itself(s.node, buffer):
            raise ScheduleError(
                f"{primitive}: block {block.name!r} is not the only one to read {buffer.name!r}",
                because="the values would no longer be there for others",
                where=block.span,
            )


def _check_target_free(primitive: str, first: Site, second: Site, target: Buffer) -> None:
    shared, passed = between(first, second, primitive)
    block = second.node
    assert isinstance(block, Block)
    hidden = defined_in(passed) & used_symbols(block)
    if hidden:
        raise ScheduleError(
            f"{primitive}: block {block.name!r} uses {min(x.name for x in hidden)!r}, which is"
            f" not defined at {name_of(first.node)}",
            where=block.span,
        )
    found = effects(*passed)
    if target in found.reads | found.writes or target in effects(first.node).reads:
        raise ScheduleError(
            f"{primitive}: {target.name!r}, which block {block.name!r} writes, is used before it",
            because="it would be written earlier than it was",
            where=block.span,
        )
    own = (*first.around[len(shared) :], *second.around[len(shared) :])
    if any(isinstance(s, (If, While)) for s in own):
        raise ScheduleError(
            f"{primitive}: a condition stands between block {block.name!r} and"
            f" {name_of(first.node)}",
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
            f"{primitive}: block {block.name!r} reads several elements of {buffer.name!r} at a"
            " point",
            because="they are made at different points",
            where=block.span,
        )
    found = invert(next(iter(places)), block.iters, source.indices)
    if found is None:
        raise no_inverse(primitive, block, buffer)
    values, conditions = found
    facts = Analyzer()
    for it in writer.iters:
        facts.bind(it.var, it.start, it.extent)
    guard: Expr = TRUE
    for condition in conditions:
        if facts.prove(condition) is not True:
            guard = condition if guard is TRUE else And(guard, condition)
    return {v: facts.simplify(e) for v, e in values.items()}, guard


def fuse_reduction_epilogue(program: TensorProgram, reduction: str, epilogue: str) -> TensorProgram:
    """See `Schedule.fuse_reduction_epilogue`."""
    primitive = "fuse_reduction_epilogue"
    program = allocated_first(program, effects(find_block(program, epilogue).node).writes)
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
    new = replace(
        made, init=replace(init, buffer=store.buffer, indices=indices, value=start), body=body
    )
    joined = _replace_pair(program, producer, consumer, new, init.buffer)
    check_bounds(joined, primitive, block)
    return joined


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


def _accumulating(block: Block, old: Buffer, new: Buffer, indices: tuple[Expr, ...]) -> Stmt:
    store = block.body
    assert isinstance(store, Store)
    value = _with_value(store.value, old, Load(new, indices))
    return replace(store, buffer=new, indices=indices, value=value)
