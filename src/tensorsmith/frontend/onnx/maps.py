"""Maps: values of a kind that says their types, made of tensors and read into them by Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tensorsmith.errors import DTypeError, UnsupportedOpError
from tensorsmith.frontend.onnx.arguments import ask_equal
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.strings import call_python, category_mapper, string_tensor
from tensorsmith.frontend.onnx.types import type_name
from tensorsmith.frontend.onnx.values import Read, kind_of
from tensorsmith.ir import AttrValue, Buffer, Expr, ExprLike, Opaque, Var, as_expr
from tensorsmith.runtime.dtypes import map_types

if TYPE_CHECKING:
    from onnx import TypeProto

_CASTS: Final = {"TO_FLOAT": "float32", "TO_INT64": "int64", "TO_STRING": "string"}


def map_kind(key: str, value: str) -> str:
    """The kind of values that are maps between these types. Raises UnsupportedOpError."""
    kind = f"map({key}, {value})"
    if map_types(kind) is None:
        raise UnsupportedOpError(
            f"maps from {key} to {value} are not read",
            because="keys are string or int64, values string, int64, float32 or float64",
        )
    return kind


def map_input(name: str, kind: TypeProto.Map) -> Opaque:
    """A parameter that is a map."""
    what = f"the input {name!r}"
    if not kind.value_type.HasField("tensor_type"):
        raise DTypeError(f"{what} is a map to values that are no tensors")
    types = kind.key_type, kind.value_type.tensor_type.elem_type
    return Opaque(name, map_kind(*(type_name(t, what) for t in types)), ())


def _map(node: Node) -> tuple[Opaque, str, str]:
    """The operand, which must be a map, and the types of its keys and values."""
    found = node.value(0)
    types = map_types(found.kind) if isinstance(found, Opaque) else None
    if not isinstance(found, Opaque) or types is None or found.shape:
        raise DTypeError("input 0 must be a map", where=node.where, given=kind_of(found))
    return found, *types


def _row(node: Node, function: str, width: ExprLike, dtype: str, **attrs: AttrValue) -> Read:
    """A tensor of one row that a function makes of the operand."""
    shape: tuple[Expr, ...] = (as_expr(1), as_expr(width))
    made = string_tensor("row", shape) if dtype == "string" else Buffer("row", shape, dtype)
    call_python(node.builder, function, (made,), (_map(node)[0],), {**attrs, "dtype": dtype})
    return made


def zip_map(node: Node) -> Opaque:
    """A map for each row, from labels to the elements."""
    x = node.tensor()
    names = node.texts("classlabels_strings", None)
    keys = names or node.integers("classlabels_int64s", None)
    if not keys or x.rank not in (1, 2):
        node.wrong("takes a row or a matrix, and labels of its columns", given=kind_of(x))
    ask_equal(node, x.shape[-1], as_expr(len(keys)), "each column of a ZipMap has a label")
    scores = x if x.dtype.name == "float32" else node("cast", x, dtype="float32")
    kind = map_kind("string" if names else "int64", "float32")
    made = Opaque("maps", kind, (x.shape[0] if x.rank == 2 else as_expr(1),))
    call_python(node.builder, "maps.zip_columns", (made,), (scores,), {"keys": tuple(keys)})
    return made


def dict_vectorizer(node: Node) -> Read:
    """The values of keys of a map, in a row."""
    _, key, value = _map(node)
    keys = node.texts("string_vocabulary", ()) or node.integers("int64_vocabulary", ())
    if any(isinstance(k, str) != (key == "string") for k in keys):
        node.wrong(f"a vocabulary for a map with keys of type {key}", given=repr(keys[:3]))
    return _row(node, "maps.values_of_keys", len(keys), value, keys=keys)


def cast_map(node: Node) -> Read:
    """The values of a map in a row: all in the order of their keys, or each at its key."""
    _, key, _ = _map(node)
    dtype = _CASTS[node.text("cast_to", "TO_FLOAT", tuple(_CASTS))]
    form = node.text("map_form", "DENSE", ("DENSE", "SPARSE"))
    count = node.integer("max_map", 1)
    if key != "int64" or count < 1 or count * 4 > node.reader.limits.constant_bytes:
        node.wrong(f"a map with keys of type {key} as a row of {count}")
    if form == "DENSE":
        return _row(node, "maps.values_in_order", Var("keys", low=0), dtype)
    return _row(node, "maps.values_by_position", count, dtype, count=count)


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "CastMap": cast_map,
    "CategoryMapper": category_mapper,
    "DictVectorizer": dict_vectorizer,
    "ZipMap": zip_map,
}
"""By operator of the domain ai.onnx.ml."""
