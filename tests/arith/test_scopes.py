"""What an analyzer found in a scope counts there, and again where the same facts hold."""

from __future__ import annotations

from tensorsmith.arith import Analyzer
from tensorsmith.ir import Var

n = Var("n", low=1)
i = Var("i")
j = Var("j")


def test_what_followed_from_a_fact_follows_no_more_without_it():
    analyzer = Analyzer()
    assert analyzer.prove(i < 8) is None
    with analyzer.scope():
        analyzer.bind(i, 0, 8)
        assert analyzer.prove(i < 8) is True
        assert analyzer.simplify(i // 8) is analyzer.simplify(i * 0)
    assert analyzer.prove(i < 8) is None
    assert analyzer.simplify(i // 8) is i // 8


def test_a_variable_that_is_bound_anew_has_its_new_range():
    analyzer = Analyzer()
    for extent in (8, 16, 8, n):
        with analyzer.scope():
            analyzer.bind(i, 0, extent)
            assert analyzer.prove(i < extent) is True
            assert analyzer.prove(i < 8) is (True if extent == 8 else None)
            with analyzer.scope():
                analyzer.bind(j, 0, i + 1)
                assert analyzer.prove(j <= i) is True
                assert analyzer.prove(j < 8) is (True if extent == 8 else None)


def test_a_fact_counts_for_what_was_asked_before_it():
    analyzer = Analyzer()
    analyzer.bind(i, 0, n)
    for limit, other in ((3, 5), (5, 3), (3, 5)):
        assert analyzer.prove(i < limit) is None
        with analyzer.scope():
            analyzer.learn(i < limit)
            assert analyzer.prove(i < limit) is True
            assert analyzer.prove(i < other) is (True if other > limit else None)
            analyzer.learn(i < 3)
            assert analyzer.prove(i < 3) is True
        assert analyzer.prove(i < limit) is None


def test_one_fact_after_different_ones_is_not_taken_for_the_same():
    analyzer = Analyzer()
    for low in (0, 4, 0, 4):
        with analyzer.scope():
            analyzer.learn(i >= low)
            analyzer.learn(i < 8)
            assert analyzer.bounds(i).low == low
            assert analyzer.prove(i >= 4) is (True if low == 4 else None)
