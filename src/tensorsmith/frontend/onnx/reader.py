"""Graphs of a model, read node by node into a graph function."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorsmith.errors import TensorsmithError, UnsupportedOpError, UntrustedModelError
from tensorsmith.frontend.onnx import types
from tensorsmith.frontend.onnx.limits import Limits
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.opsets import (
    FunctionKey,
    Schema,
    Table,
    call_key,
    converter_of,
    opsets_of,
    plain,
    schema_of,
)
from tensorsmith.frontend.onnx.scope import Scope
from tensorsmith.frontend.onnx.strings import constant_strings
from tensorsmith.frontend.onnx.structure import EXTERNAL, check_tensor, place
from tensorsmith.frontend.onnx.type_protos import type_proto
from tensorsmith.frontend.onnx.values import Read, flat
from tensorsmith.ir import Buffer, Opaque, Var, free_vars
from tensorsmith.ops import GraphBuilder

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, NodeProto, SparseTensorProto, TensorProto

    from tensorsmith.frontend.onnx.external import ExternalFiles


@dataclass(slots=True, eq=False)
class Reader:
    """What reading a model has at hand.

    functions: those that the model defines.
    nodes_left: how many more nodes may be read; counted down.
    seeds: how many seeds have been given to nodes that have none.
    """

    builder: GraphBuilder
    functions: Mapping[FunctionKey, FunctionProto]
    converters: Table
    files: ExternalFiles
    limits: Limits
    nodes_left: int = 0
    seeds: int = 0
    _named: set[Buffer] = field(default_factory=set)
    _behind: dict[Buffer | Opaque, tuple[Read | None, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes_left = self.limits.nodes

    # --- Tensors of the file -----------------------------------------------------------------

    def array_of(self, proto: TensorProto, what: str) -> types.Array:
        """What a tensor of the file holds."""
        check_tensor(proto, what, None)
        if proto.data_location == EXTERNAL:
            return self.files.tensor(proto, what)
        return types.from_tensor(proto, what)

    def constant(self, array: types.Array, name: str = "constant") -> Buffer | Opaque:
        """A known tensor, of numbers or (an object array) of strings."""
        if array.dtype == object:
            return constant_strings(self.builder, array, name)
        if array.dtype.kind == "c":
            raise UnsupportedOpError(
                f"{name!r} holds complex numbers",
                because="tensors hold integers, floats and booleans",
            )
        return self.builder.constant(array, name)

    def dense(self, sparse: SparseTensorProto) -> types.Array:
        """A sparse tensor of the file with its zeros. Raises UntrustedModelError beyond limits."""
        what = f"initializer {sparse.values.name!r}"
        values = self.array_of(sparse.values, what)
        indices = self.array_of(sparse.indices, what)
        dims = tuple(sparse.dims)
        count = types.element_count(dims, what)
        if count * values.itemsize > self.limits.constant_bytes:
            raise UntrustedModelError(f"{what} is too large to be made dense", given=f"{dims}")
        at = indices if indices.ndim == 1 else _linear(indices, dims)
        if values.ndim != 1 or at.shape != values.shape or np.any((at < 0) | (at >= count)):
            raise UntrustedModelError(f"{what} has indices that do not fit", given=f"{dims}")
        made = np.zeros(count, values.dtype)
        made[at] = values
        return made.reshape(dims)

    def next_seed(self) -> int:
        """A seed for a node that has none: another one for each, the same for each reading."""
        self.seeds += 1
        return self.seeds

    def name_is_taken(self, values: Iterable[Read | None]) -> None:
        """Keep the names of these tensors: they are the model's already."""
        self._named.update(t for v in values if v for t in flat(v) if isinstance(t, Buffer))

    def note_origin(self, value: Read | None, origin: tuple[Read | None, ...]) -> None:
        """Keep what a value is made from, for `inputs_behind`."""
        if isinstance(value, (Buffer, Opaque)):
            self._behind.setdefault(value, origin)

    def inputs_behind(self, value: Read | None, *, only_integers: bool = False) -> tuple[str, ...]:
        """The names of the parameters that a value is computed from.

        only_integers: of those that may hold extents.
        """
        params = {
            p
            for p in self.builder.params
            if not only_integers or (isinstance(p, Buffer) and p.dtype.is_integer)
        }
        found: dict[str, None] = {}
        seen: set[Buffer | Opaque] = set()
        pending = [value]
        while pending:
            for tensor in flat(pending.pop()):
                if tensor in params:
                    found[tensor.name] = None
                if tensor not in seen:
                    seen.add(tensor)
                    pending.extend(self._behind.get(tensor, ()))
        return tuple(found)

    def inputs_with(self, dims: Iterable[Var]) -> tuple[tuple[str, ...], tuple[Var, ...]]:
        """The names of the parameters that have these dimensions, and the dimensions of none."""
        left = set(dims)
        wanted = set(dims)
        names = []
        for param in self.builder.params:
            found = wanted & set(free_vars(*param.shape))
            if found & left:
                names.append(param.name)
            left -= found
        return tuple(names), tuple(left)

    # --- Graphs ------------------------------------------------------------------------------

    def read_graph(
        self, graph: GraphProto, scope: Scope, inputs: Mapping[str, Read | None]
    ) -> tuple[Read, ...]:
        """The results of a graph for these inputs. `scope` is its own, and is added to."""
        scope.values.update(inputs)
        for tensor in graph.initializer:
            if tensor.name not in inputs:
                array = self.array_of(tensor, f"initializer {tensor.name!r}")
                scope.values[tensor.name] = self._noted(self.constant(array, tensor.name))
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            scope.values[name] = self._noted(self.constant(self.dense(sparse), name))
        self.read_nodes(graph.node, scope)
        return tuple(self._result(scope, o.name) for o in graph.output)

    def _result(self, scope: Scope, name: str) -> Read:
        found = scope[name]
        if found is None:
            raise UntrustedModelError(
                f"the output {name!r} is not defined", where=scope.where or None
            )
        return found

    def read_nodes(self, nodes: Sequence[NodeProto], scope: Scope) -> None:
        """Convert nodes in order, and put their outputs in the scope."""
        if scope.depth > self.limits.depth:
            raise UntrustedModelError(
                f"graphs and functions lie more than {self.limits.depth} deep in each other",
                where=scope.where or None,
                try_="give larger `limits` if you trust the model",
            )
        self.nodes_left -= len(nodes)
        if self.nodes_left < 0:
            raise UntrustedModelError(
                f"more than {self.limits.nodes} nodes, functions counted once a call",
                try_="give larger `limits` if you trust the model",
            )
        for number, proto in enumerate(nodes):
            where = place(proto, number) + (f" of {scope.where}" if scope.where else "")
            outer = self.builder.sources
            self.builder.sources = (where,)
            try:
                outputs = self._converted(proto, where, scope)
            except TensorsmithError as error:
                error.at(where)
                raise
            finally:
                self.builder.sources = outer
            for name, value in zip(proto.output, outputs, strict=False):
                if name:
                    scope.values[name] = self._noted(value, name)

    def _noted(self, value: Read | None, name: str = "") -> Read | None:
        """`value`; a tensor that has no name of the model's yet is called `name`.

        Names are for people: identity stays.
        """
        if isinstance(value, Buffer) and value not in self._named:
            self._named.add(value)
            if name:
                value.name = name
        return value

    # --- Nodes -------------------------------------------------------------------------------

    def _converted(self, proto: NodeProto, where: str, scope: Scope) -> Sequence[Read | None]:
        inputs = tuple(scope[name] for name in proto.input)
        attributes = _attributes(proto, scope)
        called = self.functions.get(call_key(proto))
        if called is not None:
            opsets = opsets_of(called.opset_import, scope.opsets)
            return self._called(called, (where, opsets, scope.depth), inputs, attributes)
        domain = plain(proto.domain)
        opset = scope.opsets.get(domain, 1)
        schema = schema_of(domain, proto.op_type, opset)
        if schema is not None:
            _check_arity(proto, schema)
        converter = converter_of(self.converters, domain, proto.op_type, opset)
        if converter is None:
            function = _definition(_resolved(proto, attributes), schema, inputs)
            opsets = opsets_of(function.opset_import, scope.opsets)
            with_defaults = {**_defaults(schema), **attributes}
            return self._called(function, (where, opsets, scope.depth), inputs, with_defaults)
        node = Node(proto, where, opset, inputs, attributes, self, scope)
        made = _made(converter, node)
        outputs = made if isinstance(made, tuple) else (made,)
        for value in outputs:
            self.note_origin(value, inputs)
        if unused := node.unused_attributes():
            raise UnsupportedOpError(
                f"the attribute {unused[0]!r} is not known here",
                because=f"{proto.op_type} has no such attribute in opset {opset},"
                " or its converter does not heed it",
            )
        wanted = [n for n, name in enumerate(proto.output) if name]
        if lacking := [n for n in wanted if n >= len(outputs) or outputs[n] is None]:
            raise UnsupportedOpError(f"output {lacking[0]} is not made by the converter")
        return outputs

    def _called(
        self,
        function: FunctionProto,
        place_and_opsets: tuple[str, Mapping[str, int], int],
        inputs: tuple[Read | None, ...],
        attributes: Mapping[str, Any],
    ) -> Sequence[Read | None]:
        """The outputs of a function, whose nodes are read as if they stood here."""
        where, opsets, depth = place_and_opsets
        if len(inputs) > len(function.input):
            raise UntrustedModelError(
                f"{len(inputs)} inputs for a function of {len(function.input)}"
            )
        defaults = {a.name: a for a in function.attribute_proto}
        values: ChainMap[str, Read | None] = ChainMap(dict.fromkeys(function.input))
        values.update(zip(function.input, inputs, strict=False))
        inner = Scope(where, values, opsets, {**defaults, **attributes}, depth + 1)
        self.read_nodes(function.node, inner)
        return tuple(inner.values.get(name) for name in function.output)


def _made(converter: Converter, node: Node) -> Read | tuple[Read | None, ...]:
    """What a converter makes. Attributes of strangers may lead its arithmetic anywhere."""
    try:
        return converter(node)
    except TensorsmithError:
        raise
    except (ArithmeticError, IndexError, RecursionError, ValueError) as error:
        raise UntrustedModelError(
            "the node cannot be read", because=f"{type(error).__name__}: {error}"
        ) from error


def _attributes(proto: NodeProto, scope: Scope) -> Mapping[str, Any]:
    """A node's attributes; one that stands for an attribute of the function is that one."""
    found: dict[str, Any] = {}
    for attribute in proto.attribute:
        if attribute.name in found:
            raise UntrustedModelError(f"the attribute {attribute.name!r} is given twice")
        if not attribute.ref_attr_name:
            found[attribute.name] = attribute
        elif attribute.ref_attr_name in scope.attributes:
            found[attribute.name] = scope.attributes[attribute.ref_attr_name]
    return found


def _resolved(proto: NodeProto, attributes: Mapping[str, Any]) -> NodeProto:
    """The node with its attributes in place of those that stand for others."""
    if not any(a.ref_attr_name for a in proto.attribute):
        return proto
    from onnx import NodeProto

    made = NodeProto()
    made.CopyFrom(proto)
    del made.attribute[:]
    for name, attribute in attributes.items():
        added = made.attribute.add()
        added.CopyFrom(attribute)
        added.name = name
    return made


def _check_arity(proto: NodeProto, schema: Schema) -> None:
    """Raise UntrustedModelError for more or fewer inputs or outputs than the operator has."""
    for what, given, low, high in (
        ("inputs", len(proto.input), schema.min_input, schema.max_input),
        ("outputs", len(proto.output), schema.min_output, schema.max_output),
    ):
        if not low <= given <= high:
            wanted = f"{low}" if low == high else f"{low} to {high}"
            raise UntrustedModelError(
                f"{given} {what}",
                because=f"{proto.op_type} has {wanted} {what} since opset {schema.since_version}",
            )


def _defaults(schema: Schema | None) -> Mapping[str, Any]:
    """What the attributes of an operator are where a node leaves them out."""
    stated = {} if schema is None else schema.attributes
    return {n: a.default_value for n, a in stated.items() if a.default_value.name}


def _definition(
    proto: NodeProto, schema: Schema | None, inputs: tuple[Read | None, ...]
) -> FunctionProto:
    """How ONNX defines an operator by others."""
    from onnx import FunctionProto

    if schema is not None and schema.has_context_dependent_function:
        types_ = [b"" if v is None else type_proto(v).SerializeToString() for v in inputs]
        data = schema.get_context_dependent_function(proto.SerializeToString(), types_)
        if data:
            made: FunctionProto = FunctionProto.FromString(data)
            return made
    if schema is not None and schema.has_function:
        return schema.function_body
    raise UnsupportedOpError(
        f"{proto.op_type} has no conversion for these operands",
        because="neither a converter nor a function of ONNX defines it in that version",
    )


def _linear(indices: types.Array, dims: tuple[int, ...]) -> types.Array:
    """Positions in row-major order, of indices that are a row for each element."""
    if indices.ndim != 2 or indices.shape[1] != len(dims):
        return np.full(1, -1)
    inside = np.all((indices >= 0) & (indices < np.array(dims)))
    return np.ravel_multi_index(tuple(indices.T), dims) if inside else np.full(1, -1)
