"""Strategies for index expressions and conditions, of the shapes that compilers make.

No expression divides by zero or leaves 48 bits for any values inside the ranges of its scope.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

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

_small = st.integers(-8, 32).map(const)
_factor = st.sampled_from(FACTORS).map(const)


@st.composite
def index_exprs(draw: st.DrawFn, scope: Scope, depth: int = 3) -> Expr:
    """An affine or quasi-affine expression over the variables of `scope`."""
    if depth == 0:
        return draw(_leaves(scope))
    pick = draw(st.integers(0, 11))
    if pick <= 1:
        return draw(_leaves(scope))
    if pick <= 5:
        return draw(_patterns(scope, depth))
    return _bounded(draw, draw(_operations(scope, depth)), scope)


def _leaves(scope: Scope) -> st.SearchStrategy[Expr]:
    variables = [r.var for r in scope]
    return st.one_of(st.sampled_from(variables), _small) if variables else _small


@st.composite
def divisors(draw: st.DrawFn, scope: Scope) -> Expr:
    """Something that is never zero: mostly a factor, sometimes a dimension or a negative number."""
    dims: list[Expr] = [r.var for r in scope if r.extent is None]
    pick = draw(st.integers(0, 9))
    if pick >= 8 and dims:
        dim = draw(st.sampled_from(dims))
        return dim if pick == 8 else dim * draw(_factor)
    if pick == 7:
        return const(-draw(st.sampled_from(FACTORS)))
    return draw(_factor)


@st.composite
def _patterns(draw: st.DrawFn, scope: Scope, depth: int) -> Expr:
    """Splits, fusions and tails."""
    i = draw(index_exprs(scope, depth - 1))
    j = draw(index_exprs(scope, 0))
    c = draw(st.one_of(_factor, divisors(scope)))
    build: Callable[[Expr, Expr, Expr], Expr] = draw(st.sampled_from(PATTERNS))
    return _bounded(draw, build(i, j, c), scope)


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


@st.composite
def _operations(draw: st.DrawFn, scope: Scope, depth: int) -> Expr:
    a = draw(index_exprs(scope, depth - 1))
    pick = draw(st.integers(0, 11))
    if pick <= 4:
        b = draw(index_exprs(scope, draw(st.integers(0, depth - 1))))
        return (a + b, a - b, Min(a, b), Max(a, b), a + b)[pick]
    if pick == 5:
        return a * draw(_leaves(scope))
    if pick == 6:
        return Neg(a)
    if pick == 7:
        b = draw(index_exprs(scope, 0))
        return Select(draw(conditions(scope, depth - 1)), a, b)
    c = draw(divisors(scope))
    return (a // c, a % c, TruncDiv(a, c), TruncMod(a, c))[pick - 8]


_COMPARES: tuple[type[Compare], ...] = (Lt, Le, Eq, Ne)


@st.composite
def conditions(draw: st.DrawFn, scope: Scope, depth: int = 2) -> Expr:
    """Comparisons of index expressions, and what ``and``, ``or`` and ``not`` make of them."""
    pick = draw(st.integers(0, 7)) if depth > 0 else 0
    if pick <= 4:
        a = draw(index_exprs(scope, max(depth, 0)))
        b = draw(st.one_of(_leaves(scope), index_exprs(scope, max(depth - 1, 0))))
        return draw(st.sampled_from(_COMPARES))(a, b)
    a = draw(conditions(scope, depth - 1))
    if pick == 7:
        return Not(a)
    b = draw(conditions(scope, depth - 1))
    return a & b if pick == 5 else a | b


def _bounded(draw: st.DrawFn, e: Expr, scope: Scope) -> Expr:
    """`e`, or where it could come to too much, its remainder."""
    return e if magnitude(e) <= LARGEST else e % draw(_factor)


def magnitude(e: Expr) -> int:
    """No value of `e` is further from zero than this, nor are those of its operands."""
    return int(fold(e, _Magnitude(), {}))


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
