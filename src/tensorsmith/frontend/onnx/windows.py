"""Convolutions and pooling: operators that slide a window over an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tensorsmith.frontend.onnx.arguments import ask_equal
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import Buffer, Expr, as_expr
from tensorsmith.ir.expr import Max

AUTO: Final = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True, slots=True)
class Window:
    """How a window moves. pads: all begins, then all ends."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[Expr, ...]


def window_of(node: Node, x: Buffer, kernel: Sequence[Expr]) -> Window:
    """The movement that a node's attributes ask for, over the spatial axes of `x`."""
    rank = x.rank - 2
    if rank < 0 or len(kernel) != rank:
        node.wrong(
            f"a window of {len(kernel)} dimensions over an image of {max(rank, 0)}", given=f"{x!r}"
        )
    strides = _amounts(node, "strides", rank)
    dilations = _amounts(node, "dilations", rank)
    auto = node.text("auto_pad", "NOTSET", AUTO)
    given = node.integers("pads", None)
    if auto == "NOTSET":
        pads = tuple(map(as_expr, given or (0,) * (2 * rank)))
    elif auto == "VALID":
        pads = (as_expr(0),) * (2 * rank)
    else:
        totals = [
            _total(node, e, k, s, d)
            for e, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)
        ]
        pads = halved(node, totals, more_at_end=auto == "SAME_UPPER")
    if len(pads) != 2 * rank:
        node.wrong(f"{len(pads)} amounts of padding for an image of {rank} dimensions")
    return Window(strides, dilations, pads)


def _amounts(node: Node, name: str, rank: int) -> tuple[int, ...]:
    found: tuple[int, ...] = node.integers(name, (1,) * rank)
    if len(found) != rank or any(a < 1 for a in found):
        node.wrong(f"{name} are one positive number for each dimension", given=f"{found}")
    return found


def _total(node: Node, extent: Expr, kernel: Expr, stride: int, dilation: int) -> Expr:
    """The padding with which windows begin at every `stride`-th element and no more."""
    count = (extent + (stride - 1)) // stride
    needed = (count - 1) * stride + (kernel - 1) * dilation + 1 - extent
    return node.builder.facts.simplify(Max(needed, as_expr(0)))


def halved(node: Node, totals: Sequence[Expr], *, more_at_end: bool) -> tuple[Expr, ...]:
    """Padding cut in two: all begins, then all ends. An odd element goes to one side."""
    facts = node.builder.facts
    less = [facts.simplify(t // 2) for t in totals]
    more = [facts.simplify(t - h) for t, h in zip(totals, less, strict=True)]
    return (*less, *more) if more_at_end else (*more, *less)


def kernel_of(node: Node, weight: Buffer) -> tuple[Expr, ...]:
    """The extents of a convolution's kernel, which an attribute may repeat."""
    kernel = weight.shape[2:]
    stated = node.integers("kernel_shape", None)
    if stated is not None:
        if len(stated) != len(kernel):
            node.wrong(f"kernel_shape {stated} for a weight of rank {weight.rank}")
        for extent, said in zip(kernel, stated, strict=True):
            ask_equal(node, extent, as_expr(said), f"kernel_shape {stated} is that of the weight")
    return kernel


def conv(node: Node) -> Buffer:
    """Cross-correlation."""
    x, weight = node.tensor(0), node.tensor(1)
    window = window_of(node, x, kernel_of(node, weight))
    return node(
        "conv",
        x,
        weight,
        node.optional(2),
        strides=window.strides,
        dilations=window.dilations,
        pads=window.pads,
        groups=node.integer("group", 1),
    )


def conv_integer(node: Node) -> Buffer:
    """Cross-correlation of bytes."""
    x, weight = node.tensor(0), node.tensor(1)
    window = window_of(node, x, kernel_of(node, weight))
    return node(
        "conv_integer",
        x,
        weight,
        node.optional(2),
        node.optional(3),
        strides=window.strides,
        dilations=window.dilations,
        pads=window.pads,
        groups=node.integer("group", 1),
    )


def deform_conv(node: Node) -> Buffer:
    """Cross-correlation whose taps are moved."""
    x, weight = node.tensor(0), node.tensor(1)
    window = window_of(node, x, kernel_of(node, weight))
    return node(
        "deform_conv",
        x,
        weight,
        node.tensor(2),
        node.optional(3),
        node.optional(4),
        strides=window.strides,
        dilations=window.dilations,
        pads=window.pads,
        groups=node.integer("group", 1),
        offset_groups=node.integer("offset_group", 1),
    )


def conv_transpose(node: Node) -> Buffer:
    """The transpose of a convolution."""
    x, weight = node.tensor(0), node.tensor(1)
    rank = x.rank - 2
    kernel = kernel_of(node, weight)
    if rank < 0 or len(kernel) != rank:
        node.wrong("the weight has the rank of the image", given=f"{x!r}, {weight!r}")
    strides, dilations = _amounts(node, "strides", rank), _amounts(node, "dilations", rank)
    added: tuple[int, ...] = node.integers("output_padding", (0,) * rank)
    auto = node.text("auto_pad", "NOTSET", AUTO)
    pads: tuple[Expr, ...] = tuple(map(as_expr, node.integers("pads", (0,) * (2 * rank))))
    wanted = node.integers("output_shape", None)
    if wanted is not None:
        wanted = tuple(map(as_expr, wanted[-rank:]))
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(e * s for e, s in zip(x.shape[2:], strides, strict=True))
    if wanted is not None:
        totals = [
            node.builder.facts.simplify((e - 1) * s + a + (k - 1) * d + 1 - w)
            for e, s, a, k, d, w in zip(
                x.shape[2:], strides, added, kernel, dilations, wanted, strict=True
            )
        ]
        pads = halved(node, totals, more_at_end=auto == "SAME_UPPER")
    return node(
        "conv_transpose",
        x,
        weight,
        node.optional(2),
        strides=strides,
        dilations=dilations,
        pads=pads,
        output_padding=added,
        groups=node.integer("group", 1),
    )


def _pool_kernel(node: Node) -> tuple[Expr, ...]:
    return tuple(map(as_expr, node.integers("kernel_shape")))


def average_pool(node: Node) -> Buffer:
    """The mean of each window."""
    x, kernel = node.tensor(), _pool_kernel(node)
    window = window_of(node, x, kernel)
    return node(
        "average_pool",
        x,
        kernel=kernel,
        strides=window.strides,
        dilations=window.dilations,
        pads=window.pads,
        ceil=node.flag("ceil_mode"),
        count_pads=node.flag("count_include_pad"),
    )


def max_pool(node: Node) -> Buffer | tuple[Buffer, ...]:
    """The greatest element of each window, and where it stands if that is asked for."""
    x, kernel = node.tensor(), _pool_kernel(node)
    window = window_of(node, x, kernel)
    column_major = node.flag("storage_order")
    attrs = {
        "kernel": kernel,
        "strides": window.strides,
        "dilations": window.dilations,
        "pads": window.pads,
        "ceil": node.flag("ceil_mode"),
    }
    if node.has_output(1):
        return node.apply("max_pool_with_indices", x, column_major=column_major, **attrs)
    return node("max_pool", x, **attrs)


def lp_pool(node: Node) -> Buffer:
    """The norm of each window."""
    x, kernel = node.tensor(), _pool_kernel(node)
    window = window_of(node, x, kernel)
    p = node.number("p", 2.0) if node.opset < 2 else float(node.integer("p", 2))
    return node(
        "lp_pool",
        x,
        kernel=kernel,
        p=int(p),
        strides=window.strides,
        dilations=window.dilations,
        pads=window.pads,
        ceil=node.flag("ceil_mode"),
    )


def max_unpool(node: Node) -> Buffer:
    """Elements put back where pooling took them from."""
    x, kernel = node.tensor(), _pool_kernel(node)
    window = window_of(node, x, kernel)
    rank = x.rank - 2
    spatial = tuple(
        (e - 1) * s + k - window.pads[d] - window.pads[rank + d]
        for d, (e, s, k) in enumerate(zip(x.shape[2:], window.strides, kernel, strict=True))
    )
    shape = (*x.shape[:2], *spatial)
    made = node("max_unpool", x, node.tensor(1), shape=shape)
    wanted = node.numbers_of(2, low=0)
    if wanted is None:
        return made
    if len(wanted) != x.rank:
        node.wrong(f"{len(wanted)} extents for a result of rank {x.rank}")
    facts = node.builder.facts
    after = tuple(facts.simplify(w - e) for w, e in zip(wanted, shape, strict=True))
    return node("pad", made, before=(as_expr(0),) * x.rank, after=after)


def col2im(node: Node) -> Buffer:
    """Columns back to an image."""
    image, block = node.numbers_of(1, "extent", low=0), node.constants(2)
    if image is None or block is None or len(image) != len(block):
        node.wrong("the image and the block have as many dimensions")
    rank = len(image)
    return node(
        "col2im",
        node.tensor(),
        image=image,
        block=block,
        strides=_amounts(node, "strides", rank),
        dilations=_amounts(node, "dilations", rank),
        pads=node.integers("pads", (0,) * (2 * rank)),
    )


def over_image(op: str) -> Converter:
    """The converter for a reduction of all spatial axes, which stay."""

    def convert(node: Node) -> Buffer:
        x = node.tensor()
        return node(op, x, axes=tuple(range(2, x.rank)), keep_dims=True)

    return convert


def global_lp_pool(node: Node) -> Buffer:
    """The norm of each image."""
    p = node.number("p", 2.0) if node.opset < 2 else float(node.integer("p", 2))
    x = node.tensor()
    axes = tuple(range(2, x.rank))
    if p in (1.0, 2.0):
        return node(f"reduce_l{int(p)}", x, axes=axes, keep_dims=True)
    power = node.builder.scalar(p, x.dtype)
    root = node.builder.scalar(1 / p, x.dtype)
    total = node("reduce_sum", node("pow", node("abs", x), power), axes=axes, keep_dims=True)
    return node("pow", total, root)


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "AveragePool": average_pool,
    "Col2Im": col2im,
    "Conv": conv,
    "ConvInteger": conv_integer,
    "ConvTranspose": conv_transpose,
    "DeformConv": deform_conv,
    "GlobalAveragePool": over_image("reduce_mean"),
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": over_image("reduce_max"),
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
}
"""By operator of ONNX's own domain."""
