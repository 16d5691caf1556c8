"""What holds where nothing can be: ranges without values."""

from tensorsmith.arith import Analyzer
from tensorsmith.ir import Var


def test_a_divisor_that_can_only_be_zero() -> None:
    facts = Analyzer()
    i, d = Var("i", low=0, high=7), Var("d", low=0)
    with facts.scope():
        facts.bind(d, 0, 1)
        assert facts.bounds(i // d).low is None
        facts.simplify((i // d) * 2 + 1)
