"""Conditions that many rewrite rules share."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.arith import Analyzer
from tensorsmith.graph.patterns import Match
from tensorsmith.ir import Buffer, Const, Expr, as_expr


def same_shape(a: Buffer, b: Buffer) -> bool:
    """Whether two tensors are known to have one shape."""
    facts = Analyzer()
    return a.rank == b.rank and all(
        facts.equal(p, q) for p, q in zip(a.shape, b.shape, strict=True)
    )


def keeps_shape(m: Match) -> bool:
    """Whether the result has the shape of x."""
    return same_shape(m["x"], m.result)


def is_const(e: object, value: int) -> bool:
    """Whether an attribute or extent is known to be `value`."""
    found = Analyzer().simplify(as_expr(e)) if isinstance(e, (Expr, int)) else None
    return isinstance(found, Const) and found.value == value


def all_const(values: Sequence[object], value: int) -> bool:
    """Whether all of them are known to be `value`."""
    return all(is_const(e, value) for e in values)


def reshaped(m: Match) -> Buffer:
    """x by the shape of the result."""
    return m.apply("reshape", m["x"], shape=m.result.shape)
