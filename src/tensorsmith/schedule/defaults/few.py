"""A second schedule of products, for calls in which the result has very few rows.

A tile of many rows is mostly empty then. Where the number of rows is known only in the call, a
kernel has both schedules, and takes one of them as it starts. The operands that are the same in
every call are packed in one way for both.
"""

from __future__ import annotations

from math import prod

from tensorsmith.ir import Const, Expr, TensorProgram
from tensorsmith.schedule.defaults.attempt import Fallback
from tensorsmith.schedule.defaults.attention import chain_of
from tensorsmith.schedule.defaults.canonical import block_of
from tensorsmith.schedule.defaults.contraction import is_plain, product
from tensorsmith.schedule.defaults.rules import default_schedule
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import blocks_in
from tensorsmith.target import Target

MOST_ROWS = 3
"""Rows up to which computing them one by one is faster than a tile of which most is empty."""
LEAST_WORK = 2.0**14
"""Operations of a row from which on that pays for the code."""


def few_rows(program: TensorProgram, target: Target) -> tuple[Expr, Schedule] | None:
    """When a program has few rows, and its schedule for that; None where there is no such case.

    That is a program with one product, whose rows alone are known only in the call.
    """
    found = [(b, what) for b in blocks_in(program.body) if (what := product(b)) is not None]
    if len(found) == 2:
        return _few_rows_of_chain(program, target, found[1][0].name)
    if len(found) != 1:
        return None
    ((block, what),) = found
    (rows, *others) = (block.iters[at[0]].extent for at in (what.m, what.n, what.k))
    if not is_plain(block, what) or isinstance(rows, Const) or not what.output.dtype.is_float:
        return None
    if not _is_long([e for e in others if isinstance(e, Const)]):
        return None
    notes: list[Fallback] = []
    schedule = default_schedule(program, target, fallbacks=notes, one_row=True)
    return None if notes else (rows <= MOST_ROWS, schedule)


def _few_rows_of_chain(
    program: TensorProgram, target: Target, second: str
) -> tuple[Expr, Schedule] | None:
    """The same for a product of rows that are made of another one, as in attention."""
    s = Schedule(program)
    chain = chain_of(s, second)
    if chain is None or len(chain.before.m) != 1:
        return None
    rows = block_of(s, s.get_block(chain.first)).iters[chain.before.m[0]].extent
    if isinstance(rows, Const):
        return None
    notes: list[Fallback] = []
    schedule = default_schedule(program, target, fallbacks=notes, one_row=True)
    return None if notes else (rows <= MOST_ROWS, schedule)


def _is_long(extents: list[Const]) -> bool:
    known = len(extents) == 2
    return known and 2.0 * prod(float(e.value) for e in extents) >= LEAST_WORK
