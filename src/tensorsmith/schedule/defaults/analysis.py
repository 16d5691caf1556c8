"""What a block computes, as far as the rules for default schedules ask."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorsmith.ir import (
    Add,
    Block,
    Buffer,
    Call,
    Cast,
    Const,
    Div,
    Expr,
    IterKind,
    Load,
    Mul,
    Store,
    Var,
    free_vars,
    postorder,
)
from tensorsmith.ir.rewrite import statements


@dataclass(frozen=True, slots=True)
class Contraction:
    """A sum of products of two tensors: ``C[m.., n..] += A[m.., k..] * B[k.., n..]``.

    Each tuple has the places of block iterators: `m` move A and C alone, `n` move B and C alone,
    `batch` move all three, `k` are reduced. Subscripts may be any functions of them, as those of a
    convolution are. The last subscript of C moves with an `n`, unless there is none.
    """

    output: Buffer
    left: Load
    right: Load
    m: tuple[int, ...]
    n: tuple[int, ...]
    batch: tuple[int, ...]
    k: tuple[int, ...]

    def turned(self) -> Contraction:
        """The same with the operands in the other order."""
        return replace(self, left=self.right, right=self.left, m=self.n, n=self.m)


def contraction(block: Block) -> Contraction | None:
    """The contraction that a block is, if it is one."""
    body = block.body
    if not isinstance(body, Store) or not isinstance(body.value, Add) or block.init is None:
        return None
    old, product = body.value.args
    if not (isinstance(old, Load) and old.buffer is body.buffer and old.indices == body.indices):
        return None
    if not isinstance(product, Mul):
        return None
    left, right = map(_factor, product.args)
    if left is None or right is None or left.buffer is right.buffer:
        return None
    if body.buffer in (left.buffer, right.buffer):
        return None
    return _roles(block, body, left, right)


def _factor(e: Expr) -> Load | None:
    """The load that a factor is, maybe converted, of an element that no data picks."""
    inner = e.args[0] if isinstance(e, Cast) else e
    if not isinstance(inner, Load):
        return None
    return None if any(isinstance(x, Load) for x in postorder(*inner.indices)) else inner


def _roles(block: Block, body: Store, left: Load, right: Load) -> Contraction | None:
    """What part each iterator plays; None if one moves a single operand and no result, or so."""
    uses = [set(free_vars(*indices)) for indices in (body.indices, left.indices, right.indices)]
    places: dict[str, list[int]] = {"m": [], "n": [], "batch": [], "k": []}
    for at, it in enumerate(block.iters):
        in_c, in_a, in_b = (it.var in u for u in uses)
        if it.kind is IterKind.REDUCE and in_a and in_b and not in_c:
            places["k"].append(at)
        elif it.kind is IterKind.SPATIAL and in_c and in_a != in_b:
            places["m" if in_a else "n"].append(at)
        elif it.kind is IterKind.SPATIAL and in_c and in_a and in_b:
            places["batch"].append(at)
        elif it.kind is IterKind.SPATIAL and not (in_c or in_a or in_b) and _is_unit(block, at):
            places["m"].append(at)
        else:
            return None
    if not places["k"]:
        return None
    roles = {name: tuple(found) for name, found in places.items()}
    what = _without_units(block, Contraction(body.buffer, left, right, **roles))
    last = {it.var for it in block.iters}.intersection(free_vars(*body.indices[-1:]))
    return what.turned() if any(block.iters[at].var in last for at in what.m) else what


def _without_units(block: Block, what: Contraction) -> Contraction:
    """The same with iterators of one value as batches, but for one where there are no others."""
    m, n = (
        tuple(at for at in places if not _is_unit(block, at)) or places[-1:]
        for places in (what.m, what.n)
    )
    apart = {*what.m, *what.n}.difference(m, n)
    return replace(what, m=m, n=n, batch=tuple(sorted(apart.union(what.batch))))


def _is_unit(block: Block, at: int) -> bool:
    extent = block.iters[at].extent
    return isinstance(extent, Const) and extent.value == 1


def is_reduction(block: Block) -> bool:
    """Whether the block reduces over an iterator."""
    return any(it.kind is IterKind.REDUCE for it in block.iters)


def work(block: Block) -> float:
    """What one point of the block costs, in the time of an addition; transcendental functions count
    as the dozen operations that they take."""
    total = 1.0
    for s in statements(block.body):
        if not isinstance(s, Store):
            continue
        for e in postorder(s.value, *s.indices):
            if isinstance(e, Call):
                total += 12.0
            elif isinstance(e, Div):
                total += 4.0
            elif e.args and not isinstance(e, Load):
                total += 1.0
    return total


def points(block: Block) -> float:
    """How many points the block has; symbolic extents count as 256."""
    total = 1.0
    for it in block.iters:
        total *= float(it.extent.value) if isinstance(it.extent, Const) else SYMBOLIC_EXTENT
    return total


def other_axis(block: Block, fastest: Var) -> Var | None:
    """An iterator, not `fastest`, that moves along the last dimension of something the block loads:
    then the block transposes."""
    for s in statements(block.body):
        if not isinstance(s, Store):
            continue
        for e in postorder(s.value):
            if not isinstance(e, Load) or not e.indices:
                continue
            last = e.indices[-1]
            if isinstance(last, Var) and last is not fastest and fastest in free_vars(*e.indices):
                return last
    return None


SYMBOLIC_EXTENT = 256.0
"""What an extent that is not known is taken to be, where a number is needed."""


def fastest_axis(block: Block) -> Var | None:
    """The iterator that moves along the last dimension of the most accesses: the one to vectorise.

    The written element counts most, unless it is the accumulator of a reduction, which stays in
    registers. Of equal numbers, the one along the access that moves with the most iterators counts,
    since that is the larger tensor: the matrix of a product with a vector. None if no iterator
    stands alone in a last subscript.
    """
    inner = {it.var for it in block.iters}
    reduces = is_reduction(block)
    votes = _votes(block, inner, reduces=reduces)
    if not votes and reduces:  # windows: a load moves with an axis and with a position of a window
        votes = _votes(block, inner, reduces=False)
    if not votes:
        return None
    order = [it.var for it in block.iters]
    return max(votes, key=lambda v: (*votes[v], order.index(v)))


def _votes(block: Block, inner: set[Var], *, reduces: bool) -> dict[Var, tuple[int, int]]:
    """How many accesses move with each iterator along their last dimension, weighted, and with how
    many iterators the largest of these moves."""
    votes: dict[Var, tuple[int, int]] = {}
    for s in statements(block.body):
        if not isinstance(s, Store):
            continue
        loads = _loads(s.value)
        accesses = [] if reduces else [(s.indices, 3)]
        accesses += [(e.indices, 2) for e in loads if not reduces or e.buffer is not s.buffer]
        for indices, weight in accesses:
            moving = [v for v in free_vars(*indices[-1:]) if v in inner]
            if len(moving) == 1:
                count, most = votes.get(moving[0], (0, 0))
                reach = len(inner.intersection(free_vars(*indices)))
                votes[moving[0]] = (count + weight, max(most, reach))
    return votes


def _loads(value: Expr) -> list[Load]:
    """What a value is computed of, without what only tells where that lies."""
    found: list[Load] = []
    left = [value]
    while left:
        e = left.pop()
        if isinstance(e, Load):
            found.append(e)
        else:
            left.extend(e.args)
    return found
