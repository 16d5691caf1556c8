"""Padding: elements added before and after those of a tensor, or taken away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ir import Expr, ExprLike, Select, as_exprs
from tensorsmith.ops.indexing import conditions_to_read, ranges, read, zero
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor

MODES: Final = ("constant", "edge", "reflect", "wrap")
"""What stands outside: a value, the nearest element, the mirror image, the tensor again."""


def pad(
    x: Tensor,
    value: Tensor | None = None,
    *,
    before: tuple[ExprLike, ...],
    after: tuple[ExprLike, ...],
    mode: str = "constant",
) -> Tensor:
    """`x` with ``before[d]`` and ``after[d]`` more positions on both sides of each dimension.

    value: a tensor with one element, that which stands outside in the mode 'constant' (0 if None).
    before, after: may be negative, to take positions away. mode: one of `MODES`.
    """
    if mode not in MODES:
        raise ShapeError(f"padding has no mode {mode!r}", try_=f"one of {', '.join(MODES)}")
    if not len(before) == len(after) == x.rank:
        raise ShapeError(
            "padding takes an amount before and after each dimension",
            given=f"{before} and {after} for {x!r}",
        )
    if value is not None and value.dtype is not x.dtype:
        raise DTypeError("the padding value has the type of the tensor", given=f"{value!r}, {x!r}")
    facts = Analyzer()
    front, back = as_exprs(before), as_exprs(after)
    shape = tuple(_extent(b + e + a, facts) for b, e, a in zip(front, x.shape, back, strict=True))
    outside = zero(x.dtype) if value is None else value[(0,) * value.rank]

    def element(*axes: Expr) -> Expr:
        inside = ranges(axes, shape)
        at = [inside.simplify(i - b) for i, b in zip(axes, front, strict=True)]
        if mode == "constant":
            return padded(x, at, outside, inside)
        moved = [
            i if _is_inside(i, e, inside) else _folded(j, (b, e, a), mode)
            for i, j, b, e, a in zip(at, axes, front, x.shape, back, strict=True)
        ]
        return read(x, moved, inside)

    return te.compute(shape, element, "pad")


def _extent(extent: Expr, facts: Analyzer) -> Expr:
    """An extent, at least 0."""
    return facts.simplify(extent if facts.prove(extent >= 0) is True else T.max(extent, 0))


def _is_inside(position: Expr, extent: Expr, facts: Analyzer) -> bool:
    return facts.prove(position >= 0) is True and facts.prove(position < extent) is True


def _folded(axis: Expr, amounts: tuple[Expr, Expr, Expr], mode: str) -> Expr:
    """The position of the element that stands in for one outside, of what is left of the axis.

    amounts: before, the extent, after. Negative amounts take positions away first.
    """
    before, extent, after = amounts
    cut = T.max(-before, 0)
    left = Analyzer().simplify(extent - cut - T.max(-after, 0))
    position = axis - T.max(before, 0)
    if mode == "edge":
        around = T.max(T.min(position, left - 1), 0)
    elif mode == "wrap":
        around = position % T.max(left, 1)
    else:
        period = T.max(2 * left - 2, 1)
        around = T.min(position % period, period - position % period)
        around = T.select(left <= 1, 0, around)
    return cut + around


def padded(x: Tensor, at: Sequence[Expr], outside: Expr, facts: Analyzer) -> Expr:
    """The element of `x` at these positions, or `outside` where one of them is out of `x`."""
    inside = conditions_to_read(x, at, facts)
    element = x[tuple(at)]
    return element if inside is None else Select(inside, element, outside)


OPERATORS: Final[tuple[Operator, ...]] = operators(pad)
