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


MULTIPLE = Var("m", low=1, multiple_of=4)


@pytest.mark.parametrize(
    "claim",
    [
        x // 2 < MULTIPLE // 2,
        x // 4 < MULTIPLE // 4,
        x // 4 + 1 <= (MULTIPLE + 2) // 4,
        x * 3 // 4 < MULTIPLE * 3 // 4,
        x // 2 * 2 + 1 < MULTIPLE,
        MULTIPLE % 8 <= 4,
    ],
    ids=repr,
)
def test_quotients_of_multiples_are_monotone(claim):
    """A quotient is strictly less where the larger dividend is a multiple of the divisor."""
    analyzer = Analyzer()
    analyzer.bind(x, 0, MULTIPLE)
    assert analyzer.prove(claim) is True


@pytest.mark.parametrize("divisor", [3, 8, 16])
def test_quotients_of_other_numbers_may_be_equal(divisor):
    analyzer = Analyzer()
    analyzer.bind(x, 0, MULTIPLE)
    assert analyzer.prove(x // divisor < MULTIPLE // divisor) is None
    assert analyzer.prove(x // divisor <= MULTIPLE // divisor) is True


@pytest.mark.parametrize("step", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("residue", [0, 1, 2])
@pytest.mark.parametrize("divisor", [2, 4, 6])
def test_no_false_order_of_what_is_known_modulo(step, residue, divisor):
    """What is proved of a number with a known remainder holds for all of them in reach."""
    y = Var("y", low=0, high=13)
    analyzer = Analyzer()
    analyzer.assume(equal(y % step, residue % step))
    analyzer.bind(x, 0, y + 1)
    reach = [(a, b) for b in range(14) if b % step == residue % step for a in range(b + 1)]
    for shift, slack in itertools.product((-1, 0, 1, 2), repeat=2):
        lesser, remainder = (x + shift) // divisor, y % divisor
        known = analyzer.prove(lesser * 2 <= (y + slack) // divisor * 2)
        truths = {(a + shift) // divisor <= (b + slack) // divisor for a, b in reach}
        assert known is None or truths == {known}
        known = analyzer.prove(remainder <= divisor + shift - slack)
        truths = {b % divisor <= divisor + shift - slack for _, b in reach}
        assert known is None or truths == {known}


def test_what_is_left_of_a_multiple_does_not_hide_it():
    """The rows of an image that a window of stride 2 reads, where the extents are not known."""
    height, width, at, tap = (Var(name) for name in ("h", "w", "at", "tap"))
    facts = Analyzer()
    facts.learn(height >= 1)
    facts.learn(width >= 1)
    rows, columns = (height + 1) // 2, (width + 1) // 2
    facts.bind(at, 0, rows * columns)
    facts.bind(tap, 0, 9)
    assert facts.prove(at // columns * 2 + tap % 3 < rows * 2 + 1) is True
    assert facts.prove(at // columns * 2 + tap % 3 < rows * 2) is not True
