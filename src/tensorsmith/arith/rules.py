"""What the simplifier claims, as data.

Each rule is an identity between two expressions under a condition. The code that applies it names
it; here it is stated so that it can be checked without that code: by an SMT solver over all
integers, by random values, and by asking that the simplifier gives both sides one canonical form
(`tests/arith/test_rules.py`). Divisors and other parameters that the code takes as constants are
constants here too: a rule is a function of them, with values to check it at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from tensorsmith.ir.dtype import bool_, float32, int8, uint8
from tensorsmith.ir.expr import (
    Add,
    And,
    BitAnd,
    BitNot,
    BitOr,
    Cast,
    Const,
    Div,
    Eq,
    Expr,
    ExprLike,
    Le,
    Lt,
    Max,
    Min,
    Mul,
    Ne,
    Neg,
    Not,
    Or,
    Reinterpret,
    Select,
    ShiftLeft,
    ShiftRight,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    as_expr,
)

Sides: TypeAlias = tuple[ExprLike, ExprLike] | tuple[ExprLike, ExprLike, ExprLike]
"""Left side, right side, and the condition under which they are equal (True if left out)."""

x: Final = Var("x")
y: Final = Var("y")
z: Final = Var("z")
n: Final = Var("n", low=1)
m: Final = Var("m", low=1)
p: Final = Var("p", bool_)
q: Final = Var("q", bool_)
u: Final = Var("u", uint8)
s: Final = Var("s", int8)
f: Final = Var("f", float32)


@dataclass(frozen=True, slots=True)
class Rule:
    """An identity. `sides` maps constants to its sides; `at` lists the constants to check it at."""

    name: str
    sides: Callable[..., Sides]
    at: tuple[tuple[int, ...], ...] = ((),)

    def instances(self) -> list[tuple[Expr, Expr, Expr]]:
        """(left, right, condition) for each choice of constants."""
        found = []
        for constants in self.at:
            left, right, *condition = self.sides(*constants)
            a, b = as_expr(left), as_expr(right)
            found.append((a, b, as_expr(condition[0] if condition else True)))
        return found


_DIVISORS: Final = ((2,), (3,), (4,), (7,), (16,))
_PAIRS: Final = ((2, 2), (2, 3), (3, 2), (4, 6), (5, 4), (8, 8))

POLYNOMIAL: Final = (
    Rule("sum-commutes", lambda: (x + y, y + x)),
    Rule("sum-associates", lambda: ((x + y) + z, x + (y + z))),
    Rule("sum-collects", lambda a, b: (x * a + x * b, x * (a + b)), ((1, 1), (2, -3), (4, -4))),
    Rule("sum-cancels", lambda: (x + y - x, y)),
    Rule("neg-as-product", lambda: (Neg(x), x * -1)),
    Rule("product-commutes", lambda: (x * y, y * x)),
    Rule("product-associates", lambda: ((x * y) * z, x * (y * z))),
    Rule("product-distributes", lambda: ((x + 3) * (y - 2), x * y - x * 2 + y * 3 - 6)),
)
"""The normal form of sums and products (`arith.polynomial`)."""

DIVISION: Final = (
    Rule("div-one", lambda: (x // 1, x)),
    Rule("div-self", lambda: (x // x, 1, Ne(x, as_expr(0)))),
    Rule("div-negative", lambda c: (x // -c, (-x) // c), _DIVISORS),
    Rule("div-split", lambda c, k: ((x * (c * k) + y) // c, x * k + y // c), _PAIRS),
    Rule("div-split-coefficient", lambda c: ((x * (c + 1)) // c, x + x // c), _DIVISORS),
    Rule("div-offset", lambda c: ((x + c) // c, x // c + 1), _DIVISORS),
    Rule("div-gcd", lambda g, c: ((x * g + (g - 1)) // (g * c), x // c), _PAIRS),
    Rule(
        "div-small",
        lambda c: (x // c, 0, And(Le(as_expr(0), x), Lt(x, as_expr(c)))),
        _DIVISORS,
    ),
    Rule(
        "div-drop-small",
        lambda g, c: ((x * g + y) // (g * c), x // c, And(Le(as_expr(0), y), Lt(y, as_expr(g)))),
        _PAIRS,
    ),
    Rule("div-div", lambda c, d: ((x // d + 1) // c, (x + d) // (c * d)), _PAIRS),
    Rule("div-mod", lambda c, m: ((x % (c * m)) // c, x // c % m), _PAIRS),
    Rule(
        "div-symbolic",
        lambda: ((x * n + y) // n, x, And(Le(as_expr(0), y), Lt(y, n))),
    ),
    Rule("div-symbolic-split", lambda: ((x * n + y) // n, x + y // n)),
    Rule("div-div-symbolic", lambda: ((x // n + 3) // m, (x + n * 3) // (n * m))),
    Rule("div-div-by-constant", lambda c: ((x // n + 1) // c, (x + n) // (n * c)), _DIVISORS),
    Rule("div-mod-symbolic", lambda: ((x % (n * m)) // n, x // n % m)),
    Rule(
        "div-drop-small-symbolic",
        lambda: ((x * n + y) // (n * m), x // m, And(Le(as_expr(0), y), Lt(y, n))),
    ),
    Rule(
        "div-drop-small-constant",
        lambda c: ((x * c + y) // (n * c), x // n, And(Le(as_expr(0), y), Lt(y, as_expr(c)))),
        _DIVISORS,
    ),
    Rule("mod-one", lambda: (x % 1, 0)),
    Rule("mod-self", lambda: (x % x, 0, Ne(x, as_expr(0)))),
    Rule("mod-negative", lambda c: (x % -c, -((-x) % c)), _DIVISORS),
    Rule("mod-split", lambda c, k: ((x * (c * k) + y) % c, y % c), _PAIRS),
    Rule("mod-offset", lambda c: ((x + c) % c, x % c), _DIVISORS),
    Rule("mod-gcd", lambda g, c: ((x * g + (g - 1)) % (g * c), x % c * g + (g - 1)), _PAIRS),
    Rule(
        "mod-small",
        lambda c: ((x + c) % c, x, And(Le(as_expr(0), x), Lt(x, as_expr(c)))),
        _DIVISORS,
    ),
    Rule(
        "mod-small-part",
        lambda g, c: (
            (x * g + y) % (g * c),
            x % c * g + y,
            And(Le(as_expr(0), y), Lt(y, as_expr(g))),
        ),
        _PAIRS,
    ),
    Rule("mod-mod", lambda c, m: ((x % (c * m) + y) % c, (x + y) % c), _PAIRS),
    Rule("mod-mod-scaled", lambda c, m: ((x % m * c + y) % (c * m), (x * c + y) % (c * m)), _PAIRS),
    Rule("mod-known", lambda c, m: (x % c, 0, Eq(x % (c * m), as_expr(0))), _PAIRS),
    Rule("mod-symbolic", lambda: ((x * n + y) % n, y, And(Le(as_expr(0), y), Lt(y, n)))),
    Rule("mod-mod-symbolic", lambda: ((x % (n * m) + y) % n, (x + y) % n)),
    Rule(
        "mod-small-part-symbolic",
        lambda: ((x * n + y) % (n * m), x % m * n + y, And(Le(as_expr(0), y), Lt(y, n))),
    ),
    Rule("merge-div-mod", lambda c: (x // c * c + x % c, x), _DIVISORS),
    Rule("merge-div-mod-symbolic", lambda: (x // n * n + x % n, x)),
    Rule("merge-mod-mod", lambda c, m: (x // c % m * c + x % c, x % (c * m)), _PAIRS),
    Rule("merge-mod-mod-symbolic", lambda: (x // n % m * n + x % n, x % (n * m))),
    Rule("div-exact", lambda c: (x // c * c, x, Eq(x % c, as_expr(0))), _DIVISORS),
    Rule("trunc-div", lambda c: (TruncDiv(x, as_expr(c)), x // c, Le(as_expr(0), x)), _DIVISORS),
    Rule("trunc-mod", lambda c: (TruncMod(x, as_expr(c)), x % c, Le(as_expr(0), x)), _DIVISORS),
)
"""Quotients and remainders (`arith.divide`)."""

ORDERING: Final = (
    Rule("min-same", lambda: (Min(x, x), x)),
    Rule("min-dominated", lambda: (Min(x, x + 1), x)),
    Rule("min-facts", lambda: (Min(x, y), x, Le(x, y))),
    Rule("min-commutes", lambda: (Min(x, y), Min(y, x))),
    Rule("min-nested", lambda: (Min(Min(x, y), Min(y, z)), Min(Min(x, y), z))),
    Rule("min-common", lambda: (Min(x + z, y + z), Min(x, y) + z)),
    Rule("max-dominated", lambda: (Max(x, x - 1), x)),
    Rule("max-facts", lambda: (Max(x, y), y, Le(x, y))),
    Rule("max-common", lambda: (Max(x + z, y + z), Max(x, y) + z)),
    Rule("lt-as-le", lambda: (Lt(x, y), Le(x + 1, y))),
    Rule("le-gathers", lambda: (Le(x + z, y + z), Le(x, y))),
    Rule("le-gcd", lambda c: (Le(x * c, y * c + (c - 1)), Le(x, y)), _DIVISORS),
    Rule("le-quotient", lambda c: (Le(as_expr(3), x // c), Le(as_expr(3 * c), x)), _DIVISORS),
    Rule("quotient-le", lambda c: (Le(x // c, as_expr(3)), Lt(x, as_expr(4 * c))), _DIVISORS),
    Rule("eq-gathers", lambda: (Eq(x + z, y + z), Eq(x, y))),
    Rule("eq-symmetric", lambda: (Eq(x, y), Eq(y, x))),
    Rule("eq-gcd", lambda c: (Eq(x * c, y * c + 1), False), _DIVISORS),
    Rule("eq-scaled", lambda c: (Eq(x * c, y * c), Eq(x, y)), _DIVISORS),
    Rule("ne-gcd", lambda c: (Ne(x * c, y * c + 1), True), _DIVISORS),
)
"""Minima, maxima, comparisons (`arith.order`)."""

LOGIC: Final = (
    Rule("not-not", lambda: (Not(Not(p)), p)),
    Rule("not-lt", lambda: (Not(Lt(x, y)), Le(y, x))),
    Rule("not-le", lambda: (Not(Le(x, y)), Lt(y, x))),
    Rule("not-eq", lambda: (Not(Eq(x, y)), Ne(x, y))),
    Rule("not-and", lambda: (Not(And(Lt(x, y), Lt(y, z))), Or(Le(y, x), Le(z, y)))),
    Rule("not-or", lambda: (Not(Or(Lt(x, y), Lt(y, z))), And(Le(y, x), Le(z, y)))),
    Rule("and-true", lambda: (And(p, as_expr(True)), p)),
    Rule("and-false", lambda: (And(as_expr(False), p), False)),
    Rule("and-false-last", lambda: (And(Lt(x, y), as_expr(False)), False)),
    Rule("and-same", lambda: (And(And(p, q), p), And(p, q))),
    Rule("and-opposite", lambda: (And(Lt(x, y), Le(y, x)), False)),
    Rule("and-implied", lambda: (And(Lt(x, y), Lt(x, y + 3)), Lt(x, y))),
    Rule("or-false", lambda: (Or(p, as_expr(False)), p)),
    Rule("or-true", lambda: (Or(as_expr(True), p), True)),
    Rule("or-true-last", lambda: (Or(Le(x, y), as_expr(True)), True)),
    Rule("or-same", lambda: (Or(Or(p, q), p), Or(p, q))),
    Rule("or-opposite", lambda: (Or(Lt(x, y), Le(y, x)), True)),
    Rule("or-implied", lambda: (Or(Lt(x, y), Lt(x, y + 3)), Lt(x, y + 3))),
    Rule("select-same", lambda: (Select(p, x, x), x)),
    Rule("select-true", lambda: (Select(as_expr(True), x, y), x)),
    Rule("select-false", lambda: (Select(as_expr(False), x, y), y)),
    Rule("select-not", lambda: (Select(Not(p), x, y), Select(p, y, x))),
    Rule("select-bool", lambda: (Select(p, as_expr(True), as_expr(False)), p)),
    Rule("select-bool-not", lambda: (Select(Lt(x, y), as_expr(False), as_expr(True)), Le(y, x))),
)
"""Conditions and selections (`arith.logic`)."""


def _wrapping(v: Var) -> tuple[Rule, ...]:
    """The rules of a fixed-width integer type, stated for the variable `v` of it."""
    t = v.dtype
    zero, one, two = Const(0, t), Const(1, t), Const(2, t)
    return (
        Rule("wrap-add-zero", lambda: (Add(v, zero), v)),
        Rule("wrap-sub-zero", lambda: (Sub(v, zero), v)),
        Rule("wrap-sub-self", lambda: (Sub(v, v), zero)),
        Rule("wrap-mul-one", lambda: (Mul(one, v), v)),
        Rule("wrap-mul-zero", lambda: (Mul(v, zero), zero)),
        Rule("wrap-neg-neg", lambda: (Neg(Neg(v)), v)),
        Rule("wrap-div-one", lambda: (v // one, v)),
        Rule("wrap-mod-one", lambda: (v % one, zero)),
        Rule("wrap-trunc-div-one", lambda: (TruncDiv(v, one), v)),
        Rule("wrap-trunc-mod-one", lambda: (TruncMod(v, one), zero)),
        Rule("wrap-min-same", lambda: (Min(v, v), v)),
        Rule("wrap-max-limit", lambda: (Max(v, Const(t.min_value, t)), v)),
        Rule("wrap-compare-same", lambda: (Lt(v, v), False)),
        Rule("wrap-compare-limit", lambda: (Le(v, Const(t.max_value, t)), True)),
        Rule("wrap-not-lt", lambda: (Not(Lt(v, two)), Le(two, v))),
        Rule("bit-and-same", lambda: (BitAnd(v, v), v)),
        Rule("bit-or-same", lambda: (BitOr(v, v), v)),
        Rule("bit-not-not", lambda: (BitNot(BitNot(v)), v)),
        Rule("shift-left-zero", lambda: (ShiftLeft(v, zero), v)),
        Rule("shift-right-zero", lambda: (ShiftRight(v, zero), v)),
    )


SCALAR: Final = (*_wrapping(u), *_wrapping(s))
"""Fixed-width integers, which wrap (`arith.scalar`)."""

CASTS: Final = (
    Rule("cast-same", lambda: (Cast(u, uint8), u)),
    Rule("cast-back", lambda: (Cast(Cast(u, x.dtype), uint8), u)),
    Rule("reinterpret-back", lambda: (Reinterpret(Reinterpret(u, int8), uint8), u)),
)
"""Conversions (`arith.scalar`)."""

FLOAT: Final = (
    Rule("float-add-negative-zero", lambda: (Add(f, Const(-0.0, float32)), f)),
    Rule("float-sub-zero", lambda: (Sub(f, Const(0.0, float32)), f)),
    Rule("float-mul-one", lambda: (Mul(f, Const(1.0, float32)), f)),
    Rule("float-div-one", lambda: (Div(f, Const(1.0, float32)), f)),
    Rule("float-neg-neg", lambda: (Neg(Neg(f)), f)),
    Rule("float-min-same", lambda: (Min(f, f), f)),
)
"""Floats: equal bit for bit, for all values including NaN and both zeros (`arith.scalar`)."""

INTEGER_RULES: Final = (*POLYNOMIAL, *DIVISION, *ORDERING, *LOGIC, *SCALAR, *CASTS)
RULES: Final = (*INTEGER_RULES, *FLOAT)
"""Every rule."""
