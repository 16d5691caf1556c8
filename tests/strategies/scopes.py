"""Strategies for what index expressions are over: variables, their ranges and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from strategies.reference import evaluate_expr
from tensorsmith.ir import Expr, Var, const

LARGEST_DIM = 24
"""A symbolic dimension without an upper bound takes values up to this one."""


@dataclass(frozen=True, slots=True)
class Range:
    """A variable with ``start <= var < start + extent``; extent None: only the facts on `var` hold.

    `start` and `extent` may use the variables of earlier ranges. Extents are at least 1.
    """

    var: Var
    start: Expr
    extent: Expr | None


Scope = tuple[Range, ...]
"""Ranges in order of dependence."""


@st.composite
def dims(draw: st.DrawFn, name: str = "n", largest: int = LARGEST_DIM) -> Var:
    """A symbolic dimension of at least 1, sometimes with a bound or a known divisor."""
    multiple_of = draw(st.sampled_from((1, 1, 1, 2, 4, 8)))
    low = draw(st.sampled_from((1, 1, 2, multiple_of)))
    high = draw(st.sampled_from((None, None, largest)))
    return Var(name, low=low, high=high, multiple_of=multiple_of)


def dim_values(dim: Var, largest: int = LARGEST_DIM) -> st.SearchStrategy[int]:
    """A value that the facts on `dim` allow."""
    low = 0 if dim.low is None else dim.low
    high = max(largest, low) if dim.high is None else dim.high
    step = dim.multiple_of
    first = -(-low // step)
    return st.integers(first, max(first, high // step)).map(lambda k: k * step)


@st.composite
def scopes(draw: st.DrawFn, max_dims: int = 2, max_loops: int = 3) -> Scope:
    """Some symbolic dimensions, then some loops over constant and symbolic extents."""
    rank = draw(st.integers(0, max_dims))
    ranges = [Range(draw(dims(name)), const(0), None) for name in "nmk"[:rank]]
    extents: list[Expr] = [r.var for r in ranges]
    for d in range(draw(st.integers(1, max_loops))):
        extent = draw(st.sampled_from([*map(const, (4, 1, 3, 16, 7)), *extents]))
        start = draw(st.sampled_from((0, 0, 0, 2, -3, 8)))
        loop = Range(Var("ijl"[d]), const(start), extent)
        ranges.append(loop)
        if start == 0 and draw(st.integers(0, 5)) == 5:  # later loops may be triangular
            extents.append(loop.var + 1)
    return tuple(ranges)


@st.composite
def values_in(draw: st.DrawFn, scope: Scope) -> Mapping[Var, int]:
    """A value inside its range for every variable of `scope`."""
    values: dict[Var, int] = {}
    for r in scope:
        if r.extent is None:
            values[r.var] = draw(dim_values(r.var))
        else:
            low = int(evaluate_expr(r.start, values))
            extent = int(evaluate_expr(r.extent, values))
            values[r.var] = draw(st.integers(low, low + extent - 1))
    return values
