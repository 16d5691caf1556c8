"""Any contraction as a matrix product: one `m`, one `n`, one `k`, after any number of batches.

The block gets copies of its operands and of its result that are indexed by its own iterators;
then those that play the same part become one, in the block and in the copies alike. A convolution
so becomes a product with a matrix of its windows, which is never stored but for the parts that are
packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tensorsmith.ir import Block, Buffer, Const, Expr, IndexMap, Load, Store, Var, postorder
from tensorsmith.ir.stmt import ZERO
from tensorsmith.schedule.defaults.analysis import Contraction
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import find_block

FEWEST_ALONG = 8
"""Elements of the result that must lie side by side for the other axes to stay apart."""
_Groups = Sequence[Sequence[int]]
Axes = tuple[tuple[int, ...], ...]
"""Groups of axes of a buffer, each of which is one iterator of a block that writes it."""


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product ``C[batch.., m, n] += A[batch.., m, k] * B[batch.., k, n]``.

    block: its iterators are the batches, m, n, k; a batch may move one operand alone. left, right:
    the blocks that copy the operands to `a` and `b`, which are indexed so, too. result: the block
    that copies `c` to where the result belongs. axes: for each batch, m and n, the axes of the
    result that it is made of; none if the result is not indexed by plain iterators.
    """

    block: BlockRef
    left: BlockRef
    right: BlockRef
    result: BlockRef
    a: str
    b: str
    c: str
    batches: int
    axes: Axes


def block_of(s: Schedule, ref: BlockRef) -> Block:
    """The block that a reference names, as it is now."""
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    return block


def as_product(s: Schedule, ref: BlockRef, what: Contraction) -> Product:
    """Bring a contraction to the form of `Product`. Raises ScheduleError where that is not legal,
    as where an operand's index cannot be told from the iterators."""
    apart, along = _along(block_of(s, ref), what.n)
    outer = (*what.batch, *apart)
    axes = _axes(block_of(s, ref), [*((at,) for at in outer), what.m, along])
    left = s.reindex(ref, what.left.buffer.name, "read")
    right = s.reindex(ref, what.right.buffer.name, "read")
    result = s.reindex(ref, what.output.name, "write")
    block = block_of(s, ref)
    a, b = (_store(block_of(s, x)).buffer for x in (left, right))
    c = _store(block).buffer
    groups = [(at,) for at in outer] + [what.m, along, what.k]
    batches = len(outer)
    _fuse_block(s, ref, groups)
    _fuse_buffer(s, ref, a, (block, groups, (*range(batches + 1), batches + 2)))
    _fuse_buffer(s, ref, b, (block, groups, (*range(batches), batches + 2, batches + 1)))
    _fuse_result(s, result, c, (block, groups, tuple(range(batches + 2))))
    _fuse_buffer(s, ref, c, (block, groups, tuple(range(batches + 2))))
    return Product(ref, left, right, result, a.name, b.name, c.name, batches, axes)


def _along(block: Block, n: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Those of the iterators `n` that stay apart, and those along which the result lies, so that
    vectors of it are stored to neighbours."""
    place: dict[Expr, int] = {e: d for d, e in enumerate(_store(block).indices)}
    at = [place.get(block.iters[x].var, -1) for x in n]
    first = len(n) - 1
    while first and at[first] == at[first - 1] + 1 and at[first - 1] >= 0:
        first -= 1
    extents = [block.iters[x].extent for x in n[first:]]
    known = prod(int(e.value) if isinstance(e, Const) else FEWEST_ALONG for e in extents)
    return (n[:first], n[first:]) if known >= FEWEST_ALONG else ((), n)


def _axes(block: Block, groups: _Groups) -> Axes:
    """The axes of what a block stores that groups of its iterators move along."""
    place: dict[Expr, int] = {e: d for d, e in enumerate(_store(block).indices)}
    if any(block.iters[at].var not in place for group in groups for at in group):
        return ()
    return tuple(tuple(place[block.iters[at].var] for at in group) for group in groups)


def groups_of_user(s: Schedule, user: BlockRef, made: Buffer, axes: Axes) -> Axes:
    """The places of the iterators of a block for each group of axes of a buffer, each element of
    which it uses once; none where each axis is alone.

    Raises ScheduleError where the block has other iterators, too, or other statements.
    """
    if all(len(group) == 1 for group in axes):
        return ()
    block = block_of(s, user)
    if not isinstance(block.body, Store):
        raise ScheduleError(f"block {user.name!r} is more than one store")
    number: dict[Expr, int] = {it.var: d for d, it in enumerate(block.iters)}
    at = _indices(block, made)
    if sorted(number.get(e, -1) for e in at) != list(range(len(block.iters))):
        raise ScheduleError(f"block {user.name!r} does not run over the elements of {made.name!r}")
    return tuple(tuple(number[at[d]] for d in group) for group in axes)


def fuse_user(s: Schedule, user: BlockRef, groups: Axes) -> Axes:
    """Give a block one iterator for each group of those that it has, by place. Gives the axes of
    what it stores that these are."""
    found = _axes(block_of(s, user), groups)
    _fuse_block(s, user, groups)
    return found


def _store(block: Block) -> Store:
    assert isinstance(block.body, Store)
    return block.body


_Part = tuple[Block, _Groups, tuple[int, ...]]
"""A block before its iterators were fused, the places of those that fuse, and which of the groups
a buffer has."""


def _fuse_block(s: Schedule, ref: BlockRef, groups: _Groups) -> None:
    block = block_of(s, ref)
    inputs = tuple(Var(f"i{d}") for d in range(len(block.iters)))
    outputs = [_fused([(inputs[at], block.iters[at].extent) for at in group]) for group in groups]
    _transform_block(s, ref, IndexMap(inputs, outputs))


def _transform_block(s: Schedule, ref: BlockRef, index_map: IndexMap) -> None:
    """Change the iterators of a block, unless they and its loops are in order already."""
    bindings = [it.binding for it in block_of(s, ref).iters]
    in_order = bindings == [x.var for x in s.get_loops(ref)]
    if not (in_order and index_map.outputs == index_map.inputs):
        s.transform_block_layout(ref, index_map)


def _fuse_buffer(s: Schedule, ref: BlockRef, buffer: Buffer, part: _Part) -> None:
    """Give a buffer that is indexed by the iterators of a block one dimension a group."""
    order = {v: d for d, v in enumerate(_indices(part[0], buffer))}
    index_map = _map(order, part, buffer.rank)
    if index_map.outputs != index_map.inputs:
        s.transform_layout(ref, buffer.name, index_map)


def _indices(block: Block, buffer: Buffer) -> tuple[Expr, ...]:
    """Where the block loads the buffer."""
    loads = (x for x in postorder(_store(block).value) if isinstance(x, Load))
    return next(x.indices for x in loads if x.buffer is buffer)


def _map(order: dict[Expr, int], part: _Part, rank: int) -> IndexMap:
    """From `rank` places, those that the iterators have, to one for each group. Iterators that have
    no place take one value alone."""
    block, groups, wanted = part
    inputs = tuple(Var(f"i{d}") for d in range(rank))
    outputs = []
    for g in wanted:
        iters = [block.iters[at] for at in groups[g]]
        outputs.append(_fused([(inputs[order[x.var]], x.extent) for x in iters if x.var in order]))
    return IndexMap(inputs, outputs)


def _fuse_result(s: Schedule, ref: BlockRef, buffer: Buffer, part: _Part) -> None:
    """Give the block that copies the result one iterator a group."""
    block = part[0]
    copy = block_of(s, ref)
    source = next(x for x in postorder(_store(copy).value) if isinstance(x, Load))
    places = _indices(block, buffer)
    position: dict[Expr, int] = {it.var: d for d, it in enumerate(copy.iters)}
    order = {ours: position[own] for ours, own in zip(places, source.indices, strict=True)}
    _transform_block(s, ref, _map(order, part, len(copy.iters)))


def _fused(parts: Sequence[tuple[Var, Expr]]) -> Expr:
    """One index for several, the last of them the fastest."""
    total: Expr = ZERO
    for v, extent in parts:
        total = v if total is ZERO else total * extent + v
    return total
