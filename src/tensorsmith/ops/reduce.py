"""Reductions over axes.

Narrow floats are accumulated in float32 and rounded once. Over no elements a reduction gives its
identity: 0, 1, the lowest or highest value; a mean gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tensorsmith import te
from tensorsmith.errors import ShapeError
from tensorsmith.ir import (
    INTRINSICS,
    Const,
    Expr,
    Kind,
    Select,
    Sub,
    TruncDiv,
    as_expr,
    const,
)
from tensorsmith.ops.indexing import product
from tensorsmith.ops.operands import (
    as_axes,
    as_axis,
    as_float,
    computed_in,
    converted,
    one_dtype,
    widened,
)
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Reducer, Tensor

Axes = Sequence[int] | None
Map = Callable[[Expr], Expr]
_ARITHMETIC: Final = Kind.INT | Kind.UINT | Kind.FLOAT


def reduced_shape(x: Tensor, axes: Sequence[int], *, keep_dims: bool) -> tuple[Expr, ...]:
    """The shape of `x` without the axes, or with extents of 1 for them."""
    if keep_dims:
        return tuple(const(1) if d in axes else e for d, e in enumerate(x.shape))
    return tuple(e for d, e in enumerate(x.shape) if d not in axes)


def reduced_index(
    i: Sequence[Expr], rank: int, inside: dict[int, Expr], *, keep_dims: bool
) -> tuple[Expr, ...]:
    """The element of the operand for the result's indices `i` and the positions `inside`."""
    if keep_dims:
        return tuple(inside.get(d, e) for d, e in enumerate(i))
    rest = iter(i)
    return tuple(inside[d] if d in inside else next(rest) for d in range(rank))


def reduced(
    reducer: Reducer,
    x: Tensor,
    axes: Sequence[int],
    *,
    keep_dims: bool,
    function: Callable[..., Expr] | None = None,
    name: str,
) -> Tensor:
    """``function(element, *indices)`` of the elements of `x`, combined over the axes.

    function: of an element and the indices of the result; by default the element itself.
    """
    over = {d: te.reduce_axis(x.shape[d], f"k{d}" if len(axes) > 1 else "k") for d in axes}
    inside: dict[int, Expr] = {d: a.var for d, a in over.items()}

    def element(*i: Expr) -> Expr | te.Reduce:
        value = x[reduced_index(i, x.rank, inside, keep_dims=keep_dims)]
        value = value if function is None else function(value, *i)
        return reducer(value, axis=tuple(over.values())) if over else value

    return te.compute(reduced_shape(x, axes, keep_dims=keep_dims), element, name)


def mapped(x: Tensor, function: Map, name: str) -> Tensor:
    """`function` of each element; `x` itself if it changes nothing."""
    sample = x[tuple(const(0) for _ in x.shape)]
    if function(sample) is sample:
        return x
    return te.compute(x.shape, lambda *i: function(x[i]), name)


def _reduction(
    name: str,
    reducer: Reducer,
    doc: str,
    *,
    before: Map = lambda value: value,
    after: Map = lambda value: value,
    kinds: Kind = _ARITHMETIC,
) -> Operator:
    """The reduction of ``before(element)``, of whose results it gives ``after(result)``."""

    def compute(x: Tensor, *, axes: Axes = None, keep_dims: bool = True) -> Tensor:
        type_ = one_dtype(name, kinds, x)
        over = sorted(as_axes(name, axes, x.rank))
        total = reduced(
            reducer,
            x,
            over,
            keep_dims=keep_dims,
            function=lambda v, *_: before(widened(v)),
            name=name,
        )
        return mapped(total, lambda v: converted(after(v), type_), f"{name}_result")

    compute.__name__ = name
    compute.__doc__ = f"{doc} Over all axes by default."
    return Operator(name, compute)


def _abs(x: Expr) -> Expr:
    return x if x.dtype.kind is Kind.UINT else INTRINSICS["abs"](x)


def _of_floats(name: str) -> Map:
    """An intrinsic; of an integer that of its float64 form."""
    return lambda x: INTRINSICS[name](as_float(x))


_SUMS: Final = (
    _reduction("reduce_sum", te.sum, "The sum."),
    _reduction("reduce_prod", te.prod, "The product."),
    _reduction("reduce_l1", te.sum, "The sum of magnitudes.", before=_abs),
    _reduction(
        "reduce_l2",
        te.sum,
        "The square root of the sum of squares; of integers without its fraction.",
        before=lambda v: v * v,
        after=_of_floats("sqrt"),
    ),
    _reduction("reduce_sum_square", te.sum, "The sum of squares.", before=lambda v: v * v),
    _reduction(
        "reduce_log_sum",
        te.sum,
        "The logarithm of the sum; of integers without its fraction.",
        after=_of_floats("log"),
    ),
    _reduction("reduce_any", te.any, "Whether one holds.", kinds=Kind.BOOL),
    _reduction("reduce_all", te.all, "Whether all hold.", kinds=Kind.BOOL),
)


def _extreme(name: str, numbers: Reducer, bools: Reducer, doc: str) -> Operator:
    def compute(x: Tensor, *, axes: Axes = None, keep_dims: bool = True) -> Tensor:
        type_ = one_dtype(name, _ARITHMETIC | Kind.BOOL, x)
        reducer = bools if type_.is_bool else numbers
        over = sorted(as_axes(name, axes, x.rank))
        return reduced(reducer, x, over, keep_dims=keep_dims, name=name)

    compute.__name__ = name
    compute.__doc__ = f"{doc} Over all axes by default; of bools too."
    return Operator(name, compute)


_EXTREMES: Final = (
    _extreme("reduce_max", te.max, te.any, "The greatest element; NaN if one is NaN."),
    _extreme("reduce_min", te.min, te.all, "The least element; NaN if one is NaN."),
)


def number_of(x: Tensor, axes: Sequence[int]) -> Expr:
    """How many elements the axes have together."""
    return product(x.shape[d] for d in axes)


def reduce_mean(x: Tensor, *, axes: Axes = None, keep_dims: bool = True) -> Tensor:
    """The mean, over all axes by default; of integers rounded towards zero, and 0 of nothing."""
    type_ = one_dtype("reduce_mean", _ARITHMETIC, x)
    over = sorted(as_axes("reduce_mean", axes, x.rank))
    inner = computed_in(type_)
    total = reduced(
        te.sum,
        x,
        over,
        keep_dims=keep_dims,
        function=lambda v, *_: widened(v),
        name="reduce_mean_sum",
    )
    count = converted(number_of(x, over), inner)

    def element(*i: Expr) -> Expr:
        value = total[i]
        if type_.is_float:
            return converted(value / count, type_)
        least = as_expr(1, inner)
        return TruncDiv(value, Select(count < least, least, count))

    return te.compute(total.shape, element, "reduce_mean")


def finite_or_zero(value: Expr) -> Expr:
    """`value`, or 0 where it is infinite: what may be taken off without making NaN."""
    return Select(INTRINSICS["isinf"](value), as_expr(0.0, value.dtype), value)


def reduce_log_sum_exp(x: Tensor, *, axes: Axes = None, keep_dims: bool = True) -> Tensor:
    """The logarithm of the sum of exponentials, over all axes by default; without overflow.

    Integers are computed in float64, and the result has no fraction.
    """
    type_ = one_dtype("reduce_log_sum_exp", _ARITHMETIC, x)
    over = sorted(as_axes("reduce_log_sum_exp", axes, x.rank))
    largest = reduced(
        te.max,
        x,
        over,
        keep_dims=keep_dims,
        function=lambda v, *_: as_float(v),
        name="largest",
    )
    total = reduced(
        te.sum,
        x,
        over,
        keep_dims=keep_dims,
        function=lambda v, *i: INTRINSICS["exp"](Sub(as_float(v), finite_or_zero(largest[i]))),
        name="total",
    )

    def element(*i: Expr) -> Expr:
        value = INTRINSICS["log"](total[i]) + finite_or_zero(largest[i])
        return converted(value, type_)

    return te.compute(total.shape, element, "reduce_log_sum_exp")


def _position(
    name: str, x: Tensor, axis: int, *, keep_dims: bool, select_last_index: bool
) -> Tensor:
    one_dtype(name, _ARITHMETIC, x)
    at = as_axis(name, axis, x.rank)
    extent = x.shape[at]
    if isinstance(extent, Const) and extent.value == 0:
        raise ShapeError(f"{name} over axis {axis}, which has no elements", given=repr(x))
    shape = reduced_shape(x, (at,), keep_dims=keep_dims)
    k = te.reduce_axis(extent, "k")
    reducer = te.argmax if name == "argmax" else te.argmin

    def element(*i: Expr) -> te.ReduceMany:
        place = extent - 1 - k.var if select_last_index else k.var
        return reducer(x[reduced_index(i, x.rank, {at: place}, keep_dims=keep_dims)], axis=k)

    _, position = te.compute(shape, element, name)
    if not select_last_index:
        return position
    last = converted(extent - 1, position.dtype)
    return te.compute(shape, lambda *i: last - position[i], f"{name}_last")


def argmax(
    x: Tensor, *, axis: int = 0, keep_dims: bool = True, select_last_index: bool = False
) -> Tensor:
    """The position (int64) of the greatest element along an axis, the first or last of equals.

    NaN counts as greatest. Raises ShapeError for an axis without elements.
    """
    return _position("argmax", x, axis, keep_dims=keep_dims, select_last_index=select_last_index)


def argmin(
    x: Tensor, *, axis: int = 0, keep_dims: bool = True, select_last_index: bool = False
) -> Tensor:
    """The position (int64) of the least element along an axis, the first or last of equals.

    NaN counts as least. Raises ShapeError for an axis without elements.
    """
    return _position("argmin", x, axis, keep_dims=keep_dims, select_last_index=select_last_index)


OPERATORS: Final[tuple[Operator, ...]] = (
    *_SUMS,
    *_EXTREMES,
    *operators(reduce_mean, reduce_log_sum_exp, argmax, argmin),
)
