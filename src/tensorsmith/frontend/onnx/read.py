"""A module from an ONNX model."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tensorsmith.errors import TensorsmithError
from tensorsmith.frontend.onnx.converters import CONVERTERS
from tensorsmith.frontend.onnx.inputs import Inputs
from tensorsmith.frontend.onnx.limits import DEFAULT_LIMITS, Limits
from tensorsmith.frontend.onnx.load import Loaded, Source, in_model, load
from tensorsmith.frontend.onnx.node import Converter
from tensorsmith.frontend.onnx.opsets import NEWEST, check_operators, key_of, opsets_of, plain
from tensorsmith.frontend.onnx.reader import Reader
from tensorsmith.frontend.onnx.scope import Scope
from tensorsmith.frontend.onnx.types import InputType, MinExtent
from tensorsmith.frontend.onnx.values import Nothing, Read, Sequence, flat
from tensorsmith.ir import AttrValue, GraphFunction, IRModule
from tensorsmith.ops import OPERATORS, GraphBuilder

_NONE: Final[Mapping[str, InputType]] = MappingProxyType({})
_NO_CONVERTERS: Final[Mapping[tuple[str, str], Converter]] = MappingProxyType({})
_BEFORE_OPSETS: Final = 3
"""Files of versions of the format before this one state no opset: it is 1."""


def from_onnx(
    model: Source,
    *,
    input_types: Mapping[str, InputType] = _NONE,
    min_extent: MinExtent = 1,
    folder: str | Path | None = None,
    converters: Mapping[tuple[str, str], Converter] = _NO_CONVERTERS,
    limits: Limits = DEFAULT_LIMITS,
    outside: set[str] | None = None,
) -> IRModule:
    """The module of an ONNX model, with one graph function ``main``.

    model: a path, the bytes of a file, or an `onnx.ModelProto`.
    input_types: types of inputs, by name: needed where the model leaves a rank, the length of a
        sequence or the presence of an optional open; elsewhere they may make extents constant.
    min_extent: what no extent that the model gives a name or nothing is below; or that of some, by
        name, where that of others is 1.
    folder: where weights outside of the model lie; by default beside it.
    converters: by domain and operator, for nodes that Tensorsmith does not know, or instead of its
        own. See `Node` for what they are given.
    outside: takes the names of the other files that weights were read from.
    Attributes of ``main``: `outputs`, the names of the results. A sequence has one result for each
    element, ``name.0``, ``name.1``, ...; `sequences` names them with their lengths.
    Raises UntrustedModelError for a damaged or contradictory file, UnsupportedOpError (once, for
    all nodes) for operators that are not known, ShapeError and DTypeError for nodes whose operands
    do not fit. No code of the file is executed.
    """
    loaded = load(model, limits, None if folder is None else Path(folder))
    try:
        module = _read(loaded, input_types, min_extent, converters, limits)
    except TensorsmithError as error:
        raise in_model(error, loaded.name) from None
    if outside is not None:
        outside.update(loaded.files.used - {loaded.name})
    return module


def _read(
    loaded: Loaded,
    input_types: Mapping[str, InputType],
    min_extent: MinExtent,
    converters: Mapping[tuple[str, str], Converter],
    limits: Limits,
) -> IRModule:
    model = loaded.model
    opsets = opsets_of(model.opset_import, {"com.microsoft": 1})
    if "" not in opsets:
        opsets = {**opsets, "": 1 if model.ir_version < _BEFORE_OPSETS else NEWEST[""]}
    table = {**CONVERTERS, **{(plain(d), op): {1: f} for (d, op), f in converters.items()}}
    check_operators(model, opsets, table)
    builder = GraphBuilder(OPERATORS)
    functions = {key_of(f): f for f in model.functions}
    reader = Reader(builder, functions, table, loaded.files, limits)
    inputs = Inputs(builder, input_types, min_extent).read(model.graph)
    reader.name_is_taken(inputs.values())
    scope = Scope("", ChainMap(), opsets, {})
    results = reader.read_graph(model.graph, scope, inputs)
    names = [o.name for o in model.graph.output]
    made = builder.function("main", [t for r in results for t in flat(r)])
    attrs = _attributes(names, results)
    return IRModule.of(GraphFunction(made.name, made.params, made.body, made.results, attrs))


def _attributes(names: list[str], results: tuple[Read, ...]) -> Mapping[str, AttrValue]:
    """The names of the results, and which of them are parts of sequences or not there."""
    outputs: list[AttrValue] = []
    sequences: list[AttrValue] = []
    for name, result in zip(names, results, strict=True):
        if isinstance(result, Sequence):
            sequences.append((name, len(flat(result))))
            outputs.extend(f"{name}.{n}" for n in range(len(flat(result))))
        elif isinstance(result, Nothing):
            sequences.append((name, -1))
        else:
            outputs.append(name)
    attrs: dict[str, AttrValue] = {"outputs": tuple(outputs)}
    if sequences:
        attrs["sequences"] = tuple(sequences)
    return attrs
