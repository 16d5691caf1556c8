"""Strategies for element expressions: fixed-width integers, floats, bools and casts between them.

No integer is divided by zero. What the semantics leave open (the sign of a zero from min and max,
the payload of a NaN) never reaches the result, so that two evaluations must agree to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

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
        type_ = draw(st.sampled_from([*{x.dtype: None for x in leaves}, *COMPUTED]))
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(_leaf(leaves, type_))
    if type_.flag & Kind.BOOL:
        return draw(_bools(leaves, depth))
    pick = draw(st.integers(0, 9))
    if pick == 9:
        return draw(_conversions(leaves, type_, depth))
    if pick == 8:
        condition = draw(scalar_exprs(leaves, dtype("bool"), depth - 1))
        a = draw(scalar_exprs(leaves, type_, depth - 1))
        return Select(condition, a, draw(scalar_exprs(leaves, type_, depth - 1)))
    return draw((_floats if type_.flag & Kind.FLOAT else _integers)(leaves, type_, depth))


def _leaf(leaves: Sequence[Expr], type_: DType) -> st.SearchStrategy[Expr]:
    constants = scalar_values(type_).map(lambda v: const(v, type_))
    same = [x for x in leaves if x.dtype is type_]
    return st.one_of(st.sampled_from(same), constants) if same else constants


@st.composite
def _integers(draw: st.DrawFn, leaves: Sequence[Expr], type_: DType, depth: int) -> Expr:
    a = draw(scalar_exprs(leaves, type_, depth - 1))
    pick = draw(st.integers(0, 9))
    if pick == 0:
        unary = (Neg, BitNot, *_COUNTS)
        return draw(st.sampled_from(unary))(a)
    b = draw(scalar_exprs(leaves, type_, depth - 1))
    if pick <= 4:
        return draw(st.sampled_from(_RINGS))(a, b)
    if pick <= 6:
        return draw(st.sampled_from(_BITWISE))(a, b)
    if pick == 7:
        return draw(st.sampled_from((Min, Max)))(a, b)
    nonzero = BitOr(b, const(1, type_)) if pick == 8 else _unless_zero(b)
    return draw(st.sampled_from(_DIVISIONS))(a, nonzero)


def _unless_zero(b: Expr) -> Expr:
    return Select(Eq(b, const(0, b.dtype)), const(1, b.dtype), b)


@st.composite
def _floats(draw: st.DrawFn, leaves: Sequence[Expr], type_: DType, depth: int) -> Expr:
    a = draw(scalar_exprs(leaves, type_, depth - 1))
    pick = draw(st.integers(0, 7))
    if pick == 0:
        return draw(st.sampled_from((Neg, *_EXACT_UNARY)))(a)
    b = draw(scalar_exprs(leaves, type_, depth - 1))
    if pick <= 5:
        return draw(st.sampled_from((*_RINGS, Div)))(a, b)
    # Adding a zero makes either zero the positive one: which of them comes back is left open.
    return Add(draw(st.sampled_from((Min, Max)))(a, b), const(0.0, type_))


@st.composite
def _bools(draw: st.DrawFn, leaves: Sequence[Expr], depth: int) -> Expr:
    pick = draw(st.integers(0, 7))
    if pick <= 4:
        numbers = [t for t in COMPUTED if t.flag & Kind.NUMBER]
        type_ = draw(st.sampled_from(numbers))
        a = draw(scalar_exprs(leaves, type_, depth - 1))
        if pick == 4 and type_.flag & Kind.FLOAT:
            return draw(st.sampled_from(_TESTS))(a)
        b = draw(scalar_exprs(leaves, type_, depth - 1))
        return draw(st.sampled_from((Lt, Le, Eq, Ne)))(a, b)
    a = draw(scalar_exprs(leaves, dtype("bool"), depth - 1))
    if pick == 5:
        return Not(a)
    b = draw(scalar_exprs(leaves, dtype("bool"), depth - 1))
    return draw(st.sampled_from((a & b, a | b, Eq(a, b), Ne(a, b))))


@st.composite
def _conversions(draw: st.DrawFn, leaves: Sequence[Expr], type_: DType, depth: int) -> Expr:
    source = draw(st.sampled_from(COMPUTED))
    a = draw(scalar_exprs(leaves, source, depth - 1))
    same_width = source.bits == type_.bits and not (source.flag | type_.flag) & Kind.BOOL
    if not same_width or draw(st.booleans()):
        return Cast(a, type_)
    if source.flag & Kind.FLOAT:  # the bits of a NaN are nobody's promise
        a = Select(INTRINSICS["isnan"](a), const(0.0, source), a)
    return Reinterpret(a, type_)
