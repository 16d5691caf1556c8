"""The largest error of an f32 function over a range of bit patterns, measured by native code.

The reference is our own function in f64, which other tests hold against true values.
"""

import ctypes
from typing import NamedTuple

from codegen.llvm.math.compiled import engine
from tensorsmith.codegen.llvm.builder import Builder
from tensorsmith.codegen.llvm.math import library_text, math_function
from tensorsmith.codegen.llvm.math.emitter import Emitter, Value
from tensorsmith.ir.dtype import float32, float64

LANES = 8
OVERFLOW = float.fromhex("0x1.ffffffp127")
"""From here on a real number rounds to infinity in f32."""


class Worst(NamedTuple):
    """The largest error, in units in the last place, and the bits of an argument that has it."""

    error: float
    bits: int


def _error(m, got, true):
    """The distance in units in the last place of f32; infinite if only one is NaN or infinite."""
    field = (true.bits() >> 52) & 0x7FF
    field = m.select(field < 1023 - 126, 1023 - 126, field)
    inverse_ulp = ((1023 + 23 + 1023 - field) << 52).as_float()
    distance = m.abs(got - true) * inverse_ulp
    infinity = m.number(float("inf"))
    overflows = m.abs(true) >= OVERFLOW
    same = overflows & got.equal(m.copysign(infinity, true))
    wrong = m.select(same, 0.0, infinity)
    distance = m.select(distance < infinity, distance, wrong)
    both = got.is_nan() & true.is_nan()
    return m.select(both, 0.0, distance)


def _kernel(name, *, fma):
    """Text of a function (first bits, number of vectors, places of worst error and its bits)."""
    narrow = math_function(name, float32, LANES, has_fma=fma)
    wide = math_function(name, float64, LANES, has_fma=fma)
    b = Builder()
    m = Emitter(b, "double", "f64", LANES, has_fma=fma)
    bits = Value(m, "i32", "%bits")
    x = bits.as_float()
    got = b.call(narrow.symbol, x.type, (x.type, x.name))
    got = Value(m, "float", got).convert("fpext", "double")
    x64 = x.convert("fpext", "double")
    true = Value(m, "double", b.call(wide.symbol, x64.type, (x64.type, x64.name)))
    error = _error(m, got, true)
    worst, where = Value(m, "double", "%worst"), Value(m, "i32", "%where")
    larger = error > worst
    new_worst, new_where = m.select(larger, error, worst), m.select(larger, bits, where)
    step = bits + LANES
    d, i = x64.type, bits.type
    lanes = ", ".join(f"i32 {lane}" for lane in range(LANES))
    return (
        library_text([narrow, wide, *b.declarations.values()])
        + f"""
define void @scan(i32 %start, i64 %n, ptr %worst_out, ptr %where_out) {{
entry:
  %s0 = insertelement {i} poison, i32 %start, i32 0
  %s1 = shufflevector {i} %s0, {i} poison, {i} zeroinitializer
  %first = add {i} %s1, <{lanes}>
  br label %loop
loop:
  %bits = phi {i} [ %first, %entry ], [ {step.name}, %loop ]
  %worst = phi {d} [ zeroinitializer, %entry ], [ {new_worst.name}, %loop ]
  %where = phi {i} [ zeroinitializer, %entry ], [ {new_where.name}, %loop ]
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
{b.text()}
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  store {d} {new_worst.name}, ptr %worst_out, align 8
  store {i} {new_where.name}, ptr %where_out, align 4
  ret void
}}
"""
    )


def worst_error(name, first_bits=0, count=1 << 32, *, fma=True):
    """The largest error of the function `name` over `count` f32, by their bits."""
    jit, *kept = engine(_kernel(name, fma=fma), fma=fma)
    signature = ctypes.CFUNCTYPE(
        None, ctypes.c_uint32, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
    )
    scan = signature(jit.get_function_address("scan"))
    errors, places = (ctypes.c_double * LANES)(), (ctypes.c_uint32 * LANES)()
    scan(first_bits, count // LANES, ctypes.addressof(errors), ctypes.addressof(places))
    del kept
    return max(Worst(e, p) for e, p in zip(errors, places, strict=True))
