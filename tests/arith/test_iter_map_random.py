"""Iterator maps made at random: what is a chain of splits and fusions is accepted, what is accepted
is right. The oracle enumerates every point of the domain."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arith.enumeration import box, evaluate, rows, where
from tensorsmith.arith import Analyzer
from tensorsmith.arith.iter_inverse import inverse, padding_predicate
from tensorsmith.arith.iter_map import Level, detect, detect_iter_map
from tensorsmith.arith.subspace import subspace_divide
from tensorsmith.errors import ArithError
from tensorsmith.ir.expr import Expr, Var, as_expr, free_vars
from tensorsmith.ir.stmt import TRUE

LARGEST = 2000
"""Points of a domain at most."""


@dataclass
class Case:
    ranges: dict[Var, tuple[int, int]]
    bindings: list[Expr]
    predicate: Expr = TRUE

    @property
    def exprs(self) -> dict[Var, tuple[Expr, Expr]]:
        return {v: (as_expr(s), as_expr(e)) for v, (s, e) in self.ranges.items()}

    def points(self):
        return where(box(self.ranges), self.predicate)

    def images(self) -> list[tuple[int, ...]]:
        points = self.points()
        return rows([evaluate(b, points) for b in self.bindings])


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


@st.composite
def chains(draw, *, exact: bool = True) -> Case:
    """Loop variables, split, fused, mirrored and shifted at random: a bijection if `exact`, which
    lets splits have no rest; else an injection."""
    case = Case({}, [])
    parts: list[tuple[Expr, int]] = []
    for d in range(draw(st.integers(1, 3))):
        start, extent = draw(st.integers(-3, 3)), draw(st.integers(1, 8))
        var = Var(f"i{d}")
        case.ranges[var] = (start, extent)
        parts.append((var - start, extent))
    if draw(st.booleans()):
        parts.append(_imperfect_split(draw, case))
    for _ in range(draw(st.integers(0, 6))):
        _step(draw, parts, exact=exact)
    parts = draw(st.permutations(parts))
    case.bindings = [e + draw(st.integers(-4, 4)) for e, _ in parts]
    return case


def _imperfect_split(draw, case: Case) -> tuple[Expr, int]:
    total, tile = draw(st.integers(1, 14)), draw(st.integers(1, 5))
    outer, inner = Var("outer"), Var("inner")
    case.ranges[outer] = (0, math.ceil(total / tile))
    case.ranges[inner] = (0, tile)
    whole = outer * tile + inner
    case.predicate = whole < total
    return whole, total


def _step(draw, parts: list[tuple[Expr, int]], *, exact: bool) -> None:
    e, extent = parts.pop(draw(st.integers(0, len(parts) - 1)))
    kind = draw(st.sampled_from(["split", "fuse", "mirror"]))
    if kind == "fuse" and parts:
        other, other_extent = parts.pop(draw(st.integers(0, len(parts) - 1)))
        if extent * other_extent <= 64:
            parts.append((e * other_extent + other, extent * other_extent))
            return
        parts.append((other, other_extent))
    if kind == "split":
        factors = _divisors(extent) if exact else list(range(1, extent + 2))
        by = draw(st.sampled_from(factors))
        parts += [(e // by, math.ceil(extent / by)), (e % by, min(by, extent) if exact else by)]
        return
    parts.append((extent - 1 - e, extent) if kind == "mirror" else (e, extent))


def check_bijection(case: Case) -> None:
    found = detect_iter_map(case.bindings, case.exprs, case.predicate)
    assert found.is_bijective
    _check_box(case, found, case.images())
    outputs = [Var(f"o{d}") for d in range(len(case.bindings))]
    points = case.points()
    at = {o: evaluate(b, points) for o, b in zip(outputs, case.bindings, strict=True)}
    for var, value in inverse(found, outputs).items():
        assert np.array_equal(evaluate(value, at), points[var]), (var, value)


def _check_box(case: Case, found, images) -> None:
    assert len(set(images)) == len(images), "not injective"
    lows = [int(evaluate(s, {})[0]) for s in found.starts]
    extents = [int(evaluate(e, {})[0]) for e in found.extents]
    expected = rows(list(box(dict(enumerate(zip(lows, extents, strict=True)))).values()))
    assert sorted(images) == sorted(expected)


@given(chains())
@settings(max_examples=150)
def test_chains_of_splits_and_fusions_are_bijections(case: Case) -> None:
    check_bijection(case)


@pytest.mark.slow
@given(chains())
@settings(max_examples=10_000)
def test_chains_of_splits_and_fusions_are_bijections_many(case: Case) -> None:
    check_bijection(case)


def check_padded(case: Case) -> None:
    """Injective chains: where they are accepted, the inverse and the padding are right."""
    try:
        found = detect(case.bindings, case.exprs, case.predicate, level=Level.INJECTIVE)
    except ArithError:
        return
    images = case.images()
    assert len(set(images)) == len(images)
    outputs = [Var(f"o{d}") for d in range(len(case.bindings))]
    lows = [int(evaluate(s, {})[0]) for s in found.starts]
    extents = [int(evaluate(e, {})[0]) for e in found.extents]
    if math.prod(extents) > LARGEST:
        return
    whole = box(dict(zip(outputs, zip(lows, extents, strict=True), strict=True)))
    padded = evaluate(padding_predicate(found, outputs), whole)
    taken = set(images)
    assert [row not in taken for row in rows(list(whole.values()))] == padded.tolist()
    inverted = inverse(found, outputs)
    at = {o: values[~padded] for o, values in whole.items()}
    back = rows([evaluate(inverted[v], at) for v in case.ranges])
    assert sorted(back) == sorted(rows(list(case.points().values())))


@given(chains(exact=False))
@settings(max_examples=150)
def test_padding_of_imperfect_chains(case: Case) -> None:
    check_padded(case)


@pytest.mark.slow
@given(chains(exact=False))
@settings(max_examples=10_000)
def test_padding_of_imperfect_chains_many(case: Case) -> None:
    check_padded(case)


# --- Garbage ---------------------------------------------------------------------------------


def _terms(variables: list[Var]) -> st.SearchStrategy[Expr]:
    number = st.integers(-6, 6)
    leaf = st.sampled_from(variables)
    small = st.sampled_from([2, 3, 4, 6, 8])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(lambda a, b: a + b, inner, inner),
            st.builds(lambda a, b: a - b, inner, inner),
            st.builds(lambda a, c: a * c, inner, number),
            st.builds(lambda a, c: a + c, inner, number),
            st.builds(lambda a, c: a // c, inner, small),
            st.builds(lambda a, c: a % c, inner, small),
            st.builds(lambda a, c, b: a * c + b, leaf, small, leaf),
        ),
        max_leaves=5,
    )


@st.composite
def garbage(draw) -> Case:
    variables = [Var(f"i{d}") for d in range(draw(st.integers(1, 3)))]
    ranges = {v: (draw(st.integers(-2, 2)), draw(st.integers(1, 6))) for v in variables}
    terms = _terms(variables)
    case = Case(ranges, draw(st.lists(terms, min_size=1, max_size=3)))
    if draw(st.booleans()):
        bounds = st.builds(
            lambda a, c: draw(st.sampled_from([a < c, a <= c, a > c])), terms, st.integers(-4, 20)
        )
        for bound in draw(st.lists(bounds, min_size=1, max_size=2)):
            case.predicate = case.predicate & bound
    return case


def check_soundness(case: Case) -> None:
    """What is accepted at a level is what the level says, unless the predicate leaves nothing."""
    images = case.images()
    for level in Level:
        try:
            found = detect(case.bindings, case.exprs, case.predicate, level=level)
        except ArithError:
            continue
        lows = [int(evaluate(s, {})[0]) for s in found.starts]
        extents = [int(evaluate(e, {})[0]) for e in found.extents]
        box_rows = rows(list(box(dict(enumerate(zip(lows, extents, strict=True)))).values()))
        assert set(images) <= set(box_rows), level
        if level is not Level.INJECTIVE or found.is_bijective:
            assert set(images) == set(box_rows), level
        if level is not Level.ONTO or found.is_bijective:
            assert len(set(images)) == len(images), level
        assert set(found.used) == set(free_vars(*case.bindings)) & set(case.ranges)


@given(garbage())
@settings(max_examples=250)
def test_what_is_accepted_is_right(case: Case) -> None:
    check_soundness(case)


@pytest.mark.slow
@given(garbage())
@settings(max_examples=10_000)
def test_what_is_accepted_is_right_many(case: Case) -> None:
    check_soundness(case)


# --- Subspaces -------------------------------------------------------------------------------


def check_division(case: Case, inner: set[Var]) -> None:
    try:
        parts = subspace_divide(case.bindings, case.exprs, inner, case.predicate)
    except ArithError:
        return
    points = case.points()
    for binding, part in zip(case.bindings, parts, strict=True):
        whole = part.outer * part.inner_extent + part.inner
        assert np.array_equal(evaluate(binding, points), evaluate(whole, points))
        assert not inner & set(free_vars(part.outer))
        assert inner >= set(free_vars(part.inner)) & set(case.ranges)
        for side, extent in ((part.outer, part.outer_extent), (part.inner, part.inner_extent)):
            count = int(evaluate(extent, {})[0])
            values = np.unique(evaluate(side, points))
            assert values[-1] - values[0] + 1 == len(values) <= count
            assert case.predicate is not TRUE or len(values) == count


@given(chains(), st.data())
@settings(max_examples=150)
def test_divided_bindings_add_up(case: Case, data) -> None:
    check_division(case, data.draw(st.sets(st.sampled_from(list(case.ranges)))))


@pytest.mark.slow
@given(chains(), st.data())
@settings(max_examples=10_000)
def test_divided_bindings_add_up_many(case: Case, data) -> None:
    check_division(case, data.draw(st.sets(st.sampled_from(list(case.ranges)))))


@given(chains())
@settings(max_examples=100)
def test_a_simplified_chain_is_accepted_or_refused_but_never_wrong(case: Case) -> None:
    analyzer = Analyzer()
    for v, (start, extent) in case.exprs.items():
        analyzer.bind(v, start, extent)
    case.bindings = [analyzer.simplify(b) for b in case.bindings]
    check_soundness(case)
