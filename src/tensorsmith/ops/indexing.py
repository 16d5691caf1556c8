"""Positions: held within a tensor, counted from its end, and the ranges of indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from tensorsmith import script as T
from tensorsmith.arith import Analyzer
from tensorsmith.errors import DTypeError
from tensorsmith.ir import And, Const, DType, Expr, ExprLike, Select, Var, as_expr, select
from tensorsmith.ir.dtype import index
from tensorsmith.ir.expr import equal
from tensorsmith.ops.requirements import require
from tensorsmith.te import Tensor


def check_extents(a: ExprLike, b: ExprLike, what: str) -> None:
    """Have the extents be equal. Raises ShapeError if they are known to differ."""
    if a is b or (isinstance(a, Const) and isinstance(b, int) and a.value == b):
        return
    require(equal(as_expr(a), as_expr(b)), what, given=f"{a!r} and {b!r}")


def check_type(x: Tensor, wanted: DType | str, what: str) -> None:
    """Raise DTypeError unless the elements of `x` have the type."""
    if x.dtype.name != str(wanted):
        raise DTypeError(f"{what} has to be {wanted}", given=repr(x))


def check_float(x: Tensor, what: str) -> None:
    """Raise DTypeError unless the elements of `x` are floats with arithmetic."""
    if not x.dtype.is_float:
        raise DTypeError(f"{what} takes floats", given=repr(x))


def check_integer(x: Tensor, what: str) -> None:
    """Raise DTypeError unless the elements of `x` are integers."""
    if not x.dtype.is_integer:
        raise DTypeError(f"{what} has to hold integers", given=repr(x))


def check_positions(extent: Expr, shape: Iterable[Expr], what: str) -> None:
    """Have an axis that is read at positions hold elements, unless nothing is read at all.

    shape: of the positions. Raises ShapeError if the axis is known to be empty and they are not.
    """
    if not (isinstance(extent, Const) and int(extent.value) > 0):
        condition = Analyzer().simplify((extent >= 1) | equal(product(shape), 0))
        require(condition, f"{what} from an axis of no elements")


def ranges(axes: Sequence[Expr], shape: Sequence[Expr]) -> Analyzer:
    """The facts that hold where an element is computed: each axis lies within its extent."""
    facts = Analyzer()
    for axis, extent in zip(axes, shape, strict=True):
        if isinstance(axis, Var):
            facts.bind(axis, 0, extent)
    return facts


def product(extents: Iterable[ExprLike]) -> Expr:
    """The product of the extents; 1 of none."""
    result = as_expr(1)
    for extent in extents:
        result = as_expr(extent) if result is as_expr(1) else result * extent
    return result


def is_one(extent: Expr) -> bool:
    """Whether `extent` is the constant 1."""
    return isinstance(extent, Const) and extent.value == 1


def as_index(value: ExprLike) -> Expr:
    """An integer as an ``index``."""
    e = as_expr(value)
    return e if e.dtype.is_index else T.cast(e, index)


def from_end(position: ExprLike, extent: ExprLike) -> Expr:
    """`position`, where a negative one counts from the end."""
    i = as_index(position)
    return select(i < 0, i + extent, i)


def clamped(position: ExprLike, extent: ExprLike) -> Expr:
    """`position` moved to the nearest one of the axis."""
    return T.max(T.min(as_index(position), as_expr(extent) - 1), 0)


def zero(type_: DType) -> Expr:
    """The zero (or false) of a type."""
    return Const(False if type_.is_bool else 0, type_)


def conditions_to_read(x: Tensor, at: Sequence[Expr], facts: Analyzer) -> Expr | None:
    """What must hold for `at` to lie within `x`; None if `facts` say that it does."""
    conditions: list[Expr] = []
    for position, extent in zip(at, x.shape, strict=True):
        low, high = facts.bounds(position)
        if (low is None or low < 0) and facts.prove(position >= 0) is not True:
            conditions.append(position >= 0)
        is_below = isinstance(extent, Const) and high is not None and high < int(extent.value)
        if not is_below and facts.prove(position < extent) is not True:
            conditions.append(position < extent)
    return reduce(And, conditions) if conditions else None


def read(x: Tensor, indices: Sequence[ExprLike], facts: Analyzer) -> Expr:
    """The element of `x` at `indices`; where they may lie outside for all `facts` say, guarded."""
    simple = tuple(facts.simplify(as_index(i)) for i in indices)
    inside = conditions_to_read(x, simple, facts)
    return x[simple] if inside is None else Select(inside, x[simple], zero(x.dtype))
