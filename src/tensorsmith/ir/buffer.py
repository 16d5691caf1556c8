"""Buffers, regions of buffers, and index maps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tensorsmith.errors import ShapeError, Span
from tensorsmith.ir.dtype import DType, dtype
from tensorsmith.ir.expr import Expr, ExprLike, Load, Var, as_expr, as_exprs, substitute

GLOBAL: Final = "global"
"""The scope of ordinary memory. Other scopes are names that a target gives a meaning: 'local'
(private to one thread, kept in registers where possible), 'shared' (to the threads of a group)."""


class IndexMap:
    """A function from indices to indices: ``(i, j) -> (i // 4, j, i % 4)``.

    A buffer's layout, a relayout, and a view of a loop nest are index maps. `tensorsmith.arith`
    inverts and composes them.
    """

    __slots__ = ("inputs", "outputs")

    inputs: tuple[Var, ...]
    outputs: tuple[Expr, ...]

    def __init__(self, inputs: Iterable[Var], outputs: Iterable[ExprLike]) -> None:
        self.inputs = tuple(inputs)
        self.outputs = as_exprs(outputs)

    @classmethod
    def of(cls, function: Callable[..., Sequence[ExprLike]], rank: int) -> IndexMap:
        """The map that a Python function of `rank` indices describes.

        >>> IndexMap.of(lambda i, j: (i // 4, j, i % 4), 2)
        IndexMap((i, j) -> (i // 4, j, i % 4))
        """
        names = function.__code__.co_varnames[:rank] if hasattr(function, "__code__") else ()
        inputs = tuple(Var(names[d] if d < len(names) else f"i{d}") for d in range(rank))
        return cls(inputs, function(*inputs))

    def __call__(self, *indices: ExprLike) -> tuple[Expr, ...]:
        """The image of `indices`."""
        if len(indices) != len(self.inputs):
            raise ShapeError(f"the map takes {len(self.inputs)} indices, not {len(indices)}")
        values: dict[Expr, Expr] = dict(zip(self.inputs, as_exprs(indices), strict=True))
        cache: dict[Expr, Expr] = {}
        return tuple(substitute(o, values, cache) for o in self.outputs)

    def __repr__(self) -> str:
        inputs = ", ".join(v.name for v in self.inputs)
        outputs = ", ".join(map(repr, self.outputs))
        return f"IndexMap(({inputs}) -> ({outputs}))"


class Buffer:
    """A multi-dimensional piece of memory. Equal only to itself; the name is for people.

    shape: one ``index`` expression a dimension, in elements. () is a single element.
    strides: elements between neighbours of each dimension, or None for row-major and dense.
    offset: elements from the start of the memory to element (0, ..., 0).
    layout: where the elements lie, as a map from indices of `shape` to those of a dense row-major
        array; None for the identity. A buffer has strides or a layout, not both.
    scope: which memory it lives in, such as `GLOBAL`.
    align: bytes that divide the address of the start of the memory; 0 for the dtype's own.
    """

    __slots__ = ("align", "dtype", "layout", "name", "offset", "scope", "shape", "span", "strides")

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    strides: tuple[Expr, ...] | None
    offset: Expr
    layout: IndexMap | None
    scope: str
    align: int
    span: Span | None

    def __init__(
        self,
        name: str,
        shape: Iterable[ExprLike],
        type_: DType | str = "float32",
        *,
        strides: Iterable[ExprLike] | None = None,
        offset: ExprLike = 0,
        layout: IndexMap | None = None,
        scope: str = GLOBAL,
        align: int = 0,
        span: Span | None = None,
    ) -> None:
        self.name = name
        self.shape = as_exprs(shape)
        self.dtype = dtype(type_)
        self.strides = None if strides is None else as_exprs(strides)
        self.offset = as_expr(offset)
        self.layout = layout
        self.scope = scope
        self.align = align
        self.span = span
        self._check()

    def _check(self) -> None:
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise ShapeError(
                f"buffer {self.name!r} has {len(self.shape)} dimensions"
                f" and {len(self.strides)} strides"
            )
        if self.layout is not None and len(self.layout.inputs) != len(self.shape):
            raise ShapeError(
                f"buffer {self.name!r} has {len(self.shape)} dimensions, its layout takes"
                f" {len(self.layout.inputs)}"
            )
        if self.strides is not None and self.layout is not None:
            raise ShapeError(f"buffer {self.name!r} has strides or a layout, not both")
        if self.align < 0 or self.align & (self.align - 1):
            raise ShapeError(f"buffer {self.name!r} is aligned to {self.align}, not a power of two")
        for e in (*self.shape, *(self.strides or ()), self.offset):
            if e.dtype.name != "index":
                raise ShapeError(
                    f"buffer {self.name!r} has the extent, stride or offset {e!r}"
                    f" of type {e.dtype}, and it must be index"
                )

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Expr:
        """The load of one element."""
        if not isinstance(indices, tuple):
            indices = (indices,)
        return Load(self, as_exprs(indices))

    __iter__ = None
    """Not a sequence: without this, Python would iterate by subscripts, for ever."""

    def __deepcopy__(self, memo: object) -> Buffer:
        return self

    def replace(self, **fields: object) -> Buffer:
        """A new buffer that differs in `fields`, named as `Buffer`'s arguments (`dtype` too)."""
        kept: dict[str, object] = {name: getattr(self, name) for name in Buffer.__slots__}
        unknown = fields.keys() - kept.keys()
        assert not unknown, unknown
        kept.update(fields)
        new = object.__new__(Buffer)
        for name, value in kept.items():
            setattr(new, name, value)
        new._check()
        return new

    def region(self) -> Region:
        """All of it."""
        return Region(self, tuple((as_expr(0), extent) for extent in self.shape))

    def __repr__(self) -> str:
        shape = ", ".join(map(repr, self.shape)) + ("," if len(self.shape) == 1 else "")
        return f"{self.name}: Buffer(({shape}), {self.dtype.name!r})"


class Region:
    """A box of a buffer: a start and an extent for each dimension."""

    __slots__ = ("buffer", "ranges")

    buffer: Buffer
    ranges: tuple[tuple[Expr, Expr], ...]

    def __init__(self, buffer: Buffer, ranges: Iterable[tuple[ExprLike, ExprLike]]) -> None:
        self.buffer = buffer
        self.ranges = tuple((as_expr(start), as_expr(extent)) for start, extent in ranges)
        if len(self.ranges) != buffer.rank:
            raise ShapeError(
                f"{buffer.name!r} has rank {buffer.rank},"
                f" and the region has {len(self.ranges)} ranges"
            )

    @classmethod
    def point(cls, buffer: Buffer, indices: Iterable[ExprLike]) -> Region:
        """The region of one element."""
        return cls(buffer, ((i, 1) for i in indices))

    def __repr__(self) -> str:
        from tensorsmith.ir.printer import print_region

        return print_region(self)
