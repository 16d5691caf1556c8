"""A node as its converter sees it: operands, attributes, and the builder to write with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from tensorsmith.errors import DTypeError, ShapeError, UnsupportedOpError, UntrustedModelError
from tensorsmith.frontend.onnx import types
from tensorsmith.frontend.onnx.values import STRINGS, Nothing, Read, Sequence, kind_of
from tensorsmith.ir import Buffer, Const, Expr, Opaque, free_vars
from tensorsmith.ops import GraphBuilder

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, NodeProto, SparseTensorProto

    from tensorsmith.frontend.onnx.reader import Reader
    from tensorsmith.frontend.onnx.scope import Scope

Converter: TypeAlias = "Callable[[Node], Read | tuple[Read | None, ...]]"
"""What makes a node's outputs: one, or all of them in order (those not asked for may be None)."""


class OpenValueError(UnsupportedOpError):
    """Something must be known while the model is read, and is not.

    values: the model's inputs whose values it is computed from.
    shapes: those whose extents it is computed from.
    """

    def __init__(
        self,
        what: str,
        where: str,
        *,
        values: tuple[str, ...] = (),
        shapes: tuple[str, ...] = (),
        because: str | None = None,
    ) -> None:
        parts = [f"the extents of {_listed(shapes)}"] if shapes else []
        parts += [_listed(values)] if values else []
        entries = [f"{n!r}: TensorType((...))" for n in shapes]
        entries += [f"{n!r}: KnownValue(...)" for n in values if n not in shapes]
        super().__init__(
            what,
            where=where,
            given=f"computed from {' and '.join(parts)}" if parts else None,
            because=because or "it decides the rank of a result, or which code is made",
            try_=f"input_types={{{', '.join(entries)}}}"
            if entries
            else "a model in which it is constant",
        )
        self.values = values
        self.shapes = shapes


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))


_REQUIRED: Final[Any] = object()
_KINDS: Final = {
    1: "float",
    2: "integer",
    3: "string",
    4: "tensor",
    5: "graph",
    6: "floats",
    7: "integers",
    8: "strings",
    9: "tensors",
    10: "graphs",
    11: "sparse tensor",
}


@dataclass(slots=True, eq=False)
class Node:
    """One node of a graph, with its inputs resolved.

    where: how errors call it.
    opset: the version of its domain.
    inputs: None for what is left out.
    attributes: those of a function it stands in are filled in.
    """

    proto: NodeProto
    where: str
    opset: int
    inputs: tuple[Read | None, ...]
    attributes: Mapping[str, AttributeProto]
    reader: Reader
    scope: Scope
    asked: set[str] = field(default_factory=set)

    # --- Making values -----------------------------------------------------------------------

    @property
    def builder(self) -> GraphBuilder:
        """Where the bindings go."""
        return self.reader.builder

    def apply(self, op: str, *operands: Buffer | None, **attrs: Any) -> tuple[Buffer, ...]:
        """The results of an operator."""
        return self.builder.apply(op, operands, attrs)

    def __call__(self, op: str, *operands: Buffer | None, **attrs: Any) -> Buffer:
        """The result of an operator that has one."""
        (result,) = self.builder.apply(op, operands, attrs)
        return result

    def run_graph(
        self, graph: GraphProto, name: str, inputs: SequenceOf[Read | None]
    ) -> tuple[Read, ...]:
        """The results of a graph that is an attribute, called `name`, for these inputs."""
        if len(graph.input) != len(inputs):
            self.wrong(
                f"the graph {name!r} takes {len(graph.input)} inputs", given=f"{len(inputs)} values"
            )
        given = {i.name: v for i, v in zip(graph.input, inputs, strict=True)}
        for value in inputs:
            self.reader.note_origin(value, self.inputs)
        scope = self.scope.inner(f"{name!r} of {self.where}")
        return self.reader.read_graph(graph, scope, given)

    def with_inputs(self, inputs: SequenceOf[Read | None]) -> Node:
        """This node with other inputs. What attributes are asked for counts for this one too."""
        return replace(self, inputs=tuple(inputs))

    # --- Operands ----------------------------------------------------------------------------

    def value(self, number: int) -> Read | None:
        """An input of any kind, or None where it is left out."""
        return self.inputs[number] if number < len(self.inputs) else None

    def optional(self, number: int) -> Buffer | None:
        """An input that is a tensor of numbers, or None where it is left out."""
        found = self.value(number)
        if found is None or isinstance(found, Buffer):
            return found
        raise DTypeError(
            f"input {number} must be a tensor of numbers", where=self.where, given=kind_of(found)
        )

    def tensor(self, number: int = 0) -> Buffer:
        """An input that must be a tensor of numbers."""
        found = self.optional(number)
        if found is None:
            raise ShapeError(f"input {number} is left out", where=self.where)
        return found

    def tensors(self) -> tuple[Buffer, ...]:
        """All inputs, which must be tensors of numbers."""
        return tuple(self.tensor(n) for n in range(len(self.inputs)))

    def text_tensor(self, number: int = 0) -> Opaque | None:
        """An input if it is a tensor of strings, else None."""
        found = self.value(number)
        return found if isinstance(found, Opaque) and found.kind == STRINGS else None

    def strings(self, number: int = 0) -> Opaque:
        """An input that must be a tensor of strings."""
        found = self.text_tensor(number)
        if found is not None:
            return found
        raise DTypeError(
            f"input {number} must be a tensor of strings",
            where=self.where,
            given=kind_of(self.value(number)),
        )

    def sequence(self, number: int = 0) -> Sequence:
        """An input that must be a sequence."""
        found = self.value(number)
        if isinstance(found, Sequence):
            return found
        raise DTypeError(
            f"input {number} must be a sequence", where=self.where, given=kind_of(found)
        )

    def numbers_of(
        self, number: int, name: str = "n", low: int | None = None
    ) -> tuple[Expr, ...] | None:
        """The elements of an integer input as index expressions, or None where it is left out."""
        found = self.optional(number)
        return None if found is None else self.builder.integers(found, name, low)

    def known(self, number: int) -> types.Array | None:
        """What an input holds, which must be known while reading; None where it is left out.

        Raises OpenValueError if it is not.
        """
        found = self.optional(number)
        if found is None:
            return None
        array = self.builder.array(found)
        if array is None:
            self.refuse_open(number)
        return array

    def constants(self, number: int) -> tuple[int, ...] | None:
        """The elements of an integer input, which must be known while reading: axes and the like.

        None where it is left out. Raises OpenValueError if they are not known.
        """
        found = self.numbers_of(number)
        if found is None:
            return None
        if any(not isinstance(e, Const) for e in found):
            self.refuse_open(number)
        return tuple(int(e.value) for e in found if isinstance(e, Const))

    def refuse_open(self, number: int, because: str | None = None) -> NoReturn:
        """Raise OpenValueError: the input must be known while reading."""
        found = self.value(number)
        what = f"input {number} must be constant"
        known = self.builder.contents(found) if isinstance(found, Buffer) else None
        if known is not None:
            shapes, others = self.reader.inputs_with(free_vars(*known.flat))
            if shapes and not others:
                raise OpenValueError(what, self.where, shapes=shapes, because=because)
        values = self.reader.inputs_behind(found)
        raise OpenValueError(what, self.where, values=values, because=because)

    def refuse_shape(self, what: str, because: str) -> NoReturn:
        """Raise OpenValueError: an extent of the first input must be known while reading."""
        x = self.tensor()
        shapes, others = self.reader.inputs_with(free_vars(*x.shape))
        values = self.reader.inputs_behind(x, only_integers=True) if others else ()
        raise OpenValueError(what, self.where, values=values, shapes=shapes, because=because)

    def has_output(self, number: int) -> bool:
        """Whether the output is asked for."""
        return number < len(self.proto.output) and bool(self.proto.output[number])

    # --- Attributes --------------------------------------------------------------------------

    def _attribute(self, name: str, kind: int, default: Any) -> Any:
        self.asked.add(name)
        found = self.attributes.get(name)
        if found is None:
            if default is _REQUIRED:
                raise UntrustedModelError(f"the attribute {name!r} is missing", where=self.where)
            return None
        if found.type != kind:
            raise UntrustedModelError(
                f"the attribute {name!r} must be {_KINDS[kind]}, not"
                f" {_KINDS.get(found.type, 'of an unknown kind')}",
                where=self.where,
            )
        return found

    def has(self, name: str) -> bool:
        """Whether an attribute is given."""
        return name in self.attributes

    def ignore(self, *names: str) -> None:
        """Attributes that change nothing here."""
        self.asked.update(names)

    def integer(self, name: str, default: int = _REQUIRED) -> int:
        """An attribute that is an integer."""
        found = self._attribute(name, 2, default)
        return default if found is None else int(found.i)

    def number(self, name: str, default: float = _REQUIRED) -> float:
        """An attribute that is a float."""
        found = self._attribute(name, 1, default)
        return default if found is None else float(found.f)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """An attribute that is an integer and means yes or no."""
        return bool(self.integer(name, int(default)))

    def text(self, name: str, default: str = _REQUIRED, choices: tuple[str, ...] = ()) -> str:
        """An attribute that is a string, one of `choices` if any are given."""
        found = self._attribute(name, 3, default)
        given = default if found is None else types.text(found.s, f"the attribute {name!r}")
        if choices and given not in choices:
            raise UnsupportedOpError(
                f"the attribute {name!r} is {given!r}",
                where=self.where,
                try_=f"one of {', '.join(map(repr, choices))}",
            )
        return given

    def integers(self, name: str, default: tuple[int, ...] | None = _REQUIRED) -> Any:
        """An attribute that is a tuple of integers, or the default."""
        found = self._attribute(name, 7, default)
        return default if found is None else tuple(int(i) for i in found.ints)

    def numbers(self, name: str, default: tuple[float, ...] | None = _REQUIRED) -> Any:
        """An attribute that is a tuple of floats, or the default."""
        found = self._attribute(name, 6, default)
        return default if found is None else tuple(float(f) for f in found.floats)

    def texts(self, name: str, default: tuple[str, ...] | None = _REQUIRED) -> Any:
        """An attribute that is a tuple of strings, or the default."""
        found = self._attribute(name, 8, default)
        what = f"the attribute {name!r}"
        return default if found is None else tuple(types.text(s, what) for s in found.strings)

    def array(self, name: str) -> types.Array | None:
        """An attribute that is a tensor, or None."""
        found = self._attribute(name, 4, None)
        if found is None:
            return None
        return self.reader.array_of(found.t, f"the attribute {name!r}")

    def sparse(self, name: str) -> SparseTensorProto:
        """An attribute that is a sparse tensor."""
        found: SparseTensorProto = self._attribute(name, 11, _REQUIRED).sparse_tensor
        return found

    def graph(self, name: str) -> GraphProto:
        """An attribute that is a graph."""
        found: GraphProto = self._attribute(name, 5, _REQUIRED).g
        return found

    # --- Errors ------------------------------------------------------------------------------

    def unsupported(
        self, what: str, because: str | None = None, try_: str | None = None
    ) -> NoReturn:
        """Say that this use of the operator has no conversion."""
        raise UnsupportedOpError(what, where=self.where, because=because, try_=try_)

    def wrong(self, what: str, given: str | None = None, because: str | None = None) -> NoReturn:
        """Say that the node's operands or attributes do not fit."""
        raise ShapeError(what, where=self.where, given=given, because=because)

    def unused_attributes(self) -> list[str]:
        """The attributes that the converter did not look at."""
        return sorted(set(self.attributes) - self.asked)


def only_tensors(values: tuple[Read | None, ...]) -> bool:
    """Whether none of the values is a sequence or an empty optional."""
    return not any(isinstance(v, (Sequence, Nothing)) for v in values)
