"""The rules for default schedules, and the order in which they are tried."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from tensorsmith.ir import TensorProgram
from tensorsmith.schedule.defaults.attempt import Fallback, attempt
from tensorsmith.schedule.defaults.attention import chain_of, schedule_chain
from tensorsmith.schedule.defaults.canonical import block_of
from tensorsmith.schedule.defaults.constants import constants_of
from tensorsmith.schedule.defaults.contraction import (
    product,
    schedule_contraction,
    with_rows,
)
from tensorsmith.schedule.defaults.rows import schedule_rows
from tensorsmith.schedule.defaults.steps import schedule_steps
from tensorsmith.schedule.defaults.windows import schedule_windows, windows
from tensorsmith.schedule.moves import parts_of
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import blocks_in
from tensorsmith.target import Target


def default(program: TensorProgram, target: Target | str = "host") -> TensorProgram:
    """A fast schedule of `program` for `target`, found without search.

    >>> from tensorsmith import te
    >>> from tensorsmith.schedule import default
    >>> A = te.placeholder((1024,), name="A")
    >>> B = te.compute((1024,), lambda i: A[i] * 2.0, "B")
    >>> print(default(te.program([A], B, "double"), "x86-64-v3").body)
    for i_0 in range(128):
        for i_1 in T.vectorized(8):
            with T.block("B"):
                vi = T.spatial(1024, i_0 * 8 + i_1)
                B[vi] = A[vi] * 2.0
    """
    return default_schedule(program, target).program


def default_schedule(
    program: TensorProgram,
    target: Target | str = "host",
    *,
    fallbacks: list[Fallback] | None = None,
    one_row: bool = False,
) -> Schedule:
    """The schedule that `default` applies; its trace says what was decided.

    fallbacks: takes a note of each block that the rule of its kind could not be applied to. Such a
    block has a plainer schedule, and is slower than it might be.
    one_row: for products whose results have very few rows in the call (see `few_rows`).
    """
    if isinstance(target, str):
        target = Target.named(target)
    s = Schedule(program)
    notes: list[Fallback] = [] if fallbacks is None else fallbacks
    rest = [b.name for b in blocks_in(s.program.body)]
    constants = constants_of(s)
    for ref in map(s.get_block, rest):
        if windows(block_of(s, ref)) is None:
            attempt(s, functools.partial(with_rows, s, ref))
    rest = _take_chains(s, rest, target, notes, one_row=one_row)
    for name in list(rest):
        if name not in rest or product(block_of(s, s.get_block(name)), constants) is None:
            continue
        known = {b.name for b in blocks_in(s.program.body)}
        rule = functools.partial(_contraction, s, name, tuple(rest), one_row=one_row)
        if _take_product(s, name, target, rule, notes):
            rest = _untouched(s, rest, known, name)
    rest = _schedule_windows(s, target, rest, notes)
    done = {b.name for b in blocks_in(s.program.body)}.difference(rest)
    schedule_rows(s, target, done, notes)
    schedule_steps(s, target, notes)
    return s


def _take_chains(
    s: Schedule, rest: list[str], target: Target, notes: list[Fallback], *, one_row: bool
) -> list[str]:
    """Schedule products of rows that are made of other products; those of `rest` that are left."""
    for name in list(rest):
        chain = chain_of(s, name) if name in rest else None
        if chain is None:
            continue
        known = {b.name for b in blocks_in(s.program.body)}
        rule = functools.partial(schedule_chain, s, chain, target, tuple(rest), one_row=one_row)
        error = attempt(s, rule)
        if error is None:
            rest = _untouched(s, rest, known, name)
        else:
            notes.append(Fallback("rows", name, error))
    return rest


def _contraction(
    s: Schedule, name: str, free: tuple[str, ...], target: Target, *, one_row: bool
) -> None:
    schedule_contraction(s, s.get_block(name), target, free, one_row=one_row)


def _take_product(
    s: Schedule,
    name: str,
    target: Target,
    rule: Callable[[Target], None],
    notes: list[Fallback],
) -> bool:
    """Schedule a product, without threads if they are what is not legal; whether that was done."""
    error = attempt(s, functools.partial(rule, target))
    if error is None:
        return True
    alone = replace(target, cores=1)
    if target.cores > 1 and not attempt(s, functools.partial(rule, alone)):
        notes.append(Fallback("threads", name, error))
        return True
    notes.append(Fallback("product", name, error))
    return False


def _schedule_windows(
    s: Schedule, target: Target, rest: list[str], notes: list[Fallback]
) -> list[str]:
    """Schedule what slides windows, of the blocks `rest`; those that are left."""
    for name in list(rest):
        if name not in rest:
            continue
        what = windows(block_of(s, s.get_block(name)))
        if what is None:
            continue
        known = {b.name for b in blocks_in(s.program.body)}
        rule = functools.partial(schedule_windows, s, s.get_block(name), what, target, rest)
        error = attempt(s, rule)
        if error is None:
            rest = _untouched(s, rest, known, name)
        else:
            notes.append(Fallback("windows", name, error))
    return rest


def _untouched(s: Schedule, rest: list[str], known: set[str], name: str) -> list[str]:
    """Those of the blocks `rest` that share no nest with block `name` or with a new one."""
    body = s.program.body
    nests = [[b.name for b in blocks_in(p)] for p in parts_of(body)]
    alone = [n for n in nests if name not in n and known.issuperset(n)]
    left = {b for n in alone for b in n}
    return [b for b in rest if b in left]
