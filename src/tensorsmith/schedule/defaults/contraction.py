"""Contractions: packed where that pays; results of few rows stream the larger operand once."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from tensorsmith.ir import Block, Const, Var, free_vars
from tensorsmith.schedule.defaults.analysis import SYMBOLIC_EXTENT, Contraction, contraction
from tensorsmith.schedule.defaults.canonical import block_of
from tensorsmith.schedule.defaults.packed import schedule_packed
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import find_block
from tensorsmith.target import Target

FEW_ROWS = 8
"""Rows of a result up to which the larger operand is streamed, not packed."""
STREAM_ROWS = 4
"""Rows of the larger operand that are streamed side by side."""
PARALLEL_FLOPS = 4_000_000.0
"""Operations below which threads do not pay."""
FEWEST_COLUMNS = 4
"""Columns of a result for which vectors of columns pay."""


def schedule_contraction(
    s: Schedule, ref: BlockRef, target: Target, free: Collection[str] = ()
) -> None:
    """Schedule a block that is a contraction, with those of the blocks `free` around it that
    compute its operands, or use its result, element by element.

    Raises ScheduleError if it is no contraction that the rule takes.
    """
    block = block_of(s, ref)
    what = contraction(block)
    if what is None or not what.m or not what.n:
        raise ScheduleError(f"block {ref.name!r} is no product of matrices")
    rows, columns = (prod(_extent(block, at) for at in part) for part in (what.m, what.n))
    if columns < FEWEST_COLUMNS:
        raise ScheduleError(f"block {ref.name!r} has too few columns for vectors of them")
    plain = len(what.m) == len(what.n) == len(what.k) == 1
    if rows <= FEW_ROWS and plain and not what.batch:
        along = block.iters[what.n[0]].var
        if not what.right.indices or what.right.indices[-1] is not along:
            raise ScheduleError(f"block {ref.name!r} is a few products along rows")
        _stream(s, ref, block, what, target.lanes(what.output.dtype.bytes), target)
        return
    schedule_packed(s, ref, what, target, free)


def _extent(block: Block, at: int) -> float:
    extent = block.iters[at].extent
    return float(extent.value) if isinstance(extent, Const) else SYMBOLIC_EXTENT


def _loop(s: Schedule, ref: BlockRef, var: Var) -> LoopRef:
    """The loop of an iterator that is bound to a loop of its own."""
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    binding = next(it.binding for it in block.iters if it.var is var)
    used = set(free_vars(binding))
    return next(x for x in s.get_loops(ref) if x.var in used)


def _stream(
    s: Schedule, ref: BlockRef, block: Block, what: Contraction, lanes: int, target: Target
) -> None:
    """Few rows: strips of columns, each read once, their sums in registers."""
    m, n, k = (_loop(s, ref, block.iters[at].var) for at in (*what.m, *what.n, *what.k))
    rows = max(1, int(_extent(block, what.m[0])))
    width = lanes * max(1, min(16, (target.vector_registers - 4) // rows))
    while width > lanes and width // 2 >= _extent(block, what.n[0]):
        width //= 2
    copy = s.cache_write(ref, 0, "local")
    larger = _extent(block, what.n[0]) * _extent(block, what.k[0]) * what.right.dtype.bytes
    along = larger > target.caches.l2 and _extent(block, what.n[0]) > 2 * width
    if along:
        width = min(width, lanes * max(1, min(4, (target.vector_registers - 4) // (2 * rows))))
        outer, k, inner = _stream_rows(s, (m, n, k), width, rows, block, what=what, target=target)
    else:
        outer, inner = s.split(n, [None, width])
        s.reorder(outer, k, m, inner)
    s.reverse_compute_at(copy, outer)
    s.vectorize(inner)
    s.unroll(m)
    s.decompose_reduction(ref, k)
    last = s.get_loops(copy)[-1]
    s.vectorize(s.split(last, [None, width])[1] if along else last)
    _parallel(s, outer, block, what, target)


def _stream_rows(
    s: Schedule,
    loops: tuple[LoopRef, LoopRef, LoopRef],
    width: int,
    rows: int,
    block: Block,
    *,
    what: Contraction,
    target: Target,
) -> tuple[LoopRef, LoopRef, LoopRef]:
    """Several rows of B at a time, each read along its length, their sums in the first-level cache.

    Rows are long, and lie side by side: reading a narrow strip down all of them would touch a page
    for each. Gives the loop over strips, the outer loop of the sum, and the one to vectorise.
    """
    m, n, k = loops
    strip = target.caches.l1 // 2 // what.output.dtype.bytes // rows
    share = -(-int(_extent(block, what.n[0])) // target.cores)
    across = max(1, min(strip, share) // width)
    outer, along, inner = s.split(n, [None, across, width])
    steps, step = s.split(k, [None, STREAM_ROWS])
    s.reorder(outer, steps, along, step, m, inner)
    s.unroll(step)
    return outer, steps, inner


def _parallel(s: Schedule, loop: LoopRef, block: Block, what: Contraction, target: Target) -> None:
    flops = 2.0
    for at in (*what.m, *what.n, *what.k, *what.batch):
        flops *= _extent(block, at)
    if target.cores > 1 and flops >= PARALLEL_FLOPS:
        s.parallel(loop)
