"""Signals: Fourier transforms, windows, mel weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx import types
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import Buffer, Expr


def _one(node: Node, number: int, name: str) -> Expr | None:
    """An operand that is one integer, as an expression."""
    found = node.numbers_of(number, name, low=0)
    if found is not None and len(found) != 1:
        node.wrong(f"input {number} is one number", given=f"{len(found)} numbers")
    return None if found is None else found[0]


def dft(node: Node) -> Buffer:
    """The discrete Fourier transform along an axis."""
    x = node.tensor()
    if node.opset >= 20:
        axes = node.constants(2)
        axis = -2 if not axes else axes[0]
    else:
        axis = node.integer("axis", 1)
    return node(
        "dft",
        x,
        axis=axis,
        length=_one(node, 1, "length"),
        inverse=node.flag("inverse"),
        onesided=node.flag("onesided"),
    )


def stft(node: Node) -> Buffer:
    """The transforms of the frames of a signal."""
    window = node.optional(2)
    step, length = _one(node, 1, "step"), _one(node, 3, "length")
    if length is None and window is not None:
        length = window.shape[0]
    if step is None or length is None:
        node.wrong("neither a window nor the length of frames is given")
    onesided = node.flag("onesided", default=True)
    return node("stft", node.tensor(0), window, step=step, length=length, onesided=onesided)


def window(kind: str) -> Converter:
    """The converter for a window."""

    def convert(node: Node) -> Buffer:
        number = node.integer("output_datatype", 1)
        return node(
            "window",
            kind=kind,
            size=_one(node, 0, "size"),
            periodic=node.flag("periodic", default=True),
            dtype=types.element_type(number, "the window").name,
        )

    return convert


def mel_weight_matrix(node: Node) -> Buffer:
    """The weights that make a spectrum one on the mel scale."""
    bins, length, rate = (_one(node, n, "n") for n in range(3))
    ends = [node.known(n) for n in (3, 4)]
    lower, upper = (float(e.reshape(-1)[0]) for e in ends if e is not None and e.size)
    number = node.integer("output_datatype", 1)
    return node(
        "mel_weight_matrix",
        bins=bins,
        length=length,
        rate=rate,
        lower=lower,
        upper=upper,
        dtype=types.element_type(number, "the weights").name,
    )


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "BlackmanWindow": window("blackman"),
    "DFT": dft,
    "HammingWindow": window("hamming"),
    "HannWindow": window("hann"),
    "MelWeightMatrix": mel_weight_matrix,
    "STFT": stft,
}
"""By operator of ONNX's own domain."""
