"""Orders that follow from a difference, and from the integrality of quotients."""

import itertools

import pytest

from tensorsmith.arith import Analyzer
from tensorsmith.ir import Not, Var, const, equal, not_equal

n = Var("n", low=1)
x = Var("x")


def bound():
    analyzer = Analyzer()
    analyzer.bind(x, 0, n)
    return analyzer


def test_a_difference_at_the_lower_end():
    for different in (not_equal(x, 0), Not(equal(x, 0))):
        analyzer = bound()
        assert analyzer.prove(x >= 1) is None
        analyzer.assume(different)
        assert analyzer.prove(x >= 1) is True


def test_a_difference_at_the_upper_end():
    analyzer = bound()
    analyzer.assume(not_equal(x, n - 1))
    assert analyzer.prove(x + 1 < n) is True


def test_a_difference_inside_of_the_range_is_no_order():
    analyzer = Analyzer()
    analyzer.bind(x, 0, 10)
    analyzer.assume(not_equal(x, 5))
    assert analyzer.prove(x >= 6) is None
    assert analyzer.prove(x < 5) is None


@pytest.mark.parametrize("divisor", [2, 3, 9])
def test_a_quotient_of_a_multiple(divisor):
    analyzer = Analyzer()
    analyzer.bind(x, 0, n * divisor)
    assert analyzer.prove(x // divisor < n) is True
    assert analyzer.prove(x // divisor < n - 1) is None
    assert analyzer.prove(x // divisor >= 1) is None


@pytest.mark.parametrize("divisor", [2, 3, 5])
@pytest.mark.parametrize("scale", [1, 2, -1, -3])
@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("limit", [-3, -1, 0, 1, 4])
def test_no_false_order_of_quotients(divisor, scale, offset, limit):
    """What is proved of a quotient holds for every value in reach."""
    y = Var("y", low=0, high=4)
    analyzer = Analyzer()
    analyzer.bind(x, y, 7)
    answer = analyzer.prove((x * scale + offset) // divisor * 2 - y <= const(limit))
    truths = {
        (v * scale + offset) // divisor * 2 - w <= limit
        for w, k in itertools.product(range(5), range(7))
        for v in [w + k]
    }
    if answer is not None:
        assert truths == {answer}
