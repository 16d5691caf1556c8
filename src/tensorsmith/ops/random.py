"""Random numbers, each a function of a seed and of its place: the same on every machine.

The generator numbers its elements and scrambles (seed, number) into 64 bits, so any order and any
number of threads gives the same. Source: Steele, Lea and Flood, Fast splittable pseudorandom number
generators (SplitMix64), 2014.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.errors import DTypeError
from tensorsmith.ir import Expr, ExprLike, Kind, as_expr, as_exprs, const
from tensorsmith.ir.dtype import dtype as as_dtype
from tensorsmith.ops.operands import check_rank, computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor

_MASK: Final = (1 << 64) - 1


def _bits(seed: int, number: Expr) -> Expr:
    """64 random bits of this number."""
    start = const((seed * 0xD1342543DE82EF95 + 0x9E3779B97F4A7C15) & _MASK, "uint64")
    z = start + (T.cast(number, "uint64") + const(1, "uint64")) * const(
        0x9E3779B97F4A7C15, "uint64"
    )
    z = _scrambled(z, 30, 0xBF58476D1CE4E5B9)
    z = _scrambled(z, 27, 0x94D049BB133111EB)
    return z ^ (z >> const(31, "uint64"))


def _scrambled(z: Expr, shift: int, factor: int) -> Expr:
    return (z ^ (z >> const(shift, "uint64"))) * const(factor, "uint64")


def _uniform(seed: int, number: Expr, type_: str) -> Expr:
    """A float in [0, 1), of as many random bits as it holds."""
    digits = 53 if type_ == "float64" else 24
    bits = _bits(seed, number) >> const(64 - digits, "uint64")
    return T.cast(T.cast(bits, "int64"), type_) * as_expr(2.0**-digits, as_dtype(type_))


def _normal(seed: int, number: Expr, type_: str) -> Expr:
    """A float of the normal distribution. Source: Box and Muller, 1958."""
    radius = T.sqrt(-2.0 * T.log(1.0 - _uniform(seed, number * 2, type_)))
    return radius * T.cos(2.0 * math.pi * _uniform(seed, number * 2 + 1, type_))


def _number(indices: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    number = as_expr(0)
    for i, extent in zip(indices, shape, strict=True):
        number = number * extent + i
    return number


def _float(op: str, dtype: str) -> str:
    """The type to compute in for this type of result. Raises DTypeError if that is no float."""
    type_ = as_dtype(dtype)
    if not type_.is_float:
        raise DTypeError(f"{op} gives floats, not {dtype}")
    return computed_in(type_).name


def random_uniform(
    *,
    shape: tuple[ExprLike, ...],
    dtype: str = "float32",
    low: float = 0.0,
    high: float = 1.0,
    seed: int = 0,
) -> Tensor:
    """Random floats in [low, high)."""
    wide, extents = _float("random_uniform", dtype), as_exprs(shape)

    def element(*i: Expr) -> Expr:
        value = _uniform(seed, _number(i, extents), wide) * (high - low) + low
        return converted(value, as_dtype(dtype))

    return te.compute(extents, element, "random_uniform")


def random_normal(
    *,
    shape: tuple[ExprLike, ...],
    dtype: str = "float32",
    mean: float = 0.0,
    scale: float = 1.0,
    seed: int = 0,
) -> Tensor:
    """Random floats of the normal distribution with this mean and standard deviation."""
    wide, extents = _float("random_normal", dtype), as_exprs(shape)

    def element(*i: Expr) -> Expr:
        value = _normal(seed, _number(i, extents), wide) * scale + mean
        return converted(value, as_dtype(dtype))

    return te.compute(extents, element, "random_normal")


def bernoulli(x: Tensor, *, dtype: str | None = None, seed: int = 0) -> Tensor:
    """1 with the probability that each element of `x` is, else 0; in the type `dtype`."""
    type_ = one_dtype("bernoulli", Kind.FLOAT, x)
    wide = computed_in(type_)
    result = as_dtype(dtype or type_.name)
    yes, no = const(True if result.is_bool else 1, result), const(0, result)

    def element(*i: Expr) -> Expr:
        chance = converted(x[i], wide)
        return T.select(_uniform(seed, _number(i, x.shape), wide.name) < chance, yes, no)

    return te.compute(x.shape, element, "bernoulli")


def multinomial(x: Tensor, *, samples: ExprLike, dtype: str = "int32", seed: int = 0) -> Tensor:
    """(batch, samples) classes drawn by `x`: (batch, classes), logarithms of relative chances.

    The greatest of the logarithms, each with noise of its own, is such a draw. Source: Gumbel,
    Statistical theory of extreme values, 1954.
    """
    type_ = one_dtype("multinomial", Kind.FLOAT, x)
    check_rank("multinomial", x, 2, 2)
    batch, classes = x.shape
    wide, count = computed_in(type_), as_expr(samples)
    k = te.reduce_axis(classes, "k")

    def draw(b: Expr, s: Expr) -> te.ReduceMany:
        number = _number((b, s, k.var), (batch, count, classes))
        noise = T.neg(T.log(T.neg(T.log(1.0 - _uniform(seed, number, wide.name)))))
        return te.argmax(converted(x[b, k], wide) + noise, axis=k, dtype=dtype)

    _, drawn = te.compute((batch, count), draw, "multinomial")
    return drawn


def dropout(x: Tensor, *, ratio: float = 0.5, seed: int = 0) -> tuple[Tensor, Tensor]:
    """`x` with a share `ratio` of its elements made 0 and the others scaled up, and which are kept.

    That is dropout while a model is trained. Source: Srivastava et al., Dropout, 2014.
    """
    type_ = one_dtype("dropout", Kind.FLOAT, x)
    wide = computed_in(type_)
    kept = te.compute(
        x.shape,
        lambda *i: _uniform(seed, _number(i, x.shape), "float32") >= ratio,
        "kept",
    )
    scale = 0.0 if ratio == 1.0 else 1.0 / (1.0 - ratio)

    def element(*i: Expr) -> Expr:
        return converted(T.select(kept[i], converted(x[i], wide) * scale, 0.0), type_)

    return te.compute(x.shape, element, "dropout"), kept


OPERATORS: Final[tuple[Operator, ...]] = operators(
    random_uniform, random_normal, bernoulli, multinomial, dropout
)
