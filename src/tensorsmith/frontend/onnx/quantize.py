"""Numbers as few bits, and products of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx import types
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.windows import kernel_of, window_of
from tensorsmith.ir import Buffer


def quantize_linear(node: Node) -> Buffer:
    """Numbers by a scale and a zero point."""
    number = node.integer("output_dtype", 0)
    precision = node.integer("precision", 0)
    return node(
        "quantize_linear",
        node.tensor(0),
        node.tensor(1),
        node.optional(2),
        axis=node.integer("axis", 1),
        block=node.integer("block_size", 0),
        dtype=types.element_type(number, "the result").name if number else "uint8",
        saturate=node.flag("saturate", default=True),
        precision=types.element_type(precision, "the division").name if precision else None,
    )


def dequantize_linear(node: Node) -> Buffer:
    """Back to numbers."""
    number = node.integer("output_dtype", 0)
    return node(
        "dequantize_linear",
        node.tensor(0),
        node.tensor(1),
        node.optional(2),
        axis=node.integer("axis", 1),
        block=node.integer("block_size", 0),
        dtype=types.element_type(number, "the result").name if number else None,
    )


def dynamic_quantize_linear(node: Node) -> tuple[Buffer, ...]:
    """Numbers by the scale and zero point that they ask for."""
    return node.apply("dynamic_quantize_linear", node.tensor())


def qlinear_matmul(node: Node) -> Buffer:
    """The product of quantized matrices, quantized."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (node.optional(n) for n in range(8))
    total = node("matmul_integer", a, b, a_zero, b_zero)
    assert scale is not None
    return node(
        "requantize",
        total,
        a_scale,
        b_scale,
        scale,
        zero,
        axes=(max(total.rank - 2, 0), max(total.rank - 1, 0)),
    )


def qlinear_conv(node: Node) -> Buffer:
    """The convolution of quantized tensors, quantized."""
    x, x_scale, x_zero, weight, w_scale, w_zero, scale, zero = (node.tensor(n) for n in range(8))
    bias = node.optional(8)
    window = window_of(node, x, kernel_of(node, weight))
    total = node(
        "conv_integer",
        x,
        weight,
        x_zero,
        w_zero,
        strides=window.strides,
        dilations=window.dilations,
        pads=window.pads,
        groups=node.integer("group", 1),
    )
    if bias is not None:
        apart = node("expand_dims", bias, axes=tuple(range(1, total.rank - 1)))
        total = node("add", total, apart)
    return node("requantize", total, x_scale, w_scale, scale, zero, axes=(0, 1))


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
}
"""By operator of ONNX's own domain."""
