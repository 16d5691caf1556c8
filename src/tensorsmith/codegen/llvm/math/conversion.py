"""Narrow floats to and from f32 by integer arithmetic, and packed integers.

For machines without the instruction. To narrow is to round to nearest, halves to even. What is too
large becomes infinite, or NaN in a format without infinities, as ml_dtypes has it. A NaN stays one,
quiet, with its sign and the payload that fits. Denormals of the narrow format are converted by
arithmetic on normal f32 only, which is fast, and the same however the machine treats denormals.
A format without NaN has its greatest number for what is too large, and 0 for NaN.

Casts from floats to integers need nothing of this kind: ``llvm.fptosi.sat`` and ``llvm.fptoui.sat``
saturate and give 0 for NaN, as the semantics of `tensorsmith.ir.expr` want it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tensorsmith.codegen.llvm.builder import Builder
from tensorsmith.codegen.llvm.math.emitter import Emitter, Value
from tensorsmith.codegen.llvm.math.library import MathFunction, definition
from tensorsmith.codegen.llvm.types import vector

INFINITY: Final = 0x7F800000
QUIET: Final = 0x00400000
F32_BIAS: Final = 127


@dataclass(frozen=True, slots=True)
class Format:
    """A float format with a sign bit, `fraction` stored bits and this exponent bias."""

    bits: int
    fraction: int
    bias: int
    infinite: bool = True
    """Whether the greatest exponent means infinities and NaNs, as in IEEE 754."""
    unsigned_zero: bool = False
    """Whether the only NaN is where -0 would be (``fnuz``)."""
    finite: bool = False
    """Whether it has neither infinities nor NaN. Formats below 8 bits lie in a byte each."""

    @property
    def shift(self) -> int:
        """How many bits the fraction of f32 has more."""
        return 23 - self.fraction

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        """The bits of infinity, if there is one."""
        return self.sign - (1 << self.fraction)

    @property
    def greatest(self) -> int:
        """The bits of the greatest magnitude that is not NaN."""
        if self.infinite:
            return self.infinity
        return self.sign - (1 if self.unsigned_zero or self.finite else 2)


FORMATS: Final = {
    "f16": Format(16, 10, 15),
    "e4m3fn": Format(8, 3, 7, infinite=False),
    "e4m3fnuz": Format(8, 3, 8, infinite=False, unsigned_zero=True),
    "e5m2": Format(8, 2, 15),
    "e5m2fnuz": Format(8, 2, 16, infinite=False, unsigned_zero=True),
    "e2m3fn": Format(6, 3, 1, infinite=False, finite=True),
    "e3m2fn": Format(6, 2, 3, infinite=False, finite=True),
    "e2m1fn": Format(4, 1, 1, infinite=False, finite=True),
}
"""The formats that are like f32, by the end of their name."""

STORAGE_BITS: Final = {"bf16": 16, "e8m0fnu": 8} | {
    name: max(8, f.bits) for name, f in FORMATS.items()
}


def _to_f32(m: Emitter, raw: Value, form: Format) -> Value:
    """The f32 with the value of the format's bits."""
    code = raw.convert("zext", "i32")
    magnitude = code & (form.sign - 1)
    sign = (code & form.sign) << (32 - form.bits)
    normal = (magnitude << form.shift) + ((F32_BIAS - form.bias) << 23)
    unit = 2.0 ** (1 - form.bias - form.fraction)
    denormal = (magnitude.convert("sitofp", "float") * unit).bits()
    result = m.select(magnitude < (1 << form.fraction), denormal, normal)
    if form.infinite:
        is_special = magnitude > form.infinity - 1
        payload = (magnitude << form.shift) | INFINITY
        payload = m.select(magnitude > form.infinity, payload | QUIET, payload)
        result = m.select(is_special, payload, result)
    elif form.unsigned_zero:
        result = m.select(code.equal(form.sign), INFINITY | QUIET, result)
    elif not form.finite:
        result = m.select(magnitude > form.greatest, INFINITY | QUIET, result)
    return (result | sign).as_float()


def _from_f32(m: Emitter, x: Value, form: Format) -> Value:
    """The bits of the format's number nearest to an f32."""
    code = x.bits()
    magnitude = code & 0x7FFFFFFF
    rounding = ((magnitude >> form.shift) & 1) + ((1 << (form.shift - 1)) - 1)
    normal = ((magnitude + rounding) >> form.shift) - ((F32_BIAS - form.bias) << form.fraction)
    # The unit of this number's last place is the least denormal: the sum is rounded to it.
    shifter = m.number(2.0 ** (1 - form.bias - form.fraction + 23))
    denormal = (magnitude.as_float() + shifter).bits() - shifter.bits()
    small = magnitude < ((F32_BIAS + 1 - form.bias) << 23)
    result = m.select(small, denormal, normal)
    is_nan = magnitude > INFINITY
    sign = (code >> (32 - form.bits)) & form.sign
    if form.unsigned_zero:
        result = m.select(result.equal(0), 0, result | sign)
        too_large = magnitude > _f32_bits_below_overflow(form)
        return m.select(too_large, form.sign, result).convert("trunc", "i8")
    if form.finite:
        result = m.select(result > form.greatest, form.greatest, result) | sign
        return m.select(is_nan, sign ^ form.sign, result).convert("trunc", "i8")
    over = form.infinity if form.infinite else form.sign - 1
    result = m.select(result > form.greatest, over, result)
    quiet = form.infinity | (1 << (form.fraction - 1)) if form.infinite else form.sign - 1
    payload = ((magnitude >> form.shift) & ((1 << form.fraction) - 1)) | quiet
    result = m.select(is_nan, payload, result) | sign
    return result.convert("trunc", f"i{form.bits}")


def _f32_bits_below_overflow(form: Format) -> int:
    """The bits of the greatest f32 that rounds to the greatest number of a ``fnuz`` format."""
    greatest = (form.greatest + ((F32_BIAS - form.bias) << form.fraction)) << form.shift
    return greatest + (1 << (form.shift - 1)) - 1  # the tie goes to the even neighbour: over


def _bf16_to_f32(m: Emitter, raw: Value) -> Value:
    return (raw.convert("zext", "i32") << 16).as_float()


def _f32_to_bf16(m: Emitter, x: Value) -> Value:
    code = x.bits()
    rounded = code + ((code >> 16) & 1) + 0x7FFF
    result = m.select(x.is_nan(), code | QUIET, rounded)
    return (result >> 16).convert("trunc", "i16")


def _e8m0fnu_to_f32(m: Emitter, raw: Value) -> Value:
    code = raw.convert("zext", "i32")
    result = m.select(code.equal(0), QUIET, code << 23)  # 2**-127 is a denormal
    return m.select(code.equal(255), INFINITY | QUIET, result).as_float()


def _f32_to_e8m0fnu(m: Emitter, x: Value) -> Value:
    """The nearest power of two; NaN of what is not a positive number or too large."""
    code = x.bits()
    # Ties go up, and as in ml_dtypes denormals are rounded by their bits, except 2**-127 itself.
    rounded = m.select(code.equal(QUIET), 0, (code + (1 << 22)) >> 23)
    defined = (code > 0) & (code < INFINITY)
    return m.select(defined, rounded, 255).convert("trunc", "i8")


def conversion(name: str, lanes: int) -> MathFunction:
    """The function '<from>_to_<to>' between f32 and the bits of a narrow format.

    The other format is bf16, e8m0fnu or one of `FORMATS`; its bits are an i16 or i8. For example
    ``f16_to_f32`` takes <lanes x i16> and gives <lanes x float>.
    """
    source, _, target = name.partition("_to_")
    widens = target == "f32"
    narrow = source if widens else target
    b = Builder()
    m = Emitter(b, "float", "f32", lanes, has_fma=False)
    x = Value(m, f"i{STORAGE_BITS[narrow]}" if widens else "float", "%a")
    if narrow == "bf16":
        result = _bf16_to_f32(m, x) if widens else _f32_to_bf16(m, x)
    elif narrow == "e8m0fnu":
        result = _e8m0fnu_to_f32(m, x) if widens else _f32_to_e8m0fnu(m, x)
    else:
        result = (_to_f32 if widens else _from_f32)(m, x, FORMATS[narrow])
    symbol = f"ts_{name}" + (f"_x{lanes}" if lanes > 1 else "")
    return MathFunction(symbol, definition(symbol, b, [x], result), (*b.declarations.values(),))


def unpack(bits: int, lanes: int, *, signed: bool) -> MathFunction:
    """The function that spreads packed integers of 1, 2 or 4 bits to a byte each.

    It takes <lanes * bits / 8 x i8>, the first integer in the lowest bits, and gives <lanes x i8>,
    extended by sign or by zeros. lanes: a multiple of 8 / bits, and more than one byte's worth.
    """
    per_byte = 8 // bits
    count = lanes // per_byte
    assert bits in (1, 2, 4)
    assert lanes == count * per_byte
    assert count > 1
    b = Builder()
    type, source = f"<{lanes} x i8>", f"<{count} x i8>"
    where = ", ".join(f"i32 {lane // per_byte}" for lane in range(lanes))
    spread = b.value(f"shufflevector {source} %a, {source} poison, <{lanes} x i32> <{where}>")
    offsets = [lane % per_byte * bits for lane in range(lanes)]
    left = ", ".join(f"i8 {8 - bits - offset}" for offset in offsets)
    raised = b.emit("shl", type, spread, f"<{left}>")
    result = b.emit("ashr" if signed else "lshr", type, raised, f"splat (i8 {8 - bits})")
    symbol = f"ts_unpack_{'i' if signed else 'u'}{bits}_x{lanes}"
    head = f"define internal {vector('i8', lanes)} @{symbol}({source} %a) alwaysinline nounwind"
    text = f"{head} {{\n{b.text()}\n  ret {type} {result}\n}}\n"
    return MathFunction(symbol, text)
