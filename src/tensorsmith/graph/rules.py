"""The rules of rewriting, as data: see `tensorsmith.graph.rewrite`.

Rules in `EXACT` keep every bit of every result, but for which NaN a NaN is. A float plus 0.0 is
therefore left alone, since it turns -0.0 into 0.0. Those in `ROUNDING` compute the same in real
numbers, and round in other places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensorsmith.arith import Analyzer
from tensorsmith.graph.attention import ATTENTION
from tensorsmith.graph.batch_norm import FOLDING
from tensorsmith.graph.conditions import all_const, keeps_shape, reshaped, same_shape
from tensorsmith.graph.patterns import Anything, Array, Known, Match, Op, Rest
from tensorsmith.graph.quantized import INTEGERS, QUANTIZED
from tensorsmith.graph.rewrite import Rule
from tensorsmith.graph.transposes import SUMS_OF_TRANSPOSES, TRANSPOSES
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


def _has_reciprocals(array: Array) -> bool:
    """Whether the reciprocal of each element is a number of full precision."""
    if array.dtype.name not in ("float32", "float64") or array.size == 0:
        return False
    _, exponent = np.frexp(array)
    return bool(np.all(np.isfinite(array) & (array != 0)) and np.all(np.abs(exponent) < 100))


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


# --- Moves -----------------------------------------------------------------------------------


def _is_whole(m: Match) -> bool:
    """Whether a slice takes everything."""
    starts, steps = m.attr("slice", "starts"), m.attr("slice", "steps", ())
    return all_const(starts, 0) and all_const(steps, 1) and keeps_shape(m)


def _squeezes_ones(m: Match) -> bool:
    return all_const([m["x"].shape[a] for a in m.attr("squeeze", "axes")], 1)


# --- Others ----------------------------------------------------------------------------------


def _by_reciprocal(m: Match) -> Buffer:
    data = m.array("c")
    return m.apply("mul", m["x"], m.constant((1 / data).astype(data.dtype), m["c"].name))


def _power(exponent: int) -> Callable[[Match], Buffer | None]:
    def becomes(m: Match) -> Buffer | None:
        product = m["x"]
        if not product.dtype.is_float or not keeps_shape(m):
            return None
        for _ in range(exponent - 1):
            product = m.apply("mul", product, m["x"])
        return product

    return becomes


def _padded(m: Match) -> Buffer | None:
    """A convolution that pads by itself, of what was padded with zeros around each image."""
    (value, *_) = m.rest["value"] or (None,)
    zero = value is None or (value in m.scope.known and _is_all(0)(m.scope.known[value]))
    before, after = (m.attr("pad", side) for side in ("before", "after"))
    outside = (*before[:2], *after[:2])
    sizes = [Analyzer().simplify(as_expr(e)) for e in (*before[2:], *after[2:])]
    if not zero or m.attr("pad", "mode", "constant") != "constant" or not all_const(outside, 0):
        return None
    if any(not isinstance(e, Const) or int(e.value) < 0 for e in sizes):
        return None
    own = m.attr("conv", "pads", ()) or (0,) * len(sizes)
    pads = tuple(Analyzer().simplify(e + as_expr(p)) for e, p in zip(sizes, own, strict=True))
    return m.again("conv", m["x"], *m.rest["weights"], pads=pads)


def _parts_joined(m: Match) -> Buffer | None:
    """Pieces of one tensor that are joined as they were beside each other are one piece of it."""
    axis = int(m.attr("concat", "axis")) % m.result.rank
    made: list[Buffer | None] = []
    last: _Piece | None = None
    for value in m.rest["xs"]:
        piece = _piece(m, value, axis)
        joined = None if piece is None or last is None else last.with_next(piece)
        if joined is None:
            made.append(value)
            last = piece
            continue
        made[-1] = m.apply(
            "slice",
            joined.whole,
            starts=(joined.start,),
            extents=(joined.extent,),
            axes=(axis,),
        )
        last = joined
    return m.again("concat", *made) if len(made) < len(m.rest["xs"]) else None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A run of positions along one axis of a tensor."""

    whole: Buffer
    start: Expr
    extent: Expr

    def with_next(self, other: _Piece) -> _Piece | None:
        """Both as one, if the other begins where this one ends."""
        facts = Analyzer()
        end = facts.simplify(self.start + self.extent)
        if self.whole is not other.whole or not facts.equal(end, other.start):
            return None
        return _Piece(self.whole, self.start, facts.simplify(self.extent + other.extent))


def _piece(m: Match, value: Buffer | None, axis: int) -> _Piece | None:
    """What a value is a piece of, along the axis, if it is one."""
    node = None if value is None else m.scope.made.get(value)
    if node is None or node.op != "slice" or node.operands[0] is None:
        return None
    whole: Buffer = node.operands[0]
    named: Any = node.attrs.get("axes") or tuple(range(whole.rank))
    starts: Any = node.attrs["starts"]
    extents: Any = node.attrs["extents"]
    if [a % whole.rank for a in named] != [axis]:
        return None
    if not all_const(node.attrs.get("steps") or (), 1):  # type: ignore[arg-type]
        return None
    return _Piece(whole, as_expr(starts[0]), as_expr(extents[0]))


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
    Rule("add-nothing", Op("add", _x, _known(_is_added_nothing)), "x", keeps_shape),
    Rule("sub-nothing", Op("sub", _x, _known(_is_all(0))), "x", keeps_shape),
    Rule("mul-by-one", Op("mul", _x, _known(_is_all(1))), "x", keeps_shape),
    Rule("div-by-one", Op("div", _x, _known(_is_all(1))), "x", keeps_shape),
    Rule("pow-of-one", Op("pow", _x, _known(_is_all(1))), "x", keeps_shape),
    Rule(
        "cast-to-same", Op("cast", _x), "x", lambda m: m.attr("cast", "dtype") == m["x"].dtype.name
    ),
    Rule("expand-to-same", Op("expand", _x), "x", keeps_shape),
    Rule("tile-once", Op("tile", _x), "x", lambda m: all_const(m.attr("tile", "repeats"), 1)),
    Rule("slice-of-all", Op("slice", _x), "x", _is_whole),
    Rule(
        "pad-nothing",
        Op("pad", _x, Rest("value")),
        "x",
        lambda m: all_const((*m.attr("pad", "before"), *m.attr("pad", "after")), 0),
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
    *TRANSPOSES,
    Rule("reshape-to-same", Op("reshape", _x), "x", keeps_shape),
    Rule("reshape-of-reshape", Op("reshape", Op("reshape", _x, name="inner")), reshaped),
    Rule("flatten-is-reshape", Op("flatten", _x), reshaped),
    Rule("expand-dims-is-reshape", Op("expand_dims", _x), reshaped),
    Rule("squeeze-is-reshape", Op("squeeze", _x), reshaped, _squeezes_ones),
    Rule("concat-of-slices", Op("concat", Rest("xs")), _parts_joined),
    # Choices and quotients
    Rule("where-true", Op("where", _known(np.all), _x, _y), "x", keeps_shape),
    Rule(
        "where-false",
        Op("where", _known(lambda a: not a.any()), _x, _y),
        "y",
        lambda m: same_shape(m["y"], m.result),
    ),
    Rule("div-by-power-of-two", Op("div", _x, _known(_is_power_of_two)), _by_reciprocal),
    # Convolutions
    Rule("conv-of-pad", Op("conv", Op("pad", _x, Rest("value")), Rest("weights")), _padded),
    # Integers
    *INTEGERS,
)
"""Rules that keep every bit."""

ROUNDING: Final[tuple[Rule, ...]] = (
    Rule("square", Op("pow", _x, _known(_is_all(2))), _power(2), rounds=True),
    Rule("cube", Op("pow", _x, _known(_is_all(3))), _power(3), rounds=True),
    Rule("div-by-constant", Op("div", _x, _known(_has_reciprocals)), _by_reciprocal, rounds=True),
    *QUANTIZED,
    *FOLDING,
    *SUMS_OF_TRANSPOSES,
    *ATTENTION,
)
"""Rules that round in other places: by no more than some units in the last place each."""

RULES: Final[tuple[Rule, ...]] = (*EXACT, *ROUNDING)
"""All rules, in the order in which they are tried."""
