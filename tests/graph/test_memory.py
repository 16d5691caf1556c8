"""Plans of memory: what lives at the same time never overlaps, for any values of the dimensions."""

from __future__ import annotations

import random

import pytest

from tensorsmith.arith import simplify
from tensorsmith.graph.memory import ALIGN, MemoryPlan, Need, plan_memory
from tensorsmith.ir import Const, Expr, Var, as_expr, free_vars, substitute


def value(e: Expr, dims: dict[Expr, Expr]) -> int:
    """The number that an expression is for these dimensions."""
    found = simplify(substitute(e, dims))
    assert isinstance(found, Const), found
    return int(found.value)


def check(needs: list[Need], plan: MemoryPlan, parents: dict[int, int], dims) -> None:
    """Compare all pairs of needs, byte by byte."""
    ranges = []
    for need, place in zip(needs, plan.places, strict=True):
        around = need.arena
        while around != place.arena:
            around = parents[around]
        first = value(place.offset, dims)
        assert first % ALIGN == 0
        last = first + value(need.bytes, dims)
        assert 0 <= first <= last <= value(plan.sizes[place.arena], dims)
        ranges.append((place.arena, first, last, need))
    for n, (arena, first, last, need) in enumerate(ranges):
        for other_arena, other_first, other_last, other in ranges[:n]:
            meets = need.start <= other.end and other.start <= need.end
            if meets and arena == other_arena:
                assert last <= other_first or other_last <= first


def sizes(random_: random.Random, variables: list[Var], arena: int) -> Expr:
    """The bytes of a random shape, over the dimensions that are known in the arena."""
    known = variables[: 2 + arena]
    choices = [*known, *known, as_expr(3), as_expr(64), as_expr(100), known[0] + known[1]]
    choices += [(known[0] + 2) // 3]
    total = as_expr(random_.choice([1, 2, 4, 8, 256]))
    for _ in range(random_.randrange(4)):
        total = total * random_.choice(choices)
    return total


@pytest.mark.parametrize("seed", range(40))
def test_random_plans(seed: int) -> None:
    random_ = random.Random(seed)
    variables = [Var("n", low=1), Var("m", low=0), Var("k", low=0), Var("j", low=0)]
    parents = {1: 0, 2: 1} if seed % 2 else {1: 0, 2: 0}
    needs = []
    for _ in range(random_.randrange(1, 40)):
        arena = random_.choice([0, 0, 0, 1, 2])
        start = random_.randrange(30)
        end = start + random_.randrange(8)
        needs.append(Need(sizes(random_, variables, arena), start, end, arena))
    plan = plan_memory(needs, parents)
    for arena, size in plan.sizes.items():
        assert set(free_vars(size)) <= set(variables[: 2 + arena])
    for _ in range(4):
        dims = {v: as_expr(random_.choice([v.low, 1, 2, 7, 128, 1000])) for v in variables}
        check(needs, plan, parents, dims)


def test_a_chain_takes_turns() -> None:
    n = Var("n", low=1)
    needs = [Need(n * 3072, t, t + 1) for t in range(10)]
    assert simplify(plan_memory(needs).peak) is simplify(n * 6144)


def test_smaller_values_lie_where_larger_ones_were() -> None:
    n = Var("n", low=1)
    needs = [Need(n * n * 64, 0, 1), Need(n * 64, 2, 3), Need(as_expr(64), 4, 5)]
    assert simplify(plan_memory(needs).peak) is simplify(n * n * 64)


def test_constant_sizes_fill_gaps() -> None:
    needs = [Need(as_expr(4096), 0, 1), Need(as_expr(1000), 1, 2), Need(as_expr(3000), 2, 3)]
    assert simplify(plan_memory(needs).peak) is as_expr(4096 + 1024)


def test_short_vectors_are_not_blown_up() -> None:
    n = Var("n", low=1)
    plan = plan_memory([Need(n * 4, 0, 1), Need(n * 4, 0, 1)])
    assert value(plan.peak, {n: as_expr(1000)}) <= 2 * (4000 + ALIGN)
