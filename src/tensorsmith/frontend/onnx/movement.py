"""Operators that move elements: reshape, transpose, slice, concatenate, split, look up, pad."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from tensorsmith.frontend.onnx.arguments import (
    as_scalar,
    ask_equal,
    axes_of,
    product,
    sizes_of,
)
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.positions import check_along, check_tuples
from tensorsmith.frontend.onnx.strings import also_of_strings
from tensorsmith.ir import Buffer, Const, Expr, Select, as_expr
from tensorsmith.ir.expr import equal
from tensorsmith.ops.slicing import slice_range

_FAR: Final = 2**31 - 1
"""Positions from here on mean the end of an axis, in models that write it so."""


def reshape(node: Node) -> Buffer:
    """Another shape: 0 keeps an extent (unless `allowzero`), -1 is what remains."""
    node.ignore("consumed_inputs")
    wanted = sizes_of(node, 1, "shape")
    if wanted is None:
        node.wrong("the new shape is missing")
    keeps = not node.flag("allowzero")
    return reshaped(node, node.tensor(), wanted, keeps_at_zero=keeps)


def reshaped(
    node: Node, x: Buffer, wanted: tuple[Expr, ...], *, keeps_at_zero: bool = True
) -> Buffer:
    """`x` in the shape that ONNX's Reshape means by these numbers."""
    facts = node.builder.facts
    sizes: list[Expr] = []
    open_at: list[int] = []
    for axis, size in enumerate(wanted):
        kept = x.shape[axis] if axis < x.rank else as_expr(0)
        if isinstance(size, Const) and size.value == -1:
            open_at.append(axis)
            sizes.append(as_expr(1))
        elif isinstance(size, Const) and size.value < -1:
            node.wrong("an extent of a new shape is negative", given=f"{list(wanted)}")
        elif keeps_at_zero and isinstance(size, Const) and size.value == 0:
            if axis >= x.rank:
                node.wrong("0 keeps the extent of an axis that is not there", f"{list(wanted)}")
            sizes.append(kept)
        elif isinstance(size, Const) or facts.prove(size >= 1) is True:
            sizes.append(size)
        else:
            sizes.append(_open_size(node, x, wanted, axis, kept if keeps_at_zero else size))
    if len(open_at) > 1:
        node.wrong("more than one extent of a new shape is -1", given=f"{list(wanted)}")
    total = product(x.shape)
    if open_at:
        others = facts.simplify(product(sizes))
        if isinstance(others, Const) and others.value == 0:
            node.wrong("-1 has no meaning beside an extent of 0", given=f"{list(wanted)}")
        sizes[open_at[0]] = facts.simplify(total // others)
    ask_equal(node, total, product(sizes), "a reshape keeps the number of elements")
    return node("reshape", x, shape=tuple(sizes))


def _open_size(node: Node, x: Buffer, wanted: tuple[Expr, ...], axis: int, at_zero: Expr) -> Expr:
    """An extent that only the running function knows, which may be 0 or -1 with their meanings."""
    size = wanted[axis]
    others = product(
        Select(equal(e, -1), as_expr(1), Select(equal(e, 0), x.shape[d], e) if d < x.rank else e)
        for d, e in enumerate(wanted)
        if d != axis
    )
    divisor = Select(equal(others, 0), as_expr(1), others)
    rest = product(x.shape) // divisor
    value = Select(equal(size, -1), rest, Select(equal(size, 0), at_zero, size))
    return node.builder.dimension(value, "extent")


def flatten(node: Node) -> Buffer:
    """A matrix: the axes before `axis`, and those from it on."""
    x = node.tensor()
    axis = node.integer("axis", 1)
    return node("flatten", x, axis=axis + x.rank if axis < 0 else axis)


def transpose(node: Node) -> Buffer:
    """Axes in another order, by default the reverse."""
    x = node.tensor()
    return node("transpose", x, axes=node.integers("perm", tuple(reversed(range(x.rank)))))


def squeeze(node: Node) -> Buffer:
    """Axes of extent 1 taken away: those named, or all."""
    x = node.tensor()
    axes = axes_of(node)
    if axes is None:
        axes = tuple(d for d, e in enumerate(x.shape) if isinstance(e, Const) and e.value == 1)
        facts = node.builder.facts
        if any(facts.prove(equal(e, 1)) is None for e in x.shape):
            shape = f"{list(x.shape)}"
            node.refuse_shape(
                "which axes go is not known", f"an extent of {shape} may be 1, and may be another"
            )
    for axis in axes:
        if -x.rank <= axis < x.rank:
            ask_equal(node, x.shape[axis], as_expr(1), f"axis {axis} that goes has an extent of 1")
    return node("squeeze", x, axes=axes)


def unsqueeze(node: Node) -> Buffer:
    """New axes of extent 1."""
    axes = axes_of(node)
    if axes is None:
        node.wrong("the new axes are missing")
    return node("expand_dims", node.tensor(), axes=axes)


def expand(node: Node) -> Buffer:
    """Repeated to the shape that its own and the given one broadcast to."""
    shape = node.numbers_of(1, low=0)
    assert shape is not None
    return node("expand", node.tensor(), shape=shape)


def tile(node: Node) -> Buffer:
    """Repeated along axes."""
    x = node.tensor()
    repeats = node.numbers_of(1, low=0)
    if len(node.inputs) == 3:  # the first version: how often, and along which axis
        axes = node.constants(2) or (0,)
        counts = [as_expr(1)] * x.rank
        counts[axes[0]] = (repeats or (as_expr(1),))[0]
        repeats = tuple(counts)
    return node("tile", x, repeats=repeats or ())


def concat(node: Node) -> Buffer:
    """One after the other along an axis."""
    axis = node.integer("axis", 1) if node.opset < 4 else node.integer("axis")
    return node("concat", *node.tensors(), axis=axis)


def slice_by_attributes(node: Node) -> Buffer:
    """A part, whose bounds are attributes."""
    starts, ends = node.integers("starts"), node.integers("ends")
    axes = node.integers("axes", tuple(range(len(starts))))
    bounds = [tuple(map(as_expr, b)) for b in (starts, ends)]
    return sliced(node, node.tensor(), (bounds[0], bounds[1], None), axes)


def slice_(node: Node) -> Buffer:
    """A part, whose bounds are operands."""
    starts, ends = node.numbers_of(1, "start"), node.numbers_of(2, "end")
    assert starts is not None
    assert ends is not None
    axes = node.constants(3)
    steps = node.numbers_of(4, "step")
    along = tuple(range(len(starts))) if axes is None else axes
    return sliced(node, node.tensor(), (starts, ends, steps), along)


def sliced(
    node: Node,
    x: Buffer,
    bounds: tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[Expr, ...] | None],
    axes: tuple[int, ...],
) -> Buffer:
    """The part of `x` between (starts, ends, steps) along the axes."""
    starts, ends = bounds[:2]
    steps = (as_expr(1),) * len(axes) if bounds[2] is None else bounds[2]
    if not len(starts) == len(ends) == len(steps) == len(axes):
        node.wrong(
            "the bounds of a slice are not one for each axis",
            given=f"{len(starts)} starts, {len(ends)} ends, {len(steps)} steps, axes {axes}",
        )
    begins, extents = [], []
    for start, end, step, axis in zip(starts, ends, steps, axes, strict=True):
        if not -x.rank <= axis < x.rank:
            node.wrong(f"a slice along axis {axis}", given=f"a tensor of rank {x.rank}")
        first, last = _within(start, end, step)
        begin, extent = slice_range(first, last, step, x.shape[axis])
        begins.append(begin)
        extents.append(extent)
    simple = () if all(isinstance(s, Const) and s.value == 1 for s in steps) else steps
    return node("slice", x, starts=tuple(begins), extents=tuple(extents), steps=simple, axes=axes)


def _within(start: Expr, end: Expr, step: Expr) -> tuple[Expr | None, Expr | None]:
    """The bounds of a slice, with None for those that mean an end of the axis."""
    if not isinstance(step, Const):
        return start, end
    first: Expr | None = start
    last: Expr | None = end
    if step.value > 0:
        if isinstance(start, Const) and start.value <= -_FAR:
            first = None
        if isinstance(end, Const) and end.value >= _FAR:
            last = None
    else:
        if isinstance(start, Const) and start.value >= _FAR:
            first = None
        if isinstance(end, Const) and end.value <= -_FAR:
            last = None
    return first, last


def split(node: Node) -> tuple[Buffer, ...]:
    """Cut in parts along an axis: of given sizes, or of equal ones."""
    x = node.tensor()
    axis = node.integer("axis", 0)
    if not -x.rank <= axis < x.rank:
        node.wrong(f"a split along axis {axis}", given=f"a tensor of rank {x.rank}")
    extent = x.shape[axis]
    sizes = sizes_of(node, 1, "split")
    count = node.integer("num_outputs", len(node.proto.output))
    if count != len(node.proto.output):
        node.wrong(f"num_outputs is {count}, and there are {len(node.proto.output)} outputs")
    if sizes is None:
        sizes = _equal_sizes(node, extent, count)
    elif len(sizes) != len(node.proto.output):
        node.wrong(f"{len(sizes)} sizes for {len(node.proto.output)} outputs")
    total = node.builder.facts.simplify(reduce(lambda a, b: a + b, sizes, as_expr(0)))
    ask_equal(node, total, extent, "the parts of a split make up the whole")
    return split_in(node, x, sizes, axis)


def split_in(node: Node, x: Buffer, sizes: tuple[Expr, ...], axis: int) -> tuple[Buffer, ...]:
    """Parts of these sizes along an axis."""
    parts = []
    start = as_expr(0)
    for size in sizes:
        parts.append(node("slice", x, starts=(start,), extents=(size,), axes=(axis,)))
        start = node.builder.facts.simplify(start + size)
    return tuple(parts)


def _equal_sizes(node: Node, extent: Expr, count: int) -> tuple[Expr, ...]:
    """Sizes of parts that are equal but, since opset 18, for a smaller last one."""
    facts = node.builder.facts
    if count < 1:
        node.wrong(f"a split in {count} parts")
    size = facts.simplify((extent + (count - 1)) // count)
    if node.opset < 18:
        ask_equal(node, extent % count, as_expr(0), f"{count} equal parts make up the axis")
        size = facts.simplify(extent // count)
        return (size,) * count
    last = facts.simplify(extent - size * (count - 1))
    return (*(size,) * (count - 1), last)


def gather(node: Node) -> Buffer:
    """Slices at positions along an axis."""
    x, positions, axis = node.tensor(0), node.tensor(1), node.integer("axis", 0)
    check_along(node, x, positions, axis)
    return node("gather", x, positions, axis=axis)


def gather_elements(node: Node) -> Buffer:
    """Elements at positions along an axis."""
    x, positions, axis = node.tensor(0), node.tensor(1), node.integer("axis", 0)
    check_along(node, x, positions, axis)
    return node("gather_elements", x, positions, axis=axis)


def gather_nd(node: Node) -> Buffer:
    """Slices at tuples of positions."""
    x, positions, batch = node.tensor(0), node.tensor(1), node.integer("batch_dims", 0)
    check_tuples(node, x, positions, batch)
    return node("gather_nd", x, positions, batch_dims=batch)


def depth_to_space(node: Node) -> Buffer:
    """Channels to blocks of pixels."""
    mode = node.text("mode", "DCR", ("DCR", "CRD"))
    return node("depth_to_space", node.tensor(), block=_block(node), mode=mode)


def space_to_depth(node: Node) -> Buffer:
    """Blocks of pixels to channels."""
    mode = node.text("mode", "DCR", ("DCR", "CRD"))
    return node("space_to_depth", node.tensor(), block=_block(node), mode=mode)


def _block(node: Node) -> int:
    block = node.integer("blocksize")
    if block < 1:
        node.wrong(f"blocks of {block} pixels")
    return block


def reverse_sequence(node: Node) -> Buffer:
    """The first elements of each sequence of a batch in reverse."""
    return node(
        "reverse_sequence",
        node.tensor(0),
        node.tensor(1),
        batch_axis=node.integer("batch_axis", 1),
        time_axis=node.integer("time_axis", 0),
    )


def pad_by_attributes(node: Node) -> Buffer:
    """Padding whose amounts are attributes."""
    x = node.tensor()
    amounts = node.integers("paddings" if node.opset < 2 else "pads")
    value = node.number("value", 0.0)
    given = node.builder.scalar(value, x.dtype, "value") if value else None
    return _padded(node, x, tuple(map(as_expr, amounts)), given, None)


def pad(node: Node) -> Buffer:
    """Padding whose amounts are operands."""
    amounts = node.numbers_of(1, "pad")
    assert amounts is not None
    return _padded(node, node.tensor(), amounts, node.optional(2), node.constants(3))


def _padded(
    node: Node,
    x: Buffer,
    amounts: tuple[Expr, ...],
    value: Buffer | None,
    axes: tuple[int, ...] | None,
) -> Buffer:
    along = tuple(range(x.rank)) if axes is None else tuple(a % max(x.rank, 1) for a in axes)
    if len(amounts) != 2 * len(along):
        node.wrong(f"{len(amounts)} amounts of padding for {len(along)} axes", given=f"{x!r}")
    before, after = [as_expr(0)] * x.rank, [as_expr(0)] * x.rank
    for k, axis in enumerate(along):
        before[axis], after[axis] = amounts[k], amounts[len(along) + k]
    mode = node.text("mode", "constant", ("constant", "edge", "reflect", "wrap"))
    given = value if value is None else as_scalar(node, value)
    return node("pad", x, given, before=tuple(before), after=tuple(after), mode=mode)


def center_crop_pad(node: Node) -> Buffer:
    """Cut or filled equally at both ends."""
    x = node.tensor()
    axes = node.integers("axes", None)
    shape = node.numbers_of(1, low=0)
    return node("center_crop_pad", x, shape=shape, axes=axes)


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "CenterCropPad": center_crop_pad,
    "Concat": also_of_strings(concat),
    "DepthToSpace": also_of_strings(depth_to_space, 0),
    "Expand": also_of_strings(expand, 0),
    "Flatten": also_of_strings(flatten, 0),
    "Gather": also_of_strings(gather, 0),
    "GatherElements": also_of_strings(gather_elements, 0),
    "GatherND": also_of_strings(gather_nd, 0),
    "Pad": {1: pad_by_attributes, 11: pad},
    "Reshape": also_of_strings(reshape, 0),
    "ReverseSequence": also_of_strings(reverse_sequence, 0),
    "Slice": {1: also_of_strings(slice_by_attributes, 0), 10: also_of_strings(slice_, 0)},
    "SpaceToDepth": also_of_strings(space_to_depth, 0),
    "Split": also_of_strings(split, 0),
    "Squeeze": also_of_strings(squeeze, 0),
    "Tile": also_of_strings(tile, 0),
    "Transpose": also_of_strings(transpose, 0),
    "Unsqueeze": also_of_strings(unsqueeze, 0),
}
"""By operator of ONNX's own domain."""
