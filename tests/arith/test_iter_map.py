"""Iterator maps by example: detection, inverses, divisions, and the reasons of refusal."""

from __future__ import annotations

import numpy as np
import pytest

from arith.enumeration import box, evaluate, rows, where
from tensorsmith.arith import Analyzer
from tensorsmith.arith.iter_inverse import inverse
from tensorsmith.arith.iter_map import detect_iter_map
from tensorsmith.arith.subspace import subspace_divide
from tensorsmith.errors import ArithError
from tensorsmith.ir.expr import Expr, Var, as_expr, substitute
from tensorsmith.ir.stmt import TRUE

i, j, k, f = Var("i"), Var("j"), Var("k"), Var("f")
n = Var("n", low=1)
m = Var("m", low=1)
w = Var("w", low=8, multiple_of=8)


def ranges(**extents):
    """Ranges from 0, or of (start, extent), for the variables of this module."""
    variables = {"i": i, "j": j, "k": k, "f": f}
    found = {}
    for name, extent in extents.items():
        start, size = extent if isinstance(extent, tuple) else (0, extent)
        found[variables[name]] = (as_expr(start), as_expr(size))
    return found


BIJECTIONS = [
    ("fuse", [i * 4 + j], ranges(i=3, j=4), TRUE),
    ("split", [f // 4, f % 4], ranges(f=16), TRUE),
    ("split twice", [f // 8, f // 2 % 4, f % 2], ranges(f=24), TRUE),
    ("refuse", [f // 4 * 4 + f % 4], ranges(f=14), TRUE),
    ("across", [(i * 6 + j) // 4, (i * 6 + j) % 4], ranges(i=4, j=6), TRUE),
    ("mirror", [3 - i, j], ranges(i=4, j=6), TRUE),
    ("shifted", [i - 2, j + 1], ranges(i=(2, 4), j=(-3, 6)), TRUE),
    ("aligned start", [(i + 3) // 4, (i + 3) % 4], ranges(i=(1, 8)), TRUE),
    ("one value", [i + j, k], ranges(i=1, j=5, k=1), TRUE),
    ("predicate", [i * 4 + j], ranges(i=4, j=4), i * 4 + j < 14),
    ("predicate at most", [i * 4 + j], ranges(i=4, j=4), i * 4 + j <= 13),
    ("predicate from", [i * 4 + j], ranges(i=4, j=4), as_expr(3) <= i * 4 + j),
    ("predicate inside", [(i * 4 + j) * 3 + k], ranges(i=4, j=4, k=3), i * 4 + j < 14),
    ("predicate below", [k * 14 + i * 4 + j], ranges(i=4, j=4, k=3), i * 4 + j < 14),
    ("predicate split", [(i * 4 + j) // 7, (i * 4 + j) % 7], ranges(i=4, j=4), i * 4 + j < 14),
    ("two bounds", [i], ranges(i=20), (i < 17) & (as_expr(2) <= i)),
    ("two predicates", [i * 4 + j, k], ranges(i=4, j=4, k=9), (i * 4 + j < 14) & (k < 5)),
    (
        "nested",
        [k * 14 + i * 4 + j],
        ranges(i=4, j=4, k=3),
        (i * 4 + j < 14) & (k * 14 + i * 4 + j < 40),
    ),
    ("always true", [i, j], ranges(i=4, j=4), i + j < 7),
    ("symbolic fuse", [i * n + j], ranges(i=m, j=n), TRUE),
    ("symbolic split", [f // n, f % n], ranges(f=n * m), TRUE),
    ("symbolic tail", [i * 8 + j], ranges(i=(n + 7) // 8, j=8), i * 8 + j < n),
    ("symbolic tiles", [f // 8, f % 8], ranges(f=w), TRUE),
    ("symbolic three", [i * n * 3 + j * 3 + k], ranges(i=m, j=n, k=3), TRUE),
    ("symbolic start", [i + n], ranges(i=(-n, m)), TRUE),
]


@pytest.mark.parametrize(
    ("bindings", "domain", "predicate"), [c[1:] for c in BIJECTIONS], ids=[c[0] for c in BIJECTIONS]
)
@pytest.mark.parametrize("sizes", [(1, 1, 8), (3, 5, 16), (13, 2, 24)], ids=str)
def test_bijections_are_detected_and_inverted(bindings, domain, predicate, sizes):
    found = detect_iter_map(bindings, domain, predicate)
    assert found.is_bijective
    outputs = [Var(f"o{d}") for d in range(len(bindings))]
    inverted = inverse(found, outputs)
    at_sizes = dict(zip((n, m, w), map(as_expr, sizes), strict=True))
    points = _points(domain, predicate, at_sizes)
    columns = [evaluate(substitute(b, at_sizes), points) for b in bindings]
    spans = zip(found.starts, found.extents, strict=True)
    taken = box(_concrete(dict(zip(outputs, spans, strict=True)), at_sizes))
    assert sorted(rows(columns)) == sorted(rows(list(taken.values())))
    at = dict(zip(outputs, columns, strict=True))
    for var, value in inverted.items():
        assert np.array_equal(evaluate(substitute(value, at_sizes), at), points[var])


def _concrete(domain, sizes):
    return {
        v: tuple(int(evaluate(substitute(e, sizes), {})[0]) for e in pair)
        for v, pair in domain.items()
    }


def _points(domain, predicate, sizes):
    return where(box(_concrete(domain, sizes)), substitute(predicate, sizes))


def test_the_result_tells_ranges_and_variables():
    found = detect_iter_map([i * 8 + j], ranges(i=(n + 7) // 8, j=8, k=1), i * 8 + j < n)
    assert (found.starts, found.extents) == ((as_expr(0),), (n,))
    assert found.used == (i, j)
    assert found.padded == ()


def test_inverses_are_simplified():
    found = detect_iter_map([f // 4, f % 4], ranges(f=16))
    a, b = Var("a"), Var("b")
    assert inverse(found, [a, b]) == {f: a * 4 + b}


def test_loops_of_one_iteration_have_their_start():
    found = detect_iter_map([i], ranges(i=4, j=(7, 1)))
    assert inverse(found, [k]) == {i: k, j: as_expr(7)}


SIMPLIFIED = [
    ("window", lambda: [(i * 16 + j) // 56, (i * 16 + j) % 56], ranges(i=196, j=16)),
    ("odd tile", lambda: [(i * 7 + j) // 6, (i * 7 + j) % 6], ranges(i=6, j=7)),
    ("equal extents", lambda: [(i * 6 + j) // 4, (i * 6 + j) % 4], ranges(i=6, j=6)),
    ("equal extents, swapped", lambda: [(j * 6 + i) // 4, (j * 6 + i) % 4], ranges(i=6, j=6)),
    ("mirrored", lambda: [(23 - i * 6 - j) // 4, (23 - i * 6 - j) % 4], ranges(i=4, j=6)),
    ("three", lambda: [(i * 35 + j * 7 + k) // 6, (i * 35 + j * 7 + k) % 6], ranges(i=6, j=5, k=7)),
]


@pytest.mark.parametrize(
    ("make", "domain"), [c[1:] for c in SIMPLIFIED], ids=[c[0] for c in SIMPLIFIED]
)
def test_bijections_are_detected_after_simplification(make, domain):
    """A simplifier drops from a numerator what the divisor divides: scales are to be recovered."""
    analyzer = Analyzer()
    for var, (start, extent) in domain.items():
        analyzer.bind(var, start, extent)
    bindings = [analyzer.simplify(b) for b in make()]
    found = detect_iter_map(bindings, domain)
    a, b = Var("a"), Var("b")
    points = _points(domain, TRUE, {})
    at = {o: evaluate(e, points) for o, e in zip((a, b), bindings, strict=True)}
    for var, value in inverse(found, [a, b]).items():
        assert np.array_equal(evaluate(value, at), points[var])


def test_facts_of_the_analyzer_count():
    free, other = Var("free"), Var("other")
    analyzer = Analyzer()
    analyzer.assume(as_expr(1) <= free)
    domain = ranges(f=free * other)
    assert detect_iter_map([f // free, f % free], domain, analyzer=analyzer).is_bijective
    with pytest.raises(ArithError, match="not known to be positive"):
        detect_iter_map([f // free, f % free], domain)


@pytest.mark.parametrize("whole", [lambda n, k: n * k, lambda n, k: n * k * 4 + 0])
def test_what_divides_the_extent_of_a_loop_that_runs_is_positive(whole):
    rows, columns = Var("rows", low=0), Var("columns", low=0)
    domain = ranges(f=whole(rows, columns))
    assert detect_iter_map([f // columns, f % columns], domain).is_bijective


ONTO = [
    ([i], ranges(i=4, j=3)),
    ([f // 4], ranges(f=14)),
    ([f % 4], ranges(f=14)),
    ([f // 8, f % 2], ranges(f=16)),
    ([i // 2, j // 3], ranges(i=5, j=7)),
]


@pytest.mark.parametrize(("bindings", "domain"), ONTO)
def test_onto_maps_are_detected_when_a_bijection_is_not_asked_for(bindings, domain):
    with pytest.raises(ArithError):
        detect_iter_map(bindings, domain)
    found = detect_iter_map(bindings, domain, bijective=False)
    assert not found.is_bijective
    with pytest.raises(ArithError, match="the map has no inverse"):
        inverse(found, [Var("o") for _ in bindings])


REFUSED = [
    (
        [f // 4, f % 4],
        ranges(f=14),
        TRUE,
        (
            "some points of the box are not taken: f is not divisible\n"
            "  given: 14 values, as digits 16 values"
        ),
    ),
    (
        [i + j],
        ranges(i=4, j=6),
        TRUE,
        (
            "i + j does not take each value of a range once\n"
            "  given: i takes 4 values from 0, j takes 6 values from 0\n"
            "  because: its terms overlap or leave gaps: the stride of each must be the stride"
            " times"
            " the extent of the one below"
        ),
    ),
    (
        [i, i],
        ranges(i=4),
        TRUE,
        (
            "the digits of i that the bindings use are not all of it, each once\n"
            "  given: used: i % 4, i % 4; i has 4 values"
        ),
    ),
    (
        [i],
        ranges(i=4, j=3),
        TRUE,
        "points are taken once for each value of j\n  because: no binding uses this loop variable",
    ),
    (
        [i * 2],
        ranges(i=4),
        TRUE,
        (
            "i * 2 leaves out values of its range\n"
            "  given: i takes 4 values from 0\n"
            "  because: neighbouring values are 2 apart"
        ),
    ),
    (
        [i, j],
        ranges(i=4, j=4),
        i * 4 + j < 14,
        (
            "the predicate i * 4 + j < 14 cuts the box of the bindings\n"
            "  because: no binding uses, as a whole, the fused iterator that it bounds"
        ),
    ),
    (
        [i],
        ranges(i=4),
        i * i < 8,
        (
            "i * i is not quasi-affine in the loop variables\n"
            "  because: a product of loop variables is no sum of digits"
        ),
    ),
    (
        [i],
        ranges(i=4),
        n < 14,
        (
            "the predicate n < 14 is not a bound of a fused iterator\n"
            "  because: a predicate must be comparisons (<, <=) of sums of loop variables that are"
            " digits of one number, such as i * 4 + j < n"
        ),
    ),
    (
        [f // 4 * 4 + f % 4 // j],
        ranges(f=16, j=4),
        TRUE,
        (
            "f % 4 // j is not quasi-affine in the loop variables\n"
            "  because: a quotient of loop variables is no sum of digits"
        ),
    ),
    ([i], ranges(i=4), as_expr(4) <= i, "the predicate 4 <= i never holds"),
    (
        [i],
        ranges(i=9),
        (i < 3) & (as_expr(4) <= i),
        "the predicate 4 <= i never holds",
    ),
]


@pytest.mark.parametrize(("bindings", "domain", "predicate", "message"), REFUSED)
def test_what_is_refused_says_why(bindings, domain, predicate, message):
    with pytest.raises(ArithError) as caught:
        detect_iter_map(bindings, domain, predicate)
    assert str(caught.value) == message


def test_deep_bindings_do_not_overflow():
    deep: Expr = i
    for _ in range(10_000):
        deep = deep + 1
    assert detect_iter_map([deep], ranges(i=4)).starts == (as_expr(10_000),)


# --- Division into subspaces -----------------------------------------------------------------

DIVISIONS = [
    ([i * 4 + j, k], ranges(i=5, j=4, k=3), [j], TRUE, [(i, j, 5, 4), (k, 0, 3, 1)]),
    ([i * 4 + j], ranges(i=4, j=4), [j], i * 4 + j < 14, [(i, j, 4, 4)]),
    ([i * 8 + j], ranges(i=(n + 7) // 8, j=8), [j], i * 8 + j < n, [(i, j, (n + 7) // 8, 8)]),
    ([i * 4 + j], ranges(i=5, j=4), [i, j], TRUE, [(0, i * 4 + j, 1, 20)]),
    ([i * 4 + j], ranges(i=5, j=4), [], TRUE, [(i * 4 + j, 0, 20, 1)]),
    ([f * 12 + i * 4 + j], ranges(f=2, i=3, j=4), [i, j], TRUE, [(f, i * 4 + j, 2, 12)]),
    ([i * 4 + j + 2], ranges(i=5, j=4), [j], TRUE, [(i, j + 2, 5, 4)]),
    ([i * n + j], ranges(i=m, j=n), [j], TRUE, [(i, j, m, n)]),
]


@pytest.mark.parametrize(("bindings", "domain", "inner", "predicate", "expected"), DIVISIONS)
def test_division(bindings, domain, inner, predicate, expected):
    parts = subspace_divide(bindings, domain, inner, predicate)
    assert parts == [tuple(map(as_expr, e)) for e in expected]


NOT_DIVISIBLE = [
    ([i * 4 + j], ranges(i=5, j=4), [i], TRUE, "an inner variable stands above an outer one"),
    (
        [(i * 6 + j) // 4, (i * 6 + j) % 4],
        ranges(i=4, j=6),
        [j],
        TRUE,
        "one digit depends on outer and on inner variables",
    ),
    (
        [k * 14 + i * 4 + j],
        ranges(i=4, j=4, k=3),
        [j],
        i * 4 + j < 14,
        "a bound of the predicate ties outer and inner variables",
    ),
]


@pytest.mark.parametrize(("bindings", "domain", "inner", "predicate", "reason"), NOT_DIVISIBLE)
def test_what_cannot_be_divided_says_why(bindings, domain, inner, predicate, reason):
    with pytest.raises(ArithError, match="cannot be divided") as caught:
        subspace_divide(bindings, domain, inner, predicate)
    assert caught.value.because == reason
