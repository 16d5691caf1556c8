"""The verifier accepts every generated program: they are well-formed by construction."""

from hypothesis import strategies as st

from strategies import modules
from strategies.cases import fast_and_slow
from tensorsmith.verify import problems


def generated_programs_are_well_formed(data):
    assert problems(data.draw(modules(exact=data.draw(st.booleans())))) == []


test_generated_programs_are_well_formed, test_generated_programs_are_well_formed_slow = (
    fast_and_slow(generated_programs_are_well_formed)
)
