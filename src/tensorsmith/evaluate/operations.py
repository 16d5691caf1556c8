"""The operations of the language on NumPy values: which function serves which class of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from tensorsmith.errors import EvaluationError
from tensorsmith.evaluate import floats
from tensorsmith.evaluate.integers import IntegerOperations
from tensorsmith.evaluate.rounding import (
    Value,
    as_index,
    carrier,
    constant,
    float_to_int,
    int_to_float,
    int_to_int,
    narrow,
    widen,
    wrap,
)
from tensorsmith.ir.dtype import DType, Kind
from tensorsmith.ir.expr import (
    Add,
    BitAnd,
    BitNot,
    BitOr,
    BitXor,
    Call,
    Cast,
    Const,
    Div,
    Eq,
    Expr,
    FloorDiv,
    FloorMod,
    Le,
    Lt,
    Max,
    Min,
    Mul,
    Ne,
    Neg,
    Not,
    Reinterpret,
    ShiftLeft,
    ShiftRight,
    Sub,
    TruncDiv,
    TruncMod,
)

Operation = Callable[..., Value]
_FLOATS: Final = int(Kind.FLOAT | Kind.STORAGE)
_INDEX: Final = int(Kind.INDEX)
_BOOL: Final = int(Kind.BOOL)


def numpy_operations(any_active: Callable[[Value], bool]) -> dict[type[Expr], Operation]:
    """The table for `tensorsmith.evaluate.domain.Domain.operations`.

    any_active: whether any of many truth values is True that is not masked out.
    """
    ints = IntegerOperations(any_active)
    return {
        Const: _constant,
        Add: _by_kind(floats.add, ints.add),
        Sub: _by_kind(floats.sub, ints.sub),
        Mul: _by_kind(floats.mul, ints.mul),
        Div: floats.div,
        Neg: _by_kind(floats.neg, ints.neg),
        Min: _by_kind(floats.minimum, _int_min),
        Max: _by_kind(floats.maximum, _int_max),
        FloorDiv: ints.floor_div,
        FloorMod: ints.floor_mod,
        TruncDiv: ints.trunc_div,
        TruncMod: ints.trunc_mod,
        BitAnd: ints.bit_and,
        BitOr: ints.bit_or,
        BitXor: ints.bit_xor,
        BitNot: ints.bit_not,
        ShiftLeft: ints.shift_left,
        ShiftRight: ints.shift_right,
        Eq: lambda e, a, b: a == b,
        Ne: lambda e, a, b: a != b,
        Lt: lambda e, a, b: a < b,
        Le: lambda e, a, b: a <= b,
        Not: lambda e, a: np.logical_not(a),
        Cast: lambda e, a: convert(e, a, any_active),
        Reinterpret: _reinterpret,
        Call: _intrinsics(ints),
    }


def _by_kind(on_floats: Operation, on_ints: Operation) -> Operation:
    def apply(e: Expr, *args: Value) -> Value:
        return (on_floats if e.dtype.flag & _FLOATS else on_ints)(e, *args)

    return apply


def _constant(e: Const) -> Value:
    if e.dtype.lanes != 1:
        raise EvaluationError(f"the evaluator takes scalars, and {e!r} has {e.dtype.lanes} lanes")
    return constant(e.value, e.dtype)


def _int_min(e: Expr, a: Value, b: Value) -> Value:
    return min(a, b) if type(a) is int and type(b) is int else np.minimum(a, b)


def _int_max(e: Expr, a: Value, b: Value) -> Value:
    return max(a, b) if type(a) is int and type(b) is int else np.maximum(a, b)


def _intrinsics(ints: IntegerOperations) -> Operation:
    """The function of `Call` nodes: by the name of the intrinsic."""
    table: dict[str, Operation] = {
        "abs": _by_kind(floats.absolute, ints.absolute),
        "popcount": ints.popcount,
        "clz": ints.clz,
        "ctz": ints.ctz,
        "fma": floats.fma,
    }
    for name, function in floats.FUNCTIONS.items():
        table[name] = _through_float64(function)
    for name, predicate in floats.PREDICATES.items():
        table[name] = _of_float(predicate)

    def apply(e: Call, *args: Value) -> Value:
        return table[e.intrinsic.name](e, *args)

    return apply


def _through_float64(function: Callable[..., Value]) -> Operation:
    return lambda e, *args: floats.call_float64(function, e, *args)


def _of_float(predicate: Callable[..., Value]) -> Operation:
    return lambda e, a: predicate(a)


def convert(e: Expr, a: Value, any_active: Callable[[Value], bool]) -> Value:
    """The value of the `Cast` node `e`, whose operand has the value `a`."""
    source, target = e.args[0].dtype, e.dtype
    if target.flag & _BOOL:
        return a != 0
    if source.flag & _FLOATS:
        wide = widen(a)
        return narrow(wide, target) if target.flag & _FLOATS else float_to_int(wide, target)
    if source.flag & _BOOL:
        return _from_bool(a, target)
    if target.flag & _FLOATS:
        return int_to_float(a, target)
    if target.flag & _INDEX:
        if source.name == "uint64" and any_active(a > np.uint64(target.max_value)):
            raise EvaluationError("a value does not fit index", given=f"{e!r}")
        return as_index(np.asarray(a).astype(np.int64))
    return int_to_int(a, target)


def _from_bool(a: Value, target: DType) -> Value:
    if target.flag & _INDEX:
        return as_index(np.asarray(a).astype(np.int64))
    return np.asarray(a).astype(carrier(target))[()]


def _reinterpret(e: Expr, a: Value) -> Value:
    value = np.asarray(a)
    if e.dtype.kind is Kind.STORAGE:  # what lies in a byte with fewer bits may be sign-extended
        low = value.view(np.uint8) & np.uint8((1 << e.dtype.bits) - 1)
        return np.asarray(low).view(carrier(e.dtype))[()]
    return wrap(value.view(carrier(e.dtype))[()], e.dtype)
