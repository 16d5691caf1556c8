"""Dimensions, buffers and scalars: what a script declares.

Called by Python the functions only note their arguments. The parser calls them too, on the values
that it found in the source, and makes statements of the notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tensorsmith.errors import DTypeError, ShapeError, Span
from tensorsmith.ir.buffer import GLOBAL, Buffer, IndexMap
from tensorsmith.ir.dtype import dtype, index
from tensorsmith.ir.expr import Expr, ExprLike, Var, as_expr
from tensorsmith.script.terms import checks
from tensorsmith.script.terms.scalars import DTypeLike, index_expr

Shape: TypeAlias = "ExprLike | Iterable[ExprLike]"


def dim(name: str, *, min: int | None = 1, max: int | None = None, multiple_of: int = 1) -> Var:
    """A symbolic dimension with ``min <= name <= max``, a multiple of `multiple_of`.

    >>> n = dim("n", multiple_of=8)
    >>> n * 2
    n * 2
    """
    checks.facts(min, max, multiple_of)
    return Var(checks.string(name, "a name"), index, low=min, high=max, multiple_of=multiple_of)


def dims(names: str, *, min: int | None = 1, max: int | None = None) -> tuple[Var, ...]:
    """A `dim` for each of the names, which spaces separate.

    >>> dims("n m")
    (n, m)
    """
    return tuple(dim(name, min=min, max=max) for name in checks.string(names, "names").split())


@dataclass(frozen=True)
class BufferType:
    """The type of a buffer, as an annotation: ``A: T.Buffer((n, 128), "float32")``.

    shape, strides, offset, layout, scope, align: as those of `tensorsmith.ir.Buffer`. A layout may
        be a function of one index a dimension.
    """

    shape: Shape
    dtype: DTypeLike = "float32"
    strides: Shape | None = None
    offset: ExprLike = 0
    layout: IndexMap | Callable[..., Sequence[ExprLike]] | None = None
    scope: str = GLOBAL
    align: int = 0

    def named(self, name: str, span: Span | None) -> Buffer:
        """A buffer of this type. Raises ShapeError or DTypeError."""
        shape = _indices(self.shape)
        layout = self.layout
        if layout is not None and not isinstance(layout, IndexMap):
            if not callable(layout):
                raise DTypeError(f"a layout is a function of indices, not {layout!r}")
            layout = index_map(layout, len(shape))
        return Buffer(
            name,
            shape,
            dtype(self.dtype),
            strides=None if self.strides is None else _indices(self.strides),
            offset=index_expr(self.offset),
            layout=layout,
            scope=checks.string(self.scope, "a scope"),
            align=checks.integer(self.align, "an alignment"),
            span=span,
        )


def index_map(function: Callable[..., Sequence[ExprLike]], rank: int) -> IndexMap:
    """The map that a function of indices describes. Raises ShapeError if it is of another rank."""
    names: tuple[str, ...] | None = getattr(function, "parameters", None)
    if names is None:
        return IndexMap.of(function, rank)
    if len(names) != rank:
        raise ShapeError(f"the layout takes {len(names)} indices, and the buffer has rank {rank}")
    inputs = [Var(name) for name in names]
    return IndexMap(inputs, _indices(function(*inputs)))


def _indices(values: Shape) -> tuple[Expr, ...]:
    return tuple(map(index_expr, values if isinstance(values, (tuple, list)) else (values,)))


@dataclass(frozen=True)
class ScalarType:
    """The type of a scalar parameter with facts: ``n: T.Scalar("index", min=1)``."""

    dtype: DTypeLike
    min: int | None = None
    max: int | None = None
    multiple_of: int = 1

    def named(self, name: str) -> Var:
        """A variable of this type."""
        checks.facts(self.min, self.max, self.multiple_of)
        facts = {"low": self.min, "high": self.max}
        return Var(name, dtype(self.dtype), multiple_of=self.multiple_of, **facts)


@dataclass(frozen=True)
class Allocation:
    """A buffer that lives from here to the end of the statements it stands among."""

    type: BufferType


@dataclass(frozen=True)
class Viewing:
    """A buffer in the memory of another one, or at an address."""

    source: Buffer | Expr
    offset: Expr
    type: BufferType


def view(
    source: Buffer | ExprLike,
    offset: ExprLike,
    shape: Shape,
    dtype: DTypeLike = "float32",
    *,
    strides: Shape | None = None,
    layout: IndexMap | Callable[..., Sequence[ExprLike]] | None = None,
    scope: str = GLOBAL,
    align: int = 0,
) -> Viewing:
    """``x = T.view(arena, 64, (4, n), "float32")``: a buffer in the memory of `source`, a buffer of
    bytes or an address as an int64, from byte `offset` on, with the content that it has."""
    type_ = BufferType(shape, dtype, strides, 0, layout, scope, align)
    if not isinstance(source, Buffer):
        source = as_expr(source)
    return Viewing(source, index_expr(offset), type_)


def alloc(
    shape: Shape,
    dtype: DTypeLike = "float32",
    *,
    strides: Shape | None = None,
    offset: ExprLike = 0,
    layout: IndexMap | Callable[..., Sequence[ExprLike]] | None = None,
    scope: str = GLOBAL,
    align: int = 0,
) -> Allocation:
    """``acc = T.alloc((4,), "float32", scope="local")``: a buffer with undefined content."""
    return Allocation(BufferType(shape, dtype, strides, offset, layout, scope, align))
