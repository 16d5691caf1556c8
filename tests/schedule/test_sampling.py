"""What sampling primitives choose, and how often."""

from collections import Counter
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule.scripts import schedule_of
from tensorsmith.ir import Const
from tensorsmith.schedule import Schedule, sampling

CHAIN = """
n = T.dim("n")
@T.program
def f(A: T.Buffer(({shape}), "float32"), C: T.Buffer(({shape}), "float32")):
    B = T.alloc(({shape}), "float32")
    for i, j in T.grid({shape}):
        with T.block("B"):
            vi, vj = T.remap("SS", i, j)
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid({shape}):
        with T.block("C"):
            vi, vj = T.remap("SS", i, j)
            C[vi, vj] = B[vi, vj] + 1.0
"""


def fixed(seed=0) -> Schedule:
    return schedule_of(CHAIN.format(shape="12, 96")).copy(seed=seed)


def symbolic(seed=0) -> Schedule:
    return schedule_of(CHAIN.format(shape="n, 96")).copy(seed=seed)


@given(st.integers(1, 5000))
def test_divisors_and_tilings_are_all_there(n):
    assert sampling.divisors(n) == [d for d in range(1, n + 1) if n % d == 0]
    assert prod(p**e for p, e in sampling.prime_factors(n).items()) == n
    assert sampling.count_tilings(n, 2) == len(sampling.divisors(n))


@given(st.integers(1, 2000), st.integers(2, 4), st.integers(1, 64), st.integers(0, 9))
def test_a_perfect_tile_has_the_extent_as_product(extent, parts, most, seed):
    factors = sampling.draw_perfect_tile(extent, parts, most, np.random.default_rng(seed))
    assert len(factors) == parts
    assert prod(factors) == extent
    assert factors[-1] <= most


def test_perfect_tiles_are_equally_likely():
    """12 is a product of three factors in 18 ways, in 13 of which the last is at most 3. A draw
    falls on each with p = 1/13; 5 standard deviations of the count bound what chance allows."""
    random = np.random.default_rng(0)
    draws = 4000
    counts = Counter(tuple(sampling.draw_perfect_tile(12, 3, 3, random)) for _ in range(draws))
    ways = sum(sampling.count_tilings(12 // d, 2) for d in (1, 2, 3))
    assert len(counts) == ways
    deviation = (draws * (1 / ways) * (1 - 1 / ways)) ** 0.5
    assert all(abs(c - draws / ways) < 5 * deviation for c in counts.values())


def test_weights_decide_how_often_a_candidate_is_chosen():
    s = fixed()
    chosen = Counter(s.sample_categorical([1, 2, 4], [0, 1, 3]) for _ in range(400))
    assert set(chosen) == {2, 4}
    assert abs(chosen[4] - 300) < 5 * (400 * 0.75 * 0.25) ** 0.5


@pytest.mark.parametrize("seed", range(5))
def test_of_a_symbolic_extent_the_outermost_factor_is_open(seed):
    s = symbolic(seed)
    i, _ = s.get_loops(s.get_block("B"))
    factors = s.sample_perfect_tile(i, 3, 8)
    assert factors[0] is None
    assert all(f & (f - 1) == 0 and f <= 64 for f in factors[1:])
    assert factors[-1] <= 8
    assert len(s.split(i, factors)) == 3
    s.trace.apply(symbolic())


@pytest.mark.parametrize("seed", range(5))
def test_the_parts_of_a_partitioned_tile_are_tiles_of_their_own(seed):
    s = fixed(seed)
    _, j = s.get_loops(s.get_block("B"))
    factors = s.sample_partitioned_tile(j, 5, 2, 24)
    assert prod(factors[:2]) == 4
    assert prod(factors[2:]) == 24


def test_one_seed_gives_one_schedule():
    def draw(s):
        i, j = s.get_loops(s.get_block("B"))
        return [s.sample_perfect_tile(x, 3) for x in (i, j)], s.sample_categorical([1, 2, 3])

    assert draw(fixed(4)) == draw(fixed(4))
    assert len({str(draw(fixed(seed))) for seed in range(6)}) > 1


def test_a_chosen_number_keeps_its_name_in_the_trace():
    s = fixed()
    _, j = s.get_loops(s.get_block("B"))
    a, b = s.sample_perfect_tile(j, 2)
    s.split(j, [a, b])
    assert "factors=[v0, v1]" in str(s.trace)
    extents = [x.extent.value for x in _loops(s) if isinstance(x.extent, Const)]
    assert a in extents


def _loops(s):
    from tensorsmith.ir import For
    from tensorsmith.ir.rewrite import statements

    return [x for x in statements(s.program.body) if isinstance(x, For)]


@pytest.mark.parametrize("decision", [-1, 0, 1])
def test_a_location_is_a_loop_of_the_consumer_or_none(decision):
    s = fixed()
    block = s.get_block("B")
    before = s.program
    loop = s.sample_compute_location(block, decision=decision)
    s.compute_at(block, loop)
    assert (s.program is before) == (decision == -1)
    again = fixed()
    s.trace.apply(again)
    assert again.program.script() == s.program.script()


def test_a_block_without_consumers_stays():
    s = fixed()
    block = s.get_block("C")
    s.compute_at(block, s.sample_compute_location(block))
    assert s.trace.instructions[-2].decision == -1
