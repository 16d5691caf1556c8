"""The operations of the expression language: one class for each, with what it takes.

Their semantics stand at the top of `tensorsmith.ir.expr`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self, cast

from tensorsmith.errors import DTypeError
from tensorsmith.ir.dtype import DType, Kind, bool_
from tensorsmith.ir.expr import Expr, check_indices, intern, operand_error

if TYPE_CHECKING:
    from tensorsmith.ir.buffer import Buffer
    from tensorsmith.ir.intrinsic import Intrinsic


class Binary(Expr):
    """An operation on two operands `a` and `b` of one dtype, which is also that of the result."""

    __slots__ = ()
    takes: ClassVar[int] = int(Kind.NUMBER)
    """The kinds of operands that the operation takes, as flags."""

    def __new__(cls, a: Expr, b: Expr) -> Self:
        dtype = a.dtype
        if dtype is not b.dtype or not dtype.flag & cls.takes:
            raise operand_error(cls, a, b)
        return cast("Self", intern(cls, (a, b), None, dtype))

    @property
    def a(self) -> Expr:
        """The left operand."""
        return self.args[0]

    @property
    def b(self) -> Expr:
        """The right operand."""
        return self.args[1]


class Add(Binary):
    """Sum."""

    __slots__ = ()
    symbol = "+"


class Sub(Binary):
    """Difference."""

    __slots__ = ()
    symbol = "-"


class Mul(Binary):
    """Product."""

    __slots__ = ()
    symbol = "*"


class Div(Binary):
    """Quotient of floats."""

    __slots__ = ()
    symbol = "/"
    takes = int(Kind.FLOAT)


class FloorDiv(Binary):
    """Integer quotient, rounded towards minus infinity."""

    __slots__ = ()
    symbol = "//"
    takes = int(Kind.INTEGER)


class FloorMod(Binary):
    """``a - a // b * b``: has the sign of the divisor."""

    __slots__ = ()
    symbol = "%"
    takes = int(Kind.INTEGER)


class TruncDiv(Binary):
    """Integer quotient, rounded towards zero, as in C."""

    __slots__ = ()
    takes = int(Kind.INTEGER)


class TruncMod(Binary):
    """The remainder of `TruncDiv`: has the sign of the dividend."""

    __slots__ = ()
    takes = int(Kind.INTEGER)


class Min(Binary):
    """The lesser; NaN if either is NaN."""

    __slots__ = ()


class Max(Binary):
    """The greater; NaN if either is NaN."""

    __slots__ = ()


class BitAnd(Binary):
    """Bitwise and."""

    __slots__ = ()
    symbol = "&"
    takes = int(Kind.BITS)


class BitOr(Binary):
    """Bitwise or."""

    __slots__ = ()
    symbol = "|"
    takes = int(Kind.BITS)


class BitXor(Binary):
    """Bitwise exclusive or."""

    __slots__ = ()
    symbol = "^"
    takes = int(Kind.BITS)


class ShiftLeft(Binary):
    """``a * 2**b``, wrapping; 0 for counts of ``bits`` and more."""

    __slots__ = ()
    symbol = "<<"
    takes = int(Kind.BITS)


class ShiftRight(Binary):
    """``a // 2**b``; for counts of ``bits`` and more 0, or -1 if `a` is negative."""

    __slots__ = ()
    symbol = ">>"
    takes = int(Kind.BITS)


class Compare(Binary):
    """A comparison of two operands of one dtype; a bool."""

    __slots__ = ()
    takes = int(Kind.NUMBER)

    def __new__(cls, a: Expr, b: Expr) -> Self:
        dtype = a.dtype
        if dtype is not b.dtype or not dtype.flag & cls.takes:
            raise operand_error(cls, a, b)
        lanes = dtype.lanes
        result = bool_ if lanes == 1 else bool_.with_lanes(lanes)
        return cast("Self", intern(cls, (a, b), None, result))


class Eq(Compare):
    """Equal."""

    __slots__ = ()
    symbol = "=="
    takes = int(Kind.NUMBER | Kind.BOOL)


class Ne(Compare):
    """Not equal; true if either is NaN."""

    __slots__ = ()
    symbol = "!="
    takes = int(Kind.NUMBER | Kind.BOOL)


class Lt(Compare):
    """Less."""

    __slots__ = ()
    symbol = "<"


class Le(Compare):
    """Less or equal."""

    __slots__ = ()
    symbol = "<="


class And(Binary):
    """Both. The right operand is evaluated only where the left one is true."""

    __slots__ = ()
    symbol = "and"
    takes = int(Kind.BOOL)


class Or(Binary):
    """Either. The right operand is evaluated only where the left one is false."""

    __slots__ = ()
    symbol = "or"
    takes = int(Kind.BOOL)


class Unary(Expr):
    """An operation on one operand `a`, whose dtype the result has."""

    __slots__ = ()
    takes: ClassVar[int] = int(Kind.NUMBER)

    def __new__(cls, a: Expr) -> Self:
        if not a.dtype.flag & cls.takes:
            raise operand_error(cls, a)
        return cast("Self", intern(cls, (a,), None, a.dtype))

    @property
    def a(self) -> Expr:
        """The operand."""
        return self.args[0]


class Neg(Unary):
    """Negation; of a float it flips the sign bit."""

    __slots__ = ()
    symbol = "-"


class Not(Unary):
    """Logical not."""

    __slots__ = ()
    symbol = "not"
    takes = int(Kind.BOOL)


class BitNot(Unary):
    """Bitwise not."""

    __slots__ = ()
    symbol = "~"
    takes = int(Kind.BITS)


class Select(Expr):
    """`a` where `condition` holds, else `b`. Only the chosen one is evaluated."""

    __slots__ = ()

    def __new__(cls, condition: Expr, a: Expr, b: Expr) -> Select:
        if not condition.dtype.is_bool:
            raise DTypeError(f"a condition is bool, and {condition!r} is {condition.dtype}")
        if a.dtype is not b.dtype:
            raise operand_error(cls, a, b)
        return cast("Select", intern(cls, (condition, a, b), None, a.dtype))

    @property
    def condition(self) -> Expr:
        """What decides."""
        return self.args[0]

    @property
    def a(self) -> Expr:
        """The value where the condition holds."""
        return self.args[1]

    @property
    def b(self) -> Expr:
        """The value elsewhere."""
        return self.args[2]


class Cast(Expr):
    """`a` converted to another dtype. See the module for the rounding."""

    __slots__ = ()

    def __new__(cls, a: Expr, dtype: DType) -> Cast:
        if (a.dtype.flag | dtype.flag) & Kind.HANDLE or a.dtype.lanes != dtype.lanes:
            raise DTypeError(f"{a.dtype} cannot be cast to {dtype}")
        return cast("Cast", intern(cls, (a,), None, dtype))

    def _rebuild(self, args: tuple[Expr, ...]) -> Expr:
        return Cast(args[0], self.dtype)

    @property
    def a(self) -> Expr:
        """What is converted."""
        return self.args[0]


class Reinterpret(Expr):
    """The bits of `a` read as another dtype of the same width."""

    __slots__ = ()

    def __new__(cls, a: Expr, dtype: DType) -> Reinterpret:
        fixed = ~int(Kind.INDEX | Kind.HANDLE | Kind.BOOL)
        total = (a.dtype.bits * a.dtype.lanes, dtype.bits * dtype.lanes)
        if not (a.dtype.flag & fixed and dtype.flag & fixed) or total[0] != total[1]:
            raise DTypeError(
                f"the bits of {a.dtype} cannot be read as {dtype}",
                because="both must be numbers of one fixed width",
            )
        return cast("Reinterpret", intern(cls, (a,), None, dtype))

    def _rebuild(self, args: tuple[Expr, ...]) -> Expr:
        return Reinterpret(args[0], self.dtype)

    @property
    def a(self) -> Expr:
        """Whose bits are read."""
        return self.args[0]


class Load(Expr):
    """The element of `buffer` at `indices`: one ``index`` expression a dimension."""

    __slots__ = ()
    if TYPE_CHECKING:

        @property
        def buffer(self) -> Buffer: ...

    else:
        buffer = Expr.attr

    def __new__(cls, buffer: Buffer, indices: tuple[Expr, ...]) -> Load:
        check_indices(buffer, indices)
        return cast("Load", intern(cls, indices, buffer, buffer.dtype))

    def _rebuild(self, args: tuple[Expr, ...]) -> Expr:
        return Load(self.buffer, args)

    @property
    def indices(self) -> tuple[Expr, ...]:
        """The subscripts, one a dimension."""
        return self.args


class Call(Expr):
    """A call of an `Intrinsic`: a pure function of scalars, such as ``exp``."""

    __slots__ = ()
    if TYPE_CHECKING:

        @property
        def intrinsic(self) -> Intrinsic: ...

    else:
        intrinsic = Expr.attr

    def __new__(cls, intrinsic: Intrinsic, args: tuple[Expr, ...]) -> Call:
        return cast("Call", intern(cls, args, intrinsic, intrinsic.result(args)))

    def _rebuild(self, args: tuple[Expr, ...]) -> Expr:
        return Call(self.intrinsic, args)
