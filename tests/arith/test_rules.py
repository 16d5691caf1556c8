"""Every rule that the simplifier applies: proved, tried at random, and seen to be applied."""

from __future__ import annotations

import math
import random
import struct

import numpy as np
import pytest

from arith.smt import proves
from tensorsmith.arith import Analyzer
from tensorsmith.arith.rules import FLOAT, INTEGER_RULES, RULES, Rule
from tensorsmith.ir.expr import Const, Expr, Var, as_expr, free_vars, substitute

CASES = [
    pytest.param(rule, *instance, id=f"{rule.name}-{number}")
    for rule in RULES
    for number, instance in enumerate(rule.instances())
]
INTEGER_CASES = [c for c in CASES if c.values[0] in INTEGER_RULES]
FLOAT_CASES = [c for c in CASES if c.values[0] in FLOAT]


@pytest.mark.parametrize(("rule", "left", "right", "condition"), INTEGER_CASES)
def test_a_solver_proves_it(rule: Rule, left: Expr, right: Expr, condition: Expr) -> None:
    assert proves(condition, left, right), rule.name


def test_the_solver_refuses_a_false_rule() -> None:
    x = Var("x")
    assert not proves(as_expr(True), x // 2 * 2, x)


@pytest.mark.parametrize(("rule", "left", "right", "condition"), CASES)
def test_the_simplifier_applies_it(rule: Rule, left: Expr, right: Expr, condition: Expr) -> None:
    facts = Analyzer()
    facts.assume(condition)
    assert facts.simplify(left) is facts.simplify(right), rule.name


@pytest.mark.parametrize(("rule", "left", "right", "condition"), INTEGER_CASES)
def test_random_values_agree(rule: Rule, left: Expr, right: Expr, condition: Expr) -> None:
    """Constant folding computes both sides; it is checked against NumPy on its own."""
    choose = random.Random(rule.name)
    tried = 0
    for _ in range(700):
        values = {v: _value(v, choose) for v in free_vars(left, right, condition)}
        sides = [_folded(e, values) for e in (condition, left, right)]
        if any(type(e) is not Const for e in sides):  # a division by zero
            continue
        if sides[0].attr:
            tried += 1
            assert sides[1] is sides[2], values
    assert tried >= 5


def _folded(e: Expr, values: dict[Expr, Expr]) -> Expr:
    return Analyzer().simplify(substitute(e, values))


def _value(v: Var, choose: random.Random) -> Const:
    if v.dtype.name == "bool":
        return Const(choose.random() < 0.5, v.dtype)
    if v.dtype.name == "index":
        low = -40 if v.low is None else v.low
        return Const(choose.randint(low, 40), v.dtype)
    return Const(choose.randint(v.dtype.min_value, v.dtype.max_value), v.dtype)


SPECIAL = [0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 1e-45, 3.4028235e38]


@pytest.mark.parametrize(("rule", "left", "right", "condition"), FLOAT_CASES)
@pytest.mark.parametrize("value", SPECIAL)
def test_floats_agree_bit_for_bit(
    rule: Rule, left: Expr, right: Expr, condition: Expr, value: float
) -> None:
    assert condition is Const(True, condition.dtype)
    with np.errstate(all="ignore"):
        a, b = (_float_value(e, np.float32(value)) for e in (left, right))
    assert _bits(a) == _bits(b), rule.name


def _float_value(e: Expr, f: np.float32) -> np.float32:
    args = [_float_value(a, f) for a in e.args]
    if isinstance(e, Var):
        return f
    if isinstance(e, Const):
        return np.float32(e.value)
    operations = {
        "Add": np.add,
        "Sub": np.subtract,
        "Mul": np.multiply,
        "Div": np.divide,
        "Neg": np.negative,
        "Min": np.minimum,
    }
    return np.float32(operations[type(e).__name__](*args))


def _bits(value: np.float32) -> bytes:
    return b"nan" if np.isnan(value) else struct.pack("<f", value)


def test_names_are_unique_within_a_type() -> None:
    named = [(r.name, str(free_vars(*r.instances()[0][:2]))) for r in RULES]
    assert len(set(named)) == len(named)
