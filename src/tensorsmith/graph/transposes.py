"""Rules about transposes: they cancel, join, and sink towards what reads them as they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tensorsmith.graph.conditions import is_const, reshaped, same_shape
from tensorsmith.graph.patterns import Anything, Known, Match, Op, Rest
from tensorsmith.graph.rewrite import Rule
from tensorsmith.ir import Buffer
from tensorsmith.ir.graph import Apply

_x: Final = Anything("x")
_y: Final = Anything("y")


def _order(m: Match, name: str) -> tuple[int, ...]:
    """The axes of a transpose, counted from the front."""
    axes = m.attr(name, "axes")
    return tuple(a % len(axes) for a in axes)


def _joined_transposes(m: Match) -> Buffer:
    inner, outer = _order(m, "inner"), _order(m, "outer")
    return m.apply("transpose", m["x"], axes=tuple(inner[a] for a in outer))


def _keeps_order(m: Match) -> bool:
    """Whether a transpose moves axes of extent 1 alone."""
    moved = [a for a in _order(m, "transpose") if not is_const(m["x"].shape[a], 1)]
    return moved == sorted(moved)


# --- Transposes sink -------------------------------------------------------------------------


ELEMENTWISE: Final = (
    *("neg", "abs", "relu", "exp", "log", "sqrt", "tanh", "sigmoid", "erf", "gelu", "sign"),
    *("reciprocal", "hard_swish", "swish", "softplus", "floor", "ceil", "round", "cast"),
    *("leaky_relu", "hard_sigmoid", "elu", "selu", "mish"),
)
"""Operators of one operand that a transpose is moved behind."""
PAIRS: Final = ("add", "sub", "mul", "div", "max", "min")
"""Such operators of two operands."""


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(a) for a in np.argsort(axes))


def _sunk(op: str) -> Rule:
    def becomes(m: Match) -> Buffer:
        inner = m.again("outer", m["x"])
        return m.apply("transpose", inner, axes=_order(m, "transpose"))

    pattern = Op(op, Op("transpose", _x), name="outer")
    return Rule(f"{op}-of-transpose", pattern, becomes, lambda m: m.is_single("transpose"))


def _sunk_pair(op: str) -> Rule:
    def when(m: Match) -> bool:
        singles = m.is_single("transpose") and m.is_single("other")
        alike = _order(m, "transpose") == _order(m, "other") and same_shape(m["x"], m["y"])
        return singles and alike

    def becomes(m: Match) -> Buffer:
        whole = m.apply(op, m["x"], m["y"])
        return m.apply("transpose", whole, axes=_order(m, "transpose"))

    pattern = Op(op, Op("transpose", _x), Op("transpose", _y, name="other"), name="outer")
    return Rule(f"{op}-of-transposes", pattern, becomes, when)


def _sunk_constant(op: str, *, is_left: bool = False) -> Rule:
    """A transpose and a constant that broadcasts to it."""

    def becomes(m: Match) -> Buffer | None:
        axes, c = _order(m, "transpose"), m["c"]
        rank = len(axes)
        if c.rank > rank or not m.is_single("transpose") or not _keeps(m):
            return None
        data = m.array("c")
        if data.size != 1:
            whole = data.reshape((1,) * (rank - c.rank) + data.shape)
            c = m.constant(whole.transpose(_inverse(axes)), c.name)
        elif c.rank:
            c = m.constant(data.reshape(()), c.name)
        operands = (c, m["x"]) if is_left else (m["x"], c)
        return m.apply("transpose", m.apply(op, *operands), axes=axes)

    def _keeps(m: Match) -> bool:
        return same_shape(m.nodes["transpose"].results[0], m.result)

    inner = Op("transpose", _x)
    parts = (Known("c"), inner) if is_left else (inner, Known("c"))
    which = "constant-and-transpose" if is_left else "transpose-and-constant"
    return Rule(f"{op}-of-{which}", Op(op, *parts, name="outer"), becomes)


# --- Behind operators over axes --------------------------------------------------------------


def _order_of(node: Apply) -> tuple[int, ...]:
    axes = node.attrs["axes"]
    assert isinstance(axes, tuple)
    return tuple(int(a) % len(axes) for a in axes)  # type: ignore[arg-type]


def _concatenated(m: Match) -> Buffer | None:
    """Transposes in one order, concatenated, are the transpose of what is concatenated."""
    nodes = [m.scope.made.get(v) if v is not None else None for v in m.rest["xs"]]
    turned = [n for n in nodes if n is not None and n.op == "transpose"]
    if not turned or len(turned) < len(nodes) or len({_order_of(n) for n in turned}) > 1:
        return None
    if any(m.scope.uses[n.results[0]] > nodes.count(n) for n in turned):
        return None
    order = _order_of(turned[0])
    axis = order[int(m.attr("concat", "axis")) % len(order)]
    return m.apply(
        "transpose", m.again("concat", *(n.operands[0] for n in turned), axis=axis), axes=order
    )


def _normalised_over(op: str) -> Rule:
    """Softmax and its like along one axis."""

    def becomes(m: Match) -> Buffer:
        order = _order(m, "transpose")
        axis = order[int(m.attr("outer", "axis", -1)) % len(order)]
        return m.apply("transpose", m.again("outer", m["x"], axis=axis), axes=order)

    pattern = Op(op, Op("transpose", _x), name="outer")
    return Rule(f"{op}-of-transpose", pattern, becomes, lambda m: m.is_single("transpose"))


def _reduced(op: str) -> Rule:
    """A reduction over all axes that it names, in any order."""

    def becomes(m: Match) -> Buffer | None:
        order = _order(m, "transpose")
        axes = m.attr("outer", "axes")
        rank = len(order)
        over = range(rank) if axes is None else [a % rank for a in axes]
        mapped = sorted(order[a] for a in over)
        kept = m.attr("outer", "keep_dims", True)
        made = m.again("outer", m["x"], axes=tuple(mapped))
        if kept:
            return m.apply("transpose", made, axes=order)
        left = [a for a in order if a not in mapped]
        return m.apply("transpose", made, axes=tuple(sorted(left).index(a) for a in left))

    pattern = Op(op, Op("transpose", _x), name="outer")
    return Rule(f"{op}-of-transpose", pattern, becomes, lambda m: m.is_single("transpose"))


# --- Products --------------------------------------------------------------------------------


def _is_matrices(m: Match) -> bool:
    return m["x"].rank == m["y"].rank == 2 and _order(m, "transpose") == (1, 0)


def _product_of_transposed(*, is_left: bool) -> Rule:
    """A product of matrices reads a transposed one as it lies."""
    inner = Op("transpose", _x if is_left else _y)
    flag = "trans_a" if is_left else "trans_b"

    def becomes(m: Match) -> Buffer:
        return m.apply("gemm", m["x"], m["y"], **{flag: True})

    parts = (inner, _y) if is_left else (_x, inner)
    name = "matmul-of-transposed-left" if is_left else "matmul-of-transposed-right"
    return Rule(name, Op("matmul", *parts), becomes, _is_matrices)


def _gemm_of_transposed(*, is_left: bool) -> Rule:
    inner = Op("transpose", _x if is_left else _y)
    flag = "trans_a" if is_left else "trans_b"

    def becomes(m: Match) -> Buffer:
        turned = not m.attr("gemm", flag, default=False)
        return m.again("gemm", m["x"], m["y"], *m.rest["rest"], **{flag: turned})

    parts = (inner, _y) if is_left else (_x, inner)
    name = "gemm-of-transposed-left" if is_left else "gemm-of-transposed-right"
    return Rule(name, Op("gemm", *parts, Rest("rest")), becomes, _is_matrices)


TRANSPOSES: Final[tuple[Rule, ...]] = (
    Rule(
        "transpose-in-order",
        Op("transpose", _x),
        "x",
        lambda m: list(_order(m, "transpose")) == list(range(m["x"].rank)),
    ),
    Rule(
        "transpose-of-transpose",
        Op("transpose", Op("transpose", _x, name="inner"), name="outer"),
        _joined_transposes,
    ),
    Rule("transpose-of-ones", Op("transpose", _x), reshaped, _keeps_order),
    *map(_sunk, ELEMENTWISE),
    *map(_sunk_pair, PAIRS),
    *map(_sunk_constant, PAIRS),
    *(_sunk_constant(op, is_left=True) for op in ("sub", "div", "max", "min")),
    Rule("concat-of-transposes", Op("concat", Rest("xs")), _concatenated),
    *map(_normalised_over, ("softmax", "log_softmax")),
    *map(_reduced, ("reduce_max", "reduce_min", "reduce_any", "reduce_all")),
    _product_of_transposed(is_left=True),
    _product_of_transposed(is_left=False),
    _gemm_of_transposed(is_left=True),
    _gemm_of_transposed(is_left=False),
)
"""Rules that keep every bit."""

SUMS_OF_TRANSPOSES: Final[tuple[Rule, ...]] = tuple(
    Rule(r.name, r.pattern, r.becomes, r.when, rounds=True)
    for r in map(_reduced, ("reduce_sum", "reduce_mean", "reduce_prod"))
)
"""Rules that add in another order."""
