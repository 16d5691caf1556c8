"""Operators that write elements at positions that another tensor holds.

Positions are read as those of `tensorsmith.ops.gather` are. What is written to one place several
times is written in the row-major order of the updates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.errors import ShapeError
from tensorsmith.ir import Buffer, Const, Expr, Kind, Stmt, seq
from tensorsmith.ops.gather import held
from tensorsmith.ops.indexing import as_index, check_extents, check_integer, check_positions
from tensorsmith.ops.operands import as_axis, check_rank, one_dtype, widened
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.statements import copied, nest, store
from tensorsmith.te import Tensor

REDUCTIONS: Final[dict[str, Callable[[Expr, Expr], Expr]]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": T.max,
    "min": T.min,
}
"""What becomes of an element when another is written there."""


def _combination(reduction: str, data: Tensor, updates: Tensor) -> Callable[[Expr, Expr], Expr]:
    """How an element of `data` and an update combine. Raises ShapeError or DTypeError."""
    if reduction not in REDUCTIONS:
        raise ShapeError(
            f"scatter has no reduction {reduction!r}", try_=f"one of {', '.join(REDUCTIONS)}"
        )
    kinds = Kind.ANY if reduction == "none" else Kind.NUMBER
    type_ = one_dtype("scatter", kinds, data, updates)
    combine = REDUCTIONS[reduction]
    if reduction == "none" or widened(data[(0,) * data.rank]).dtype is type_:
        return combine
    return lambda old, new: T.cast(combine(widened(old), widened(new)), type_)


def scatter_elements(
    data: Tensor, positions: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """`data` with each update written where `gather_elements` would read it.

    reduction: 'none', 'add', 'mul', 'max' or 'min' of the element there and the update.
    """
    check_integer(positions, "the positions of scatter_elements")
    combine = _combination(reduction, data, updates)
    along = as_axis("scatter_elements", axis, data.rank)
    for other in (positions, updates):
        check_rank("scatter_elements", other, data.rank, data.rank)
    check_positions(data.shape[along], positions.shape, "scatter_elements")
    for a, b in zip(positions.shape, updates.shape, strict=True):
        check_extents(a, b, "scatter_elements takes one position an update")

    def body(old: Buffer, at: Buffer, new: Buffer, result: Buffer) -> Stmt:
        def write(*i: Expr) -> Stmt:
            place = [
                held(at[i] if d == along else i[d], extent) for d, extent in enumerate(old.shape)
            ]
            return store(result, place, combine(result[tuple(place)], new[i]))

        return seq(copied(old, result), nest(new.shape, write, "u"))

    return te.extern(body, [data, positions, updates], (data.shape, data.dtype), "scattered")


def scatter_nd(
    data: Tensor, positions: Tensor, updates: Tensor, *, reduction: str = "none"
) -> Tensor:
    """`data` with each slice of `updates` written where `gather_nd` would read it.

    Raises ShapeError if the last extent of `positions` is not constant, or above the rank.
    """
    check_integer(positions, "the positions of scatter_nd")
    combine = _combination(reduction, data, updates)
    check_rank("scatter_nd", positions, 1)
    last, outer = positions.shape[-1], positions.rank - 1
    if not isinstance(last, Const) or int(last.value) > data.rank:
        raise ShapeError(
            "scatter_nd wants tuples of a known number of positions, at most one an axis",
            given=f"{positions!r} of {data!r}",
        )
    length = int(last.value)
    for extent in data.shape[:length]:
        check_positions(extent, positions.shape, "scatter_nd")
    check_rank("scatter_nd", updates, outer + data.rank - length, outer + data.rank - length)
    wanted = (*positions.shape[:-1], *data.shape[length:])
    for a, b in zip(wanted, updates.shape, strict=True):
        check_extents(a, b, "updates of scatter_nd that do not fit its positions")

    def body(old: Buffer, at: Buffer, new: Buffer, result: Buffer) -> Stmt:
        def write(*i: Expr) -> Stmt:
            place: list[Expr] = [held(at[(*i[:outer], k)], old.shape[k]) for k in range(length)]
            place.extend(i[outer:])
            return store(result, place, combine(result[tuple(place)], new[i]))

        return seq(copied(old, result), nest(wanted, write, "u"))

    return te.extern(body, [data, positions, updates], (data.shape, data.dtype), "scattered")


def tensor_scatter(
    cache: Tensor,
    update: Tensor,
    starts: Tensor | None = None,
    *,
    axis: int = -2,
    circular: bool = False,
) -> Tensor:
    """`cache` with `update` written along `axis`, from ``starts[b]`` on in each batch b.

    starts: one position a batch (the first axis), 0 if not given. circular: what goes beyond the
    end goes on at the start; else it is left out. Source: ONNX, TensorScatter.
    """
    one_dtype("tensor_scatter", Kind.ANY, cache, update)
    check_rank("tensor_scatter", update, cache.rank, cache.rank)
    along = as_axis("tensor_scatter", axis, cache.rank)
    if along == 0:
        raise ShapeError("tensor_scatter writes along an axis other than the batch", given="axis 0")
    for d, (a, b) in enumerate(zip(cache.shape, update.shape, strict=True)):
        if d != along:
            check_extents(a, b, f"tensor_scatter of extents that differ in dimension {d}")
    if starts is not None:
        check_integer(starts, "the starts of tensor_scatter")
        check_rank("tensor_scatter", starts, 1, 1)
    extent, length = cache.shape[along], update.shape[along]

    def element(*i: Expr) -> Expr:
        offset = i[along] - (as_index(starts[i[0]]) if starts is not None else 0)
        if circular:
            offset = offset % extent
        at = _replaced(i, along, offset)
        return T.select((offset >= 0) & (offset < length), update[at], cache[i])

    return te.compute(cache.shape, element, "tensor_scatter")


def _replaced(indices: Sequence[Expr], axis: int, value: Expr) -> tuple[Expr, ...]:
    return (*indices[:axis], value, *indices[axis + 1 :])


OPERATORS: Final[tuple[Operator, ...]] = operators(scatter_elements, scatter_nd, tensor_scatter)
