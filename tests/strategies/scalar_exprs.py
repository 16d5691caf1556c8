"""Strategies for element expressions: fixed-width integers, floats, bools and casts between them.

No integer is divided by zero. What the semantics leave open (the sign of a zero from min and max,
the payload of a NaN) never reaches the result, so that two evaluations must agree to the bit.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from hypothesis import strategies as st

from strategies.picking import pick
from strategies.values import scalar_values
from tensorsmith.ir import (
    INTRINSICS,
    Add,
    BitAnd,
    BitNot,
    BitOr,
    BitXor,
    Cast,
    Div,
    DType,
    Eq,
    Expr,
    FloorDiv,
    FloorMod,
    Kind,
    Le,
    Lt,
    Max,
    Min,
    Mul,
    Ne,
    Neg,
    Not,
    Reinterpret,
    Select,
    ShiftLeft,
    ShiftRight,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    const,
    dtype,
)

_NAMES = (
    "int32", "uint8", "float32", "int8", "bool", "uint32", "int64", "uint64", "int16", "float16",
    "float64", "bfloat16", "uint16", "int4", "uint4", "int2", "uint2",
)  # fmt: skip
COMPUTED = tuple(map(dtype, _NAMES))
"""The dtypes that these expressions mix."""

_RINGS = (Add, Sub, Mul)
_BITWISE = (BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight)
_DIVISIONS = (FloorDiv, FloorMod, TruncDiv, TruncMod)
_EXACT_UNARY = tuple(INTRINSICS[n] for n in ("abs", "floor", "ceil", "trunc", "round", "sqrt"))
_TESTS = tuple(INTRINSICS[n] for n in ("isnan", "isinf", "isfinite"))
_COUNTS = tuple(INTRINSICS[n] for n in ("popcount", "clz", "ctz"))


@st.composite
def scalar_variables(draw: st.DrawFn, max_size: int = 4) -> tuple[Var, ...]:
    """Variables of several dtypes."""
    types = draw(st.lists(st.sampled_from(COMPUTED), min_size=1, max_size=max_size))
    return tuple(Var(f"x{i}", t) for i, t in enumerate(types))


@st.composite
def scalar_exprs(
    draw: st.DrawFn, leaves: Sequence[Expr], type_: DType | None = None, depth: int = 4
) -> Expr:
    """An expression of `type_` (any of `COMPUTED` if None) over `leaves` and constants."""
    if type_ is None:
        type_ = pick(draw, [*{x.dtype: None for x in leaves}, *COMPUTED])
    return _expr(draw, leaves, type_, depth)


def _expr(draw: st.DrawFn, leaves: Sequence[Expr], type_: DType, depth: int) -> Expr:
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return _leaf(draw, leaves, type_)
    if type_.flag & Kind.BOOL:
        return _bools(draw, leaves, depth)
    kind = draw(st.integers(0, 9))
    if kind == 9:
        return _conversions(draw, leaves, type_, depth)
    if kind == 8:
        condition = _expr(draw, leaves, dtype("bool"), depth - 1)
        a = _expr(draw, leaves, type_, depth - 1)
        return Select(condition, a, _expr(draw, leaves, type_, depth - 1))
    return (_floats if type_.flag & Kind.FLOAT else _integers)(draw, leaves, type_, depth)


@functools.cache
def _constants(type_: DType) -> st.SearchStrategy[Expr]:
    return scalar_values(type_).map(lambda v: const(v, type_))


def _leaf(draw: st.DrawFn, leaves: Sequence[Expr], type_: DType) -> Expr:
    same = [x for x in leaves if x.dtype is type_]
    if same and draw(st.integers(0, 2)) < 2:
        return pick(draw, same)
    return draw(_constants(type_))


def _integers(draw: st.DrawFn, leaves: Sequence[Expr], type_: DType, depth: int) -> Expr:
    a = _expr(draw, leaves, type_, depth - 1)
    kind = draw(st.integers(0, 9))
    if kind == 0:
        unary = (Neg, BitNot, *_COUNTS)
        return pick(draw, unary)(a)
    b = _expr(draw, leaves, type_, depth - 1)
    if kind <= 4:
        return pick(draw, _RINGS)(a, b)
    if kind <= 6:
        return pick(draw, _BITWISE)(a, b)
    if kind == 7:
        return pick(draw, (Min, Max))(a, b)
    nonzero = BitOr(b, const(1, type_)) if kind == 8 else _unless_zero(b)
    return pick(draw, _DIVISIONS)(a, nonzero)


def _unless_zero(b: Expr) -> Expr:
    return Select(Eq(b, const(0, b.dtype)), const(1, b.dtype), b)


def _floats(draw: st.DrawFn, leaves: Sequence[Expr], type_: DType, depth: int) -> Expr:
    a = _expr(draw, leaves, type_, depth - 1)
    kind = draw(st.integers(0, 7))
    if kind == 0:
        return pick(draw, (Neg, *_EXACT_UNARY))(a)
    b = _expr(draw, leaves, type_, depth - 1)
    if kind <= 5:
        return pick(draw, (*_RINGS, Div))(a, b)
    # Adding a zero makes either zero the positive one: which of them comes back is left open.
    return Add(pick(draw, (Min, Max))(a, b), const(0.0, type_))


def _bools(draw: st.DrawFn, leaves: Sequence[Expr], depth: int) -> Expr:
    kind = draw(st.integers(0, 7))
    if kind <= 4:
        numbers = [t for t in COMPUTED if t.flag & Kind.NUMBER]
        type_ = pick(draw, numbers)
        a = _expr(draw, leaves, type_, depth - 1)
        if kind == 4 and type_.flag & Kind.FLOAT:
            return pick(draw, _TESTS)(a)
        b = _expr(draw, leaves, type_, depth - 1)
        return pick(draw, (Lt, Le, Eq, Ne))(a, b)
    a = _expr(draw, leaves, dtype("bool"), depth - 1)
    if kind == 5:
        return Not(a)
    b = _expr(draw, leaves, dtype("bool"), depth - 1)
    return pick(draw, (a & b, a | b, Eq(a, b), Ne(a, b)))


def _conversions(draw: st.DrawFn, leaves: Sequence[Expr], type_: DType, depth: int) -> Expr:
    source = pick(draw, COMPUTED)
    a = _expr(draw, leaves, source, depth - 1)
    same_width = source.bits == type_.bits and not (source.flag | type_.flag) & Kind.BOOL
    if not same_width or draw(st.booleans()):
        return Cast(a, type_)
    if source.flag & Kind.FLOAT:  # the bits of a NaN are nobody's promise
        a = Select(INTRINSICS["isnan"](a), const(0.0, source), a)
    return Reinterpret(a, type_)
