"""Images: sampling at points, regions of interest, suppression of boxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx.arguments import as_scalar, ask_equal, count_of
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.strings import call_python
from tensorsmith.frontend.onnx.values import kind_of
from tensorsmith.ir import Attrs, Buffer, Var, as_expr

_MODES: Final = {"bilinear": "linear", "bicubic": "cubic"}
"""Names that GridSample had before opset 20."""


def affine_grid(node: Node) -> Buffer:
    """The points of an image under affine maps."""
    theta = node.tensor()
    sizes = node.numbers_of(1, "size", low=0)
    if sizes is None or len(sizes) not in (4, 5):
        node.wrong("the size is that of a batch of images: 4 or 5 numbers")
    ask_equal(node, theta.shape[0], sizes[0], "there is one map for each image")
    align = node.flag("align_corners")
    return node("affine_grid", theta, image=sizes[2:], align_corners=align)


def grid_sample(node: Node) -> Buffer:
    """An image at the points of a grid."""
    mode = node.text("mode", "linear", ("linear", "nearest", "cubic", "bilinear", "bicubic"))
    padding = node.text("padding_mode", "zeros", ("zeros", "border", "reflection"))
    return node(
        "grid_sample",
        node.tensor(0),
        node.tensor(1),
        mode=_MODES.get(mode, mode),
        padding=padding,
        align_corners=node.flag("align_corners"),
    )


def non_max_suppression(node: Node) -> Buffer:
    """Boxes of good scores that do not cover each other."""
    most = node.numbers_of(2, "most")
    bounds = [node.optional(n) for n in (3, 4)]
    rows, count = node.apply(
        "non_max_suppression",
        node.tensor(0),
        node.tensor(1),
        *(None if b is None else as_scalar(node, b) for b in bounds),
        most=most[0] if most else as_expr(0),
        has_centers=node.flag("center_point_box"),
    )
    found = count_of(node, count, "boxes")
    return node("slice", rows, starts=(0,), extents=(found,), axes=(0,))


def roi_align(node: Node) -> Buffer:
    """Means of samples in the bins of regions."""
    half = "output_half_pixel"
    if node.opset >= 16:
        choices = ("half_pixel", "output_half_pixel")
        half = node.text("coordinate_transformation_mode", "half_pixel", choices)
    return node(
        "roi_align",
        node.tensor(0),
        node.tensor(1),
        node.tensor(2),
        pooled=(node.integer("output_height", 1), node.integer("output_width", 1)),
        sampling=node.integer("sampling_ratio", 0),
        scale=node.number("spatial_scale", 1.0),
        mode=node.text("mode", "avg", ("avg", "max")),
        half_pixel=half == "half_pixel",
    )


def max_roi_pool(node: Node) -> Buffer:
    """The greatest elements in the bins of regions."""
    pooled = node.integers("pooled_shape")
    scale = node.number("spatial_scale", 1.0)
    return node("max_roi_pool", node.tensor(0), node.tensor(1), pooled=pooled, spatial_scale=scale)


def image_decoder(node: Node) -> Buffer:
    """The pixels of a file of an image, (height, width, channels)."""
    data = node.tensor()
    order = node.text("pixel_format", "RGB", ("RGB", "BGR", "Grayscale"))
    if data.rank != 1 or data.dtype.name != "uint8":
        node.wrong("takes the bytes of a file", given=kind_of(data))
    grey = order == "Grayscale"
    sizes = (Var("height", low=0), Var("width", low=0), 1 if grey else 3)
    made = Buffer("image", sizes, "uint8")
    attrs: Attrs = {"grey": grey, "reverse": order == "BGR"}
    call_python(node.builder, "images.decode", (made,), (data,), attrs)
    return made


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "AffineGrid": affine_grid,
    "ImageDecoder": image_decoder,
    "GridSample": grid_sample,
    "MaxRoiPool": max_roi_pool,
    "NonMaxSuppression": non_max_suppression,
    "RoiAlign": roi_align,
}
"""By operator of ONNX's own domain."""
