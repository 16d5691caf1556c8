"""Tensors that definitions give, and what every definition states about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorsmith.errors import IRError, ShapeError, Span
from tensorsmith.ir import (
    Attrs,
    Buffer,
    Cast,
    Const,
    DType,
    Expr,
    ExprLike,
    Load,
    Stmt,
    Var,
    as_expr,
    postorder,
)
from tensorsmith.ir.dtype import dtype as as_dtype
from tensorsmith.ir.dtype import index
from tensorsmith.te.operand import Operand
from tensorsmith.te.origin import caller, placed

if TYPE_CHECKING:
    from tensorsmith.te.lowering import Lowering

Shape = Iterable[ExprLike]


class Tensor(Buffer, Operand):
    """A tensor with the definition that gives it. Made by `placeholder`, `compute`, and so on.

    Index it with one integer expression a dimension: ``A[i, k]``. Fixed-width integers, such as
    elements of another tensor, are taken as indices too. One without dimensions may be used as its
    only element: ``x * scale``. In a program (`tensorsmith.te.program`) a buffer takes its place.
    """

    __slots__ = ("definition",)

    definition: Definition | None
    """None for an input."""

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Expr:
        """The element at `indices`."""
        if not isinstance(indices, tuple):
            indices = (indices,)
        return Load(self, tuple(_as_index(as_expr(i)) for i in indices))

    def __as_expr__(self) -> Expr:
        """The only element. Raises ShapeError if there may be others."""
        if self.shape:
            indices = ", ".join("ijklmnpq"[: self.rank] or "i")
            raise ShapeError(
                f"the tensor {self.name!r} of rank {self.rank} is used as one element",
                given=repr(self),
                try_=f"index it, as {self.name}[{indices}]",
            )
        return Load(self, ())


def _as_index(i: Expr) -> Expr:
    return Cast(i, index) if i.dtype.is_integer and i.dtype is not index else i


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Definition(ABC):
    """How tensors come about. `span` is where the user wrote it."""

    name: str
    outputs: tuple[Tensor, ...]
    attrs: Attrs
    span: Span | None

    @property
    @abstractmethod
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that it reads, each once, in order of first use."""

    @property
    @abstractmethod
    def scalars(self) -> tuple[Var, ...]:
        """The variables that it takes from outside: dimensions and scalar parameters."""

    @abstractmethod
    def lower(self, lowering: Lowering) -> Stmt:
        """The statement that computes the outputs, whose places `lowering` knows."""

    def inline(self, lowering: Lowering) -> None:
        """Have `lowering` compute each element of the outputs where it is read.

        Raises IRError if an element is no expression.
        """
        raise IRError(
            f"{self.name!r} cannot be computed where it is read",
            because="only what is computed without a reduction can",
        )


def tensors_read(exprs: Iterable[Expr]) -> tuple[Tensor, ...]:
    """The tensors with an element among `exprs` or their operands, in order of first use."""
    found = dict.fromkeys(e.buffer for e in postorder(*exprs) if isinstance(e, Load))
    return tuple(b for b in found if isinstance(b, Tensor))


def check_shape(shape: Shape | ExprLike) -> tuple[Expr, ...]:
    """`shape` as expressions. Raises ShapeError where an extent is known and negative."""
    if not isinstance(shape, Iterable):
        raise ShapeError(
            f"a shape is a tuple of extents, not {shape!r}",
            try_=f"({shape},)",
        )
    extents = tuple(as_expr(e) for e in shape)
    for axis, extent in enumerate(extents):
        check_extent(extent, f"dimension {axis}")
    return extents


def check_extent(extent: Expr, what: str) -> None:
    """Raise ShapeError if `extent` is not of type index, or a constant below 0."""
    if extent.dtype is not index:
        raise ShapeError(
            f"the extent {extent!r} of {what} is {extent.dtype}, and must be an integer of type"
            " index"
        )
    if isinstance(extent, Const) and int(extent.value) < 0:
        raise ShapeError(f"the extent {extent!r} of {what} is negative")


def is_zero(extent: Expr) -> bool:
    """Whether `extent` is the constant 0, so that there is nothing along it."""
    return isinstance(extent, Const) and extent.value == 0


def make_tensor(
    name: str, shape: Iterable[ExprLike], type_: DType | str, span: Span | None
) -> Tensor:
    """A tensor without a definition; `define` gives it one."""
    tensor = Tensor(name, shape, type_, span=span)
    tensor.definition = None
    return tensor


def define(definition: Definition) -> None:
    """Make `definition` that of its outputs. Once each, while they are being made."""
    for output in definition.outputs:
        assert output.definition is None, output
        output.definition = definition


def placeholder(shape: Shape, dtype: DType | str = "float32", name: str = "placeholder") -> Tensor:
    """An input of a program.

    shape: one extent a dimension, an integer or an expression over dimensions (`script.dim`).
    Raises ShapeError for an extent that is negative or no integer, DTypeError for an unknown type.
    """
    span = caller()
    with placed(span):
        return make_tensor(name, check_shape(shape), as_dtype(dtype), span)


def var(
    name: str,
    dtype: DType | str = "index",
    *,
    min: int | None = None,
    max: int | None = None,
    multiple_of: int = 1,
) -> Var:
    """A scalar parameter of a program, or a dimension.

    min, max, multiple_of: what always holds of an integer one.
    Raises DTypeError for such facts on another type, ShapeError if nothing satisfies them.
    """
    with placed(caller()):
        return Var(name, as_dtype(dtype), low=min, high=max, multiple_of=multiple_of)
