"""The functions by the name of their intrinsic, as LLVM text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from tensorsmith.codegen.llvm.builder import Builder
from tensorsmith.codegen.llvm.math import (
    error_function,
    exponential,
    fused,
    hyperbolic,
    integer,
    inverse_trigonometric,
    logarithm,
    power,
    reduction,
    remainder,
    rounding,
    trigonometric,
)
from tensorsmith.codegen.llvm.math.emitter import Emitter, Value
from tensorsmith.codegen.llvm.types import register_type, suffix
from tensorsmith.errors import DTypeError
from tensorsmith.ir.dtype import DType
from tensorsmith.ir.intrinsic import INTRINSICS

Formula: TypeAlias = Callable[..., Value]

NATIVE: Final[dict[str, Formula]] = {
    "abs": rounding.absolute,
    "ceil": rounding.ceil,
    "copysign": rounding.copysign,
    "erf": error_function.erf,
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "floor": rounding.floor,
    "fma": fused.fma,
    "isfinite": rounding.isfinite,
    "isinf": rounding.isinf,
    "isnan": rounding.isnan,
    "log": logarithm.log,
    "log10": logarithm.log10,
    "log1p": logarithm.log1p,
    "log2": logarithm.log2,
    "round": rounding.round_half_even,
    "rsqrt": power.rsqrt,
    "sigmoid": exponential.sigmoid,
    "sqrt": power.sqrt,
    "tanh": hyperbolic.tanh,
    "trunc": rounding.trunc,
}
"""Formulas that compute in the type of their operands."""

WIDENED: Final[dict[str, Formula]] = {
    "acos": inverse_trigonometric.acos,
    "acosh": hyperbolic.acosh,
    "asin": inverse_trigonometric.asin,
    "asinh": hyperbolic.asinh,
    "atan": inverse_trigonometric.atan,
    "atan2": inverse_trigonometric.atan2,
    "atanh": hyperbolic.atanh,
    "cos": trigonometric.cos,
    "cosh": hyperbolic.cosh,
    "fmod": remainder.fmod,
    "pow": power.pow,
    "sin": trigonometric.sin,
    "sinh": hyperbolic.sinh,
    "tan": trigonometric.tan,
}
"""Formulas that compute in f64, with shorter polynomials if the operands are f32."""

INTEGER: Final[dict[str, Callable[[Emitter, Value, int], Value]]] = {
    "abs": integer.absolute,
    "clz": integer.clz,
    "ctz": integer.ctz,
    "popcount": integer.popcount,
}
"""Formulas of integers; the last operand is the number of their bits."""

ATTRIBUTES: Final = "alwaysinline nounwind willreturn memory(none)"


@dataclass(frozen=True, slots=True)
class MathFunction:
    """An LLVM function that a module can hold and call.

    symbol: its name, without the ``@``. text: its definition. requires: what it calls, functions
    of ours or the ``declare`` lines of LLVM's.
    """

    symbol: str
    text: str
    requires: tuple[str | MathFunction, ...] = ()


def math_function(
    name: str, dtype: DType, lanes: int, *, has_fma: bool = True, has_scalef: bool = False
) -> MathFunction:
    """The intrinsic `name` on `lanes` values of `dtype` in registers (one lane: a scalar).

    dtype: float32, float64, or for the intrinsics of integers an integer type. has_fma: whether the
    target has a fused multiply-add; has_scalef: whether it has AVX-512's products with powers of
    two. Raises DTypeError for other types; the 16-bit floats compute in
    float32, and round.
    """
    if INTRINSICS[name].takes & dtype.kind == 0 or (dtype.is_float and dtype.bits == 16):
        raise DTypeError(
            f"there is no {name} of {dtype.name}",
            because="functions are made for float32, float64, and where they exist for integers",
            try_="cast to float32" if dtype.is_float else None,
        )
    element = register_type(dtype)
    b = Builder()
    grade = {"float": "f32", "double": "f64"}.get(element, "")
    m = Emitter(b, element, grade, lanes, has_fma=has_fma, has_scalef=has_scalef)
    args = [Value(m, element, f"%{letter}") for letter in "abc"[: INTRINSICS[name].arity]]
    result = _formula(m, name, dtype, args)
    variant = ("" if has_fma else "_nofma") + ("_scalef" if has_scalef else "")
    symbol = f"ts_{name}_{_suffix(element, lanes)}{variant}"
    return MathFunction(
        symbol,
        definition(symbol, b, args, result),
        (*b.declarations.values(), *map(reduction_function, dict.fromkeys(m.needs))),
    )


def _formula(m: Emitter, name: str, dtype: DType, args: list[Value]) -> Value:
    if not args[0].is_float:
        return INTEGER[name](m, args[0], dtype.bits)
    if name in NATIVE:
        return NATIVE[name](m, *args)
    if m.is_double:
        return WIDENED[name](m, *args)
    wide = m.widened("single")
    return m.narrow(WIDENED[name](wide, *(m.widen(a, wide) for a in args)))


def _suffix(element: str, lanes: int) -> str:
    return suffix(element, 1) + (f"x{lanes}" if lanes > 1 else "")


def definition(symbol: str, b: Builder, args: list[Value], result: Value) -> str:
    """The text of a function of `args` that gives `result`."""
    parameters = ", ".join(f"{a.type} {a.name}" for a in args)
    head = f"define internal {result.type} @{symbol}({parameters}) {ATTRIBUTES}"
    return f"{head} {{\n{b.text()}\n  ret {result.type} {result.name}\n}}\n"


def reduction_function(symbol: str) -> MathFunction:
    """The reduction modulo pi / 2 with this symbol."""
    scalar = MathFunction(reduction.SCALAR, *reduction.scalar_text())
    if symbol == reduction.SCALAR:
        return scalar
    lanes = int(symbol.rpartition("x")[2])
    return MathFunction(symbol, reduction.vector_text(lanes), (scalar,))


def library_text(functions: Iterable[str | MathFunction]) -> str:
    """The definitions of `functions` and of all that they require, and declarations, each once."""
    definitions: dict[str, str] = {}
    declarations: dict[str, None] = {}
    pending: list[str | MathFunction] = list(functions)
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            declarations[item] = None
        elif item.symbol not in definitions:
            definitions[item.symbol] = item.text
            pending += item.requires
    return "\n".join([*declarations, *definitions.values()])
