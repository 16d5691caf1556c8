"""Facts that say nothing are none."""

from tensorsmith.ir import Var


def test_ranges_that_hold_every_value_are_no_facts():
    assert Var("n", low=1, high=(2**63 - 1) ** 2).high is None
    assert Var("n", low=-(2**63)).low is None
    assert Var("n", low=0, high=2**62).high == 2**62
