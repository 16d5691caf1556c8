"""Checks of a model's structure, before anything is made of it.

Graphs inside graphs are walked by a stack of generators and not by recursion, and names are looked
up in dictionaries: time is linear in the size of the model, and depth is bounded.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tensorsmith.errors import UntrustedModelError
from tensorsmith.frontend.onnx.limits import Limits
from tensorsmith.frontend.onnx.types import (
    STRING,
    bytes_in_file,
    element_count,
    expect,
    type_name,
)

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

EXTERNAL: Final = 1
"""ONNX's number for data that lies in another file."""

MOST_RANK: Final = 64
"""Dimensions that a tensor of a file may have; NumPy has no more either."""

OPEN: Final = -1
"""An extent that some exporters write for one that is not known."""

Names = ChainMap[str, None]


@dataclass(frozen=True, slots=True)
class _Scope:
    """A graph, or the nodes of a function, to be checked.

    where: how errors call it, '' for the model's own graph.
    visible: names that are defined outside.
    """

    where: str
    nodes: Sequence[NodeProto]
    inputs: Sequence[str]
    outputs: Sequence[str]
    visible: Names
    graph: GraphProto | None = None


def place(node: NodeProto, number: int) -> str:
    """How errors and profiles call a node: ``Conv 'stem/conv0' (node 12)``."""
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    name = f" {node.name!r}" if node.name else ""
    return f"{operator}{name} (node {number})"


def check_structure(model: ModelProto, limits: Limits) -> None:
    """Raise UntrustedModelError for a model that contradicts itself or is beyond the limits."""
    _check_text((n for f in model.functions for n in (f.domain, f.name, f.overload)), None)
    _check_text((i.domain for i in model.opset_import), None)
    _once(((f.domain, f.name, f.overload) for f in model.functions), "function")
    left = limits.nodes
    scopes = [
        _Scope(f"function {f.name!r}", f.node, tuple(f.input), tuple(f.output), ChainMap())
        for f in model.functions
    ]
    for outermost in (_of_graph(model.graph, "", ChainMap()), *scopes):
        left -= len(outermost.nodes)
        stack = [_check_scope(outermost)]
        while stack:
            inner = next(stack[-1], None)
            if inner is None:
                stack.pop()
                continue
            left -= len(inner.nodes)
            if left < 0 or len(stack) > limits.depth:
                break
            stack.append(_check_scope(inner))
        if stack or left < 0:
            _refuse_size(limits, too_many=left < 0)


def _refuse_size(limits: Limits, *, too_many: bool) -> None:
    what = (
        f"the model has more than {limits.nodes} nodes"
        if too_many
        else f"graphs lie more than {limits.depth} deep in each other"
    )
    raise UntrustedModelError(what, try_="give larger `limits` if you trust the model")


def _of_graph(graph: GraphProto, where: str, visible: Names) -> _Scope:
    inputs = tuple(v.name for v in graph.input)
    outputs = tuple(v.name for v in graph.output)
    return _Scope(where, graph.node, inputs, outputs, visible, graph)


def _check_scope(scope: _Scope) -> Iterator[_Scope]:
    """Check one graph; gives the graphs inside its nodes, each when its turn has come."""
    _check_text((*scope.inputs, *scope.outputs), scope.where or None)
    names = scope.visible.new_child()
    own = names.maps[0]
    for name in scope.inputs:
        _define(name, own, "input", scope)
    if scope.graph is not None:
        _check_values(scope.graph, own, scope)
    for number, node in enumerate(scope.nodes):
        where = place(node, number) + (f" of {scope.where}" if scope.where else "")
        _check_names(node, where)
        for name in node.input:
            if name and name not in names:
                _refuse_input(name, where, scope)
        for attribute in node.attribute:
            inside = [attribute.g] if attribute.HasField("g") else []
            for graph in (*inside, *attribute.graphs):
                yield _of_graph(graph, f"{attribute.name!r} of {where}", names)
            tensors = [attribute.t] if attribute.HasField("t") else []
            for tensor in (*tensors, *attribute.tensors):
                check_tensor(tensor, f"attribute {attribute.name!r}", where)
        for name in node.output:
            if name:
                _define(name, own, f"output of {where}", scope)
    for name in scope.outputs:
        if name not in names:
            raise UntrustedModelError(
                f"the output {name!r} is not defined",
                where=scope.where or None,
                because="no node, input or initializer gives it",
            )


def _check_names(node: NodeProto, where: str) -> None:
    """Raise UntrustedModelError for a name that is no text: protobuf then gives bytes."""
    names = [node.name, node.op_type, node.domain, node.overload, *node.input, *node.output]
    names += [n for a in node.attribute for n in (a.name, a.ref_attr_name)]
    _check_text(names, where)


def _check_text(names: Iterable[object], where: str | None) -> None:
    if any(not isinstance(name, str) for name in names):
        raise UntrustedModelError("a name is not UTF-8", where=where)


def _check_values(graph: GraphProto, own: MutableMapping[str, None], scope: _Scope) -> None:
    """Check the inputs' types and the initializers, and define the latter."""
    where = scope.where or None
    inputs = set(scope.inputs)
    _check_text((t.name for t in graph.initializer), where)
    _check_text((s.values.name for s in graph.sparse_initializer), where)
    for info in graph.input:
        _check_type(info, where)
    _once((t.name for t in graph.initializer), "initializer", where)
    for tensor in graph.initializer:
        check_tensor(tensor, f"initializer {tensor.name!r}", where)
        if tensor.name not in inputs:
            _define(tensor.name, own, "initializer", scope)
    for sparse in graph.sparse_initializer:
        what = f"initializer {sparse.values.name!r}"
        check_tensor(sparse.values, what, where)
        check_tensor(sparse.indices, what, where)
        element_count(sparse.dims, what)
        if sparse.values.name not in inputs:
            _define(sparse.values.name, own, "initializer", scope)


def _define(name: str, own: MutableMapping[str, None], what: str, scope: _Scope) -> None:
    if not name:
        raise UntrustedModelError(f"an {what} has no name", where=scope.where or None)
    if name in own:
        raise UntrustedModelError(
            f"the value {name!r} is defined twice",
            where=scope.where or None,
            given=f"the second time as {what}",
            because="each name stands for one value",
        )
    own[name] = None


def _refuse_input(name: str, where: str, scope: _Scope) -> None:
    later = [n for n, node in enumerate(scope.nodes) if name in node.output]
    if later:
        reason = (
            f"{place(scope.nodes[later[0]], later[0])} gives it, which is not before this node:"
            " the nodes are not in order, or go in a circle"
        )
    else:
        reason = "no node, input or initializer gives it"
    raise UntrustedModelError(f"the input {name!r} is not defined", where=where, because=reason)


def _once(names: Iterable[Hashable], what: str, where: str | None = None) -> None:
    seen: set[Hashable] = set()
    for name in names:
        if name in seen:
            shown = name if isinstance(name, str) else name[1] if isinstance(name, tuple) else name
            raise UntrustedModelError(f"two {what}s are called {shown!r}", where=where)
        seen.add(name)


def _check_type(info: ValueInfoProto, where: str | None) -> None:
    kind = info.type
    while kind.HasField("sequence_type") or kind.HasField("optional_type"):
        inner = kind.sequence_type if kind.HasField("sequence_type") else kind.optional_type
        kind = inner.elem_type
    tensor = kind.tensor_type
    if kind.HasField("tensor_type") and tensor.HasField("shape"):
        dims = tensor.shape.dim
        _check_text((d.dim_param for d in dims), where)
        given = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in dims]
        if len(dims) > MOST_RANK or any(d.dim_value < OPEN for d in dims):
            raise UntrustedModelError(
                f"the input {info.name!r} has an impossible shape",
                where=where,
                given=f"{given}"[:200],
            )


def check_rank(rank: int, what: str) -> None:
    """Raise UntrustedModelError for more dimensions than any array has."""
    if rank > MOST_RANK:
        raise UntrustedModelError(
            f"{what} has {rank} dimensions", because=f"{MOST_RANK} are enough"
        )


def check_tensor(tensor: TensorProto, what: str, where: str | None) -> None:
    """Raise UntrustedModelError if the data has not the length that shape and type ask for."""
    try:
        name = type_name(tensor.data_type, what)
        count = element_count(tensor.dims, what)
        check_rank(len(tensor.dims), what)
        if tensor.data_location == EXTERNAL or tensor.data_type == STRING:
            return
        if tensor.HasField("raw_data"):
            wanted = bytes_in_file(name, count)
            expect(len(tensor.raw_data), wanted, "bytes", what, tensor.dims, name)
    except UntrustedModelError as error:
        raise error.at(where) from None
