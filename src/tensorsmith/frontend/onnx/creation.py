"""Tensors from shapes, numbers and ranges; and the shapes of tensors as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from tensorsmith.frontend.onnx import types
from tensorsmith.frontend.onnx.arguments import as_scalar, count_of, product
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import Buffer, Opaque


def constant(node: Node) -> Buffer | Opaque:
    """The tensor, number, string or list that an attribute holds."""
    array = node.array("value")
    if array is None and node.has("value_float"):
        array = np.array(node.number("value_float"), np.float32)
    elif array is None and node.has("value_floats"):
        array = np.array(node.numbers("value_floats"), np.float32)
    elif array is None and node.has("value_int"):
        array = np.array(node.integer("value_int"), np.int64)
    elif array is None and node.has("value_ints"):
        array = np.array(node.integers("value_ints"), np.int64)
    elif array is None and node.has("value_string"):
        array = np.array(node.text("value_string"), object)
    elif array is None and node.has("value_strings"):
        array = np.array(node.texts("value_strings"), object)
    elif array is None and node.has("sparse_value"):
        array = node.reader.dense(node.sparse("sparse_value"))
    if array is None:
        node.wrong("the constant has no value")
    return node.reader.constant(array)


def shape(node: Node) -> Buffer:
    """The extents of a tensor, or some of them."""
    found = node.value(0)
    extents = found.shape if isinstance(found, Opaque) else node.tensor().shape
    start, end = node.integer("start", 0), node.integer("end", len(extents))
    return node.builder.elements(extents[slice(*slice(start, end).indices(len(extents)))])


def size(node: Node) -> Buffer:
    """The number of elements."""
    found = node.value(0)
    extents = found.shape if isinstance(found, Opaque) else node.tensor().shape
    return node("from_elements", values=(product(extents),), dtype="int64", is_scalar=True)


def constant_of_shape(node: Node) -> Buffer:
    """A tensor of one value."""
    extents = node.numbers_of(0, low=0)
    value = node.array("value")
    if value is None:
        value = np.zeros(1, np.float32)
    if value.size != 1:
        node.wrong(f"the value has {value.size} elements", because="it fills the whole tensor")
    filled = node.builder.constant(value.reshape(()), "value")
    return node("full", filled, shape=extents or ())


def range_(node: Node) -> Buffer:
    """Numbers from a start to a limit."""
    start, stop, step = (as_scalar(node, node.tensor(n)) for n in range(3))
    count = count_of(node, node("range_count", start, stop, step))
    return node("range", start, step, count=count)


def eye_like(node: Node) -> Buffer:
    """Ones on a diagonal, in the shape of a matrix."""
    x = node.tensor()
    number = node.integer("dtype", 0)
    dtype = types.element_type(number, "the result") if number else x.dtype
    if x.rank != 2:
        node.wrong("takes a matrix", given=f"{x!r}")
    return node("eye", shape=x.shape, dtype=dtype.name, diagonal=node.integer("k", 0))


def one_hot(node: Node) -> Buffer:
    """A new axis with one value at the position that an element says, and another elsewhere."""
    positions, depth, values = (node.tensor(n) for n in range(3))
    if not positions.dtype.is_integer:
        positions = node("cast", positions, dtype="int64")
    if not depth.dtype.is_integer:
        depth = node("cast", depth, dtype="int64")
    extent = count_of(node, depth, "depth")
    return node("one_hot", positions, values, depth=extent, axis=node.integer("axis", -1))


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "EyeLike": eye_like,
    "OneHot": one_hot,
    "Range": range_,
    "Shape": shape,
    "Size": size,
}
"""By operator of ONNX's own domain."""
