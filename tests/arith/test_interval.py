"""Intervals, by all small ones: with and without ends, and those of dead code, of no values."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable

import pytest

from tensorsmith.arith import Analyzer
from tensorsmith.arith import interval as intervals
from tensorsmith.arith.interval import Interval
from tensorsmith.ir import Var

ENDS = (None, -2, -1, 0, 1, 2)
ALL = [Interval(low, high) for low in ENDS for high in ENDS]
REACH = 5
OPERATIONS: dict[str, tuple[Callable[..., Interval], Callable[[int, int], int]]] = {
    "add": (intervals.add, operator.add),
    "multiply": (intervals.multiply, operator.mul),
    "floor_divide": (intervals.floor_divide, operator.floordiv),
    "floor_modulo": (intervals.floor_modulo, operator.mod),
}


def values(x: Interval) -> range:
    return range(-REACH if x.low is None else x.low, (REACH if x.high is None else x.high) + 1)


@pytest.mark.parametrize("name", OPERATIONS)
def test_results_hold_all_values(name) -> None:
    of_intervals, of_values = OPERATIONS[name]
    for a, b in itertools.product(ALL, ALL):
        found = of_intervals(a, b)
        for x, y in itertools.product(values(a), values(b)):
            if not name.startswith("floor") or y:
                result = of_values(x, y)
                assert found.low is None or found.low <= result, (a, b)
                assert found.high is None or result <= found.high, (a, b)


def test_products_in_dead_code_have_bounds() -> None:
    """Facts that contradict each other leave a variable without values."""
    v, n = Var("v"), Var("n", low=1)
    facts = Analyzer()
    facts.learn(v >= 3)
    facts.learn(v <= -1)
    facts.bounds(v * n)
    facts.simplify((v * n + 1) // 2 < n)
