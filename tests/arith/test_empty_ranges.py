"""What holds where nothing can be: ranges without values."""

from tensorsmith.arith import Analyzer
from tensorsmith.ir import Var, const, postorder


def test_a_divisor_that_can_only_be_zero() -> None:
    facts = Analyzer()
    i, d = Var("i", low=0, high=7), Var("d", low=0)
    with facts.scope():
        facts.bind(d, 0, 1)
        assert facts.bounds(i // d).low is None
        facts.simplify((i // d) * 2 + 1)


def test_quotients_of_quotients_by_zero_stay_as_they_are() -> None:
    """They have no value; where nothing runs, they may stand all the same."""
    i = Var("i")
    zero = const(0)
    for e in ((i // zero) // 2, (i // zero + 4) // 2, (i // 2) // zero, ((i // zero) // 2) % 3):
        assert any(x.args[-1] is zero for x in postorder(Analyzer().simplify(e)) if x.args)
