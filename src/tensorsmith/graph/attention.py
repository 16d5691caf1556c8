"""Rules about attention written out in operators: products with a softmax, and scales before it."""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorsmith.arith import Analyzer
from tensorsmith.graph.patterns import Anything, Array, Known, Match, Op
from tensorsmith.graph.rewrite import Rule
from tensorsmith.ir import Buffer

_x: Final = Anything("x")
_y: Final = Anything("y")

SMOOTH: Final = ("softmax", "erf", "tanh", "sigmoid", "gelu")
"""Operators whose results move as little as their operand does."""
MOST_EXPONENT: Final = 100
"""Of a power of two: the reciprocals of such numbers are no subnormal ones."""


def _has_reciprocal(array: Array) -> bool:
    """Whether a constant is one number whose reciprocal is rounded as any other result is."""
    if array.dtype.name not in ("float32", "float64") or array.size != 1:
        return False
    _, exponent = np.frexp(array)
    return bool(np.all(np.isfinite(array) & (array != 0) & (np.abs(exponent) < MOST_EXPONENT)))


_c: Final = Known("c", _has_reciprocal)


def _scaled(m: Match) -> Buffer:
    """x times the reciprocal of the constant."""
    data = m.array("c")
    return m.apply("mul", m["x"], m.constant((1 / data).astype(data.dtype), m["c"].name))


def _of_quotient(op: str) -> Rule:
    """A multiplication takes a few cycles, a division a few dozen."""
    return Rule(
        f"{op}-of-quotient",
        Op(op, Op("div", _x, _c)),
        lambda m: m.again(op, _scaled(m)),
        lambda m: m.is_single("div"),
        rounds=True,
    )


def _softmax_of_sum(m: Match) -> Buffer:
    return m.again("softmax", m.apply("add", _scaled(m), m["y"]))


def _is_over_keys(m: Match) -> bool:
    """Whether a softmax along rows is used by the product alone, batch by batch, and has a key."""
    scores, value = m["x"], m["y"]
    axis, rank = m.attr("softmax", "axis", -1), scores.rank
    if not m.is_single("softmax") or axis % rank != rank - 1 or value.rank != rank:
        return False
    if scores.dtype is not value.dtype or scores.dtype.name not in ("float32", "float64"):
        return False
    facts = Analyzer()
    alike = zip(scores.shape[:-2], value.shape[:-2], strict=True)
    return facts.prove(scores.shape[-1] > 0) is True and all(facts.equal(a, b) for a, b in alike)


ATTENTION: Final[tuple[Rule, ...]] = (
    *map(_of_quotient, SMOOTH),
    Rule(
        "softmax-of-quotient-and-mask",
        Op("softmax", Op("add", Op("div", _x, _c), _y)),
        _softmax_of_sum,
        lambda m: m.is_single("div") and m.is_single("add"),
        rounds=True,
    ),
    Rule(
        "matmul-of-softmax",
        Op("matmul", Op("softmax", _x), _y),
        lambda m: m.apply("softmax_means", m["x"], m["y"]),
        _is_over_keys,
        rounds=True,
    ),
)
"""Rules that round in other places."""
