"""Reductions: axes to reduce over, and the reducers that combine values along them.

A reducer is a commutative and associative function of two values (or tuples of values) with an
identity. A `Reduction` is what its call gives: it stands at the top of an index function of
`tensorsmith.te.compute` and is no expression itself, because it becomes the iterators, the init and
the body of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce as fold_left
from typing import Final, TypeAlias, cast, overload

from tensorsmith.errors import DTypeError, IRError
from tensorsmith.ir import (
    INTRINSICS,
    Add,
    And,
    Binary,
    Cast,
    DType,
    Eq,
    Expr,
    ExprLike,
    Le,
    Lt,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Var,
    as_expr,
    const,
)
from tensorsmith.ir.dtype import dtype as as_dtype
from tensorsmith.te.operand import Operand
from tensorsmith.te.origin import caller, placed
from tensorsmith.te.tensor import check_extent

Values: TypeAlias = tuple[Expr, ...]
Identity: TypeAlias = "ExprLike | Callable[[DType], ExprLike]"
"""The identity's value, or a function from the values' dtype to it."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReduceAxis(Operand):
    """An axis to reduce over: ``start <= var < start + extent``. Used as an index: ``A[i, k]``."""

    var: Var
    extent: Expr
    start: Expr

    def __as_expr__(self) -> Expr:
        """The position on the axis."""
        return self.var

    def __repr__(self) -> str:
        return self.var.name


Axes: TypeAlias = "ReduceAxis | Sequence[ReduceAxis]"
"""One axis, or several (the first is the outermost)."""


def reduce_axis(extent: ExprLike, name: str = "k", start: ExprLike = 0) -> ReduceAxis:
    """An axis of `extent` positions from `start` on, to be given to a reducer as ``axis=``.

    Raises ShapeError if the extent is known and negative, or not of type index.
    """
    with placed(caller()):
        size, first = as_expr(extent), as_expr(start)
        check_extent(size, f"the reduction axis {name!r}")
        if first.dtype is not size.dtype:
            raise DTypeError(f"the start {first!r} of {name!r} is {first.dtype}, and must be index")
        return ReduceAxis(Var(name), size, first)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reduction(Operand):
    """`values` combined over all points of `axes` where the predicate `where` holds."""

    reducer: Reducer
    values: Values
    axes: tuple[ReduceAxis, ...]
    where: Expr | None

    def __as_expr__(self) -> Expr:
        """Raises IRError: a reduction is not an operand."""
        name = f"te.{self.reducer.name}(...)"
        raise IRError(
            f"{name} is an operand here, and a reduction must stand at the top of a compute",
            because="each reduction becomes a block of its own, with its own buffer",
            try_=f"total = te.compute(shape, lambda ...: {name}), then use total[...]",
        )

    def __repr__(self) -> str:
        values = ", ".join(map(repr, self.values))
        return f"te.{self.reducer.name}({values}, axis={list(self.axes)})"

    @property
    def identities(self) -> Values:
        """The identity for each of the values."""
        return self.reducer.identities(self.values)

    def step(self, accumulated: Values) -> Values:
        """`accumulated` combined with the values of one more point."""
        values = self.values
        if self.where is not None:
            choices = zip(values, self.identities, strict=True)
            values = tuple(Select(self.where, v, i) for v, i in choices)
        return self.reducer.combined(accumulated, values)


class Reduce(Reduction):
    """A reduction of one value a point: a `compute` of it gives a tensor."""

    __slots__ = ()


class ReduceMany(Reduction):
    """A reduction of several values a point: a `compute` of it gives a tuple of tensors."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Reducer:
    """A commutative and associative way to combine values. See `reducer`, which makes one."""

    name: str
    combine: Callable[[Values, Values], Sequence[ExprLike]]
    identity: tuple[Identity, ...]

    @overload
    def __call__(
        self, values: ExprLike, axis: Axes, *, where: ExprLike | None = None
    ) -> Reduce: ...

    @overload
    def __call__(
        self, values: tuple[ExprLike, ...], axis: Axes, *, where: ExprLike | None = None
    ) -> ReduceMany: ...

    def __call__(
        self,
        values: ExprLike | tuple[ExprLike, ...],
        axis: Axes,
        *,
        where: ExprLike | None = None,
    ) -> Reduce | ReduceMany:
        """`values` combined over `axis`; points where `where` is false are left out.

        Over no points at all it is the identity. Raises DTypeError if the reducer does not take
        values of their types, IRError for a wrong number of values or an axis that is not one.
        """
        with placed(caller()):
            exprs = _as_values(values)
            if len(exprs) != len(self.identity):
                raise IRError(
                    f"{self.name} combines {_count(len(self.identity), 'value')} a point,"
                    f" and {len(exprs)} are given"
                )
            condition = None if where is None else as_expr(where)
            if condition is not None and condition.dtype.name != "bool":
                raise DTypeError(
                    f"where={condition!r} is {condition.dtype}, and must be bool",
                    try_="a comparison",
                )
            self.combined(exprs, self.identities(exprs))
            kind = ReduceMany if isinstance(values, tuple) else Reduce
            return kind(self, exprs, _as_axes(axis), condition)

    def identities(self, values: Values) -> Values:
        """The identity for values of these types. Raises DTypeError if it has another type."""
        found = []
        for value, identity in zip(values, self.identity, strict=True):
            made = identity(value.dtype) if callable(identity) else identity
            expr = as_expr(made, value.dtype)
            if expr.dtype is not value.dtype:
                raise DTypeError(
                    f"{self.name} combines values of type {expr.dtype}, not {value.dtype}",
                    given=f"{value!r}: {value.dtype}",
                )
            found.append(expr)
        return tuple(found)

    def combined(self, a: Values, b: Values) -> Values:
        """``combine(a, b)``. Raises DTypeError if it changes a type, IRError the number."""
        result = tuple(
            as_expr(new, old.dtype) for new, old in zip(self.combine(a, b), a, strict=False)
        )
        for axis, (new, old, other) in enumerate(zip(result, a, b, strict=False)):
            if not new.dtype is old.dtype is other.dtype:
                raise DTypeError(
                    f"value {axis} of the reducer {self.name} is {old.dtype}, and combining makes"
                    f" it {new.dtype}",
                    because="values, identity and result have one type",
                )
        if len(result) != len(a):
            raise IRError(
                f"combine of the reducer {self.name} gives {len(result)} values,"
                f" and must give {len(a)}"
            )
        return result


def _as_values(values: ExprLike | tuple[ExprLike, ...]) -> Values:
    if isinstance(values, tuple):
        return tuple(as_expr(v) for v in values)
    return (as_expr(values),)


def _as_axes(axis: Axes) -> tuple[ReduceAxis, ...]:
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    for a in axes:
        if not isinstance(a, ReduceAxis):
            raise IRError(
                f"axis={a!r} is not a reduction axis", try_="an axis from te.reduce_axis(extent)"
            )
    checked = cast("tuple[ReduceAxis, ...]", axes)
    if not checked:
        raise IRError("a reduction needs at least one axis")
    if len({a.var for a in checked}) < len(checked):
        raise IRError(f"a reduction names an axis twice: {', '.join(map(repr, checked))}")
    return checked


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def reducer(
    combine: Callable[..., ExprLike | Sequence[ExprLike]],
    identity: Identity | tuple[Identity, ...],
    name: str = "reducer",
) -> Reducer:
    """A reducer of your own.

    combine: a commutative and associative function. Of two expressions, if `identity` is a single
        one; of two tuples, which gives a tuple, if `identity` is a tuple.
    identity: what changes nothing when combined: numbers, or functions of the dtype.

    >>> product = reducer(
    ...     lambda a, b: (a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]),
    ...     (1.0, 0.0),
    ...     "complex_product",
    ... )
    """
    if isinstance(identity, tuple):
        combine_many = cast("Callable[[Values, Values], Sequence[ExprLike]]", combine)
        return Reducer(name, combine_many, identity)

    def combine_one(a: Values, b: Values) -> Sequence[ExprLike]:
        return (cast("ExprLike", combine(a[0], b[0])),)

    return Reducer(name, combine_one, (identity,))


def _operator(op: type[Binary], identity: Identity, name: str) -> Reducer:
    return reducer(op, identity, name)


def _highest(type_: DType) -> ExprLike:
    """The identity of min."""
    return float("inf") if type_.is_float else const(type_.max_value, type_)


def _lowest(type_: DType) -> ExprLike:
    """The identity of max."""
    return float("-inf") if type_.is_float else const(type_.min_value, type_)


# The names shadow Python's within this module, which uses none of them.
sum: Final = _operator(Add, 0, "sum")
prod: Final = _operator(Mul, 1, "prod")
min: Final = _operator(Min, _highest, "min")
max: Final = _operator(Max, _lowest, "max")
any: Final = _operator(Or, False, "any")
all: Final = _operator(And, True, "all")


_is_nan: Final = INTRINSICS["isnan"]


def _extreme_pair(less: bool) -> Callable[[Values, Values], Sequence[ExprLike]]:
    """Of two (value, position) pairs the one that comes first in a total order.

    NaN before numbers, then by value, then by position: hence commutative and associative.
    """

    def combine(a: Values, b: Values) -> Sequence[ExprLike]:
        (x, p), (y, q) = a, b
        beats = Lt(x, y) if less else Lt(y, x)
        earlier = Le(p, q)
        first: Expr = Or(beats, And(Eq(x, y), earlier))
        if x.dtype.is_float:
            first = Select(_is_nan(x), Or(Not(_is_nan(y)), earlier), first)
        return Select(first, x, y), Select(first, p, q)

    return combine


_ARGMIN: Final = reducer(_extreme_pair(less=True), (_highest, lambda t: t.max_value), "argmin")
_ARGMAX: Final = reducer(_extreme_pair(less=False), (_lowest, lambda t: t.max_value), "argmax")


def _position(axes: tuple[ReduceAxis, ...], type_: DType | str) -> Expr:
    """The row-major position of a point among those of `axes`."""
    offsets = [a.var if a.start is as_expr(0) else a.var - a.start for a in axes]
    flat = fold_left(
        lambda outer, inner: outer * inner[1].extent + inner[0],
        zip(offsets[1:], axes[1:], strict=True),
        offsets[0],
    )
    target = as_dtype(type_)
    return flat if flat.dtype is target else Cast(flat, target)


def argmin(
    value: ExprLike,
    axis: Axes,
    *,
    where: ExprLike | None = None,
    dtype: DType | str = "int64",
) -> ReduceMany:
    """The least value over `axis` and its position: a `compute` of it gives two tensors.

    The position counts from the start of the axis (row-major over several) and has the dtype
    `dtype`. Among equal values the first position wins, whatever the order of evaluation; the
    first NaN wins over numbers, as in NumPy. Over no points: the highest value and position of
    their dtypes.
    """
    with placed(caller()):
        return _ARGMIN((value, _position(_as_axes(axis), dtype)), axis, where=where)


def argmax(
    value: ExprLike,
    axis: Axes,
    *,
    where: ExprLike | None = None,
    dtype: DType | str = "int64",
) -> ReduceMany:
    """The greatest value over `axis` and its position; otherwise as `argmin`."""
    with placed(caller()):
        return _ARGMAX((value, _position(_as_axes(axis), dtype)), axis, where=where)
