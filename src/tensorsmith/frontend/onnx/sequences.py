"""Sequences and optionals. They are resolved while reading: nothing is computed for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from tensorsmith.frontend.onnx.arguments import ask_equal
from tensorsmith.frontend.onnx.movement import split_in
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.strings import also_of_strings
from tensorsmith.frontend.onnx.values import Nothing, Read, Sequence
from tensorsmith.ir import Buffer, Const, Expr, as_expr


def empty(node: Node) -> Sequence:
    """A sequence of nothing."""
    node.ignore("dtype")
    return Sequence(())


def construct(node: Node) -> Sequence:
    """A sequence of the operands."""
    return Sequence(tuple(v for v in node.inputs if v is not None))


def _position(node: Node, number: int, length: int, default: int) -> int:
    """A position in a sequence, counted from the front."""
    given = node.constants(number)
    at = default if not given else given[0]
    at = at + length if at < 0 else at
    if not 0 <= at < length:
        node.wrong(f"position {given} of a sequence of {length}")
    return at


def at(node: Node) -> Read:
    """An element."""
    items = node.sequence().items
    return items[_position(node, 1, len(items), -1)]


def insert(node: Node) -> Sequence:
    """A sequence with one more element."""
    items = node.sequence().items
    added = node.value(1)
    if added is None:
        node.wrong("there is nothing to insert")
    if len(items) >= node.reader.limits.sequence:
        node.wrong(f"a sequence of more than {node.reader.limits.sequence} elements")
    given = node.constants(2)
    where = given[0] if given else len(items)
    if not -len(items) <= where <= len(items):
        node.wrong(f"position {where} in a sequence of {len(items)}")
    before = items[:where] if where >= 0 else items[: len(items) + where]
    return Sequence((*before, added, *items[len(before) :]))


def erase(node: Node) -> Sequence:
    """A sequence without one of its elements."""
    items = node.sequence().items
    where = _position(node, 1, len(items), -1)
    return Sequence((*items[:where], *items[where + 1 :]))


def length(node: Node) -> Buffer:
    """How many elements there are."""
    return node.builder.scalar(len(node.sequence().items), "int64", "length")


def split_to(node: Node) -> Sequence:
    """The parts of a tensor along an axis."""
    x = node.tensor()
    axis = node.integer("axis", 0)
    keep = node.flag("keepdims", default=True)
    if not -x.rank <= axis < x.rank:
        node.wrong(f"a split along axis {axis}", given=f"a tensor of rank {x.rank}")
    axis %= x.rank
    split = node.optional(1)
    if split is None:
        parts = split_in(node, x, (as_expr(1),) * _extent(node, x.shape[axis]), axis)
        return Sequence(parts if keep else tuple(node("squeeze", p, axes=(axis,)) for p in parts))
    node.ignore("keepdims")
    sizes: tuple[Expr, ...]
    if split.rank == 0:
        (size,) = node.constants(1) or (0,)
        whole = _extent(node, x.shape[axis])
        if size < 1:
            node.wrong(f"a split in parts of {size}")
        count = -(-whole // size)
        sizes = tuple(as_expr(min(size, whole - k * size)) for k in range(count))
    else:
        sizes = node.numbers_of(1, "size", low=0) or ()
        total = sum(sizes, as_expr(0))
        ask_equal(node, total, x.shape[axis], "the parts of a split make up the whole")
    return Sequence(split_in(node, x, sizes, axis))


def _extent(node: Node, extent: Expr) -> int:
    if not isinstance(extent, Const):
        node.unsupported(
            "how many parts there are is not known",
            because=f"{extent} is not constant, and sequences are resolved while reading",
            try_="input_types with a constant extent",
        )
    if extent.value > node.reader.limits.sequence:
        node.wrong(f"a sequence of more than {node.reader.limits.sequence} elements")
    return int(extent.value)


def concat_from(node: Node) -> Read:
    """The elements one after the other, or along a new axis."""
    items = node.sequence().items
    if not items:
        node.wrong("a concatenation of no tensors")
    axis, stacks = node.integer("axis"), node.flag("new_axis")

    def joined(inner: Node) -> Buffer:
        return inner("stack" if stacks else "concat", *inner.tensors(), axis=axis)

    found = also_of_strings(joined)(node.with_inputs(items))
    assert not isinstance(found, tuple)
    return found


def sequence_map(node: Node) -> tuple[Sequence, ...]:
    """What a graph makes of the elements of sequences, one after the other."""
    first = node.sequence(0)
    body = node.graph("body")
    rows: list[tuple[Read, ...]] = []
    for number in range(len(first.items)):
        inputs: list[Read | None] = []
        for k in range(len(node.inputs)):
            value = node.value(k)
            if isinstance(value, Sequence):
                if len(value.items) != len(first.items):
                    node.wrong("the sequences have one length")
                inputs.append(value.items[number])
            else:
                inputs.append(value)
        rows.append(node.run_graph(body, "body", inputs))
    count = len(node.proto.output)
    return tuple(Sequence(tuple(row[k] for row in rows)) for k in range(count))


def optional(node: Node) -> Read:
    """An optional: the value, or nothing."""
    node.ignore("type")
    found = node.value(0)
    return Nothing() if found is None else found


def has_element(node: Node) -> Buffer:
    """Whether there is a value."""
    found = node.value(0)
    there = found is not None and not isinstance(found, Nothing)
    return node.builder.constant(np.array(there), "has_element")


def get_element(node: Node) -> Read:
    """The value of an optional."""
    found = node.value(0)
    if found is None or isinstance(found, Nothing):
        node.wrong("the optional holds nothing")
    return found


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "ConcatFromSequence": concat_from,
    "Optional": optional,
    "OptionalGetElement": get_element,
    "OptionalHasElement": has_element,
    "SequenceAt": at,
    "SequenceConstruct": construct,
    "SequenceEmpty": empty,
    "SequenceErase": erase,
    "SequenceInsert": insert,
    "SequenceLength": length,
    "SequenceMap": sequence_map,
    "SplitToSequence": split_to,
}
"""By operator of ONNX's own domain."""
