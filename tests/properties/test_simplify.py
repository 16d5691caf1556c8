"""What `tensorsmith.arith` says of an expression is true of its values."""

from hypothesis import strategies as st

from strategies import (
    conditions,
    evaluate_expr,
    index_exprs,
    int_dtypes,
    same_bits,
    scalar_exprs,
    scalar_values,
    scalar_variables,
    scopes,
    values_in,
)
from strategies.cases import fast_and_slow
from strategies.scopes import Scope
from tensorsmith.arith import Analyzer, Congruence, simplify


def facts_of(scope: Scope) -> Analyzer:
    facts = Analyzer()
    for r in scope:
        if r.extent is not None:
            facts.bind(r.var, r.start, r.extent)
    return facts


def simplification_keeps_the_value(data):
    scope = data.draw(scopes())
    e = data.draw(index_exprs(scope))
    simple = facts_of(scope).simplify(e)
    for _ in range(3):
        values = data.draw(values_in(scope))
        assert evaluate_expr(simple, values) == evaluate_expr(e, values)


test_simplification_keeps_the_value, test_simplification_keeps_the_value_slow = fast_and_slow(
    simplification_keeps_the_value, fast=250
)


def simplification_of_a_condition_keeps_its_truth(data):
    scope = data.draw(scopes())
    e = data.draw(conditions(scope))
    simple = facts_of(scope).simplify(e)
    for _ in range(3):
        values = data.draw(values_in(scope))
        assert evaluate_expr(simple, values) == evaluate_expr(e, values)


(
    test_simplification_of_a_condition_keeps_its_truth,
    test_simplification_of_a_condition_keeps_its_truth_slow,
) = fast_and_slow(simplification_of_a_condition_keeps_its_truth, fast=200)


def simplification_under_assumptions_keeps_the_value(data):
    scope = data.draw(scopes())
    values = data.draw(values_in(scope))
    facts = facts_of(scope)
    for _ in range(data.draw(st.integers(1, 2))):
        assumed = data.draw(conditions(scope, depth=1))
        if evaluate_expr(assumed, values):
            facts.assume(assumed)
    e = data.draw(index_exprs(scope))
    assert evaluate_expr(facts.simplify(e), values) == evaluate_expr(e, values)
    assert facts.bounds(e).contains(int(evaluate_expr(e, values)))
    claim = data.draw(conditions(scope, depth=1))
    assert facts.prove(claim) in (None, evaluate_expr(claim, values))


(
    test_simplification_under_assumptions_keeps_the_value,
    test_simplification_under_assumptions_keeps_the_value_slow,
) = fast_and_slow(simplification_under_assumptions_keeps_the_value, fast=150)


def simplification_is_idempotent(data):
    scope = data.draw(scopes())
    e = data.draw(index_exprs(scope))
    simple = facts_of(scope).simplify(e)
    assert facts_of(scope).simplify(simple) is simple


test_simplification_is_idempotent, test_simplification_is_idempotent_slow = fast_and_slow(
    simplification_is_idempotent, fast=200
)


def simplification_of_elements_keeps_the_value(data):
    """Fixed widths wrap and floats have NaN: what holds of whole numbers must not be used."""
    variables = data.draw(scalar_variables())
    e = data.draw(scalar_exprs(variables))
    simple = simplify(e)
    for _ in range(2):
        values = {v: data.draw(scalar_values(v.dtype)) for v in variables}
        assert same_bits(evaluate_expr(simple, values), evaluate_expr(e, values))


(
    test_simplification_of_elements_keeps_the_value,
    test_simplification_of_elements_keeps_the_value_slow,
) = fast_and_slow(simplification_of_elements_keeps_the_value, fast=200)


def agrees(value: int, congruence: Congruence) -> bool:
    if congruence.modulus == 0:  # one value only
        return value == congruence.residue
    return value % congruence.modulus == congruence.residue


def bounds_and_congruence_hold(data):
    scope = data.draw(scopes())
    e = data.draw(index_exprs(scope))
    facts = facts_of(scope)
    bounds, congruence = facts.bounds(e), facts.congruence(e)
    for _ in range(3):
        value = int(evaluate_expr(e, data.draw(values_in(scope))))
        assert bounds.low is None or bounds.low <= value
        assert bounds.high is None or value <= bounds.high
        assert agrees(value, congruence)


test_bounds_and_congruence_hold, test_bounds_and_congruence_hold_slow = fast_and_slow(
    bounds_and_congruence_hold, fast=200
)


def bounds_hold_for_fixed_widths(data):
    variables = data.draw(scalar_variables())
    e = data.draw(scalar_exprs(variables, data.draw(int_dtypes)))
    facts = Analyzer()
    bounds, congruence = facts.bounds(e), facts.congruence(e)
    values = {v: data.draw(scalar_values(v.dtype)) for v in variables}
    value = int(evaluate_expr(e, values))
    assert bounds.low is None or bounds.low <= value
    assert bounds.high is None or value <= bounds.high
    assert agrees(value, congruence)


test_bounds_hold_for_fixed_widths, test_bounds_hold_for_fixed_widths_slow = fast_and_slow(
    bounds_hold_for_fixed_widths, fast=150
)


def a_proof_is_never_wrong(data):
    scope = data.draw(scopes())
    claim = data.draw(conditions(scope))
    proven = facts_of(scope).prove(claim)
    for _ in range(3):
        truth = evaluate_expr(claim, data.draw(values_in(scope)))
        assert proven in (None, truth)


test_a_proof_is_never_wrong, test_a_proof_is_never_wrong_slow = fast_and_slow(
    a_proof_is_never_wrong, fast=250
)
