"""Conversions between element types, and between registers and memory.

16-bit floats are ``float`` in registers: `round_to` rounds a result to what its type can hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorsmith.codegen.llvm.integers import wrap
from tensorsmith.codegen.llvm.types import (
    float_literal,
    memory_type,
    register_type,
    suffix,
    vector,
)
from tensorsmith.ir.dtype import DType, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorsmith.codegen.llvm.module import ModuleText

    Emit = Callable[[str], str]


def _splat(element: str, text: str, lanes: int) -> str:
    return text if lanes == 1 else f"splat ({element} {text})"


# --- Registers and memory --------------------------------------------------------------------


def from_memory(module: ModuleText, emit: Emit, dtype: DType, raw: str, lanes: int) -> str:
    """The register value of what was loaded."""
    if dtype.is_bool:
        type_ = vector("i8", lanes)
        return emit(f"icmp ne {type_} {raw}, {'0' if lanes == 1 else 'zeroinitializer'}")
    if dtype.is_float and dtype.bits == 16:
        return _widen(module, emit, dtype, raw, lanes)
    return wrap(emit, dtype, raw, lanes) if dtype.is_integer else raw


def to_memory(module: ModuleText, emit: Emit, dtype: DType, value: str, lanes: int) -> str:
    """What is stored for a register value."""
    if dtype.is_bool:
        return emit(f"zext {vector('i1', lanes)} {value} to {vector('i8', lanes)}")
    if dtype.is_float and dtype.bits == 16:
        return _narrow(module, emit, dtype, value, lanes)
    if dtype.kind is Kind.INT and dtype.bits < 8:
        mask = _splat("i8", str((1 << dtype.bits) - 1), lanes)
        return emit(f"and {vector('i8', lanes)} {value}, {mask}")
    return value


def round_to(module: ModuleText, emit: Emit, dtype: DType, value: str, lanes: int) -> str:
    """A ``float`` result rounded to a 16-bit type; other types are what they are."""
    if not dtype.is_float or dtype.bits != 16:
        return value
    return _widen(module, emit, dtype, _narrow(module, emit, dtype, value, lanes), lanes)


def _widen(module: ModuleText, emit: Emit, dtype: DType, raw: str, lanes: int) -> str:
    """16 bits as a ``float``, exactly."""
    if dtype.name == "bfloat16":
        wide = emit(f"zext {vector('i16', lanes)} {raw} to {vector('i32', lanes)}")
        type_ = vector("i32", lanes)
        high = emit(f"shl {type_} {wide}, {_splat('i32', '16', lanes)}")
        return emit(f"bitcast {type_} {high} to {vector('float', lanes)}")
    if module.has_f16:
        half = emit(f"bitcast {vector('i16', lanes)} {raw} to {vector('half', lanes)}")
        return emit(f"fpext {vector('half', lanes)} {half} to {vector('float', lanes)}")
    symbol = module.conversion("f16_to_f32", lanes)
    return emit(f"call {vector('float', lanes)} @{symbol}({vector('i16', lanes)} {raw})")


def _narrow(module: ModuleText, emit: Emit, dtype: DType, value: str, lanes: int) -> str:
    """A ``float`` rounded to nearest even into 16 bits."""
    type_ = vector("float", lanes)
    if dtype.name == "float16" and module.has_f16:
        half = emit(f"fptrunc {type_} {value} to {vector('half', lanes)}")
        return emit(f"bitcast {vector('half', lanes)} {half} to {vector('i16', lanes)}")
    name = "f32_to_f16" if dtype.name == "float16" else "f32_to_bf16"
    symbol = module.conversion(name, lanes)
    return emit(f"call {vector('i16', lanes)} @{symbol}({type_} {value})")


# --- Casts -----------------------------------------------------------------------------------


def cast(
    module: ModuleText, emit: Emit, source: DType, target: DType, value: str, lanes: int
) -> str:
    """`value` converted as `tensorsmith.ir.expr` says."""
    source, target = source.element, target.element
    if source is target:
        return value
    if source.kind is Kind.STORAGE:
        value = _storage_to_float(module, emit, source, value, lanes)
        return _from_float(module, emit, "float", target, value, lanes)
    if source.is_float:
        return _from_float(module, emit, register_type(source), target, value, lanes)
    return _from_integer(module, emit, source, target, value, lanes)


def _from_integer(
    module: ModuleText, emit: Emit, source: DType, target: DType, value: str, lanes: int
) -> str:
    from_type = vector(register_type(source), lanes)
    unsigned = source.kind in (Kind.UINT, Kind.BOOL)
    if target.is_bool:
        zero = "0" if lanes == 1 else "zeroinitializer"
        return emit(f"icmp ne {from_type} {value}, {zero}")
    if target.is_integer:
        old, new = _width(source), _width(target)
        to_type = vector(register_type(target), lanes)
        if new > old:
            value = emit(f"{'zext' if unsigned else 'sext'} {from_type} {value} to {to_type}")
        elif new < old:
            value = emit(f"trunc {from_type} {value} to {to_type}")
        return wrap(emit, target, value, lanes)
    convert = "uitofp" if unsigned else "sitofp"
    if target.is_float and target.bits >= 32:
        return emit(f"{convert} {from_type} {value} to {vector(register_type(target), lanes)}")
    wide = emit(f"{convert} {from_type} {value} to {vector('double', lanes)}")
    return _from_float(module, emit, "double", target, wide, lanes)


def _width(dtype: DType) -> int:
    return 1 if dtype.is_bool else max(8, dtype.bits)


def _from_float(
    module: ModuleText, emit: Emit, element: str, target: DType, value: str, lanes: int
) -> str:
    """From a ``float`` or ``double`` register."""
    type_ = vector(element, lanes)
    if target.is_bool:
        zero = "0.0" if lanes == 1 else "zeroinitializer"
        return emit(f"fcmp une {type_} {value}, {zero}")
    if target.is_integer:
        return _saturate(module, emit, element, target, value, lanes)
    if target.is_float and target.bits == 64:
        if element == "double":
            return value
        return emit(f"fpext {type_} {value} to {vector('double', lanes)}")
    if element == "double":
        if target.bits < 32:  # two roundings must act as one
            value = _round_to_odd(emit, value, lanes)
        value = emit(f"fptrunc {type_} {value} to {vector('float', lanes)}")
    if target.kind is Kind.STORAGE:
        symbol = module.conversion(f"f32_to_{_short(target)}", lanes)
        type_ = vector("float", lanes)
        return emit(f"call {vector('i8', lanes)} @{symbol}({type_} {value})")
    return round_to(module, emit, target, value, lanes)


def _storage_to_float(module: ModuleText, emit: Emit, source: DType, value: str, lanes: int) -> str:
    symbol = module.conversion(f"{_short(source)}_to_f32", lanes)
    return emit(f"call {vector('float', lanes)} @{symbol}({vector('i8', lanes)} {value})")


def _short(dtype: DType) -> str:
    return dtype.name.partition("_")[2]


def _saturate(
    module: ModuleText, emit: Emit, element: str, target: DType, value: str, lanes: int
) -> str:
    unsigned = target.kind is Kind.UINT
    if lanes > 1 and module.target.is_x86:
        return _saturate_lanes(emit, element, target, value, lanes)
    narrow = f"i{target.bits}"
    name = (
        f"llvm.fpto{'u' if unsigned else 's'}i.sat.{suffix(narrow, lanes)}.{suffix(element, lanes)}"
    )
    to_type, type_ = vector(narrow, lanes), vector(element, lanes)
    module.declare(f"declare {to_type} @{name}({type_})")
    result = emit(f"call {to_type} @{name}({type_} {value})")
    if target.bits >= 8:
        return result
    return emit(f"{'zext' if unsigned else 'sext'} {to_type} {result} to {vector('i8', lanes)}")


def _saturate_lanes(emit: Emit, element: str, target: DType, value: str, lanes: int) -> str:
    """The same in vectors, where the machine converts what fits alone, and LLVM would take lane by
    lane. The bounds are powers of two, so each is a float.
    """
    unsigned = target.kind is Kind.UINT
    type_, masks = vector(element, lanes), vector("i1", lanes)
    above = _splat(element, float_literal(2.0 ** (target.bits - (not unsigned))), lanes)
    least = _splat(element, float_literal(float(target.min_value)), lanes)
    low = emit(f"fcmp olt {type_} {value}, {least}")
    raised = emit(f"select {masks} {low}, {type_} {least}, {type_} {value}")
    fits = emit(f"fcmp olt {type_} {raised}, {above}")  # not NaN, which becomes 0
    safe = emit(f"select {masks} {fits}, {type_} {raised}, {type_} zeroinitializer")
    wide = f"i{max(32, target.bits)}"
    sign = "u" if unsigned and target.bits >= 32 else "s"
    found = emit(f"fpto{sign}i {type_} {safe} to {vector(wide, lanes)}")
    high = emit(f"fcmp oge {type_} {value}, {above}")
    most = _splat(wide, str(target.max_value), lanes)
    wide_type = vector(wide, lanes)
    clipped = emit(f"select {masks} {high}, {wide_type} {most}, {wide_type} {found}")
    if target.bits >= 32:
        return clipped
    return emit(f"trunc {wide_type} {clipped} to {vector(f'i{max(8, target.bits)}', lanes)}")


def _round_to_odd(emit: Emit, value: str, lanes: int) -> str:
    """A double cut to the precision of a float, its last bit set if anything was cut off; then
    rounding it once more, to fewer bits, is as rounding the original.

    Source: Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008.
    """
    type_ = vector("i64", lanes)
    bits = emit(f"bitcast {vector('double', lanes)} {value} to {type_}")
    cut = emit(f"and {type_} {bits}, {_splat('i64', str((1 << 29) - 1), lanes)}")
    zero = "0" if lanes == 1 else "zeroinitializer"
    inexact = emit(f"icmp ne {type_} {cut}, {zero}")
    kept = emit(f"and {type_} {bits}, {_splat('i64', str(-(1 << 29)), lanes)}")
    sticky = emit(f"zext {vector('i1', lanes)} {inexact} to {type_}")
    shifted = emit(f"shl {type_} {sticky}, {_splat('i64', '29', lanes)}")
    odd = emit(f"or {type_} {kept}, {shifted}")
    return emit(f"bitcast {type_} {odd} to {vector('double', lanes)}")


def reinterpret(
    module: ModuleText, emit: Emit, source: DType, target: DType, value: str, lanes: int
) -> str:
    """The bits of `value` as another type of the same width."""
    raw = to_memory(module, emit, source, value, lanes)
    old, new = memory_type(source), memory_type(target)
    if old != new:
        raw = emit(f"bitcast {vector(old, lanes)} {raw} to {vector(new, lanes)}")
    return from_memory(module, emit, target, raw, lanes)
