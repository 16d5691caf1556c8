"""Types of values as ONNX writes them: for its own functions, which depend on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorsmith.frontend.onnx.types import NUMBERS, STRING
from tensorsmith.frontend.onnx.values import Nothing, Read, Sequence
from tensorsmith.ir import Buffer, Const, Opaque
from tensorsmith.runtime.dtypes import map_types

if TYPE_CHECKING:
    from onnx import TypeProto


def type_proto(value: Read) -> TypeProto:
    """The type of a value; an extent that is not constant has a name and no more."""
    from onnx import TypeProto

    made = TypeProto()
    if isinstance(value, Nothing):
        return made
    if isinstance(value, Sequence):
        if value.items:
            made.sequence_type.elem_type.CopyFrom(type_proto(value.items[0]))
        return made
    if isinstance(value, Opaque) and (types := map_types(value.kind)) is not None:
        held = made.sequence_type.elem_type.map_type if value.shape else made.map_type
        held.key_type, held.value_type.tensor_type.elem_type = (NUMBERS[t] for t in types)
        return made
    element = NUMBERS[value.dtype.name] if isinstance(value, Buffer) else STRING
    made.tensor_type.elem_type = element
    made.tensor_type.shape.SetInParent()
    for extent in value.shape:
        dim = made.tensor_type.shape.dim.add()
        if isinstance(extent, Const):
            dim.dim_value = int(extent.value)
        else:
            dim.dim_param = repr(extent)
    return made
