"""What is done with a result, element by element, done where the result is made."""

from __future__ import annotations

import functools
from collections.abc import Collection
from itertools import pairwise

from tensorsmith.arith import Analyzer
from tensorsmith.ir import (
    Buffer,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    IndexMap,
    Iter,
    Load,
    Store,
    Var,
    postorder,
)
from tensorsmith.ir.rewrite import expressions
from tensorsmith.schedule.defaults.analysis import is_reduction
from tensorsmith.schedule.defaults.attempt import attempt
from tensorsmith.schedule.defaults.canonical import Axes, block_of, fuse_user, groups_of_user
from tensorsmith.schedule.refs import BlockRef
from tensorsmith.schedule.schedule import Schedule


def with_users(s: Schedule, result: BlockRef, axes: Axes, free: Collection[str]) -> BlockRef:
    """The last of the blocks that do something with each element of what a block makes, one after
    the other; those before it become part of it.

    axes: see `Product`. free: the blocks that may take part.
    """
    while True:
        block = block_of(s, result)
        assert isinstance(block.body, Store)
        users = s.get_consumers(result)
        if block.body.buffer in s.program.buffers or len(users) != 1:
            return result
        (user,) = users
        own = block_of(s, user)
        if user.name not in free or is_reduction(own) or not isinstance(own.body, Store):
            return result
        found = _joined(s, result, user, axes)
        if found is None:
            return result
        result, axes = user, found


def _joined(s: Schedule, result: BlockRef, user: BlockRef, axes: Axes) -> Axes | None:
    """Compute a result where it is used; the axes of what the user stores. None if that is not
    legal."""
    made = block_of(s, result).body
    assert isinstance(made, Store)
    found: list[Axes] = []

    def join() -> None:
        take_apart(s, user, made.buffer)
        groups = groups_of_user(s, user, made.buffer, axes)
        s.compute_inline(result)
        found.append(fuse_user(s, user, groups) if groups else axes)

    return None if attempt(s, join) else found[0]


def take_apart(s: Schedule, user: BlockRef, made: Buffer) -> None:
    """Give a block two iterators for each one that it reads a buffer with the parts of,
    ``made[v // n, v % n]``, as what follows a grouped convolution does."""
    block = block_of(s, user)
    own = {it.var: it for it in block.iters}
    parts: dict[Expr, Expr] = {}
    for load in (e for e in postorder(*expressions(block.body)) if isinstance(e, Load)):
        for high, low in pairwise(load.indices if load.buffer is made else ()):
            if not isinstance(high, FloorDiv) or not isinstance(low, FloorMod):
                continue
            v, n = high.args
            if low.args == high.args and isinstance(v, Var) and v in own and _divides(n, own[v]):
                parts[v] = n
    if not parts:
        return
    inputs = tuple(Var(f"i{d}") for d in range(len(block.iters)))
    outputs: list[Expr] = []
    for v, it in zip(inputs, block.iters, strict=True):
        outputs.extend((v // parts[it.var], v % parts[it.var]) if it.var in parts else (v,))
    s.transform_block_layout(user, IndexMap(inputs, outputs))


def _divides(n: Expr, it: Iter) -> bool:
    return isinstance(n, Const) and Analyzer().equal(it.extent % n, 0)


def has_producer(s: Schedule, user: BlockRef, free: Collection[str]) -> bool:
    """Whether a block reads what it could compute itself (see `with_producer`)."""
    return any(_is_own(s, producer, free) for producer in s.get_producers(user))


def with_producers(s: Schedule, user: BlockRef, free: Collection[str]) -> None:
    """Have a block compute what it alone reads, where that is one value an element."""
    for producer in s.get_producers(user):
        with_producer(s, producer, free)


def with_producer(s: Schedule, producer: BlockRef, free: Collection[str]) -> None:
    """Compute what a block makes where it is used, if that is one value an element and one block
    uses it."""
    if _is_own(s, producer, free):
        attempt(s, functools.partial(s.compute_inline, producer))


def _is_own(s: Schedule, producer: BlockRef, free: Collection[str]) -> bool:
    alone = producer.name in free and len(s.get_consumers(producer)) == 1
    return alone and not is_reduction(block_of(s, producer))
