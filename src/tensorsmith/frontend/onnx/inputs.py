"""Inputs of a model as parameters."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tensorsmith.errors import DTypeError, ShapeError, TensorsmithError
from tensorsmith.frontend.onnx.maps import map_input
from tensorsmith.frontend.onnx.strings import string_tensor
from tensorsmith.frontend.onnx.types import (
    STRING,
    AbsentType,
    InputType,
    KnownValue,
    MinExtent,
    SequenceType,
    TensorType,
    element_type,
    type_name,
)
from tensorsmith.frontend.onnx.values import Nothing, Read, Sequence
from tensorsmith.ir import ExprLike, Var
from tensorsmith.ops import GraphBuilder

if TYPE_CHECKING:
    from onnx import GraphProto, TensorShapeProto, TypeProto, ValueInfoProto

NAMELESS: Final = ("", "?", "*", "None")
"""What exporters write for an extent that may be any, each time another one."""


@dataclass(slots=True, eq=False)
class Inputs:
    """Makes parameters of a model's inputs, and dimensions of their named extents.

    given: types that the caller states, by name of the input.
    min_extent: what no extent that is not constant is below: of all, or of some by their names, and
        1 of the others.
    """

    builder: GraphBuilder
    given: Mapping[str, InputType]
    min_extent: MinExtent
    dims: dict[str, Var] = field(default_factory=dict)

    def read(self, graph: GraphProto) -> dict[str, Read | None]:
        """The inputs that are not initializers, by name."""
        initialised = {t.name for t in graph.initializer}
        initialised |= {s.values.name for s in graph.sparse_initializer}
        open_ = [v for v in graph.input if v.name not in initialised]
        if unknown := sorted(set(self.given) - {v.name for v in open_}):
            raise TensorsmithError(
                f"the model has no input {unknown[0]!r}",
                try_=f"one of {', '.join(repr(v.name) for v in open_) or 'none'}",
            )
        found: dict[str, Read | None] = {
            v.name: self._value(v.name, v.type, self.given.get(v.name)) for v in open_
        }
        least = {} if isinstance(self.min_extent, int) else self.min_extent
        if unknown := sorted(set(least) - set(self.dims)):
            raise TensorsmithError(
                f"the model has no dimension {unknown[0]!r}",
                because="`min_extent` names it",
                try_=f"one of {', '.join(map(repr, self.dims)) or 'none'}",
            )
        return found

    def _value(self, name: str, kind: TypeProto, given: InputType | None) -> Read:
        what = f"the input {name!r}"
        if kind.HasField("optional_type"):
            if given is None:
                raise _unknown(what, "is optional", "AbsentType() or the type that it has")
            inner = kind.optional_type.elem_type
            return Nothing() if isinstance(given, AbsentType) else self._value(name, inner, given)
        if kind.HasField("sequence_type"):
            if not isinstance(given, SequenceType):
                raise _unknown(what, "is a sequence", "SequenceType((TensorType(...), ...))")
            inner = kind.sequence_type.elem_type
            parts = enumerate(given.elements)
            return Sequence(tuple(self._value(f"{name}.{n}", inner, t) for n, t in parts))
        if kind.HasField("map_type") and given is None:
            made = map_input(name, kind.map_type)
            self.builder.add_param(made)
            return made
        if isinstance(given, KnownValue):
            value = given.value
            self._tensor(name, kind, TensorType(value.shape, value.dtype.name))
            return self.builder.constant(value, name)
        if given is not None and not isinstance(given, TensorType):
            raise DTypeError(f"{what} is a tensor", given=repr(given))
        return self._tensor(name, kind, given or TensorType())

    def _tensor(self, name: str, kind: TypeProto, given: TensorType) -> Read:
        what = f"the input {name!r}"
        if not kind.HasField("tensor_type"):
            raise DTypeError(f"{what} is no tensor, map, sequence or optional of tensors")
        tensor = kind.tensor_type
        stated = given.shape
        if stated is None:
            if not tensor.HasField("shape"):
                raise _unknown(what, "has an unknown rank", "TensorType(shape)")
            stated = [extent_of(d) for d in tensor.shape.dim]
        elif tensor.HasField("shape") and len(stated) != len(tensor.shape.dim):
            raise ShapeError(
                f"{what} has rank {len(tensor.shape.dim)} in the model",
                given=f"the shape {list(stated)}",
            )
        shape = self._extents(name, stated)
        number = tensor.elem_type
        if (given.dtype or type_name(number, what)) == "string" or number == STRING:
            made = string_tensor(name, shape)
            self.builder.add_param(made)
            return made
        dtype = element_type(number, what) if given.dtype is None else given.dtype
        return self.builder.param(name, shape, dtype)

    def _extents(self, name: str, stated: SequenceOf[int | str | None]) -> list[ExprLike]:
        return [
            extent if isinstance(extent, int) else self._dimension(extent or f"{name}_{axis}")
            for axis, extent in enumerate(stated)
        ]

    def _dimension(self, name: str) -> Var:
        """The dimension of this name: one variable wherever the name stands."""
        if name not in self.dims:
            least = self.min_extent
            self.dims[name] = Var(name, low=least if isinstance(least, int) else least.get(name, 1))
        return self.dims[name]


def extent_of(dim: TensorShapeProto.Dimension) -> int | str | None:
    """The extent that a model states: a number, a name, or None for one that may be any."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return None if dim.dim_param in NAMELESS else str(dim.dim_param)


def _unknown(what: str, why: str, wanted: str) -> TensorsmithError:
    return ShapeError(
        f"{what} {why}",
        because="a model is compiled for inputs whose ranks are known",
        try_=f"input_types={{...: {wanted}}}",
    )


def is_open(graph: GraphProto) -> bool:
    """Whether `from_onnx` needs `input_types` for some input of the graph."""
    initialised = {t.name for t in graph.initializer}
    return any(v.name not in initialised and is_open_input(v) for v in graph.input)


def is_open_input(info: ValueInfoProto) -> bool:
    """Whether the model leaves the rank of an input open, or how many tensors it is."""
    if info.type.HasField("map_type"):
        return False
    tensor = info.type.tensor_type
    return not info.type.HasField("tensor_type") or not tensor.HasField("shape")
