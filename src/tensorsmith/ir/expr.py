"""Scalar expressions: shapes, loop extents, subscripts and element values in one language.

Nodes are immutable and hash-consed: building the same node twice gives the same object, so ``is``
and ``==`` are structural equality and cost nothing. A `Var` is equal only to itself.
Build nodes with Python's operators, with the functions of `tensorsmith.script`, or with the classes
here; building never simplifies (that is `tensorsmith.arith`'s work).

Semantics
---------
Evaluation. Expressions have no effects. `Select`, `And` and `Or` are lazy: the branch that is not
taken is not evaluated, so ``select(i < n, A[i], 0)`` never reads outside A. Code generation may
evaluate more where it can prove that this is harmless.

Integers. ``index`` never overflows, by contract. ``int*`` are two's complement and ``uint*``
unsigned: add, sub, mul, neg wrap modulo ``2**bits``. `FloorDiv` and `FloorMod` round towards minus
infinity (the remainder has the sign of the divisor, as in Python); `TruncDiv` and `TruncMod` round
towards zero (the remainder has the sign of the dividend, as in C). Division by zero is an error of
the program: evaluating one raises, interpreted or compiled. Simplification gives it no value, and
may drop one that the result does not depend on, such as that in ``x // n * 0``. The least integer
divided by -1 wraps. Shift counts are read as unsigned: a count of
``bits`` or more gives 0, or -1 for the right shift of a negative number (right shifts of ``int*``
keep the sign).

Floats. IEEE 754, round to nearest even, denormals kept; no reassociation, contraction or other
fast-math unless a program's attributes ask for it. `Min` and `Max` give NaN if either operand is
NaN; of -0 and +0 either may come back. Comparisons with NaN are false, except `Ne`.

Casts. Integer to integer wraps; to ``index`` the value must fit. Float to integer rounds towards
zero and saturates, NaN gives 0. To ``bool`` is ``x != 0``. Float to narrower float rounds to
nearest even. `Reinterpret` keeps the bits.
"""

from __future__ import annotations

import itertools
import math
import struct
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn, Protocol, Self, TypeAlias, cast

import numpy as np

from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ir.dtype import DType, Kind, bool_, dtype, float32, index

if TYPE_CHECKING:
    from tensorsmith.ir.buffer import Buffer

ExprLike: TypeAlias = "Expr | SupportsExpr | int | float | bool"


class SupportsExpr(Protocol):
    """An object that stands for an expression wherever one is expected, such as a named axis."""

    def __as_expr__(self) -> Expr:
        """The expression. Raises a TensorsmithError that tells why if there is none."""
        ...


class Expr:
    """A scalar expression. See the subclasses; `args` are its operands, `dtype` its type."""

    __slots__ = ("__weakref__", "args", "attr", "dtype", "variables")

    args: tuple[Expr, ...]
    attr: object
    """What else makes up the node: a constant's value, a load's buffer, a call's intrinsic."""
    dtype: DType

    symbol: ClassVar[str] = ""
    """How the operation is written between its operands; '' if it is written as a call."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot set {name!r}")

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        """The same operation on other operands. Its dtype follows from them."""
        for old, new in zip(self.args, args, strict=True):
            if old.dtype is not new.dtype:
                return self._rebuild(args)
        return intern(type(self), args, self.attr, self.dtype)

    def _rebuild(self, args: tuple[Expr, ...]) -> Expr:
        build = cast("Callable[..., Expr]", type(self))
        return build(*args)

    def __repr__(self) -> str:
        from tensorsmith.ir.printer import print_expr

        return print_expr(self)

    def __bool__(self) -> NoReturn:
        raise DTypeError(
            f"the truth of {self!r} is known only when the program runs",
            try_="select(condition, a, b) in an expression, or an `if` inside a script function",
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    # Python's operators. `==` stays identity, as hashing needs it: use `equal` and `not_equal`.

    def __add__(self, other: ExprLike) -> Expr:
        return binary(Add, self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return binary(Add, other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return binary(Sub, self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return binary(Sub, other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return binary(Mul, self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return binary(Mul, other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return binary(Div, self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return binary(Div, other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return binary(FloorDiv, self, other)

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return binary(FloorDiv, other, self)

    def __mod__(self, other: ExprLike) -> Expr:
        return binary(FloorMod, self, other)

    def __rmod__(self, other: ExprLike) -> Expr:
        return binary(FloorMod, other, self)

    def __lshift__(self, other: ExprLike) -> Expr:
        return binary(ShiftLeft, self, other)

    def __rlshift__(self, other: ExprLike) -> Expr:
        return binary(ShiftLeft, other, self)

    def __rshift__(self, other: ExprLike) -> Expr:
        return binary(ShiftRight, self, other)

    def __rrshift__(self, other: ExprLike) -> Expr:
        return binary(ShiftRight, other, self)

    def __and__(self, other: ExprLike) -> Expr:
        return binary(And if self.dtype.is_bool else BitAnd, self, other)

    def __rand__(self, other: ExprLike) -> Expr:
        return binary(And if self.dtype.is_bool else BitAnd, other, self)

    def __or__(self, other: ExprLike) -> Expr:
        return binary(Or if self.dtype.is_bool else BitOr, self, other)

    def __ror__(self, other: ExprLike) -> Expr:
        return binary(Or if self.dtype.is_bool else BitOr, other, self)

    def __xor__(self, other: ExprLike) -> Expr:
        return binary(Ne if self.dtype.is_bool else BitXor, self, other)

    def __rxor__(self, other: ExprLike) -> Expr:
        return binary(Ne if self.dtype.is_bool else BitXor, other, self)

    def __invert__(self) -> Expr:
        return Not(self) if self.dtype.is_bool else BitNot(self)

    def __neg__(self) -> Expr:
        return Neg(self)

    def __pos__(self) -> Expr:
        return self

    def __lt__(self, other: ExprLike) -> Expr:
        return binary(Lt, self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return binary(Le, self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return binary(Lt, other, self)

    def __ge__(self, other: ExprLike) -> Expr:
        return binary(Le, other, self)


# --- Interning -------------------------------------------------------------------------------

_Key: TypeAlias = tuple[type[Expr], tuple[Expr, ...], object, DType]


class _Entry(weakref.ref[Expr]):
    __slots__ = ("key",)
    key: _Key


_TABLE: Final[dict[_Key, _Entry]] = {}
_set_args = Expr.__dict__["args"].__set__
_set_attr = Expr.__dict__["attr"].__set__
_set_dtype = Expr.__dict__["dtype"].__set__
_new = object.__new__


def _forget(entry: _Entry, _table: dict[_Key, _Entry] = _TABLE) -> None:
    if _table.get(entry.key) is entry:
        del _table[entry.key]


def intern(
    cls: type[Expr], args: tuple[Expr, ...], attr: object, dtype: DType, key_attr: object = None
) -> Expr:
    """The one node with these fields. `key_attr` stands for `attr` where equality needs it."""
    key = (cls, args, attr if key_attr is None else key_attr, dtype)
    entry = _TABLE.get(key)
    if entry is not None:
        found = entry()
        if found is not None:
            return found
    node = _new(cls)
    _set_args(node, args)
    _set_attr(node, attr)
    _set_dtype(node, dtype)
    entry = _Entry(node, _forget)
    entry.key = key
    while True:  # another thread may have built the node in between
        winner = _TABLE.setdefault(key, entry)
        if winner is entry:
            return node
        found = winner()
        if found is not None:
            return found
        _forget(winner)


def live_nodes() -> int:
    """How many distinct expression nodes exist now (variables not counted)."""
    return len(_TABLE)


# --- Leaves ----------------------------------------------------------------------------------


class Const(Expr):
    """A constant of a scalar dtype: an int, a bool, or a float already rounded to the dtype.

    Raises DTypeError if the dtype cannot hold the value.
    """

    __slots__ = ()
    if TYPE_CHECKING:

        @property
        def value(self) -> int | float | bool: ...

    else:
        value = Expr.attr

    def __new__(cls, value: float, dtype: DType) -> Const:
        if dtype.is_integer:
            if type(value) is not int:
                value = _as_int(value, dtype)
            if not dtype.min_value <= value <= dtype.max_value:
                raise DTypeError(
                    f"{value} does not fit {dtype}",
                    because=f"{dtype} holds {dtype.min_value} to {dtype.max_value}",
                )
            return cast("Const", intern(cls, (), value, dtype))
        if dtype.is_float or dtype.kind is Kind.STORAGE:
            rounded = _as_float(value, dtype)
            return cast("Const", intern(cls, (), rounded, dtype, struct.pack("<d", rounded)))
        if dtype.is_bool:
            if value not in (0, 1):
                raise DTypeError(f"{value!r} is not a bool constant")
            return cast("Const", intern(cls, (), bool(value), dtype))
        raise DTypeError(f"{dtype} has no constants")

    def _rebuild(self, args: tuple[Expr, ...]) -> Expr:
        return self


def _as_int(value: object, dtype: DType) -> int:
    if isinstance(value, (int, np.integer, np.bool_)):
        return int(value)
    raise DTypeError(f"{value!r} is not an integer, as a {dtype} constant must be")


def _as_float(value: object, dtype: DType) -> float:
    if not isinstance(value, (int, float, np.number, np.bool_)):
        raise DTypeError(f"{value!r} is not a {dtype} constant")
    rounded = dtype.round(float(value))
    return math.nan if math.isnan(rounded) else rounded  # one NaN: payloads have no meaning


_serial = itertools.count()


class Var(Expr):
    """A variable: a dimension, a loop variable, a block iterator, a scalar parameter, a binding.

    Equal only to itself; the name is for people. What is known of an integer variable wherever it
    appears stands on it: ``low <= v <= high`` (None: unbounded) and ``v % multiple_of == 0``. What
    is known only in some scope (a loop's range) is kept by the analyses instead.
    """

    __slots__ = ("high", "low", "multiple_of", "name", "serial")

    name: str
    low: int | None
    high: int | None
    multiple_of: int
    serial: int
    """Counts variables in order of creation; orders variables of one name."""

    def __new__(
        cls,
        name: str,
        dtype: DType = index,
        *,
        low: int | None = None,
        high: int | None = None,
        multiple_of: int = 1,
    ) -> Var:
        if (low is not None or high is not None or multiple_of != 1) and not dtype.is_integer:
            raise DTypeError(f"only integers have ranges and multiples, and {name!r} is {dtype}")
        if multiple_of < 1 or (low is not None and high is not None and low > high):
            raise ShapeError(
                f"nothing satisfies the facts about {name!r}",
                given=f"low={low}, high={high}, multiple_of={multiple_of}",
            )
        if low is not None and low <= dtype.min_value:
            low = None  # every value of the type is in such a range
        if high is not None and high >= dtype.max_value:
            high = None
        var = _new(cls)
        _set_args(var, ())
        _set_attr(var, None)
        _set_dtype(var, dtype)
        for slot, value in (
            ("name", name),
            ("low", low),
            ("high", high),
            ("multiple_of", multiple_of),
            ("serial", next(_serial)),
        ):
            object.__setattr__(var, slot, value)
        return var

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        """A variable has no operands: itself."""
        return self

    def renamed(self, name: str) -> Var:
        """A new variable of the same type and facts."""
        return Var(name, self.dtype, low=self.low, high=self.high, multiple_of=self.multiple_of)


# --- Building from Python values -------------------------------------------------------------


def const(value: float, type_: DType | str = index) -> Const:
    """A constant. Raises DTypeError if the dtype does not hold it."""
    return Const(value, dtype(type_))


def as_expr(value: ExprLike, like: DType | None = None) -> Expr:
    """`value` as an expression; a Python number takes the dtype `like`.

    Numbers are weakly typed: an int becomes any number, a float any float, a bool a bool. With no
    `like`, an int becomes ``index``, a float ``float32``. Raises DTypeError where that loses a
    part.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, (bool, np.bool_)):
        return Const(bool(value), like if like is not None and like.is_bool else bool_)
    if isinstance(value, (int, np.integer)):
        if like is None:
            return Const(int(value), index)
        if like.is_bool:
            raise DTypeError(f"{value} is an integer where a bool is needed")
        return Const(int(value), like)
    if isinstance(value, (float, np.floating)):
        if like is None:
            return Const(float(value), float32)
        if not like.is_float and like.kind is not Kind.STORAGE:
            raise DTypeError(
                f"{value} is a float where {_article(like)} is needed",
                try_=f"an integer, or cast(..., '{like}')",
            )
        return Const(float(value), like)
    stands_for: Callable[[], Expr] | None = getattr(value, "__as_expr__", None)
    if stands_for is not None:
        return stands_for()
    raise DTypeError(f"{value!r} ({type(value).__name__}) is not an expression or a number")


def _article(dtype: DType) -> str:
    return f"an {dtype}" if dtype.name[0] in "ai" else f"a {dtype}"


def binary(op: type[Binary], a: ExprLike, b: ExprLike) -> Expr:
    """``op(a, b)`` where one operand may be a Python number, which takes the other's dtype."""
    if isinstance(a, Expr):
        return op(a, b if isinstance(b, Expr) else as_expr(b, a.dtype))
    if isinstance(b, Expr):
        return op(as_expr(a, b.dtype), b)
    left = as_expr(a)
    right = as_expr(b)
    if left.dtype is not right.dtype:
        like = float32 if float32 in (left.dtype, right.dtype) else left.dtype
        left, right = as_expr(a, like), as_expr(b, like)
    return op(left, right)


def equal(a: ExprLike, b: ExprLike) -> Expr:
    """``a == b`` as an expression."""
    return binary(Eq, a, b)


def not_equal(a: ExprLike, b: ExprLike) -> Expr:
    """``a != b`` as an expression."""
    return binary(Ne, a, b)


def select(condition: ExprLike, a: ExprLike, b: ExprLike) -> Expr:
    """`a` where `condition` holds, else `b`; a Python number takes the other branch's dtype."""
    if isinstance(a, Expr):
        b = as_expr(b, a.dtype)
    elif isinstance(b, Expr):
        a = as_expr(a, b.dtype)
    elif isinstance(a, float) != isinstance(b, float):
        a, b = as_expr(a, float32), as_expr(b, float32)
    return Select(as_expr(condition), as_expr(a), as_expr(b))


def operand_error(op: type[Expr], *operands: Expr) -> DTypeError:
    """What is wrong with these operands of `op`."""
    name = op.symbol or op.__name__.lower()
    types = [o.dtype.name for o in operands]
    given = ", ".join(f"{o!r}: {o.dtype}" for o in operands)
    if len(set(types)) > 1:
        return DTypeError(
            f"{name} needs operands of one type, not {' and '.join(types)}",
            given=given,
            try_=f"cast(..., '{types[0]}') on one of them",
        )
    takes = Kind(getattr(op, "takes", int(Kind.ANY)))
    return DTypeError(
        f"{name} does not take {types[0]}", given=given, because=f"it takes {describe_kinds(takes)}"
    )


_KIND_WORDS: Final = (
    (Kind.NUMBER, "numbers"),
    (Kind.INTEGER, "integers"),
    (Kind.BITS, "fixed-width integers"),
    (Kind.INDEX, "index values"),
    (Kind.INT, "signed integers"),
    (Kind.UINT, "unsigned integers"),
    (Kind.FLOAT, "floats"),
    (Kind.BOOL, "bools"),
    (Kind.STORAGE, "storage floats"),
    (Kind.HANDLE, "handles"),
)


def describe_kinds(kinds: Kind) -> str:
    """'integers and bools': what a set of kind flags takes, in words."""
    words = []
    for flags, word in _KIND_WORDS:
        if kinds & flags == flags:
            words.append(word)
            kinds &= ~flags
    return " and ".join(words)


def check_indices(buffer: Buffer, indices: tuple[Expr, ...]) -> None:
    """Raise ShapeError or DTypeError unless `indices` are one index expression a dimension."""
    if len(indices) != len(buffer.shape):
        raise ShapeError(
            f"{buffer.name!r} has rank {len(buffer.shape)}, and is indexed with {len(indices)}"
            f" {'index' if len(indices) == 1 else 'indices'}",
            given=f"{buffer!r}",
        )
    for axis, i in enumerate(indices):
        if not i.dtype.is_index:
            raise DTypeError(
                f"index {axis} of {buffer.name!r} is {i.dtype},"
                " and must be an integer of type index",
                given=f"{i!r}: {i.dtype}",
                try_="cast(..., 'index')" if i.dtype.is_integer else None,
            )


def as_exprs(values: Iterable[ExprLike], like: DType | None = None) -> tuple[Expr, ...]:
    """Each of `values` as an expression; see `as_expr`."""
    return tuple(as_expr(v, like) for v in values)


# An operation is an expression, and expressions have operators that make operations: this module
# and that of the operations need each other. The package imports this one first.
from tensorsmith.ir.operations import (  # noqa: E402
    Add,
    And,
    Binary,
    BitAnd,
    BitNot,
    BitOr,
    BitXor,
    Call,
    Cast,
    Compare,
    Div,
    Eq,
    FloorDiv,
    FloorMod,
    Le,
    Load,
    Lt,
    Max,
    Min,
    Mul,
    Ne,
    Neg,
    Not,
    Or,
    Reinterpret,
    Select,
    ShiftLeft,
    ShiftRight,
    Sub,
    TruncDiv,
    TruncMod,
    Unary,
)
from tensorsmith.ir.traverse import free_vars, postorder, substitute, transform  # noqa: E402

__all__ = [
    "Add",
    "And",
    "Binary",
    "BitAnd",
    "BitNot",
    "BitOr",
    "BitXor",
    "Call",
    "Cast",
    "Compare",
    "Const",
    "Div",
    "Eq",
    "Expr",
    "ExprLike",
    "FloorDiv",
    "FloorMod",
    "Le",
    "Load",
    "Lt",
    "Max",
    "Min",
    "Mul",
    "Ne",
    "Neg",
    "Not",
    "Or",
    "Reinterpret",
    "Select",
    "ShiftLeft",
    "ShiftRight",
    "Sub",
    "SupportsExpr",
    "TruncDiv",
    "TruncMod",
    "Unary",
    "Var",
    "as_expr",
    "as_exprs",
    "binary",
    "check_indices",
    "const",
    "describe_kinds",
    "equal",
    "free_vars",
    "intern",
    "live_nodes",
    "not_equal",
    "operand_error",
    "postorder",
    "select",
    "substitute",
    "transform",
]
