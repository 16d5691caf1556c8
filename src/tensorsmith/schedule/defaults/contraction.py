"""Contractions: packed where that pays; results of few rows stream the larger operand once."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from tensorsmith.ir import Block, Const, IndexMap, Load, Var
from tensorsmith.ir.stmt import ZERO
from tensorsmith.schedule.defaults.analysis import SYMBOLIC_EXTENT, Contraction, contraction
from tensorsmith.schedule.defaults.canonical import block_of
from tensorsmith.schedule.defaults.constants import constants_of
from tensorsmith.schedule.defaults.decoded import decoded_operand, schedule_decoded
from tensorsmith.schedule.defaults.direct import direct_roles, schedule_direct
from tensorsmith.schedule.defaults.dots import tiles_for
from tensorsmith.schedule.defaults.packed import schedule_packed
from tensorsmith.schedule.defaults.streamed import schedule_streamed
from tensorsmith.schedule.defaults.tile_products import schedule_tile_product
from tensorsmith.schedule.defaults.winograd import schedule_winograd, winograd_chain
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.target import Target

FEW_ROWS_OF_INTEGERS = 2
FEW_ROWS = 8
"""Rows of a result up to which the larger operand is streamed, not packed: fewer of integers,
since products of bytes cost next to nothing once they are packed."""
FEWEST_COLUMNS = 4
"""Columns of a result for which vectors of columns pay."""


def product(block: Block, constants: Collection[str] = ()) -> Contraction | None:
    """The contraction that a block is, if it is one that is worth vectors of columns.

    constants: the names of the buffers that are the same in every call.
    """
    what = contraction(block)
    if what is None or not what.m or not what.n or _size(block, what.n) < FEWEST_COLUMNS:
        return None
    if is_streamed(block, what) and not _lies_along(what.right, block, what.n[0]):
        return what if what.right.buffer.name in constants else None  # a few products along rows
    return what


def with_rows(s: Schedule, ref: BlockRef) -> None:
    """Give a product of a vector and a matrix one row, as a product of matrices has rows."""
    what = contraction(block_of(s, ref))
    if what is None or what.m or not what.n:
        return
    inputs = tuple(Var(f"i{d}") for d in range(len(block_of(s, ref).iters)))
    s.transform_block_layout(ref, IndexMap(inputs, (ZERO, *inputs)))


def schedule_contraction(
    s: Schedule,
    ref: BlockRef,
    target: Target,
    free: Collection[str] = (),
    *,
    one_row: bool = False,
) -> None:
    """Schedule a block that is a `product`, with those of the blocks `free` around it that compute
    its operands, or use its result, element by element.

    one_row: for calls where the result has very few rows, though others may give it more.
    Raises ScheduleError where a step is not legal.
    """
    block = block_of(s, ref)
    what = product(block, constants_of(s))
    if what is None:
        raise ScheduleError(f"block {ref.name!r} is no product of matrices")
    chain = winograd_chain(s, ref, what, free)
    roles = direct_roles(s, block, what)
    few = one_row or is_streamed(block, what)
    how = decoded_operand(s, ref, what, target, free) if is_plain(block, what) else None
    if chain is not None:
        schedule_winograd(s, chain, what, target, free)
    elif roles is not None:
        schedule_direct(s, ref, what, roles, target, free)
    elif how is not None and few:
        schedule_decoded(s, ref, what, how, target, free)
    elif how is not None:
        schedule_packed(s, ref, what, target, free, decoded=how)
    elif is_streamed(block, what) and what.right.buffer.name not in constants_of(s):
        schedule_streamed(s, ref, what, target, free)
    elif one_row and is_plain(block, what) and _is_given(s, what.right):
        if not _lies_along(what.right, block, what.n[0]):
            raise ScheduleError(f"the columns of {what.right.buffer.name!r} do not lie in rows")
        schedule_streamed(s, ref, what, target, free)
    elif not few and (tiles := tiles_for(block, what, target)) is not None:
        schedule_tile_product(s, ref, what, tiles, target, free)
    else:
        few = is_streamed(block, what)
        schedule_packed(s, ref, what, target, free, one_row=one_row, few_rows=few)


def is_streamed(block: Block, what: Contraction) -> bool:
    """Whether the result has few rows, and one iterator plays each part."""
    few = FEW_ROWS if what.output.dtype.is_float else FEW_ROWS_OF_INTEGERS
    return is_plain(block, what) and _size(block, what.m) <= few


def is_plain(block: Block, what: Contraction) -> bool:
    """Whether one iterator plays each part, and there are no batches."""
    return len(what.m) == len(what.n) == len(what.k) == 1 and _size(block, what.batch) == 1


def _is_given(s: Schedule, load: Load) -> bool:
    """Whether an operand comes with each call, and is not the same in all."""
    return load.buffer in s.program.buffers and load.buffer.name not in constants_of(s)


def _lies_along(load: Load, block: Block, at: int) -> bool:
    return bool(load.indices) and load.indices[-1] is block.iters[at].var


def _size(block: Block, places: tuple[int, ...]) -> float:
    return prod(_extent(block, at) for at in places)


def _extent(block: Block, at: int) -> float:
    extent = block.iters[at].extent
    return float(extent.value) if isinstance(extent, Const) else SYMBOLIC_EXTENT
