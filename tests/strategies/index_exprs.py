"""Strategies for index expressions and conditions, of the shapes that compilers make.

No expression divides by zero or leaves 48 bits for any values inside the ranges of its scope.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from strategies.picking import pick
from strategies.scopes import LARGEST_DIM, Scope
from tensorsmith.ir import (
    Compare,
    Const,
    Eq,
    Expr,
    Le,
    Lt,
    Max,
    Min,
    Ne,
    Neg,
    Not,
    Select,
    TruncDiv,
    TruncMod,
    Var,
    const,
)
from tensorsmith.ir.fold import fold

FACTORS = (2, 4, 8, 3, 16, 1, 5, 64)
LARGEST = 1 << 48
"""Of what an expression can come to."""


@st.composite
def index_exprs(draw: st.DrawFn, scope: Scope, depth: int = 3) -> Expr:
    """An affine or quasi-affine expression over the variables of `scope`."""
    return _index(draw, scope, depth)


def _index(draw: st.DrawFn, scope: Scope, depth: int) -> Expr:
    if depth == 0:
        return _leaf(draw, scope)
    kind = draw(st.integers(0, 11))
    if kind <= 1:
        return _leaf(draw, scope)
    if kind <= 5:
        return _patterns(draw, scope, depth)
    return _bounded(draw, _operations(draw, scope, depth))


def _leaf(draw: st.DrawFn, scope: Scope) -> Expr:
    if scope and draw(st.integers(0, 2)) < 2:
        return pick(draw, scope).var
    return const(draw(st.integers(-8, 32)))


def _divisor(draw: st.DrawFn, scope: Scope) -> Expr:
    """Something that is never zero: mostly a factor, sometimes a dimension or a negative number."""
    dims: list[Expr] = [r.var for r in scope if r.extent is None]
    kind = draw(st.integers(0, 9))
    if kind >= 8 and dims:
        dim = pick(draw, dims)
        return dim if kind == 8 else dim * pick(draw, FACTORS)
    return const(-pick(draw, FACTORS) if kind == 7 else pick(draw, FACTORS))


def _patterns(draw: st.DrawFn, scope: Scope, depth: int) -> Expr:
    """Splits, fusions and tails."""
    i = _index(draw, scope, depth - 1)
    j = _index(draw, scope, 0)
    c = _divisor(draw, scope)
    return _bounded(draw, pick(draw, PATTERNS)(i, j, c))


PATTERNS: tuple[Callable[[Expr, Expr, Expr], Expr], ...] = (
    lambda i, j, c: i * c + j,
    lambda i, j, c: (i * c + j) // c,
    lambda i, j, c: (i * c + j) % c,
    lambda i, j, c: i // c * c + i % c,
    lambda i, j, c: i // c * c,
    lambda i, j, c: (i + c - 1) // c,
    lambda i, j, c: (i + c - 1) // c * c - i,
    lambda i, j, c: (i * c + j % c) // c,
    lambda i, j, c: (i % (c * 4)) // c,
    lambda i, j, c: i // c // 4,
    lambda i, j, c: (i // c) % 4 * c + i % c,
    lambda i, j, c: (i * 2 * c + j) // (c * 2),
    lambda i, j, c: (i * c + j * (c * 3)) % c,
    lambda i, j, c: Min(c, j - i * c),
    lambda i, j, c: Max(Min(i + j, c - 1), const(0)),
    lambda i, j, c: (i + j) - (i - j),
    lambda i, j, c: (i * c - j * c) // c,
)


def _operations(draw: st.DrawFn, scope: Scope, depth: int) -> Expr:
    a = _index(draw, scope, depth - 1)
    kind = draw(st.integers(0, 11))
    if kind <= 4:
        b = _index(draw, scope, draw(st.integers(0, depth - 1)))
        return (a + b, a - b, Min(a, b), Max(a, b), a + b)[kind]
    if kind == 5:
        return a * _leaf(draw, scope)
    if kind == 6:
        return Neg(a)
    if kind == 7:
        b = _index(draw, scope, 0)
        return Select(_condition(draw, scope, depth - 1), a, b)
    c = _divisor(draw, scope)
    return (a // c, a % c, TruncDiv(a, c), TruncMod(a, c))[kind - 8]


_COMPARES: tuple[type[Compare], ...] = (Lt, Le, Eq, Ne)


@st.composite
def conditions(draw: st.DrawFn, scope: Scope, depth: int = 2) -> Expr:
    """Comparisons of index expressions, and what ``and``, ``or`` and ``not`` make of them."""
    return _condition(draw, scope, depth)


def _condition(draw: st.DrawFn, scope: Scope, depth: int) -> Expr:
    kind = draw(st.integers(0, 7)) if depth > 0 else 0
    if kind <= 4:
        a = _index(draw, scope, max(depth, 0))
        b = _index(draw, scope, max(depth - 1, 0))
        return pick(draw, _COMPARES)(a, b)
    a = _condition(draw, scope, depth - 1)
    if kind == 7:
        return Not(a)
    b = _condition(draw, scope, depth - 1)
    return a & b if kind == 5 else a | b


def _bounded(draw: st.DrawFn, e: Expr) -> Expr:
    """`e`, or where it could come to too much, its remainder."""
    return e if magnitude(e) <= LARGEST else e % pick(draw, FACTORS)


def magnitude(e: Expr) -> int:
    """No value of `e` is further from zero than this, nor are those of its operands."""
    return int(fold(e, _MAGNITUDES, {}))


def _product(e: Expr, a: int, b: int) -> int:
    return a * b


def _sum(e: Expr, *values: int) -> int:
    return sum(values)


def _greatest(e: Expr, *values: int) -> int:
    return max(values)


class _Magnitude(dict[type[Expr], Callable[..., int]]):
    """Bounds of magnitudes: sums and products of the operands', else the greatest of them."""

    def __init__(self) -> None:
        super().__init__()
        self[Var] = lambda e: 2 * LARGEST_DIM + 16
        self[Const] = lambda e: abs(int(e.value))

    def __missing__(self, op: type[Expr]) -> Callable[..., int]:
        name = op.__name__
        if name in ("Add", "Sub"):
            return _sum
        return _product if name == "Mul" else _greatest


_MAGNITUDES = _Magnitude()
