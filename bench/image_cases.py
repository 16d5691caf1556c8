"""Convolutions with constant weights, and attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cases import Operator, noise, normal
from work import Array

TOLERANCE = 1e-4
"""Of results of deviation about 1: what fast algorithms of convolution lose in float32."""


@dataclass(frozen=True)
class Convolution:
    """Channels, a square window and image, so padded that the image keeps its size by stride 1."""

    channels: int
    filters: int
    window: int
    image: int
    stride: int = 1
    groups: int = 1

    @property
    def name(self) -> str:
        """As users call it."""
        kind = "dwconv" if self.groups > 1 else "conv"
        stride = f"s{self.stride}" if self.stride > 1 else ""
        channels = f"{self.channels}" if self.groups > 1 else f"{self.channels}_{self.filters}"
        return f"{kind}{self.window}x{self.window}{stride}_{channels}_{self.image}"

    @property
    def size(self) -> int:
        """Of the result."""
        return (self.image + 2 * (self.window // 2) - self.window) // self.stride + 1

    def constants(self) -> dict[str, Array]:
        """Weights and bias."""
        inner = self.channels // self.groups
        shape = (self.filters, inner, self.window, self.window)
        deviation = (inner * self.window**2) ** -0.5
        return {"w": noise(*shape, deviation=deviation), "b": noise(self.filters, seed=2)}

    def exact(self, x: Array) -> Array:
        """In float64, as sums over windows."""
        kept, around = self.constants(), self.window // 2
        padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (around, around), (around, around)))
        view = np.lib.stride_tricks.sliding_window_view(padded[0], (self.window,) * 2, (1, 2))
        view = view[:, :: self.stride, :: self.stride]
        parts, g = view.reshape(self.groups, -1, *view.shape[1:]), self.groups
        windows = parts.transpose(0, 2, 3, 1, 4, 5).reshape(g, self.size**2, -1)
        weights = kept["w"].astype(np.float64).reshape(g, self.filters // g, -1)
        sums = weights @ windows.transpose(0, 2, 1)
        return sums.reshape(1, self.filters, self.size, self.size) + kept["b"][:, None, None]

    def torch(self) -> Callable[..., Any]:
        """PyTorch's layer."""
        import torch

        sizes = (self.channels, self.filters, self.window, self.stride, self.window // 2)
        layer = torch.nn.Conv2d(*sizes, groups=self.groups)
        layer.weight.data = torch.from_numpy(self.constants()["w"])
        layer.bias.data = torch.from_numpy(self.constants()["b"])
        return layer

    def operator(self) -> Operator:
        """The case."""
        weights = self.filters * self.channels // self.groups * self.window**2
        pixels = self.channels * self.image**2 + self.filters * self.size**2
        attributes = {
            "strides": [self.stride] * 2,
            "pads": [self.window // 2] * 4,
            "group": self.groups,
        }
        return Operator(
            name=self.name,
            group="convolution",
            nodes=[("Conv", ("x", "w", "b"), attributes)],
            inputs=normal(x=(1, self.channels, self.image, self.image)),
            constants=self.constants,
            reference=self.exact,
            tolerance=TOLERANCE,
            flops=2.0 * weights * self.size**2,
            bytes=4.0 * (weights + pixels),
            output=("float32", (1, self.filters, self.size, self.size)),
            torch=self.torch,
        )


def convolution_cases() -> list[Operator]:
    """Of residual and mobile networks."""
    return [
        Convolution(64, 64, 3, 56).operator(),
        Convolution(256, 64, 1, 56).operator(),
        Convolution(512, 512, 3, 7).operator(),
        Convolution(3, 64, 7, 224, stride=2).operator(),
        Convolution(144, 144, 3, 56, groups=144).operator(),
    ]


def attention(heads: int, length: int, width: int) -> Operator:
    """softmax(Q K^T / sqrt(width)) V, for each head."""
    shape = (1, heads, length, width)
    scale = np.float32(width**-0.5)

    def computed(q: Array, k: Array, v: Array) -> Array:
        scores = (q @ k.transpose(0, 1, 3, 2)) * q.dtype.type(scale)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True)) @ v

    def of_torch() -> Callable[..., Any]:
        import torch

        return torch.nn.functional.scaled_dot_product_attention

    return Operator(
        name=f"attention_{heads}x{length}x{width}",
        group="attention",
        nodes=[
            ("Transpose", ("k",), {"perm": [0, 1, 3, 2]}),
            ("MatMul", ("q", "t0"), {}),
            ("Mul", ("t1", "scale"), {}),
            ("Softmax", ("t2",), {"axis": -1}),
            ("MatMul", ("t3", "v"), {}),
        ],
        inputs=normal(q=shape, k=shape, v=shape),
        constants=lambda: {"scale": np.asarray(scale)},
        reference=lambda *a: computed(*(x.astype(np.float64) for x in a)),
        tolerance=TOLERANCE,
        flops=4.0 * heads * length**2 * width,
        bytes=4.0 * 4 * heads * length * width,
        output=("float32", shape),
        numpy=computed,
        torch=of_torch,
    )


def attention_cases() -> list[Operator]:
    """Of a small transformer, for a short and a long text."""
    return [attention(12, 128, 64), attention(12, 1024, 64)]
