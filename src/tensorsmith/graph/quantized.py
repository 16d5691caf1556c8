"""Products of numbers that bytes stand for are products of the bytes.

A product of dequantized tensors is the product of the bytes in 32-bit integers, times the scales.
In real numbers that is the same; the sums are exact, where floats would round each.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorsmith.graph.patterns import Anything, Array, Known, Match, Op, Rest
from tensorsmith.graph.rewrite import Rule
from tensorsmith.ir import Buffer, Const
from tensorsmith.ir.dtype import DType

_a: Final = Anything("a")
_b: Final = Known("b", lambda array: array.dtype.name in ("int8", "uint8"))
_MOST: Final = (1 << 31) - 1
"""The largest sum that 32 bits hold."""
_BYTES: Final = ("int8", "uint8")


def _is_zero(array: Array) -> bool:
    return array.dtype.kind in "iu" and not np.any(array)


def _zeros(m: Match) -> tuple[Buffer | None, Buffer | None]:
    """The zero points of a product of integers, where they are given."""
    first, second = (*m.rest["zeros"], None, None)[:2]
    return first, second


def _has_zeros(m: Match) -> bool:
    return any(z is not None and _is_known_zero(m, z) for z in _zeros(m))


def _is_known_zero(m: Match, zero: Buffer) -> bool:
    return zero in m.scope.known and _is_zero(m.scope.known[zero])


def _without_zeros(m: Match) -> Buffer:
    kept = (None if z is None or _is_known_zero(m, z) else z for z in _zeros(m))
    return m.again("product", m["a"], m["b"], *kept)


# --- Signed weights --------------------------------------------------------------------------


def _has_unsigned_weights(m: Match) -> bool:
    """Whether bytes without signs meet a constant of such, with a known zero point."""
    zero = _zeros(m)[1]
    known = zero is None or zero in m.scope.known
    return known and m["a"].dtype.name == m["b"].dtype.name == "uint8"


def _with_signed_weights(m: Match) -> Buffer:
    """The same with 128 less in each weight and its zero point: instructions that multiply bytes
    take those of one factor with signs."""
    first, second = _zeros(m)
    zero = np.zeros((), np.uint8) if second is None else m.scope.known[second]
    signed = [(x ^ np.uint8(128)).view(np.int8) for x in (m.array("b"), np.asarray(zero))]
    weights = m.constant(signed[0], m["b"].name)
    return m.again("product", m["a"], weights, first, m.constant(signed[1], "zero"))


# --- From floats to integers -----------------------------------------------------------------

_LEFT: Final = Op("dequantize_linear", _a, Anything("a_scale"), Rest("a_zero"), name="left")
_RIGHT: Final = Op("dequantize_linear", _b, Anything("b_scale"), Rest("b_zero"), name="right")


def _depth(m: Match, at: int) -> int | None:
    extent = m["b"].shape[at]
    return int(extent.value) if isinstance(extent, Const) else None


def _reach(dtype: DType) -> int:
    """The largest difference of a byte and its zero point."""
    return dtype.max_value - dtype.min_value


def _is_exact(m: Match, depth: int | None) -> bool:
    """Whether sums of so many products of what the operands hold fit 32 bits."""
    if depth is None or m["a"].dtype.name not in _BYTES or not depth:
        return False
    if m.result.dtype.name != "float32":
        return False
    return depth * _reach(m["a"].dtype) * _reach(m["b"].dtype) <= _MOST


def _is_plain(m: Match, columns: int) -> bool:
    """Whether the left operand has one scale, and the right one for all or one a column."""
    left, right = m["a_scale"], m["b_scale"]
    if not _is_one(left) or any(m.attr(side, "block", 0) for side in ("left", "right")):
        return False
    zeros = [*m.rest["a_zero"], *m.rest["b_zero"]]
    if any(z is not None and z.rank > 1 for z in zeros) or m["b"].rank != 2:
        return False
    axis = int(m.attr("right", "axis", 1))
    return _is_one(right) or (right.rank == 1 and axis % m["b"].rank == columns)


def _is_one(scale: Buffer) -> bool:
    return all(isinstance(e, Const) and e.value == 1 for e in scale.shape) and scale.rank <= 1


def _integer_product(m: Match, weights: Buffer) -> Buffer:
    """The product of the bytes, times the scales."""
    given = [next(iter(m.rest[name]), None) for name in ("a_zero", "b_zero")]
    zeros = [None if z is None else _squeezed(m, z) for z in given]
    total = m.apply("matmul_integer", m["a"], weights, *zeros)
    scale = m.apply("mul", *(_squeezed(m, m[name]) for name in ("a_scale", "b_scale")))
    return m.apply("mul", m.apply("cast", total, dtype="float32"), scale)


def _squeezed(m: Match, scale: Buffer) -> Buffer:
    return m.apply("reshape", scale, shape=()) if scale.rank and _is_one(scale) else scale


def _matmul(m: Match) -> Buffer | None:
    if not _is_plain(m, 1) or not _is_exact(m, _depth(m, 0)) or not m["a"].rank:
        return None
    return _integer_product(m, m["b"])


def _gemm(m: Match) -> Buffer | None:
    """``a @ b + c``, of what lies either way."""
    turned = bool(m.attr("gemm", "trans_b", False))
    scaled = any(m.attr("gemm", name, 1.0) != 1.0 for name in ("alpha", "beta"))
    if m.attr("gemm", "trans_a", False) or scaled:
        return None
    if not _is_plain(m, 0 if turned else 1) or not _is_exact(m, _depth(m, 1 if turned else 0)):
        return None
    data = m.array("b")
    made = _integer_product(m, m.constant(data.T, m["b"].name) if turned else m["b"])
    (bias, *_) = (*m.rest["bias"], None)
    return made if bias is None else m.apply("add", made, bias)


INTEGERS: Final[tuple[Rule, ...]] = (
    Rule(
        "product-without-zero-points",
        Op("matmul_integer", _a, Anything("b"), Rest("zeros"), name="product"),
        _without_zeros,
        _has_zeros,
    ),
    Rule(
        "product-with-signed-weights",
        Op("matmul_integer", _a, _b, Rest("zeros"), name="product"),
        _with_signed_weights,
        _has_unsigned_weights,
    ),
)
"""Rules for products of integers, which keep every bit."""

QUANTIZED: Final[tuple[Rule, ...]] = (
    Rule("product-of-bytes", Op("matmul", _LEFT, _RIGHT), _matmul, rounds=True),
    Rule("gemm-of-bytes", Op("gemm", _LEFT, _RIGHT, Rest("bias")), _gemm, rounds=True),
)
"""Rules that round less often."""
