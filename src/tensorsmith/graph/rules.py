"""The rules of rewriting, as data: see `tensorsmith.graph.rewrite`.

Rules in `EXACT` keep every bit of every result, but for which NaN a NaN is. A float plus 0.0 is
therefore left alone, since it turns -0.0 into 0.0. Those in `ROUNDING` compute the same in real
numbers, and round in other places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tensorsmith.arith import Analyzer
from tensorsmith.graph.batch_norm import FOLDING
from tensorsmith.graph.patterns import Anything, Array, Known, Match, Op, Rest
from tensorsmith.graph.rewrite import Rule
from tensorsmith.ir import Buffer, Const, Expr, as_expr
from tensorsmith.ir.dtype import DType, Kind
from tensorsmith.ir.dtype import dtype as as_dtype

_x: Final = Anything("x")
_y: Final = Anything("y")


# --- What constants are ----------------------------------------------------------------------


def _is_all(value: float) -> Callable[[Array], bool]:
    """A test of constants: each element is `value`, of its sign where it is a zero."""

    def test(array: Array) -> bool:
        if array.size == 0:
            return False
        numbers = array.astype(np.float64) if array.dtype.kind not in "iub" else array
        if not bool(np.all(numbers == value)):
            return False
        signs = numbers.dtype.kind == "f" and value == 0
        return not signs or bool(np.all(np.signbit(numbers) == np.signbit(value)))

    return test


def _is_added_nothing(array: Array) -> bool:
    """Whether adding the constant keeps every number: an integer 0, or -0.0."""
    return _is_all(0)(array) if array.dtype.kind in "iu" else _is_all(-0.0)(array)


def _is_power_of_two(array: Array) -> bool:
    """Whether the reciprocal of each element is exact."""
    if array.dtype.name not in ("float32", "float64") or array.size == 0:
        return False
    fraction, exponent = np.frexp(array)
    return bool(np.all(np.abs(fraction) == 0.5) and np.all(np.abs(exponent) < 100))


def _known(test: Callable[[Array], bool]) -> Known:
    return Known("c", test)


# --- Types -----------------------------------------------------------------------------------


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether `wide` has every number of `narrow`."""
    if wide is narrow:
        return True
    digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
    if narrow.is_bool:
        return wide.is_bits or wide.is_float
    if narrow.is_bits and wide.is_bits:
        signs = wide.kind is narrow.kind or narrow.kind is Kind.UINT
        return signs and wide.bits > narrow.bits
    if narrow.is_bits and wide.is_float:
        return narrow.bits - (narrow.kind is Kind.INT) <= digits[wide.name] and (
            wide.name != "float16" or narrow.bits <= 8
        )
    if narrow.is_float and wide.is_float:
        return wide.bits > narrow.bits and wide.bits >= 32
    return False


def _is_plain_cast(m: Match, *names: str) -> bool:
    """Whether casts are between types whose conversion has no options."""
    types = [m["x"].dtype, *(as_dtype(m.attr(name, "dtype")) for name in names)]
    return all(t.is_bits or t.is_bool or t.is_float for t in types)


def _may_skip_a_cast(m: Match) -> bool:
    """Whether the first of two casts loses nothing that the second would not."""
    if not _is_plain_cast(m, "inner", "cast"):
        return False
    first = m["x"].dtype
    middle, last = (as_dtype(m.attr(name, "dtype")) for name in ("inner", "cast"))
    if not _holds(middle, first):
        return False
    alike = (first.is_bits and middle.is_bits and last.is_bits) or (
        first.is_float and middle.is_float and last.is_float
    )
    return alike or _holds(last, first)


def _skip_a_cast(m: Match) -> Buffer:
    if m.attr("cast", "dtype") == m["x"].dtype.name:
        return m["x"]
    return m.again("cast", m["x"])


def _same_shape(a: Buffer, b: Buffer) -> bool:
    facts = Analyzer()
    return a.rank == b.rank and all(
        facts.equal(p, q) for p, q in zip(a.shape, b.shape, strict=True)
    )


def _keeps_shape(m: Match) -> bool:
    """Whether the result has the shape of x."""
    return _same_shape(m["x"], m.result)


def _is_const(e: object, value: int) -> bool:
    found = Analyzer().simplify(as_expr(e)) if isinstance(e, (Expr, int)) else None
    return isinstance(found, Const) and found.value == value


def _all_const(values: Sequence[object], value: int) -> bool:
    return all(_is_const(e, value) for e in values)


# --- Moves -----------------------------------------------------------------------------------


def _order(m: Match, name: str) -> tuple[int, ...]:
    """The axes of a transpose, counted from the front."""
    axes = m.attr(name, "axes")
    return tuple(a % len(axes) for a in axes)


def _joined_transposes(m: Match) -> Buffer:
    inner, outer = _order(m, "inner"), _order(m, "outer")
    return m.apply("transpose", m["x"], axes=tuple(inner[a] for a in outer))


def _keeps_order(m: Match) -> bool:
    """Whether a transpose moves axes of extent 1 alone."""
    moved = [a for a in _order(m, "transpose") if not _is_const(m["x"].shape[a], 1)]
    return moved == sorted(moved)


def _is_whole(m: Match) -> bool:
    """Whether a slice takes everything."""
    starts, steps = m.attr("slice", "starts"), m.attr("slice", "steps", ())
    return _all_const(starts, 0) and _all_const(steps, 1) and _keeps_shape(m)


def _reshaped(m: Match) -> Buffer:
    return m.apply("reshape", m["x"], shape=m.result.shape)


def _squeezes_ones(m: Match) -> bool:
    return _all_const([m["x"].shape[a] for a in m.attr("squeeze", "axes")], 1)


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
        alike = _order(m, "transpose") == _order(m, "other") and _same_shape(m["x"], m["y"])
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
        return _same_shape(m.nodes["transpose"].results[0], m.result)

    inner = Op("transpose", _x)
    parts = (Known("c"), inner) if is_left else (inner, Known("c"))
    which = "constant-and-transpose" if is_left else "transpose-and-constant"
    return Rule(f"{op}-of-{which}", Op(op, *parts, name="outer"), becomes)


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


# --- Others ----------------------------------------------------------------------------------


def _by_reciprocal(m: Match) -> Buffer:
    data = m.array("c")
    return m.apply("mul", m["x"], m.constant((1 / data).astype(data.dtype), m["c"].name))


def _power(exponent: int) -> Callable[[Match], Buffer | None]:
    def becomes(m: Match) -> Buffer | None:
        product = m["x"]
        if not product.dtype.is_float or not _keeps_shape(m):
            return None
        for _ in range(exponent - 1):
            product = m.apply("mul", product, m["x"])
        return product

    return becomes


def _of_one(op: str) -> Rule:
    return Rule(f"{op}-of-one", Op(op, _x), "x", lambda m: len(m.root.operands) == 1)


def _over_nothing(op: str) -> Rule:
    def when(m: Match) -> bool:
        return m.attr(op, "axes") == () or m["x"].rank == 0

    return Rule(f"{op}-over-nothing", Op(op, _x), "x", when)


def _twice(op: str, result: Any = "x") -> Rule:
    return Rule(f"{op}-twice", Op(op, Op(op, _x, name="inner")), result)


EXACT: Final[tuple[Rule, ...]] = (
    # What does nothing
    Rule("copy", Op("copy", _x), "x"),
    Rule("add-nothing", Op("add", _x, _known(_is_added_nothing)), "x", _keeps_shape),
    Rule("sub-nothing", Op("sub", _x, _known(_is_all(0))), "x", _keeps_shape),
    Rule("mul-by-one", Op("mul", _x, _known(_is_all(1))), "x", _keeps_shape),
    Rule("div-by-one", Op("div", _x, _known(_is_all(1))), "x", _keeps_shape),
    Rule("pow-of-one", Op("pow", _x, _known(_is_all(1))), "x", _keeps_shape),
    Rule(
        "cast-to-same", Op("cast", _x), "x", lambda m: m.attr("cast", "dtype") == m["x"].dtype.name
    ),
    Rule("expand-to-same", Op("expand", _x), "x", _keeps_shape),
    Rule("tile-once", Op("tile", _x), "x", lambda m: _all_const(m.attr("tile", "repeats"), 1)),
    Rule("slice-of-all", Op("slice", _x), "x", _is_whole),
    Rule(
        "pad-nothing",
        Op("pad", _x, Rest("value")),
        "x",
        lambda m: _all_const((*m.attr("pad", "before"), *m.attr("pad", "after")), 0),
    ),
    *map(_of_one, ("concat", "sum", "min", "max", "mean")),
    *map(_over_nothing, ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")),
    # What undoes or repeats itself
    _twice("neg"),
    _twice("logical_not"),
    _twice("bitwise_not"),
    _twice("abs", lambda m: m.apply("abs", m["x"])),
    _twice("relu", lambda m: m.apply("relu", m["x"])),
    Rule("abs-of-neg", Op("abs", Op("neg", _x)), lambda m: m.apply("abs", m["x"])),
    Rule(
        "cast-of-cast",
        Op("cast", Op("cast", _x, name="inner")),
        _skip_a_cast,
        _may_skip_a_cast,
    ),
    # Moves
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
    Rule("transpose-of-ones", Op("transpose", _x), _reshaped, _keeps_order),
    Rule("reshape-to-same", Op("reshape", _x), "x", _keeps_shape),
    Rule("reshape-of-reshape", Op("reshape", Op("reshape", _x, name="inner")), _reshaped),
    Rule("flatten-is-reshape", Op("flatten", _x), _reshaped),
    Rule("expand-dims-is-reshape", Op("expand_dims", _x), _reshaped),
    Rule("squeeze-is-reshape", Op("squeeze", _x), _reshaped, _squeezes_ones),
    *map(_sunk, ELEMENTWISE),
    *map(_sunk_pair, PAIRS),
    *map(_sunk_constant, PAIRS),
    *(_sunk_constant(op, is_left=True) for op in ("sub", "div", "max", "min")),
    # Choices and quotients
    Rule("where-true", Op("where", _known(np.all), _x, _y), "x", _keeps_shape),
    Rule(
        "where-false",
        Op("where", _known(lambda a: not a.any()), _x, _y),
        "y",
        lambda m: _same_shape(m["y"], m.result),
    ),
    Rule("div-by-power-of-two", Op("div", _x, _known(_is_power_of_two)), _by_reciprocal),
    # Products
    _product_of_transposed(is_left=True),
    _product_of_transposed(is_left=False),
    _gemm_of_transposed(is_left=True),
    _gemm_of_transposed(is_left=False),
)
"""Rules that keep every bit."""

ROUNDING: Final[tuple[Rule, ...]] = (
    Rule("square", Op("pow", _x, _known(_is_all(2))), _power(2), rounds=True),
    Rule("cube", Op("pow", _x, _known(_is_all(3))), _power(3), rounds=True),
    *FOLDING,
)
"""Rules that round in other places: by no more than some units in the last place each."""

RULES: Final[tuple[Rule, ...]] = (*EXACT, *ROUNDING)
"""All rules, in the order in which they are tried."""
