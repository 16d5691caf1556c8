"""Which operators a model uses, in which versions, and what is missing for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from tensorsmith.errors import UnsupportedOpError
from tensorsmith.frontend.onnx.node import Converter

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto

Versions: TypeAlias = Mapping[int, Converter]
"""Converters of an operator, by the version from which on each holds."""

Table: TypeAlias = Mapping[tuple[str, str], Versions]
"""Converters by domain and operator."""


class SchemaAttribute(Protocol):
    """An attribute of an operator; its default has a name if there is one."""

    default_value: AttributeProto


class Schema(Protocol):
    """What is used here of `onnx.defs.OpSchema`, whose stubs leave most of it out."""

    min_input: int
    max_input: int
    min_output: int
    max_output: int
    since_version: int
    has_function: bool
    has_context_dependent_function: bool
    function_body: FunctionProto
    attributes: Mapping[str, SchemaAttribute]

    def get_context_dependent_function(self, node: bytes, input_types: list[bytes]) -> bytes:
        """The function that defines a node whose inputs have these types, or nothing."""
        ...


FunctionKey: TypeAlias = tuple[str, str, str]

NEWEST: Final = {
    "": 28,
    "ai.onnx.ml": 5,
    "ai.onnx.preview": 1,
    "ai.onnx.preview.training": 1,
    "com.microsoft": 1,
}
"""Versions up to which the converters here were written."""


def plain(domain: str) -> str:
    """A domain by its usual name: that of ONNX itself is ''."""
    return "" if domain == "ai.onnx" else domain


def opsets_of(imports: Iterable[object], default: Mapping[str, int]) -> Mapping[str, int]:
    """Versions by domain, from the statements of a model or function."""
    stated = {plain(i.domain): int(i.version) for i in imports}  # type: ignore[attr-defined]
    return {**default, **stated}


def key_of(function: FunctionProto) -> FunctionKey:
    """By what nodes call a function of the model."""
    return (plain(function.domain), function.name, function.overload)


def call_key(node: NodeProto) -> FunctionKey:
    """What function of the model a node would call."""
    return (plain(node.domain), node.op_type, node.overload)


def converter_of(table: Table, domain: str, op: str, opset: int) -> Converter | None:
    """The converter for an operator in this version, if there is one."""
    versions = table.get((domain, op))
    if versions is None or opset > NEWEST.get(domain, opset):
        return None
    since = max((v for v in versions if v <= opset), default=None)
    return None if since is None else versions[since]


def schema_of(domain: str, op: str, opset: int) -> Schema | None:
    """ONNX's own definition of an operator in this version, if it has one."""
    from onnx import defs

    if opset > NEWEST.get(domain, 0) or not op.isascii() or not defs.has(op, domain):
        return None
    try:
        return cast("Schema", defs.get_schema(op, opset, domain))
    except defs.SchemaError:
        return None


def is_function(schema: Schema | None) -> bool:
    """Whether ONNX defines the operator by others."""
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


@dataclass(frozen=True, slots=True)
class Missing:
    """A node that nothing here converts."""

    where: str
    operator: str
    opset: int | None

    def __str__(self) -> str:
        version = "domain without a version" if self.opset is None else f"opset {self.opset}"
        return f"{self.where}: {self.operator} ({version})"


def check_operators(model: ModelProto, opsets: Mapping[str, int], table: Table) -> None:
    """Raise one UnsupportedOpError that names every node for which there is no converter."""
    functions = {key_of(f): f for f in model.functions}
    nodes = list(_nodes(model.graph.node, ""))
    missing: list[Missing] = []
    pending: list[tuple[Mapping[str, int], list[tuple[str, NodeProto]]]] = [(opsets, nodes)]
    called: set[FunctionKey] = set()
    while pending:
        versions, found = pending.pop()
        for where, node in found:
            key = call_key(node)
            domain = plain(node.domain)
            if key in functions:
                if key not in called:
                    called.add(key)
                    function = functions[key]
                    inside = list(_nodes(function.node, f"function {function.name!r}"))
                    pending.append((opsets_of(function.opset_import, opsets), inside))
                continue
            opset = versions.get(domain)
            known = opset if opset is not None else NEWEST.get(domain, 1)
            if converter_of(table, domain, node.op_type, known) is None and not is_function(
                schema_of(domain, node.op_type, known)
            ):
                operator = f"{domain or 'ai.onnx'}::{node.op_type}"
                missing.append(Missing(where, operator, opset))
    if missing:
        _refuse(missing, len(nodes))


def _refuse(missing: list[Missing], count: int) -> None:
    one = len(missing) == 1
    lines = "".join(f"\n    {m}" for m in missing)
    raise UnsupportedOpError(
        f"{len(missing)} of {count} nodes {'has' if one else 'have'} no conversion:{lines}",
        because="neither a converter nor a function of the model or of ONNX defines"
        f" {'it' if one else 'them'} in that version",
        try_="pass converters={(domain, operator): f} to from_onnx, add a function of that name to"
        " the model, or export it with an older opset",
    )


def _nodes(outermost: Iterable[NodeProto], where: str) -> Iterator[tuple[str, NodeProto]]:
    """Nodes, and those of the graphs inside them, with their places."""
    stack = [(outermost, where)]
    while stack:
        nodes, outer = stack.pop()
        for number, node in enumerate(nodes):
            here = f"node {number} {node.name!r}" + (f" of {outer}" if outer else "")
            yield here, node
            for attribute in node.attribute:
                graphs = [attribute.g] if attribute.HasField("g") else []
                inside = f"{attribute.name!r} of {here}"
                stack.extend((g.node, inside) for g in (*graphs, *attribute.graphs))
