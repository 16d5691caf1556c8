"""Checks of operands and attributes that many operators share."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith import te
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ir import Buffer, Cast, DType, Expr, Kind
from tensorsmith.ir.dtype import float32, float64
from tensorsmith.ir.expr import describe_kinds
from tensorsmith.te import Tensor


def one_dtype(op: str, kinds: Kind, *operands: Buffer) -> DType:
    """The dtype of the operands. Raises DTypeError if it differs or is none of the kinds."""
    first = operands[0].dtype
    if any(o.dtype is not first for o in operands):
        types = dict.fromkeys(o.dtype.name for o in operands)
        raise DTypeError(
            f"{op} takes operands of one type, not {' and '.join(types)}",
            given=", ".join(map(repr, operands)),
        )
    if not first.flag & kinds:
        raise DTypeError(
            f"{op} does not take {first}",
            given=", ".join(map(repr, operands)),
            because=f"it takes {describe_kinds(kinds)}",
        )
    return first


def check_rank(op: str, operand: Buffer, least: int, most: int | None = None) -> None:
    """Raise ShapeError unless the rank is from `least` to `most`; None: to any."""
    if operand.rank < least or (most is not None and operand.rank > most):
        bounds = f"{least}" if least == most else f"{least} to {most}"
        raise ShapeError(
            f"{op} takes a tensor of rank {f'{least} or more' if most is None else bounds},"
            f" not {operand.rank}",
            given=repr(operand),
        )


def as_axis(op: str, axis: int, rank: int) -> int:
    """`axis` counted from the front. Raises ShapeError if there is none."""
    if not -rank <= axis < rank:
        raise ShapeError(
            f"{op} over axis {axis} of a tensor of rank {rank}",
            because="there is no such axis"
            if rank == 0
            else f"axes are counted from {-rank} to {rank - 1}",
        )
    return axis % rank


def as_axes(op: str, axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The axes, counted from the front; None means all of them.

    Raises ShapeError for one that is not there or is given twice.
    """
    if axes is None:
        return tuple(range(rank))
    found = tuple(as_axis(op, a, rank) for a in axes)
    if len(set(found)) < len(found):
        raise ShapeError(f"{op} names an axis twice", given=f"axes={tuple(axes)}")
    return found


def computed_in(type_: DType) -> DType:
    """The type to compute in for results of `type_`: float32 for narrower floats, else itself."""
    is_narrow = type_.kind is Kind.STORAGE or (type_.is_float and type_.bits < 32)
    return float32 if is_narrow else type_


def converted(value: Expr, type_: DType) -> Expr:
    """`value` cast to the type, if it has another."""
    return value if value.dtype is type_ else Cast(value, type_)


def widened(value: Expr) -> Expr:
    """`value` in the type to compute in."""
    return converted(value, computed_in(value.dtype))


def as_float(value: Expr) -> Expr:
    """`value` in the float type to compute in: of integers, float64."""
    return Cast(value, float64) if value.dtype.is_integer else widened(value)


def rounded(tensor: Tensor, type_: DType, name: str) -> Tensor:
    """`tensor` as another type, by a definition called `name`; itself if it has the type."""
    if tensor.dtype is type_:
        return tensor
    return te.compute(tensor.shape, lambda *i: converted(tensor[i], type_), name)
