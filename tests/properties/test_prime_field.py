"""Over the prime field, ring expressions have the values of the integers, modulo the prime."""

import numpy as np
from hypothesis import strategies as st

from strategies import modules
from strategies.cases import fast_and_slow
from strategies.rewriting import renamed
from tensorsmith.evaluate import Memory, PrimeFieldDomain, equivalent, evaluate
from tensorsmith.ir import Buffer, Expr, Neg, Store, TensorProgram, const

PRIMES = (2147483647, 65537, 7)


@st.composite
def ring_terms(draw, leaves, depth=5):
    """A float expression and its exact value as an integer, by different ways."""
    pick = draw(st.integers(0, 5)) if depth else 0
    if pick <= 1:
        if draw(st.booleans()):
            return draw(st.sampled_from(leaves))
        whole = draw(st.integers(-1000, 1000))
        return const(float(whole), "float32"), whole
    a, x = draw(ring_terms(leaves, depth - 1))
    if pick == 2:
        return Neg(a), -x
    b, y = draw(ring_terms(leaves, depth - 1))
    return ((a + b, x + y), (a - b, x - y), (a * b, x * y))[pick - 3]


def in_field(e: Expr, inputs: dict[Buffer, int], prime: int) -> int:
    out = Buffer("out", (), "float32")
    program = TensorProgram("f", (*inputs, out), Store(out, (), e))
    result = np.zeros((), np.int64)
    memories = [Memory(np.array(value % prime, np.int64)) for value in inputs.values()]
    evaluate(program, PrimeFieldDomain(prime), [*memories, Memory(result)])
    return int(result)


def ring_expressions_are_integers_modulo_the_prime(data):
    prime = data.draw(st.sampled_from(PRIMES))
    inputs = {Buffer(name, ()): data.draw(st.integers(0, 1 << 40)) for name in "abc"}
    leaves = [(buffer[()], value) for buffer, value in inputs.items()]
    e, exact = data.draw(ring_terms(leaves))
    assert in_field(e, inputs, prime) == exact % prime


(
    test_ring_expressions_are_integers_modulo_the_prime,
    test_ring_expressions_are_integers_modulo_the_prime_slow,
) = fast_and_slow(ring_expressions_are_integers_modulo_the_prime)


def a_program_is_equivalent_to_itself_renamed(data):
    module = data.draw(modules())
    assert equivalent(module, renamed(module), trials=1, entry="main")


(
    test_a_program_is_equivalent_to_itself_renamed,
    test_a_program_is_equivalent_to_itself_renamed_slow,
) = fast_and_slow(a_program_is_equivalent_to_itself_renamed, fast=30)
