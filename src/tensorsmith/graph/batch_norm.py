"""Scales, shifts and normalisations by channels join the weights of what comes before them.

A convolution or a product of matrices that is scaled by channels is one with scaled weights; what
is added by channels is its bias. In real numbers the result is the same. In floats each product is
of a rounded scaled weight, instead of the sum being scaled: the relative error of a result, against
the sum of the magnitudes of its products, changes by less than two units in the last place. The
scaled weights themselves are computed in float64 and rounded once.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorsmith.graph.patterns import Anything, Array, Known, Match, Op
from tensorsmith.graph.rewrite import Rule
from tensorsmith.ir import Buffer, Const

_x: Final = Anything("x")
_w: Final = Known("w")
_b: Final = Known("b")
_c: Final = Known("c")
_STATISTICS: Final = (Known("scale"), Known("shift"), Known("mean"), Known("variance"))


def _is_wide(m: Match) -> bool:
    """Whether results are rounded no more narrowly than they are summed."""
    return m.result.dtype.name in ("float32", "float64")


def _affine(m: Match) -> tuple[Array, Array]:
    """A normalisation by known statistics as a factor and an addend, one a channel each."""
    scale, shift, mean, variance = (
        m.array(k.name).astype(np.float64).reshape(-1) for k in _STATISTICS
    )
    epsilon = float(m.attr("batch_norm", "epsilon", 1e-5))
    factor = scale / np.sqrt(variance + epsilon)
    return factor, shift - mean * factor


def _by_channel(m: Match, rank: int, axis: int, channels: int) -> Array | None:
    """The constant c as one number a channel, if that is all that it varies along."""
    data = m.array("c").astype(np.float64)
    if data.ndim > rank:
        return None
    if data.size == 1:
        return np.full(channels, data.reshape(()))
    shape = (1,) * (rank - data.ndim) + data.shape
    wanted = tuple(channels if d == axis else 1 for d in range(rank))
    return data.reshape(-1) if shape == wanted else None


# --- Convolutions ----------------------------------------------------------------------------


def _channel_axis(m: Match) -> int | None:
    """The axis of the weights along which the output channels are; None if it is none alone."""
    node = m.nodes["conv"]
    if node.op == "conv":
        return 0
    return 1 if node.attrs.get("groups", 1) == 1 else None


def _channels(m: Match) -> int:
    axis = _channel_axis(m)
    return 0 if axis is None else int(m.array("w").shape[axis])


def _convolved(m: Match, factor: Array, addend: Array | None) -> Buffer | None:
    """The convolution of the pattern with scaled weights, and another bias. None: has no bias."""
    axis = _channel_axis(m)
    if axis is None or not _is_wide(m) or not m.is_single("conv") or len(factor) != _channels(m):
        return None
    weights = m.array("w")
    shape = [1] * weights.ndim
    shape[axis] = -1
    wide = weights.astype(np.float64) * factor.reshape(shape)
    own = m.array("b").astype(np.float64) * factor if "b" in m.values else None
    bias = addend if own is None else own if addend is None else own + addend
    type_ = weights.dtype
    made = m["w"] if np.all(factor == 1) else m.constant(wide.astype(type_), m["w"].name)
    if bias is None:
        return m.again("conv", m["x"], made)
    name = m["b"].name if "b" in m.values else "bias"
    return m.again("conv", m["x"], made, m.constant(bias.astype(type_), name))


def _conv_normalised(m: Match) -> Buffer | None:
    return _convolved(m, *_affine(m))


def _conv_scaled(m: Match) -> Buffer | None:
    factor = _by_channel(m, m.result.rank, 1, _channels(m))
    return None if factor is None else _convolved(m, factor, None)


def _conv_divided(m: Match) -> Buffer | None:
    divisor = _by_channel(m, m.result.rank, 1, _channels(m))
    return None if divisor is None else _convolved(m, 1 / divisor, None)


def _conv_shifted(m: Match) -> Buffer | None:
    addend = _by_channel(m, m.result.rank, 1, _channels(m))
    return None if addend is None else _convolved(m, np.ones(len(addend)), addend)


def _conv_lowered(m: Match) -> Buffer | None:
    less = _by_channel(m, m.result.rank, 1, _channels(m))
    return None if less is None else _convolved(m, np.ones(len(less)), -less)


# --- Products of matrices --------------------------------------------------------------------


def _matmul_scaled(m: Match) -> Buffer | None:
    """A product with a constant matrix on its right, scaled by columns."""
    weights = m.array("w")
    if not _is_wide(m) or not m.is_single("matmul") or weights.ndim != 2:
        return None
    factor = _by_channel(m, m.result.rank, m.result.rank - 1, weights.shape[1])
    if factor is None or m["x"].rank < 2:
        return None
    scaled = (weights.astype(np.float64) * factor).astype(weights.dtype)
    return m.again("matmul", m["x"], m.constant(scaled, m["w"].name))


def _matmul_normalised(m: Match) -> Buffer | None:
    weights = m.array("w")
    if not _is_wide(m) or not m.is_single("matmul") or (m["x"].rank, weights.ndim) != (2, 2):
        return None
    factor, addend = _affine(m)
    scaled = (weights.astype(np.float64) * factor).astype(weights.dtype)
    product = m.again("matmul", m["x"], m.constant(scaled, m["w"].name))
    return m.apply("add", product, m.constant(addend.astype(weights.dtype), "bias"))


# --- Alone -----------------------------------------------------------------------------------


def _normalised(m: Match) -> Buffer | None:
    """A normalisation by known statistics is a product and a sum."""
    x = m["x"]
    if not _is_wide(m) or x.rank < 2 or m["scale"].rank != 1:
        return None
    shape = (-1, *(1,) * (x.rank - 2))
    dtype = m.result.dtype.numpy
    factor, addend = (
        m.constant(a.astype(dtype).reshape(shape), name)
        for a, name in zip(_affine(m), ("scale", "shift"), strict=True)
    )
    return m.apply("add", m.apply("mul", x, factor), addend)


def _is_channels(m: Match) -> bool:
    """Whether the statistics are one a channel, as many as there are."""
    channels = m["x"].shape[1] if "w" not in m.values and m["x"].rank > 1 else None
    size = m.array("scale").size
    if isinstance(channels, Const) and channels.value != size:
        return False
    return all(m.array(k.name).shape == (size,) for k in _STATISTICS)


def _after_convolution(op: str) -> tuple[Rule, ...]:
    """What may follow a convolution of the kind `op`, with a bias or without."""
    rules = []
    for parts in ((_x, _w), (_x, _w, _b)):
        conv = Op(op, *parts, name="conv")
        rules += [
            Rule(
                f"{op}-normalised",
                Op("batch_norm", conv, *_STATISTICS),
                _conv_normalised,
                _is_channels,
                rounds=True,
            ),
            Rule(f"{op}-scaled", Op("mul", conv, _c), _conv_scaled, rounds=True),
            Rule(f"{op}-divided", Op("div", conv, _c), _conv_divided, rounds=True),
            Rule(f"{op}-shifted", Op("add", conv, _c), _conv_shifted, rounds=True),
            Rule(f"{op}-lowered", Op("sub", conv, _c), _conv_lowered, rounds=True),
        ]
    return tuple(rules)


FOLDING: Final[tuple[Rule, ...]] = (
    *_after_convolution("conv"),
    *_after_convolution("conv_transpose"),
    Rule(
        "matmul-normalised",
        Op("batch_norm", Op("matmul", _x, _w), *_STATISTICS),
        _matmul_normalised,
        _is_channels,
        rounds=True,
    ),
    Rule("matmul-scaled", Op("mul", Op("matmul", _x, _w), _c), _matmul_scaled, rounds=True),
    Rule("normalised", Op("batch_norm", _x, *_STATISTICS), _normalised, _is_channels, rounds=True),
)
"""Rules for what is done by channels with known numbers; the first that applies is taken."""
