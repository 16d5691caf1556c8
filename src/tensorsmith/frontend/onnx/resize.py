"""Images made larger or smaller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import INTRINSICS, Buffer, Cast, Const, Expr, Load, as_expr
from tensorsmith.ir.dtype import float64, index
from tensorsmith.ir.expr import Max, Min

_TRANSFORMS: Final = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
_NEAREST: Final = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def resize(node: Node) -> Buffer:
    """By scales or to sizes, with all that an operator says about sampling."""
    x = node.tensor()
    axes: tuple[int, ...] | None = node.integers("axes", None)
    along = tuple(range(x.rank)) if axes is None else tuple(a % max(x.rank, 1) for a in axes)
    mode = node.text("mode", "nearest", ("nearest", "linear", "cubic"))
    transform = node.text("coordinate_transformation_mode", "half_pixel", _TRANSFORMS)
    attrs: dict[str, Any] = {
        "mode": mode,
        "transform": transform,
        "nearest": node.text("nearest_mode", "round_prefer_floor", _NEAREST),
        "cubic": node.number("cubic_coeff_a", -0.75),
        "exclude_outside": node.flag("exclude_outside"),
        "extrapolation": node.number("extrapolation_value", 0.0),
        "antialias": node.flag("antialias"),
    }
    roi = node.optional(1) if transform == "tf_crop_and_resize" else None
    policy = node.text(
        "keep_aspect_ratio_policy", "stretch", ("stretch", "not_larger", "not_smaller")
    )
    scales, sizes = node.optional(2), node.numbers_of(3, "size", low=0)
    extents = tuple(x.shape[a] for a in along)
    if sizes:
        if policy != "stretch":
            sizes = _kept_ratio(node, extents, sizes, larger=policy == "not_smaller")
        return node("resize", x, None, roi, shape=sizes, axes=along, **attrs)
    if scales is None:
        node.wrong("neither scales nor sizes are given")
    if attrs["antialias"] and mode != "nearest":
        node.known(2)
    return _scaled(node, x, scales, roi, along, attrs)


def _scaled(
    node: Node,
    x: Buffer,
    scales: Buffer,
    roi: Buffer | None,
    along: tuple[int, ...],
    attrs: Mapping[str, Any],
) -> Buffer:
    """By scales that are known, or that a tensor will hold."""
    known = node.builder.array(scales)
    extents = tuple(x.shape[a] for a in along)
    if known is not None:
        factors = tuple(float(s) for s in known.reshape(-1))
        return _by_factors(node, x, factors, (along, roi), attrs)
    wide = [Cast(Load(scales, (as_expr(k),)), float64) for k in range(len(extents))]
    shape = tuple(
        node.builder.dimension(_floor(Cast(e, float64) * s), "size")
        for e, s in zip(extents, wide, strict=True)
    )
    return node("resize", x, scales, roi, shape=shape, axes=along, **attrs)


def _by_factors(
    node: Node,
    x: Buffer,
    factors: Sequence[float],
    place: tuple[tuple[int, ...], Buffer | None],
    attrs: Mapping[str, Any],
) -> Buffer:
    """By scales that are known, along (axes), of a part (or None) of the image."""
    along, roi = place
    if len(factors) != len(along) or any(not 0 < f < np.inf for f in factors):
        node.wrong("scales are one positive number for each axis", given=f"{tuple(factors)}")
    shape = tuple(_times(node, x.shape[a], f) for a, f in zip(along, factors, strict=True))
    return node("resize", x, None, roi, shape=shape, axes=along, factors=tuple(factors), **attrs)


def _times(node: Node, extent: Expr, factor: float) -> Expr:
    """The whole part of an extent times a factor."""
    if isinstance(extent, Const):
        return as_expr(int(np.floor(int(extent.value) * factor)))
    if factor == int(factor):
        return node.builder.facts.simplify(extent * int(factor))
    return node.builder.dimension(_floor(Cast(extent, float64) * float64(factor)), "size")


def _floor(value: Expr) -> Expr:
    return Cast(INTRINSICS["floor"](value), index)


def _kept_ratio(
    node: Node, extents: Sequence[Expr], sizes: Sequence[Expr], *, larger: bool
) -> tuple[Expr, ...]:
    """Sizes of one scale for all axes: no larger than asked for, or no smaller."""
    scale: Expr | None = None
    for extent, size in zip(extents, sizes, strict=True):
        one = Cast(size, float64) / Cast(extent, float64)
        scale = one if scale is None else (Max if larger else Min)(scale, one)
    assert scale is not None
    made = []
    for extent in extents:
        exact = Cast(extent, float64) * scale
        made.append(node.builder.dimension(_floor(exact + float64(0.5)), "size"))
    return tuple(made)


def resize_10(node: Node) -> Buffer:
    """By scales, as it was in opset 10."""
    mode = node.text("mode", "nearest", ("nearest", "linear"))
    x = node.tensor()
    along = tuple(range(x.rank))
    return _scaled(node, x, node.tensor(1), None, along, _asymmetric(mode))


def _asymmetric(mode: str) -> dict[str, Any]:
    """Sampling in which element i comes from i over the scale."""
    return {"mode": mode, "transform": "asymmetric", "nearest": "floor"}


def upsample_by_attribute(node: Node) -> Buffer:
    """By scales that are an attribute."""
    mode = node.text("mode", "nearest", ("nearest", "linear"))
    x = node.tensor()
    if node.opset < 7:
        factors = (1.0, 1.0, node.number("height_scale"), node.number("width_scale"))
    else:
        factors = node.numbers("scales")
    return _by_factors(node, x, factors, (tuple(range(x.rank)), None), _asymmetric(mode))


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "Resize": {10: resize_10, 11: resize},
    "Upsample": {1: upsample_by_attribute, 9: resize_10},
}
"""By operator of ONNX's own domain."""
