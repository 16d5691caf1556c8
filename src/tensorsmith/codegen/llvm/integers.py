"""Integer operations as `tensorsmith.ir.expr` defines them: wrapping, floor division, shifts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tensorsmith.arith import Analyzer
from tensorsmith.codegen.llvm.types import register_type, suffix, vector
from tensorsmith.codegen.lower.tree import may_fail
from tensorsmith.ir import expr as ir
from tensorsmith.ir.dtype import DType, Kind
from tensorsmith.ir.expr import Const, Expr

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorsmith.codegen.llvm.function import Function

    Emit = Callable[[str], str]


def operation(function: Function, emit: Emit, e: Expr, args: list[str], lanes: int) -> str:
    """The value of an arithmetic, bitwise or comparing operation on integers."""
    kind = type(e)
    dtype = e.args[0].dtype
    type_ = vector(register_type(dtype), lanes)
    signed = dtype.kind is not Kind.UINT
    if kind in _COMPARE:
        return emit(f"icmp {_COMPARE[kind][signed]} {type_} {args[0]}, {args[1]}")
    if kind in _PLAIN:
        flags = " nsw" if dtype.is_index else ""
        return wrap(emit, dtype, emit(f"{_PLAIN[kind]}{flags} {type_} {args[0]}, {args[1]}"), lanes)
    if kind in _BITWISE:
        return emit(f"{_BITWISE[kind]} {type_} {args[0]}, {args[1]}")
    if kind is ir.Neg:
        return wrap(emit, dtype, emit(f"sub {type_} {_zero(lanes)}, {args[0]}"), lanes)
    if kind is ir.BitNot:
        ones = _splat(register_type(dtype), "-1", lanes)
        return wrap(emit, dtype, emit(f"xor {type_} {args[0]}, {ones}"), lanes)
    if kind in _EXTREME:
        name = f"llvm.{_EXTREME[kind][signed]}.{suffix(register_type(dtype), lanes)}"
        function.module.declare(f"declare {type_} @{name}({type_}, {type_})")
        return emit(f"call {type_} @{name}({type_} {args[0]}, {type_} {args[1]})")
    if kind in (ir.ShiftLeft, ir.ShiftRight):
        return _shift(emit, kind, e, args, lanes)
    return _Division(function, emit, e, lanes).value(args)


def wrap(emit: Emit, dtype: DType, value: str, lanes: int) -> str:
    """The value brought back into a type of less than 8 bits, which lies in a byte."""
    if dtype.bits >= 8:
        return value
    type_ = vector("i8", lanes)
    count = _splat("i8", str(8 - dtype.bits), lanes)
    high = emit(f"shl {type_} {value}, {count}")
    back = "lshr" if dtype.kind is Kind.UINT else "ashr"
    return emit(f"{back} {type_} {high}, {count}")


def _shift(emit: Emit, kind: type[Expr], e: Expr, args: list[str], lanes: int) -> str:
    dtype = e.dtype
    element = register_type(dtype)
    type_ = vector(element, lanes)
    signed = dtype.kind is Kind.INT
    right = "ashr" if signed else "lshr"
    name = right if kind is ir.ShiftRight else "shl"
    count = e.args[1]
    if type(count) is Const and 0 <= int(count.value) < dtype.bits:
        return wrap(emit, dtype, emit(f"{name} {type_} {args[0]}, {args[1]}"), lanes)
    last = _splat(element, str(dtype.bits - 1), lanes)
    within = emit(f"icmp ule {type_} {args[1]}, {last}")
    mask = vector("i1", lanes)
    clamped = emit(f"select {mask} {within}, {type_} {args[1]}, {type_} {last}")
    shifted = emit(f"{name} {type_} {args[0]}, {clamped}")
    if kind is ir.ShiftRight and signed:
        return shifted  # by bits - 1: all sign
    result = emit(f"select {mask} {within}, {type_} {shifted}, {type_} {_zero(lanes)}")
    return wrap(emit, dtype, result, lanes)


class _Division:
    """One division: the checks that it needs and its rounding."""

    def __init__(self, function: Function, emit: Emit, e: Expr, lanes: int) -> None:
        self.function = function
        self.emit = emit
        self.e = e
        self.lanes = lanes
        self.element = register_type(e.dtype)
        self.type = vector(self.element, lanes)
        self.mask = vector("i1", lanes)

    def value(self, args: list[str]) -> str:
        a, b = args
        kind, dtype = type(self.e), self.e.dtype
        divisor = self.e.args[1]
        known = int(divisor.value) if type(divisor) is Const else None
        if may_fail(self.e):
            b = self.checked(b)
        remainder = kind in (ir.FloorMod, ir.TruncMod)
        if dtype.kind is Kind.UINT or self.both_nonnegative():
            return self.emit(f"{'urem' if remainder else 'udiv'} {self.type} {a}, {b}")
        overflow = None
        if known is None or known == -1:
            overflow, b = self.without_overflow(b)
        floor = kind in (ir.FloorDiv, ir.FloorMod)
        result = self.signed(a, b, floor=floor, remainder=remainder)
        if overflow is not None:
            result = self.by_minus_one(a, result, overflow, remainder=remainder)
        return wrap(self.emit, dtype, result, self.lanes)

    def both_nonnegative(self) -> bool:
        """Whether no operand is ever negative where the result is computed: before a branch, say,
        whose condition is then no help."""
        function = self.function
        facts = function.facts
        if function.expressions.depth_of(self.e) < function.text.depth:
            facts = Analyzer()
            facts.intervals = function.bounds
        bounds = [facts.bounds(x).low for x in self.e.args]
        return all(low is not None and low >= 0 for low in bounds)

    def checked(self, b: str) -> str:
        """Fail where the divisor is 0; lanes that do not run divide by 1."""
        function = self.function
        good = self.emit(f"icmp ne {self.type} {b}, {_zero(self.lanes)}")
        good = function.expressions.where_run(good, self.lanes)
        function.fail_unless(good, function.module.message("division by zero", None))
        runs = function.mask if self.lanes > 1 else function.expressions.some_lane()
        if runs is None:
            return b
        ones = _splat(self.element, "1", self.lanes)
        return self.emit(f"select {self.mask} {runs}, {self.type} {b}, {self.type} {ones}")

    def without_overflow(self, b: str) -> tuple[str, str]:
        """Whether the divisor is -1, and the divisor with 1 in its place: the machine traps on the
        least integer divided by -1."""
        ones = _splat(self.element, "1", self.lanes)
        minus = _splat(self.element, "-1", self.lanes)
        is_minus = self.emit(f"icmp eq {self.type} {b}, {minus}")
        safe = self.emit(f"select {self.mask} {is_minus}, {self.type} {ones}, {self.type} {b}")
        return is_minus, safe

    def by_minus_one(self, a: str, result: str, is_minus: str, *, remainder: bool) -> str:
        zero = _zero(self.lanes)
        other = zero if remainder else self.emit(f"sub {self.type} {zero}, {a}")
        return self.emit(
            f"select {self.mask} {is_minus}, {self.type} {other}, {self.type} {result}"
        )

    def signed(self, a: str, b: str, *, floor: bool, remainder: bool) -> str:
        emit, type_ = self.emit, self.type
        if not floor:
            return emit(f"{'srem' if remainder else 'sdiv'} {type_} {a}, {b}")
        rest = emit(f"srem {type_} {a}, {b}")
        zero = _zero(self.lanes)
        inexact = emit(f"icmp ne {type_} {rest}, {zero}")
        signs = emit(f"xor {type_} {rest}, {b}")
        differ = emit(f"icmp slt {type_} {signs}, {zero}")
        down = emit(f"and {self.mask} {inexact}, {differ}")
        if remainder:
            add = emit(f"select {self.mask} {down}, {type_} {b}, {type_} {zero}")
            return emit(f"add {type_} {rest}, {add}")
        quotient = emit(f"sdiv {type_} {a}, {b}")
        one = emit(f"sext {self.mask} {down} to {type_}")
        return emit(f"add {type_} {quotient}, {one}")


def intrinsic(function: Function, emit: Emit, e: Expr, args: list[str], lanes: int) -> str:
    """``abs``, ``popcount``, ``clz``, ``ctz`` of an integer."""
    assert isinstance(e, ir.Call)
    name, dtype = e.intrinsic.name, e.dtype
    element = register_type(dtype)
    type_ = vector(element, lanes)
    value = args[0]
    short = _INTRINSIC[name]
    spare = 8 - dtype.bits if dtype.bits < 8 else 0
    if spare and name != "abs":  # only the low bits count
        low = _splat(element, str((1 << dtype.bits) - 1), lanes)
        value = emit(f"and {type_} {value}, {low}")
        if name == "ctz":
            end = _splat(element, str(1 << dtype.bits), lanes)
            value = emit(f"or {type_} {value}, {end}")
    full = f"llvm.{short}.{suffix(element, lanes)}"
    if name == "popcount":
        function.module.declare(f"declare {type_} @{full}({type_})")
        return emit(f"call {type_} @{full}({type_} {value})")
    function.module.declare(f"declare {type_} @{full}({type_}, i1)")
    result = emit(f"call {type_} @{full}({type_} {value}, i1 false)")
    if name == "clz" and spare:
        return emit(f"sub {type_} {result}, {_splat(element, str(spare), lanes)}")
    return wrap(emit, dtype, result, lanes) if name == "abs" else result


def _splat(element: str, text: str, lanes: int) -> str:
    return text if lanes == 1 else f"splat ({element} {text})"


def _zero(lanes: int) -> str:
    return "0" if lanes == 1 else "zeroinitializer"


_COMPARE: Final[dict[type[Expr], tuple[str, str]]] = {
    ir.Eq: ("eq", "eq"),
    ir.Ne: ("ne", "ne"),
    ir.Lt: ("ult", "slt"),
    ir.Le: ("ule", "sle"),
}
_PLAIN: Final[dict[type[Expr], str]] = {ir.Add: "add", ir.Sub: "sub", ir.Mul: "mul"}
_BITWISE: Final[dict[type[Expr], str]] = {ir.BitAnd: "and", ir.BitOr: "or", ir.BitXor: "xor"}
_EXTREME: Final[dict[type[Expr], tuple[str, str]]] = {
    ir.Min: ("umin", "smin"),
    ir.Max: ("umax", "smax"),
}
_INTRINSIC: Final = {"abs": "abs", "popcount": "ctpop", "clz": "ctlz", "ctz": "cttz"}
