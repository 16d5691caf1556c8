"""Congruences ``x % modulus == residue``, and their domain of scalar expressions.

Modulus 0 means that x is the constant `residue`; modulus 1 tells nothing. The classical domain of
arithmetical congruences (Granger, 1989).
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, Final, NamedTuple

from tensorsmith.ir import expr as ir
from tensorsmith.ir.expr import Expr


class Congruence(NamedTuple):
    """``x = modulus * k + residue`` for some integer k.

    ``0 <= residue < modulus``, unless the modulus is 0.
    """

    modulus: int
    residue: int

    def residue_modulo(self, divisor: int) -> int | None:
        """``x % divisor`` for a positive divisor, where it is known."""
        if self.modulus % divisor == 0:
            return self.residue % divisor
        return None


UNKNOWN: Final = Congruence(1, 0)


def make(modulus: int, residue: int) -> Congruence:
    """The congruence with its residue brought into range."""
    modulus = abs(modulus)
    return Congruence(modulus, residue % modulus if modulus else residue)


def add(a: Congruence, b: Congruence) -> Congruence:
    """Of a sum."""
    return make(gcd(a.modulus, b.modulus), a.residue + b.residue)


def scale(a: Congruence, k: int) -> Congruence:
    """Of a product with the constant `k`."""
    return make(a.modulus * k, a.residue * k)


def multiply(a: Congruence, b: Congruence) -> Congruence:
    """Of a product."""
    modulus = gcd(a.modulus * b.modulus, gcd(a.modulus * b.residue, b.modulus * a.residue))
    return make(modulus, a.residue * b.residue)


def join(a: Congruence, b: Congruence) -> Congruence:
    """Of a value that is one or the other."""
    return make(gcd(gcd(a.modulus, b.modulus), a.residue - b.residue), a.residue)


def meet(a: Congruence, b: Congruence) -> Congruence:
    """Of a value that is both; the finer one where neither contains the other."""
    if a.modulus == 0 or (b.modulus and a.modulus % b.modulus == 0):
        return a
    return b if b.modulus == 0 or b.modulus % a.modulus == 0 or b.modulus > a.modulus else a


def _exact(f: Callable[..., Congruence]) -> Callable[..., Congruence]:
    """The rule for ``index``; fixed widths may wrap, which keeps what divides ``2**bits``."""

    def rule(e: Expr, *args: Congruence) -> Congruence:
        if e.dtype.is_index:
            return f(*args)
        if e.dtype.is_bits:
            exact = f(*args)
            return make(gcd(exact.modulus, 1 << e.dtype.bits), exact.residue)
        return UNKNOWN

    return rule


def _floor_divide(e: Expr, a: Congruence, b: Congruence) -> Congruence:
    if b.modulus or b.residue <= 0 or not e.dtype.is_integer:
        return UNKNOWN
    c = b.residue
    if a.modulus == 0:
        return make(0, a.residue // c)
    # a = m*k + r with c | m: a // c = (m // c) * k + r // c.
    return make(a.modulus // c, a.residue // c) if a.modulus % c == 0 else UNKNOWN


def _floor_modulo(e: Expr, a: Congruence, b: Congruence) -> Congruence:
    if b.modulus or b.residue <= 0 or not e.dtype.is_integer:
        return UNKNOWN
    if (known := a.residue_modulo(b.residue)) is not None:
        return make(0, known)
    return make(gcd(a.modulus, b.residue), a.residue)


def _const(e: Expr) -> Congruence:
    return make(0, int(e.attr)) if isinstance(e.attr, int) else UNKNOWN


def _unknown(e: Expr, *_: Congruence) -> Congruence:
    return UNKNOWN


def _either(e: Expr, *args: Congruence) -> Congruence:
    return join(args[-2], args[-1]) if e.dtype.is_integer else UNKNOWN


def _cast(e: Expr, a: Congruence) -> Congruence:
    source = e.args[0].dtype
    if not (source.is_integer and e.dtype.is_integer):
        return UNKNOWN
    return a if e.dtype.is_index else make(gcd(a.modulus, 1 << e.dtype.bits), a.residue)


_TELL_NOTHING: Final[tuple[type[Expr], ...]] = (
    *(ir.Var, ir.Load, ir.Div, ir.TruncDiv, ir.TruncMod, ir.Eq, ir.Ne, ir.Lt, ir.Le),
    *(ir.And, ir.Or, ir.Not, ir.Reinterpret, ir.Call, ir.BitAnd, ir.BitOr, ir.BitXor),
    *(ir.BitNot, ir.ShiftLeft, ir.ShiftRight),
)
TABLE: Final[dict[type[Expr], Callable[..., Any]]] = {
    **dict.fromkeys(_TELL_NOTHING, _unknown),
    ir.Const: _const,
    ir.Add: _exact(add),
    ir.Sub: _exact(lambda a, b: add(a, scale(b, -1))),
    ir.Mul: _exact(multiply),
    ir.Neg: _exact(lambda a: scale(a, -1)),
    ir.FloorDiv: _floor_divide,
    ir.FloorMod: _floor_modulo,
    ir.Min: _either,
    ir.Max: _either,
    ir.Select: _either,
    ir.Cast: _cast,
}
"""The congruence domain, for `tensorsmith.ir.fold`."""
