"""Models that are read when it is known what they are called with.

What a model leaves open (ranks of inputs, lengths of sequences, the values of axes) is taken from
the arguments of a call. One module serves all calls that agree in that.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tensorsmith.frontend.onnx.inputs import is_open, is_open_input
from tensorsmith.frontend.onnx.load import Source
from tensorsmith.frontend.onnx.node import OpenValueError
from tensorsmith.frontend.onnx.read import from_onnx
from tensorsmith.frontend.onnx.types import (
    AbsentType,
    Array,
    InputType,
    KnownValue,
    MinExtent,
    SequenceType,
    TensorType,
)
from tensorsmith.ir import IRModule, Opaque
from tensorsmith.runtime.maps import shown

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

Argument: TypeAlias = "Array | Sequence[Any] | dict[Any, Any] | None"
"""A tensor, a sequence of arguments, a map, or an optional that holds nothing."""


@dataclass(slots=True, eq=False)
class Specialised:
    """A model, and the modules made of it so far.

    source: where the model comes from, if there are weights beside it; else itself.
    min_extent: as for `from_onnx`.
    values, shapes: the inputs whose values, or extents, decide which code is made, as far as they
        are known.
    """

    model: ModelProto
    min_extent: MinExtent = 0
    source: Source | None = None
    values: set[str] = field(default_factory=set)
    shapes: set[str] = field(default_factory=set)
    _modules: dict[Hashable, IRModule] = field(default_factory=dict)

    @property
    def inputs(self) -> list[ValueInfoProto]:
        """The inputs that a call gives, in order."""
        graph = self.model.graph
        initialised = {t.name for t in graph.initializer}
        return [v for v in graph.input if v.name not in initialised]

    def ready(self) -> IRModule | None:
        """The module that serves all calls, or None if there is none."""
        if is_open(self.model.graph) or self.values or self.shapes:
            return None
        try:
            return self._module({})
        except OpenValueError as error:
            self._learn(error)
            return None

    def _learn(self, error: OpenValueError) -> None:
        """Note what has to be known from now on. Raises the error if it tells nothing new."""
        if set(error.values) <= self.values and set(error.shapes) <= self.shapes:
            raise error
        self.values.update(error.values)
        self.shapes.update(error.shapes)

    def module_for(self, arguments: Sequence[Argument]) -> IRModule:
        """The module that serves a call with these arguments."""
        while True:
            try:
                return self._module(self._types(arguments))
            except OpenValueError as error:
                self._learn(error)

    def _types(self, arguments: Sequence[Argument]) -> dict[str, InputType]:
        found: dict[str, InputType] = {}
        for info, argument in zip(self.inputs, arguments, strict=True):
            if info.name in self.values and isinstance(argument, (np.ndarray, np.generic)):
                found[info.name] = KnownValue(np.asarray(argument))
            elif info.name in self.shapes and isinstance(argument, (np.ndarray, np.generic)):
                dtype = None if argument.dtype.kind in "OUS" else argument.dtype.name
                found[info.name] = TensorType(argument.shape, dtype)
            elif is_open_input(info):
                found[info.name] = type_of(argument)
        return found

    def _module(self, types: dict[str, InputType]) -> IRModule:
        key = tuple((name, _key(t)) for name, t in sorted(types.items()))
        if key not in self._modules:
            source = self.model if self.source is None else self.source
            self._modules[key] = from_onnx(source, input_types=types, min_extent=self.min_extent)
        return self._modules[key]


def type_of(argument: Argument) -> InputType:
    """The type of an argument, with extents left open."""
    if argument is None:
        return AbsentType()
    if isinstance(argument, (np.ndarray, np.generic)):
        dtype = "string" if argument.dtype.kind in "OUS" else argument.dtype.name
        return TensorType((None,) * argument.ndim, dtype)
    elements = [type_of(a) for a in argument]
    return SequenceType(tuple(e for e in elements if isinstance(e, TensorType)))


def flat_arguments(arguments: Sequence[Argument]) -> list[Array]:
    """The arguments with the elements of sequences in place of them."""
    found: list[Array] = []
    for argument in arguments:
        if isinstance(argument, (np.ndarray, np.generic)):
            array = np.asarray(argument)
            found.append(array.astype(object) if array.dtype.kind in "US" else array)
        elif isinstance(argument, dict):
            found.append(np.array(argument, object))
        elif argument is not None:
            found.extend(flat_arguments(argument))
    return found


def nested_results(module: IRModule, names: Sequence[str], flat: Sequence[Array]) -> list[Any]:
    """The results of the model's outputs `names`, with sequences put together."""
    main = module.graphs["main"]
    stated = main.attrs.get("sequences", ())
    assert isinstance(stated, tuple)
    lengths = {str(e[0]): int(str(e[1])) for e in stated if isinstance(e, tuple)}
    kinds = (v.kind if isinstance(v, Opaque) else "" for v in main.results)
    rest = iter([shown(x, kind) for x, kind in zip(flat, kinds, strict=True)])
    made: list[Any] = []
    for name in names:
        length = lengths.get(name)
        if length is None:
            made.append(next(rest))
        else:
            made.append(None if length < 0 else [next(rest) for _ in range(length)])
    return made


def _key(type_: InputType) -> Hashable:
    if isinstance(type_, KnownValue):
        value = type_.value
        return (value.dtype.name, value.shape, value.tobytes())
    if isinstance(type_, SequenceType):
        return tuple(map(_key, type_.elements))
    if isinstance(type_, TensorType):
        return (None if type_.shape is None else tuple(type_.shape), type_.dtype)
    return None
