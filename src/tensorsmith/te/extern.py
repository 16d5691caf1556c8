"""Tensors whose computation is given as statements, as a program, or as an external function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, overload

from tensorsmith.errors import IRError
from tensorsmith.ir import (
    AttrValue,
    Block,
    Buffer,
    DType,
    Expr,
    ExprLike,
    Invoke,
    Region,
    Stmt,
    TensorProgram,
    Var,
    as_expr,
    free_vars,
    seq,
)
from tensorsmith.ir.instantiate import instantiate
from tensorsmith.te.compute import compute
from tensorsmith.te.match import match_parameters
from tensorsmith.te.origin import caller, placed
from tensorsmith.te.tensor import (
    Definition,
    Shape,
    Tensor,
    check_shape,
    define,
    make_tensor,
    tensors_read,
)

if TYPE_CHECKING:
    from tensorsmith.te.lowering import Lowering

Body: TypeAlias = "str | TensorProgram | Callable[..., Stmt]"
Output: TypeAlias = "tuple[Shape, DType | str]"
"""Shape and dtype of an output."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Extern(Definition):
    """`outputs` as `body` computes them from `args`: tensors, regions of tensors, and scalars.

    dims: what the dimensions of a body that is a program stand for.
    """

    body: Body
    args: tuple[Tensor | Region | Expr, ...]
    dims: Mapping[Var, Expr]

    def _exprs(self) -> tuple[Expr, ...]:
        exprs = [e for o in self.outputs for e in o.shape]
        for arg in self.args:
            if isinstance(arg, Expr):
                exprs.append(arg)
            elif isinstance(arg, Region):
                exprs.extend(e for bounds in arg.ranges for e in bounds)
        return tuple(exprs)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that it reads, each once, in order of first use."""
        whole = [a.buffer if isinstance(a, Region) else a for a in self.args]
        tensors = [t for t in whole if isinstance(t, Tensor)]
        return tuple(dict.fromkeys((*tensors, *tensors_read(self._exprs()))))

    @property
    def scalars(self) -> tuple[Var, ...]:
        """The variables that it takes from outside: dimensions and scalar parameters."""
        return free_vars(*self._exprs(), *self.dims.values())

    def lower(self, lowering: Lowering) -> Stmt:
        """A block without iterators around the body, after copies of what has no own buffer."""
        name = lowering.unique(self.name)
        copies: list[Stmt] = []
        if isinstance(self.body, str):
            block = self._call(self.body, name, lowering, copies)
        else:
            block = Block(name, (), self._body(lowering, copies), attrs=self.attrs, span=self.span)
        return seq(*copies, block)

    def _call(self, callee: str, name: str, lowering: Lowering, copies: list[Stmt]) -> Block:
        args: list[Expr | Region] = []
        for arg in self.args:
            if isinstance(arg, Expr):
                args.append(lowering.expr(arg))
            elif isinstance(arg, Tensor):
                args.append(lowering.region(_stored(arg, lowering, copies)))
            else:
                args.append(_part(arg, lowering, copies))
        writes = tuple(lowering.region(o) for o in self.outputs)
        return Block(
            name,
            (),
            Invoke(callee, (*args, *writes), span=self.span),
            reads=tuple(dict.fromkeys(a for a in args if isinstance(a, Region))),
            writes=writes,
            attrs=self.attrs,
            span=self.span,
        )

    def _body(self, lowering: Lowering, copies: list[Stmt]) -> Stmt:
        args = [
            lowering.expr(a) if isinstance(a, Expr) else _whole_buffer(a, lowering, copies)
            for a in (*self.args, *self.outputs)
            if not isinstance(a, Region)
        ]
        if isinstance(self.body, TensorProgram):
            variables = {v: lowering.expr(e) for v, e in self.dims.items()}
            pairs = zip(self.body.params, args, strict=True)
            buffers = {p: a for p, a in pairs if isinstance(p, Buffer) and isinstance(a, Buffer)}
            return instantiate(self.body.body, variables, buffers)
        assert not isinstance(self.body, str)
        with placed(self.span):
            stmt = self.body(*args)
            if not isinstance(stmt, Stmt):
                raise IRError(
                    f"the body of the extern {self.name!r} gives {stmt!r}, which is no statement"
                )
        return stmt


def _stored(tensor: Tensor, lowering: Lowering, copies: list[Stmt]) -> Tensor:
    """`tensor`, or a copy of it if it has no storage (the state of a scan)."""
    return tensor if tensor in lowering.places else _copy(tensor, lowering, copies)


def _whole_buffer(tensor: Tensor, lowering: Lowering, copies: list[Stmt]) -> Buffer:
    """A buffer that holds `tensor` alone, copied if need be."""
    place = lowering.places.get(tensor)
    if place is None or place.leading:
        place = lowering.places[_copy(tensor, lowering, copies)]
    return place.buffer


def _copy(tensor: Tensor, lowering: Lowering, copies: list[Stmt]) -> Tensor:
    copy = compute(tensor.shape, lambda *i: tensor[i], tensor.name)
    assert copy.definition is not None
    copies.append(lowering.statements([copy.definition]))
    return copy


def _part(region: Region, lowering: Lowering, copies: list[Stmt]) -> Region:
    """`region` of a tensor as one of the buffer in which the tensor lives."""
    assert isinstance(region.buffer, Tensor)
    place = lowering.places[_stored(region.buffer, lowering, copies)]
    ranges = [(lowering.expr(start), lowering.expr(extent)) for start, extent in region.ranges]
    return Region(place.buffer, (*((i, as_expr(1)) for i in place.leading), *ranges))


@overload
def extern(
    body: Body,
    inputs: Tensor | Sequence[Tensor | Region | ExprLike],
    outputs: Output,
    name: str = ...,
    *,
    attrs: Mapping[str, AttrValue] = ...,
) -> Tensor: ...


@overload
def extern(
    body: Body,
    inputs: Tensor | Sequence[Tensor | Region | ExprLike],
    outputs: list[Output],
    name: str = ...,
    *,
    attrs: Mapping[str, AttrValue] = ...,
) -> tuple[Tensor, ...]: ...


def extern(
    body: Body,
    inputs: Tensor | Sequence[Tensor | Region | ExprLike],
    outputs: Output | list[Output],
    name: str = "",
    *,
    attrs: Mapping[str, AttrValue] = MappingProxyType({}),
) -> Tensor | tuple[Tensor, ...]:
    """Tensors whose computation is not said by an index function.

    body: one of
        - a tensor program (of `tensorsmith.script`, say) whose parameters are the inputs, then the
          outputs; its statements are copied in, its dimensions follow from the shapes;
        - a function of the buffers and scalars of the inputs, then the buffers of the outputs, that
          gives a statement;
        - the name of an external function, called with the inputs, then the outputs. It reads the
          inputs and writes the outputs, and nothing else.
    inputs: tensors and scalars; for an external function also regions of tensors.
    outputs: (shape, dtype), or a list of several, for which a tuple of tensors comes back.
    Raises ShapeError, DTypeError or IRError if the inputs do not fit the program.
    """
    span = caller()
    with placed(span):
        fallback = body if isinstance(body, str) else getattr(body, "name", "")
        own = name or (fallback if fallback.isidentifier() else "extern")
        several = isinstance(outputs, list)
        specs = outputs if isinstance(outputs, list) else [outputs]
        tensors = tuple(
            make_tensor(own if len(specs) == 1 else f"{own}_{n}", check_shape(s), d, span)
            for n, (s, d) in enumerate(specs)
        )
        given = (inputs,) if isinstance(inputs, Tensor) else inputs
        args = tuple(a if isinstance(a, (Tensor, Region)) else as_expr(a) for a in given)
        _check_regions(body, args)
        define(
            Extern(
                name=own,
                outputs=tensors,
                attrs=MappingProxyType(dict(attrs)),
                span=span,
                body=body,
                args=args,
                dims=match_parameters(body, (*args, *tensors))
                if isinstance(body, TensorProgram)
                else {},
            )
        )
        return tensors if several else tensors[0]


def _check_regions(body: Body, args: Sequence[Tensor | Region | Expr]) -> None:
    for arg in args:
        if not isinstance(arg, Region):
            continue
        if not isinstance(body, str):
            raise IRError(
                f"the region {arg!r} is given to a body that takes whole tensors",
                try_="the tensor itself, or a te.compute that copies the region",
            )
        if not isinstance(arg.buffer, Tensor):
            raise IRError(f"the region {arg!r} is not of a tensor", try_="tensor.region()")
