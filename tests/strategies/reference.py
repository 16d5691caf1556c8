"""A second opinion on what a scalar expression means.

Evaluates one expression by the semantics that the head of `tensorsmith.ir.expr` states, with
Python's exact integers and fractions, by plain recursion, sharing nothing with
`tensorsmith.evaluate`.

Values: int for integers (``index`` must fit 64 bits), bool for bools, float for floats (already
rounded to the dtype).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from tensorsmith.ir import Buffer, DType, Expr, Kind, Var, dtype

Value = int | float | bool
INDEX = dtype("index")


class IndexOverflowError(ArithmeticError):
    """An ``index`` value left 64 bits: the program broke its contract."""


def evaluate_expr(
    e: Expr,
    variables: Mapping[Var, Value],
    buffers: Mapping[Buffer, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] | None = None,
) -> Value:
    """The value of `e`. Raises ZeroDivisionError, IndexError (outside), IndexOverflowError."""
    go: Callable[[Expr], Value] = lambda x: evaluate_expr(x, variables, buffers)  # noqa: E731
    op = type(e).__name__
    if op == "Var":
        return variables[e]  # type: ignore[index]
    if op == "Const":
        return e.value  # type: ignore[attr-defined]
    if op == "Load":
        at = tuple(int(go(i)) for i in e.args)
        array = (buffers or {})[e.buffer]  # type: ignore[attr-defined]
        if any(not 0 <= i < n for i, n in zip(at, array.shape, strict=True)):
            raise IndexError(at)
        return from_numpy(array[at], e.dtype)
    if op == "Select":
        return go(e.args[1]) if go(e.args[0]) else go(e.args[2])
    if op == "And":
        return bool(go(e.args[0])) and bool(go(e.args[1]))
    if op == "Or":
        return bool(go(e.args[0])) or bool(go(e.args[1]))
    values = [go(a) for a in e.args]
    if op == "Cast":
        return cast_value(values[0], e.args[0].dtype, e.dtype)
    if op == "Reinterpret":
        return from_numpy(to_numpy(values[0], e.args[0].dtype).view(_np(e.dtype)), e.dtype)
    if op == "Call":
        result = call(e.attr.name, values, e.args[0].dtype)  # type: ignore[attr-defined]
        return result if isinstance(result, bool) else fit(result, e.dtype)
    if op in ("Eq", "Ne", "Lt", "Le"):
        return compare(op, values[0], values[1])
    if op == "Not":
        return not values[0]
    if e.dtype.flag & Kind.FLOAT:
        return fit(float_operation(op, values, e.dtype), e.dtype)
    return fit(integer_operation(op, [int(v) for v in values], e.dtype), e.dtype)


def same_bits(a: Value, b: Value) -> bool:
    """Whether two values are one: NaN is NaN, and -0 is not 0."""
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return a == b


def compare(op: str, a: Value, b: Value) -> bool:
    """A comparison; Python's own follows IEEE 754 for NaN."""
    return {"Eq": a == b, "Ne": a != b, "Lt": a < b, "Le": a <= b}[op]


def integer_operation(op: str, values: list[int], type_: DType) -> int:
    """The exact result, before it is wrapped."""
    a = values[0]
    b = values[1] if len(values) > 1 else 0
    match op:
        case "Add":
            return a + b
        case "Sub":
            return a - b
        case "Mul":
            return a * b
        case "FloorDiv":
            return a // b
        case "FloorMod":
            return a % b
        case "TruncDiv":
            return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        case "TruncMod":
            return abs(a) % abs(b) * (-1 if a < 0 else 1)
        case "Min":
            return min(a, b)
        case "Max":
            return max(a, b)
        case "Neg":
            return -a
    return _bit_operation(op, a, b, type_)


def _bit_operation(op: str, a: int, b: int, type_: DType) -> int:
    count = b % (1 << type_.bits)
    match op:
        case "BitAnd":
            return a & b
        case "BitOr":
            return a | b
        case "BitXor":
            return a ^ b
        case "BitNot":
            return ~a
        case "ShiftLeft":
            return a << count if count < type_.bits else 0
        case "ShiftRight":
            return a >> min(count, type_.bits)
    raise AssertionError(op)


def float_operation(op: str, values: list[Value], type_: DType) -> float | Fraction:
    """The result in double precision or exactly: rounding it once more gives the dtype's own."""
    a = float(values[0])
    b = float(values[1]) if len(values) > 1 else 0.0
    if op == "Neg":
        return -a
    if op in ("Min", "Max"):
        if math.isnan(a) or math.isnan(b):
            return math.nan
        return min(a, b) if op == "Min" else max(a, b)
    x, y = np.float64(a), np.float64(b)
    with np.errstate(all="ignore"):
        match op:
            case "Add":
                return float(x + y)
            case "Sub":
                return float(x - y)
            case "Mul":
                return float(x * y)
            case "Div":
                return float(x / y)
    raise AssertionError(op)


# Significand bits, least and greatest exponent of a normal number.
_FORMATS = {
    "float16": (11, -14, 15),
    "bfloat16": (8, -126, 127),
    "float32": (24, -126, 127),
    "float64": (53, -1022, 1023),
}


def round_to(value: float | Fraction, type_: DType) -> float:
    """`value` rounded once to the nearest number of the dtype, ties to even."""
    if isinstance(value, float) and (not math.isfinite(value) or value == 0):
        return value
    exact = Fraction(value)
    if exact == 0:
        return 0.0
    precision, least, greatest = _FORMATS[type_.name]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    quantum = Fraction(2) ** (max(exponent, least) - precision + 1)
    rounded = round(exact / quantum) * quantum
    if abs(rounded) >= Fraction(2) ** (greatest + 1):
        return math.inf if exact > 0 else -math.inf
    return float(rounded) if rounded else math.copysign(0.0, 1 if exact > 0 else -1)


def fit(value: Value | Fraction, type_: DType) -> Value:
    """`value` wrapped or rounded to the dtype."""
    if type_.flag & Kind.FLOAT:
        return round_to(value, type_)
    if type_.flag & Kind.STORAGE:
        return float(np.array(float(value)).astype(np.float32).astype(_np(type_)))
    whole = int(value)
    if type_ is INDEX:
        if not type_.min_value <= whole <= type_.max_value:
            raise IndexOverflowError(whole)
        return whole
    wrapped = whole % (1 << type_.bits)
    return wrapped if wrapped <= type_.max_value else wrapped - (1 << type_.bits)


def cast_value(value: Value, source: DType, target: DType) -> Value:
    """A cast by the rules of the expression language."""
    if target.flag & Kind.BOOL:
        return bool(value != 0)
    if target.flag & (Kind.FLOAT | Kind.STORAGE):
        return fit(value if isinstance(value, float) else int(value), target)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return target.max_value if value > 0 else target.min_value
        return min(max(math.trunc(value), target.min_value), target.max_value)
    return fit(int(value), target)


def _np(type_: DType) -> np.dtype[np.generic]:
    assert type_.numpy is not None
    return type_.numpy


def to_numpy(value: Value, type_: DType) -> np.generic:
    """The value as a NumPy scalar of the dtype."""
    return np.array(value).astype(_np(type_))[()]


def from_numpy(value: np.generic, type_: DType) -> Value:
    """A NumPy scalar as a plain value."""
    if type_.flag & Kind.BOOL:
        return bool(value)
    return float(value) if type_.flag & (Kind.FLOAT | Kind.STORAGE) else int(value)


def call(name: str, values: list[Value], type_: DType) -> Value | Fraction:
    """An intrinsic: exact before rounding if it is in `_EXACT_CALLS`, else to double precision."""
    if name in _INTEGER_CALLS and not type_.flag & Kind.FLOAT:
        return _INTEGER_CALLS[name](int(values[0]), type_)
    floats = [float(v) for v in values]
    if name in _EXACT_CALLS:
        return _EXACT_CALLS[name](*floats)
    with np.errstate(all="ignore"):
        return float(_DOUBLE_CALLS[name](*map(np.float64, floats)))


_INTEGER_CALLS: Mapping[str, Callable[[int, DType], int]] = {
    "abs": lambda a, t: abs(a),
    "popcount": lambda a, t: (a % (1 << t.bits)).bit_count(),
    "clz": lambda a, t: t.bits - (a % (1 << t.bits)).bit_length(),
    "ctz": lambda a, t: (a & -a).bit_length() - 1 if a else t.bits,
}


def _keeping(function: Callable[[float], int]) -> Callable[[float], float]:
    """A rounding function that leaves what is not finite, and keeps the sign of a zero."""

    def rounded(a: float) -> float:
        return math.copysign(float(function(a)), a) if math.isfinite(a) else a

    return rounded


def _fma(a: float, b: float, c: float) -> float | Fraction:
    if not all(map(math.isfinite, (a, b, c))):
        product = a * b if not (math.isfinite(a) and math.isfinite(b)) else 0.0
        return product + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return exact or a * b + c


def _sqrt(a: float) -> float:
    return math.sqrt(a) if a >= 0 else (a if a == 0 else math.nan)


_EXACT_CALLS: Mapping[str, Callable[..., Value | Fraction]] = {
    "abs": lambda a: math.copysign(a, 1.0),
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "floor": _keeping(math.floor),
    "ceil": _keeping(math.ceil),
    "trunc": _keeping(math.trunc),
    "round": _keeping(round),
    "sqrt": _sqrt,
    "fma": _fma,
    "copysign": math.copysign,
    "fmod": lambda a, b: math.nan if math.isinf(a) or b == 0 or a != a else math.fmod(a, b),
}


def _erf(a: np.float64) -> float:
    return math.erf(float(a))


_SAME_NAME = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh")

_DOUBLE_CALLS: Mapping[str, Callable[..., float | np.float64]] = {
    **{name: getattr(np, name) for name in _SAME_NAME},
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "pow": np.power,
    "erf": _erf,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
}
"""Double precision, one rounding away from exact: compare with a tolerance of a few ulps."""
