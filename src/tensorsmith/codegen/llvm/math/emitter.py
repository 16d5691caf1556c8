"""Formulas on LLVM values: Python's operators emit instructions.

A `Value` is a scalar or a vector in a register. The functions of this package are written with
values as one writes the formula, and know neither the number of lanes nor, mostly, the precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tensorsmith.codegen.llvm.builder import Builder, constant
from tensorsmith.codegen.llvm.math.coefficients import POLYNOMIALS
from tensorsmith.codegen.llvm.types import vector

Operand: TypeAlias = "Value | float"

FLOAT_BITS = {"float": 32, "double": 64}


class Value:
    """A named LLVM value of element type `element`, with the lanes of its emitter.

    Comparisons of floats are false on NaN, except `not_equal`; those of integers are signed.
    ``>>`` shifts in zeros.
    """

    __slots__ = ("element", "emitter", "name")
    __hash__ = None  # type: ignore[assignment]  # `==` would be mistaken for a comparison of lanes

    def __init__(self, emitter: Emitter, element: str, name: str) -> None:
        self.emitter = emitter
        self.element = element
        self.name = name

    @property
    def is_float(self) -> bool:
        """Whether it holds floats."""
        return self.element in FLOAT_BITS

    def _binary(self, opcode: str, other: Operand) -> Value:
        return self.emitter.emit(opcode, self, other)

    def _arithmetic(self, opcode: str, other: Operand) -> Value:
        return self._binary(f"f{opcode}" if self.is_float else opcode, other)

    def __add__(self, other: Operand) -> Value:
        return self._arithmetic("add", other)

    def __sub__(self, other: Operand) -> Value:
        return self._arithmetic("sub", other)

    def __rsub__(self, other: float) -> Value:
        return self.like(other) - self

    def __mul__(self, other: Operand) -> Value:
        return self._arithmetic("mul", other)

    def __truediv__(self, other: Operand) -> Value:
        return self._binary("fdiv", other)

    def __rtruediv__(self, other: float) -> Value:
        return self.like(other) / self

    def __neg__(self) -> Value:
        if not self.is_float:
            return 0 - self
        b = self.emitter.builder
        return Value(self.emitter, self.element, b.emit("fneg", self.type, self.name))

    def __and__(self, other: Operand) -> Value:
        return self._binary("and", other)

    def __or__(self, other: Operand) -> Value:
        return self._binary("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._binary("xor", other)

    def __invert__(self) -> Value:
        return self ^ (1 if self.element == "i1" else -1)

    def __lshift__(self, count: Operand) -> Value:
        return self._binary("shl", count)

    def __rshift__(self, count: Operand) -> Value:
        return self._binary("lshr", count)

    def shift_signed(self, count: Operand) -> Value:
        """Shifted right, with the sign shifted in."""
        return self._binary("ashr", count)

    def _compare(self, float_code: str, integer_code: str, other: Operand) -> Value:
        opcode = f"fcmp {float_code}" if self.is_float else f"icmp {integer_code}"
        return self.emitter.emit(opcode, self, other, "i1")

    def __lt__(self, other: Operand) -> Value:
        return self._compare("olt", "slt", other)

    def __le__(self, other: Operand) -> Value:
        return self._compare("ole", "sle", other)

    def __gt__(self, other: Operand) -> Value:
        return self._compare("ogt", "sgt", other)

    def __ge__(self, other: Operand) -> Value:
        return self._compare("oge", "sge", other)

    def equal(self, other: Operand) -> Value:
        """Where both are the same number."""
        return self._compare("oeq", "eq", other)

    def not_equal(self, other: Operand) -> Value:
        """Where they differ, or one is NaN."""
        return self._compare("une", "ne", other)

    def is_nan(self) -> Value:
        """Where it is not a number."""
        return self._compare("uno", "ne", self)

    @property
    def type(self) -> str:
        """Its LLVM type."""
        return vector(self.element, self.emitter.lanes)

    def like(self, number: float) -> Value:
        """A constant of its type."""
        return self.emitter.constant(self.element, number)

    def bits(self) -> Value:
        """The bits of a float as an integer."""
        return self.convert("bitcast", f"i{FLOAT_BITS[self.element]}")

    def as_float(self) -> Value:
        """The float with these bits."""
        return self.convert("bitcast", {"i32": "float", "i64": "double"}[self.element])

    def convert(self, opcode: str, element: str) -> Value:
        """A conversion, by the name of its instruction."""
        e = self.emitter
        name = e.builder.convert(opcode, self.type, self.name, vector(element, e.lanes))
        return Value(e, element, name)


class Emitter:
    """Emits formulas over values of `lanes` lanes.

    element: the float type that the formulas compute in, 'float' or 'double'. grade: how precise
    the result must be, 'f32', 'f64', or 'single': that of f32, computed in f64. has_fma: whether
    the target has a fused multiply-add; without it, none is emitted. has_scalef: whether it has
    the instruction of AVX-512 that multiplies by a power of two, for vectors of each width.
    """

    __slots__ = ("builder", "element", "grade", "has_fma", "has_scalef", "lanes", "needs")

    def __init__(
        self,
        builder: Builder,
        element: str,
        grade: str,
        lanes: int,
        *,
        has_fma: bool,
        has_scalef: bool = False,
    ) -> None:
        self.builder = builder
        self.element = element
        self.grade = grade
        self.lanes = lanes
        self.has_fma = has_fma
        self.has_scalef = has_scalef and lanes * FLOAT_BITS.get(element, 0) in (128, 256, 512)
        self.needs: list[str] = []
        """Names of the auxiliary functions that are called."""

    @property
    def is_double(self) -> bool:
        """Whether formulas compute in f64."""
        return self.element == "double"

    @property
    def integer(self) -> str:
        """The integer type as wide as the float type."""
        return "i64" if self.is_double else "i32"

    def constant(self, element: str, number: float) -> Value:
        """`number` in every lane."""
        return Value(self, element, constant(element, self.lanes, number))

    def number(self, number: float) -> Value:
        """A float constant of the type that formulas compute in."""
        return self.constant(self.element, number)

    def emit(self, opcode: str, a: Value, b: Operand, element: str | None = None) -> Value:
        """An instruction with two operands; a Python number takes the type of `a`."""
        other = b if isinstance(b, Value) else a.like(b)
        name = self.builder.emit(opcode, a.type, a.name, other.name)
        return Value(self, element or a.element, name)

    def intrinsic(self, name: str, *operands: Value, flag: bool | None = None) -> Value:
        """An LLVM intrinsic on operands of one type, which the result has, too."""
        first, names = operands[0], [o.name for o in operands]
        if flag is not None:
            names.append(str(flag).lower())
        result = self.builder.intrinsic(name, first.element, self.lanes, *names)
        return Value(self, first.element, result)

    def select(self, condition: Value, a: Operand, b: Operand) -> Value:
        """In each lane `a` where the condition holds, else `b`; at least one is a Value."""
        like = a if isinstance(a, Value) else b
        assert isinstance(like, Value)
        first = a if isinstance(a, Value) else like.like(a)
        second = b if isinstance(b, Value) else like.like(b)
        name = self.builder.select(
            *(condition.type, condition.name, like.type, first.name, second.name)
        )
        return Value(self, like.element, name)

    def at_least(self, x: Value, low: float) -> Value:
        """The greater of `x` and `low`; NaN stays."""
        return self.select(x.like(low) > x, low, x)

    def at_most(self, x: Value, high: float) -> Value:
        """The lesser of `x` and `high`; NaN stays."""
        return self.select(x.like(high) < x, high, x)

    def abs(self, x: Value) -> Value:
        """The magnitude of a float."""
        return self.intrinsic("fabs", x)

    def copysign(self, magnitude: Value, sign: Value) -> Value:
        """The magnitude of one with the sign of the other."""
        return self.intrinsic("copysign", magnitude, sign)

    def sqrt(self, x: Value) -> Value:
        """The square root, rounded correctly."""
        return self.intrinsic("sqrt", x)

    def sign_bit(self, x: Value) -> Value:
        """Where the sign of a float is minus, also of -0."""
        return x.bits() < 0

    def multiply_add(self, a: Value, b: Operand, c: Operand) -> Value:
        """The value of a * b + c, rounded once if the target can, else twice."""
        factor = b if isinstance(b, Value) else a.like(b)
        addend = c if isinstance(c, Value) else a.like(c)
        if self.has_fma:
            return self.intrinsic("fma", a, factor, addend)
        return a * factor + addend

    def scaled(self, x: Value, k: Value) -> Value:
        """The product x * 2**k of whole k, rounded once also where it is denormal; of targets that
        have it in one instruction."""
        type_, bits = x.type, self.lanes * FLOAT_BITS[x.element]
        mask = f"i{max(self.lanes, 8)}"
        letter = "d" if self.is_double else "s"
        symbol = f"llvm.x86.avx512.mask.scalef.p{letter}.{bits}"
        operands = [(type_, x.name), (type_, k.name), (type_, "zeroinitializer"), (mask, "-1")]
        if bits == 512:
            operands.append(("i32", "4"))  # rounded as the thread rounds
        types = ", ".join(type_ for type_, _ in operands)
        self.builder.declarations[symbol] = f"declare {type_} @{symbol}({types})"
        return Value(self, x.element, self.builder.call(symbol, type_, *operands))

    def horner(self, coefficients: Sequence[float], t: Value) -> Value:
        """The polynomial of `t` with these coefficients, the constant term first."""
        *rest, last = coefficients
        total = t.like(last)
        for c in reversed(rest):
            total = self.multiply_add(total, t, c)
        return total

    def polynomial(self, name: str, t: Value) -> Value:
        """The fitted polynomial `name`, of this emitter's grade."""
        return self.horner(POLYNOMIALS[name, self.grade], t)

    def odd_polynomial(self, name: str, x: Value) -> Value:
        """The odd x + x z P(z), z = x**2, of the fitted P; with the sign of x, also at -0."""
        z = x * x
        return self.copysign(self.multiply_add(x * z, self.polynomial(name, z), x), x)

    def round_to_integer(self, x: Value, bias: int = 0) -> tuple[Value, Value]:
        """The nearest whole number of |x| < 2**21, as a float, and bits that hold it plus `bias`.

        Only the low 9 bits of the latter (and as many above them as x + bias needs) mean something.
        """
        shifter = 1.5 * 2.0 ** (52 if self.is_double else 23) + bias
        return self._rounded(x + shifter, shifter)

    def scale_and_round(self, x: Value, scale: float, bias: int = 0) -> tuple[Value, Value]:
        """As `round_to_integer`, of x * scale."""
        shifter = 1.5 * 2.0 ** (52 if self.is_double else 23) + bias
        return self._rounded(self.multiply_add(x, scale, shifter), shifter)

    def _rounded(self, shifted: Value, shifter: float) -> tuple[Value, Value]:
        return shifted - shifter, shifted.bits()

    def widened(self, grade: str) -> Emitter:
        """An emitter of f64 formulas into the same function."""
        fma, scalef = self.has_fma, self.has_scalef
        wide = Emitter(self.builder, "double", grade, self.lanes, has_fma=fma, has_scalef=scalef)
        wide.needs = self.needs
        return wide

    def widen(self, x: Value, wide: Emitter) -> Value:
        """The f32 value `x` as f64, for formulas of `wide`."""
        return Value(wide, "double", x.convert("fpext", "double").name)

    def narrow(self, x: Value) -> Value:
        """The f64 value `x` of another emitter, rounded to f32."""
        return Value(self, "float", x.convert("fptrunc", "float").name)
