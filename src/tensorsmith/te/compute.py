"""Tensors defined by what an index function says of each element."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, cast, overload

from tensorsmith.arith import Analyzer
from tensorsmith.errors import DTypeError, IRError, ShapeError
from tensorsmith.ir import (
    Attrs,
    AttrValue,
    Bind,
    Block,
    DType,
    Expr,
    ExprLike,
    For,
    Iter,
    IterKind,
    Select,
    Stmt,
    Var,
    as_expr,
    free_vars,
    seq,
)
from tensorsmith.ir.dtype import dtype as as_dtype
from tensorsmith.te.origin import caller, placed
from tensorsmith.te.reduce import Reduce, ReduceMany, Reduction
from tensorsmith.te.tensor import (
    Definition,
    Shape,
    Tensor,
    check_shape,
    define,
    is_zero,
    make_tensor,
    tensors_read,
)

if TYPE_CHECKING:
    from tensorsmith.te.lowering import Lowering

Element: TypeAlias = "ExprLike | Reduce"
Several: TypeAlias = "ReduceMany | tuple[Element, ...]"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Compute(Definition):
    """Each output's element at `axes`: either `values`, or the results of `reductions`.

    The reductions have the same axes and predicate, and their results stand in a row:
    `reductions` of 1 and 2 values give 3 outputs.
    """

    axes: tuple[Var, ...]
    values: tuple[Expr, ...]
    reductions: tuple[Reduction, ...]

    def _exprs(self) -> tuple[Expr, ...]:
        exprs = list(self.values)
        for reduction in self.reductions:
            exprs.extend(reduction.values)
            if reduction.where is not None:
                exprs.append(reduction.where)
            exprs.extend(e for a in reduction.axes for e in (a.start, a.extent))
        return tuple(exprs)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that it reads, each once, in order of first use."""
        return tensors_read(self._exprs())

    @property
    def scalars(self) -> tuple[Var, ...]:
        """The variables that it takes from outside: dimensions and scalar parameters."""
        own = {*self.axes, *(a.var for r in self.reductions for a in r.axes)}
        used = free_vars(*self.outputs[0].shape, *self._exprs())
        return tuple(v for v in used if v not in own)

    def lower(self, lowering: Lowering) -> Stmt:
        """Loops over the axes around one block.

        A block's init runs with its first reduction point. If there may be none, the identity is
        written by a block of its own before. Where there is nothing to compute, no statement.
        """
        if any(map(is_zero, self.outputs[0].shape)):
            return seq()
        nest = Nest(lowering)
        if all(is_positive(a.extent) for r in self.reductions for a in r.axes):
            return self.lower_within(nest, lowering)
        identities = tuple(i for r in self.reductions for i in r.identities)
        before = replace(self, name=f"{self.name}_init", values=identities, reductions=())
        start = before.lower_within(Nest(lowering), lowering)
        if any(is_zero(a.extent) for r in self.reductions for a in r.axes):
            return start
        return seq(start, self.lower_within(nest, lowering, has_init=False))

    def inline(self, lowering: Lowering) -> None:
        """Have `lowering` compute each element of the outputs where it is read.

        Raises IRError if an element is a reduction.
        """
        if self.reductions:
            super(Compute, self).inline(lowering)
        for output, value in zip(self.outputs, self.values, strict=True):
            lowering.inline(output, self.axes, value)

    def lower_within(self, nest: Nest, lowering: Lowering, *, has_init: bool = True) -> Stmt:
        """The same, with the loops of `nest` outermost and their iterators the block's first."""
        for axis, extent in zip(self.axes, self.outputs[0].shape, strict=True):
            nest.add(axis, extent, IterKind.SPATIAL)
        for over in self.reductions[0].axes if self.reductions else ():
            nest.add(over.var, over.extent, IterKind.REDUCE, over.start)
        body = self._reduce(lowering) if self.reductions else self._store(lowering, self.values)
        init = None
        if self.reductions and has_init:
            init = self._store(lowering, [i for r in self.reductions for i in r.identities])
        return nest.around(
            Block(
                lowering.unique(self.name),
                tuple(nest.iters),
                body,
                init,
                attrs=self.attrs,
                span=self.span,
            )
        )

    def _store(self, lowering: Lowering, values: Sequence[Expr]) -> Stmt:
        stores = (
            lowering.store(output, self.axes, value)
            for output, value in zip(self.outputs, values, strict=True)
        )
        return seq(*stores)

    def _reduce(self, lowering: Lowering) -> Stmt:
        """Combine the outputs with one more point. All are read before any is written."""
        stmts: list[Stmt] = []
        remaining = list(self.outputs)
        for reduction in self.reductions:
            count = len(reduction.values)
            outputs, remaining = remaining[:count], remaining[count:]
            results = reduction.step(tuple(o[self.axes] for o in outputs))
            if len(outputs) > 1:
                names = [f"new_{o.name}" for o in outputs]
                bindings, results = _evaluated(tuple(map(lowering.expr, results)), names)
                stmts.extend(bindings)
            stmts.extend(
                lowering.store(output, self.axes, result)
                for output, result in zip(outputs, results, strict=True)
            )
        return seq(*stmts)


def _evaluated(
    results: tuple[Expr, ...], names: Sequence[str]
) -> tuple[list[Bind], tuple[Expr, ...]]:
    """Bindings that evaluate `results`, and variables for them; a shared condition comes first."""
    bindings = []
    conditions = {r.condition if isinstance(r, Select) else None for r in results}
    condition = conditions.pop()
    if condition is not None and not conditions:
        keeps = Var("keeps", condition.dtype)
        bindings.append(Bind(keeps, condition))
        results = tuple(Select(keeps, *r.args[1:]) for r in results)
    variables = [Var(n, r.dtype) for n, r in zip(names, results, strict=True)]
    bindings.extend(Bind(v, r) for v, r in zip(variables, results, strict=True))
    return bindings, tuple(variables)


def is_positive(extent: Expr) -> bool:
    """Whether `extent` is at least 1 by the facts on its variables alone."""
    return Analyzer().prove(extent >= 1) is True


class Nest:
    """Loops, outermost first, and the block iterators bound to them."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.iters: list[Iter] = []

    def add(self, axis: Var, extent: Expr, kind: IterKind, start: ExprLike = 0) -> Var:
        """A loop, and an iterator that stands for `axis` from here on."""
        size, first = self.lowering.expr(extent), self.lowering.expr(as_expr(start))
        iterator = Var("v" + axis.name)
        self.lowering.variables[axis] = iterator
        self.iters.append(Iter(iterator, size, kind, Var(axis.name), first))
        return iterator

    def around(self, block: Block) -> Stmt:
        """The loops with `block` in them."""
        stmt: Stmt = block
        for i in reversed(self.iters):
            stmt = For(cast("Var", i.binding), i.extent, stmt, start=i.start, span=block.span)
        return stmt


# A ReduceMany is an operand, too (one that raises), so the order decides: several values first.
@overload
def compute(  # type: ignore[overload-overlap]
    shape: Shape,
    function: Callable[..., Several],
    name: str = ...,
    *,
    dtype: DType | str | None = ...,
    attrs: Mapping[str, AttrValue] = ...,
) -> tuple[Tensor, ...]: ...


@overload
def compute(
    shape: Shape,
    function: Callable[..., Element],
    name: str = ...,
    *,
    dtype: DType | str | None = ...,
    attrs: Mapping[str, AttrValue] = ...,
) -> Tensor: ...


def compute(
    shape: Shape,
    function: Callable[..., Element | Several],
    name: str = "",
    *,
    dtype: DType | str | None = None,
    attrs: Mapping[str, AttrValue] = MappingProxyType({}),
) -> Tensor | tuple[Tensor, ...]:
    """The tensor of this shape whose element at i, j, ... is ``function(i, j, ...)``.

    function: of one index a dimension (none for shape ()). It gives an expression, a reduction
        (`sum`, `argmax`, ... of this package), or a tuple of several of one sort; with several
        values a tuple of tensors comes back, which one block computes.
    name: of the tensor and its block; by default that of `function`.
    dtype: of a result that is a Python number; other results must have it, if given.
    attrs: attributes of the block.
    Raises ShapeError for a bad shape or a function of another number of indices, DTypeError for
    types that do not fit, IRError for a result that is not an expression or reduction.

    >>> from tensorsmith import te
    >>> A = te.placeholder((4, 8), name="A")
    >>> k = te.reduce_axis(8)
    >>> te.compute((4,), lambda i: te.sum(A[i, k], axis=k), "total")
    total: Buffer((4,), 'float32')
    """
    span = caller()
    with placed(span):
        extents = check_shape(shape)
        own = name or getattr(function, "__name__", "")
        own = own if own.isidentifier() else "t"
        axes = _axes(function, len(extents))
        result = function(*axes)
        elements = result if isinstance(result, tuple) else (result,)
        values, reductions = _sort_out(elements, None if dtype is None else as_dtype(dtype))
        types = [v.dtype for v in values] or [v.dtype for r in reductions for v in r.values]
        outputs = tuple(
            make_tensor(own if len(types) == 1 else f"{own}_{n}", extents, t, span)
            for n, t in enumerate(types)
        )
        define(
            Compute(
                name=own,
                outputs=outputs,
                attrs=_frozen(attrs),
                span=span,
                axes=axes,
                values=values,
                reductions=reductions,
            )
        )
        return outputs if isinstance(result, (tuple, ReduceMany)) else outputs[0]


def _frozen(attrs: Mapping[str, AttrValue]) -> Attrs:
    return MappingProxyType(dict(attrs))


def _axes(function: Callable[..., object], rank: int) -> tuple[Var, ...]:
    """One variable a dimension, called as the function's parameters are."""
    names: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names.extend(f"i{d}" for d in range(len(names), rank))
        elif parameter.kind is not parameter.KEYWORD_ONLY and (
            len(names) < rank or parameter.default is parameter.empty
        ):
            names.append(parameter.name)
    if len(names) != rank:
        raise ShapeError(
            f"the shape has {rank} dimension{'' if rank == 1 else 's'}, and the index function"
            f" takes {len(names)} ind{'ex' if len(names) == 1 else 'ices'}",
            given=f"({', '.join(names)})",
        )
    return tuple(Var(n) for n in names)


def _sort_out(
    elements: Iterable[Element | ReduceMany], wanted: DType | None
) -> tuple[tuple[Expr, ...], tuple[Reduction, ...]]:
    """The elements as either expressions or reductions; checked."""
    given = tuple(elements)
    reductions = tuple(e for e in given if isinstance(e, Reduction))
    if not given or any(e is None for e in given):
        raise IRError(
            "the index function gives nothing", try_="return an expression for each element"
        )
    if not reductions:
        values = tuple(as_expr(e, wanted) for e in given if not isinstance(e, Reduction))
        _check_types(values, wanted)
        return values, ()
    if len(reductions) < len(given):
        raise IRError(
            "the index function gives reductions and plain expressions",
            because="one block either reduces all of its outputs or none",
            try_="two computes",
        )
    first = reductions[0]
    for other in reductions[1:]:
        if other.axes != first.axes or other.where is not first.where:
            raise IRError(
                f"te.{first.reducer.name} and te.{other.reducer.name} reduce over different points",
                given=f"axis={list(first.axes)} and axis={list(other.axes)}",
                because="reductions of one compute share their axes and their where=",
                try_="two computes",
            )
    _check_types([v for r in reductions for v in r.values], wanted)
    return (), reductions


def _check_types(values: Sequence[Expr], wanted: DType | None) -> None:
    for value in values:
        if wanted is not None and value.dtype is not wanted:
            raise DTypeError(
                f"the index function gives {value.dtype}, and dtype={wanted.name!r} is asked for",
                given=repr(value),
                try_=f"cast the result to {wanted.name}",
            )
