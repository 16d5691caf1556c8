"""cache_read and cache_write: what they make, and that it computes the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule.applications import (
    Draw,
    apply_some,
    check_same,
    some_block,
    some_loop,
    split_some,
)
from schedule.chains import chains
from schedule.scripts import schedule_of
from schedule.test_compute_location import compute_at_some, reverse_compute_at_some
from strategies import programs
from tensorsmith.ir import Block, Expr, IndexMap, IterKind, Var
from tensorsmith.schedule import BlockRef, Schedule
from tensorsmith.schedule.tree import find_block


def cache_read_some(draw: Draw, s: Schedule) -> None:
    copy = s.cache_read(some_block(draw, s), draw(st.integers(0, 1)), draw(SCOPES))
    if draw(st.booleans()):
        s.compute_at(copy, some_loop(draw, s))


def cache_write_some(draw: Draw, s: Schedule) -> None:
    copy = s.cache_write(some_block(draw, s), 0, draw(SCOPES))
    if draw(st.booleans()):
        s.reverse_compute_at(copy, some_loop(draw, s))


def read_at_some(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    loop = draw(st.sampled_from(s.get_loops(block) or [some_loop(draw, s)]))
    s.read_at(loop, block, draw(st.integers(0, 1)), draw(SCOPES))


def write_at_some(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    loop = draw(st.sampled_from(s.get_loops(block) or [some_loop(draw, s)]))
    s.write_at(loop, block, 0, draw(SCOPES))


def reindex_some(draw: Draw, s: Schedule) -> None:
    s.reindex(some_block(draw, s), 0, draw(st.sampled_from(("read", "write"))))


def _some_map(draw: Draw, s: Schedule, block: BlockRef) -> IndexMap:
    """Iterators in another order, one of them in two parts."""
    node = find_block(s.program, block.name).node
    assert isinstance(node, Block)
    only = (IterKind.SPATIAL,) if draw(st.booleans()) else tuple(IterKind)
    variables = [Var(it.var.name) for it in node.iters]
    kept = [v for v, it in zip(variables, node.iters, strict=True) if it.kind in only]
    outputs: list[Expr] = list(draw(st.permutations(kept)))
    if outputs:
        at = draw(st.integers(0, len(outputs) - 1))
        by = draw(st.integers(2, 4))
        outputs[at : at + 1] = [outputs[at] // by, outputs[at] % by]
    return IndexMap(variables, outputs)


def reindex_cache_some(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    index_map = _some_map(draw, s, block)
    if draw(st.booleans()):
        s.reindex_cache_read(block, 0, draw(SCOPES), index_map)
    else:
        s.reindex_cache_write(block, 0, draw(SCOPES), index_map)


def cache_inplace_some(draw: Draw, s: Schedule) -> None:
    s.cache_inplace(some_block(draw, s), 0, draw(SCOPES))


def cache_index_some(draw: Draw, s: Schedule) -> None:
    s.cache_index(some_block(draw, s), least_operations=draw(st.integers(1, 2)))


def store_some(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    if draw(st.booleans()):
        s.set_scope(block, 0, draw(SCOPES))
    else:
        s.storage_align(block, 0, draw(st.integers(-1, 1)), 4, draw(st.integers(0, 3)))


SCOPES = st.sampled_from(("global", "local"))
MOVES = [
    cache_read_some,
    cache_write_some,
    read_at_some,
    write_at_some,
    reindex_some,
    reindex_cache_some,
    cache_inplace_some,
    cache_index_some,
    store_some,
    split_some,
    compute_at_some,
    reverse_compute_at_some,
]


@given(st.data())
def test_random_caches_keep_the_results(data: st.DataObject) -> None:
    program = data.draw(st.one_of(chains(), programs()))
    check_same(data.draw, program, apply_some(data.draw, program, MOVES, 6))


@pytest.mark.slow
@settings(max_examples=2500)
@given(st.data())
def test_many_random_caches_keep_the_results(data: st.DataObject) -> None:
    program = data.draw(st.one_of(chains(), programs()))
    check_same(data.draw, program, apply_some(data.draw, program, MOVES, 8), native=True)


@given(st.data())
@settings(max_examples=3)
def test_what_is_never_read_is_not_copied(data: st.DataObject) -> None:
    s = schedule_of("""
@T.program
def f(A: T.Buffer((4,), "int32"), B: T.Buffer((1,), "int32")):
    for i in range(1):
        with T.block("B"):
            vi = T.remap("S", i)
            B[vi] = T.select(0 <= vi - 2, A[vi - 2], 5)
""")
    before = s.program
    s.cache_read(s.get_block("B"), "A", "local")
    check_same(data.draw, before, s, native=True)
