"""Iterator maps over loops of symbolic extents, made at random and enumerated at several sizes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arith.enumeration import box, evaluate, rows
from tensorsmith.arith.iter_inverse import inverse
from tensorsmith.arith.iter_map import detect_iter_map
from tensorsmith.ir.expr import Expr, Var, as_expr, substitute

n, m = Var("n", low=1), Var("m", low=1)
FACTORS = [n, m, as_expr(2), as_expr(3)]


def _product(factors: list[Expr]) -> Expr:
    return math.prod(factors, start=as_expr(1))


@st.composite
def symbolic_chains(draw):
    """Loop variables, split at their factors and fused at random: a bijection for all sizes."""
    ranges, parts = {}, []
    for d in range(draw(st.integers(1, 3))):
        var = Var(f"i{d}")
        factors = draw(st.lists(st.sampled_from(FACTORS), min_size=1, max_size=2))
        start = draw(st.sampled_from([as_expr(0), as_expr(2), n]))
        ranges[var] = (start, _product(factors))
        parts.append((var - start, factors))
    for _ in range(draw(st.integers(0, 4))):
        e, factors = parts.pop(draw(st.integers(0, len(parts) - 1)))
        if len(factors) > 1 and draw(st.booleans()):
            at = draw(st.integers(1, len(factors) - 1))
            by = _product(factors[at:])
            parts += [(e // by, factors[:at]), (e % by, factors[at:])]
        elif parts:
            other, low = parts.pop(draw(st.integers(0, len(parts) - 1)))
            parts.append((e * _product(low) + other, factors + low))
        else:
            parts.append((e, factors))
    return ranges, [e + draw(st.sampled_from([0, 1, n])) for e, _ in draw(st.permutations(parts))]


def check(ranges, bindings) -> None:
    found = detect_iter_map(bindings, ranges)
    assert found.is_bijective
    outputs = [Var(f"o{d}") for d in range(len(bindings))]
    inverted = inverse(found, outputs)
    for sizes in itertools.product((1, 2, 3), repeat=2):
        at_sizes = dict(zip((n, m), map(as_expr, sizes), strict=True))

        def concrete(e: Expr, at_sizes=at_sizes) -> Expr:
            return substitute(e, at_sizes)

        def number(e: Expr, concrete=concrete) -> int:
            return int(evaluate(concrete(e), {})[0])

        points = box({v: (number(start), number(extent)) for v, (start, extent) in ranges.items()})
        if len(next(iter(points.values()))) > 500:
            continue
        columns = [evaluate(concrete(b), points) for b in bindings]
        spans = zip(map(number, found.starts), map(number, found.extents), strict=True)
        assert sorted(rows(columns)) == rows(list(box(dict(enumerate(spans))).values()))
        at = dict(zip(outputs, columns, strict=True))
        for var, value in inverted.items():
            assert np.array_equal(evaluate(concrete(value), at), points[var])


@given(symbolic_chains())
@settings(max_examples=100)
def test_symbolic_chains_are_bijections(case):
    check(*case)


@pytest.mark.slow
@given(symbolic_chains())
@settings(max_examples=10_000)
def test_symbolic_chains_are_bijections_many(case):
    check(*case)
