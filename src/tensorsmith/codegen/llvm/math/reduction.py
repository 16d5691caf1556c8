"""The remainder modulo pi / 2 of all numbers: Payne and Hanek, SIGNUM Newsletter 18, 1983.

x = m 2**e with a whole m of 53 bits. Bits of 2 / pi that make multiples of 4 with 2**e do not
matter, nor do those far behind: 192 bits from the right place give k modulo 4 and 126 bits of the
fraction. At most 61 of them are zeros at its front: no f64 is closer to a multiple of pi / 2.
"""

from __future__ import annotations

import itertools
from typing import Final, NamedTuple

from tensorsmith.codegen.llvm.builder import Builder
from tensorsmith.codegen.llvm.math import coefficients as c
from tensorsmith.codegen.llvm.math.emitter import Emitter, Value
from tensorsmith.codegen.llvm.math.extended import Pair, fast_two_sum, pair_times_pair
from tensorsmith.codegen.llvm.types import vector

SCALAR: Final = "ts_reduce_f64"
"""The symbol of the function of one number."""
TABLE: Final = "ts_two_over_pi"


class Fork(NamedTuple):
    """A branch between a fast and an exact way."""

    m: Emitter
    name: str

    def otherwise(self) -> None:
        """End the fast way, begin the exact one."""
        self.m.builder.branch(f"{self.name}.done")
        self.m.builder.label(f"{self.name}.large")


def begin_large(m: Emitter, large: Value) -> Fork:
    """Branch on whether any lane is `large`, and begin the way for when none is."""
    b = m.builder
    fork = Fork(m, f"reduce.{b.name()}")
    some = b.intrinsic("vector.reduce.or", "i1", m.lanes, large.name) if m.lanes > 1 else large.name
    b.branch_if(some, f"{fork.name}.large", f"{fork.name}.small")
    b.label(f"{fork.name}.small")
    return fork


def end_large(fork: Fork, small: tuple[Value, ...], large: tuple[Value, ...]) -> tuple[Value, ...]:
    """Join both ways."""
    b, name = fork.m.builder, fork.name
    b.branch(f"{name}.done")
    b.label(f"{name}.done")
    chosen = []
    for s, e in zip(small, large, strict=True):
        phi = b.phi(s.type, (s.name, f"{name}.small"), (e.name, f"{name}.large"))
        chosen.append(Value(fork.m, s.element, phi))
    return tuple(chosen)


def result_type(lanes: int) -> str:
    """What the function gives: k, and r in two parts."""
    return f"{{ {vector('i64', lanes)}, {vector('double', lanes)}, {vector('double', lanes)} }}"


def symbol(lanes: int) -> str:
    """The symbol of the function of `lanes` numbers."""
    return SCALAR if lanes == 1 else f"{SCALAR}x{lanes}"


def exact_reduction(m: Emitter, x: Value) -> tuple[Value, Value, Value]:
    """The k and r of x, by a call."""
    m.needs.append(symbol(m.lanes))
    type = result_type(m.lanes)
    result = m.builder.call(symbol(m.lanes), type, (x.type, x.name))

    def part(i: int, element: str) -> Value:
        return Value(m, element, m.builder.value(f"extractvalue {type} {result}, {i}"))

    return part(0, "i64"), part(1, "double"), part(2, "double")


def vector_text(lanes: int) -> str:
    """The function of `lanes` numbers: that of one, lane by lane."""
    b, type, scalar = Builder(), result_type(lanes), result_type(1)
    parts = [("i64", "zeroinitializer"), ("double", "zeroinitializer")]
    parts.append(parts[1])
    for lane in range(lanes):
        x = b.value(f"extractelement {vector('double', lanes)} %x, i32 {lane}")
        reduced = b.call(SCALAR, scalar, ("double", x))
        for i, (element, old) in enumerate(parts):
            part = b.value(f"extractvalue {scalar} {reduced}, {i}")
            whole = vector(element, lanes)
            new = b.value(f"insertelement {whole} {old}, {element} {part}, i32 {lane}")
            parts[i] = (element, new)
    _return(b, type, [(vector(element, lanes), value) for element, value in parts])
    head = f"define internal {type} @{symbol(lanes)}({vector('double', lanes)} %x)"
    return f"{head} noinline nounwind {{\n{b.text()}\n}}\n"


def _return(b: Builder, type: str, parts: list[tuple[str, str]]) -> None:
    whole = "poison"
    for i, (element, value) in enumerate(parts):
        whole = b.value(f"insertvalue {type} {whole}, {element} {value}, {i}")
    b.line(f"ret {type} {whole}")


def _table_words(m: Emitter, first: Value, count: int) -> list[Value]:
    """`count` words of 2 / pi from word `first` on."""
    b, size, words = m.builder, len(c.TWO_OVER_PI_WORDS), []
    for i in range(count):
        place = f"getelementptr [{size} x i64], ptr @{TABLE}, i64 0, i64 {(first + i).name}"
        words.append(Value(m, "i64", b.value(f"load i64, ptr {b.value(place)}")))
    return words


def _product(m: Emitter, significand: Value, exponent: Value) -> Value:
    """significand 2**exponent 2 / pi modulo 4: an i128 with 126 bits behind the point."""
    offset = exponent + 62  # the first word of the table is zeros
    word, shift = offset >> 6, offset & 63
    raw = _table_words(m, word, 4)
    shifted = []
    for left, right in itertools.pairwise(raw):
        shifted.append(m.intrinsic("fshl", left, right, shift).convert("zext", "i128"))
    wide = significand.convert("zext", "i128")
    last = (wide * shifted[2]) >> 64
    return ((wide * shifted[0]) << 64) + wide * shifted[1] + last


def _to_pair(m: Emitter, fraction: Value) -> Pair:
    """The i128, times 2**-126, as a pair: from pieces of 42 bits, which are exact floats."""
    pieces = []
    for shift in (84, 42, 0):
        piece = fraction.shift_signed(shift).convert("trunc", "i64")
        piece = piece if shift == 84 else piece & ((1 << 42) - 1)
        pieces.append(piece.convert("sitofp", "double") * 2.0 ** (shift - 126))
    first = fast_two_sum(pieces[0], pieces[1])
    return fast_two_sum(first.high, first.low + pieces[2])


def scalar_text() -> tuple[str, tuple[str, ...]]:
    """The function of one number with the table of the bits of 2 / pi, and its declarations."""
    b = Builder()
    m = Emitter(b, "double", "f64", 1, has_fma=False)
    x = Value(m, "double", "%x")
    bits = x.bits()
    biased = (bits >> 52) & 0x7FF
    significand = (bits & ((1 << 52) - 1)) | (1 << 52)
    finite = biased < 0x7FF
    # Small numbers come here next to large ones; from 2**-9 on the formula holds for them, too.
    exponent = m.select(finite, biased - 1075, 0)
    tiny = exponent < -62
    product = _product(m, significand, m.select(tiny, 0, exponent))
    k = (product + (1 << 125)) >> 126
    pair = _to_pair(m, product - (k << 126))
    half_pi = Pair(m.number(c.HALF_PI[0]), m.number(c.HALF_PI[1]))
    r = pair_times_pair(m, pair, half_pi)
    quadrant, negative = k.convert("trunc", "i64"), bits < 0
    quadrant = m.select(negative, -quadrant, quadrant)
    high, low = (m.select(negative, -part, part) for part in r)
    quadrant = m.select(tiny, 0, quadrant)
    high, low = m.select(tiny, x, high), m.select(tiny, 0.0, low)
    high = m.select(finite, high, float("nan"))
    _return(b, result_type(1), [("i64", quadrant.name), *(("double", v.name) for v in (high, low))])
    words = ", ".join(f"i64 {w}" for w in c.TWO_OVER_PI_WORDS)
    table = f"@{TABLE} = internal constant [{len(c.TWO_OVER_PI_WORDS)} x i64] [{words}]"
    head = f"define internal {result_type(1)} @{SCALAR}(double %x) noinline nounwind"
    return f"{table}\n{head} {{\n{b.text()}\n}}\n", tuple(b.declarations.values())
