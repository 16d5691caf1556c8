"""Index expressions evaluated at every point of a small domain: the oracle of index-map tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tensorsmith.ir import expr as ir
from tensorsmith.ir.expr import Expr, Var
from tensorsmith.ir.fold import fold

Points = dict[Expr, np.ndarray]


def _binary(function):
    return lambda e, a, b: function(a, b)


TABLE = {
    ir.Const: lambda e: np.asarray(e.value),
    ir.Add: _binary(np.add),
    ir.Sub: _binary(np.subtract),
    ir.Mul: _binary(np.multiply),
    ir.FloorDiv: _binary(np.floor_divide),
    ir.FloorMod: _binary(np.mod),
    ir.Min: _binary(np.minimum),
    ir.Max: _binary(np.maximum),
    ir.Lt: _binary(np.less),
    ir.Le: _binary(np.less_equal),
    ir.Eq: _binary(np.equal),
    ir.Ne: _binary(np.not_equal),
    ir.And: _binary(np.logical_and),
    ir.Or: _binary(np.logical_or),
    ir.Neg: lambda e, a: -a,
    ir.Not: lambda e, a: ~a,
    ir.Select: lambda e, c, a, b: np.where(c, a, b),
}


def evaluate(e: Expr, points: Mapping[Expr, np.ndarray]) -> np.ndarray:
    """`e` at each of the points."""
    count = len(next(iter(points.values()))) if points else 1
    return np.broadcast_to(fold(e, TABLE, dict(points)), (count,))


def box(ranges: Mapping[Var, tuple[int, int]]) -> Points:
    """All points of a box of starts and extents."""
    axes = [np.arange(start, start + extent) for start, extent in ranges.values()]
    grid = np.meshgrid(*axes, indexing="ij") if axes else []
    return dict(zip(ranges, (g.reshape(-1) for g in grid), strict=True))


def where(points: Points, condition: Expr) -> Points:
    """The points at which the condition holds."""
    kept = evaluate(condition, points)
    return {v: values[kept] for v, values in points.items()}


def rows(columns: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
    """The points as tuples."""
    return [tuple(row) for row in np.stack(columns, axis=1).tolist()] if columns else []
