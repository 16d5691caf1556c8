"""Signals: discrete Fourier transforms, windows, and weights of mel bins.

A complex tensor has a last dimension of 2: the real part, then the imaginary one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.ir import Const, DType, Expr, ExprLike, Kind, as_expr
from tensorsmith.ir.dtype import dtype as as_dtype
from tensorsmith.ir.dtype import float64
from tensorsmith.ops.indexing import check_extents, is_one, ranges, read
from tensorsmith.ops.operands import as_axis, check_rank, computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor

MOST_DIRECT: Final = 32
"""The longest transform that is one product with a matrix, if it can be split at all."""


@dataclass(frozen=True, slots=True)
class _Complex:
    """Real and imaginary parts, None for zeros; the last dimension is transformed."""

    re: Tensor
    im: Tensor | None

    @property
    def lead(self) -> tuple[Expr, ...]:
        """All other dimensions."""
        return self.re.shape[:-1]


def _roots(n: Expr, type_: DType, sign: int) -> tuple[Tensor, Tensor]:
    """The n-th roots of unity in the order of their angles: cosines and sines."""

    def root(m: Expr) -> tuple[Expr, Expr]:
        angle = T.cast(m, float64) * (2.0 * math.pi) / T.cast(n, float64)
        return T.cast(T.cos(angle), type_), T.cast(T.sin(angle) * float(sign), type_)

    cosines, sines = te.compute((n,), root, "roots")
    return cosines, sines


def _product(
    x: _Complex, count: Expr, place: Callable[[Expr], Expr], roots: tuple[Tensor, Tensor]
) -> Callable[..., te.ReduceMany | tuple[te.Reduce, te.Reduce]]:
    """The sum over j of ``x[place(j)] * root[j * k]``, as an index function of (*lead, k)."""
    j = te.reduce_axis(count, "j")

    def element(lead: Sequence[Expr], k: Expr) -> tuple[te.Reduce, te.Reduce]:
        turn = (j * k) % count
        c, s = roots[0][turn], roots[1][turn]
        re = x.re[(*lead, place(j.var))]
        if x.im is None:
            return te.sum(re * c, axis=j), te.sum(re * s, axis=j)
        im = x.im[(*lead, place(j.var))]
        return te.sum(re * c - im * s, axis=j), te.sum(re * s + im * c, axis=j)

    return element


def _inner(type_: DType, n: Expr) -> DType:
    """The type to compute in: float64 where the sums are short."""
    is_short = isinstance(n, Const) and int(n.value) <= MOST_DIRECT
    return float64 if is_short else computed_in(type_)


def _factor(n: Expr) -> int | None:
    """A factor to split a transform by: the one next to the root, if it is worth it."""
    if not isinstance(n, Const) or int(n.value) <= MOST_DIRECT:
        return None
    size = int(n.value)
    found = [f for f in range(2, MOST_DIRECT + 1) if size % f == 0 and f < size]
    return min(found, key=lambda f: abs(f - math.sqrt(size)), default=None)


def _transformed(x: _Complex, bins: Expr, sign: int) -> _Complex:
    """The first `bins` sums of x[j] exp(sign 2 pi i j k / n).

    A length with a factor n1 is split: n2 transforms of length n1, a turn, n1 transforms of length
    n2. Source: Cooley and Tukey, 1965.
    """
    n, type_ = x.re.shape[-1], x.re.dtype
    factor = _factor(n)
    if factor is None:
        whole = _product(x, n, lambda j: j, _roots(n, type_, sign))
        re, im = te.compute((*x.lead, bins), lambda *i: whole(i[:-1], i[-1]), "transform")
        return _Complex(re, im)
    inner = as_expr(factor)
    outer = Analyzer().simplify(n // factor)
    roots = _roots(inner, type_, sign)

    def first(*i: Expr) -> te.ReduceMany | tuple[te.Reduce, te.Reduce]:
        *lead, k1, j2 = i
        return _product(x, inner, lambda j1: outer * j1 + j2, roots)(lead, k1)

    re, im = te.compute((*x.lead, inner, outer), first, "first_transform")
    cosines, sines = _roots(n, type_, sign)

    def turned(*i: Expr) -> tuple[Expr, Expr]:
        c, s = cosines[i[-1] * i[-2]], sines[i[-1] * i[-2]]
        return re[i] * c - im[i] * s, re[i] * s + im[i] * c

    parts = _Complex(*te.compute(re.shape, turned, "turned"))
    rest = _transformed(parts, outer, sign)
    rest_im = rest.im
    assert rest_im is not None

    def placed(*i: Expr) -> tuple[Expr, Expr]:
        at = (*i[:-1], i[-1] % factor, i[-1] // factor)
        return rest.re[at], rest_im[at]

    return _Complex(*te.compute((*x.lead, bins), placed, "transform"))


def dft(
    x: Tensor,
    *,
    axis: int = -2,
    length: ExprLike | None = None,
    inverse: bool = False,
    onesided: bool = False,
) -> Tensor:
    """The discrete Fourier transform of `x` (..., 1 or 2) along an axis: (..., 2).

    length: of the signal, cut or filled with zeros to it; that of the axis if None. inverse: the
    conjugate, over the length. onesided: the first half of the result; of an inverse, `x` is that
    half, and the result is real: (..., 1), of 2 * (extent - 1) elements if no length is given.
    """
    type_ = one_dtype("dft", Kind.FLOAT, x)
    check_rank("dft", x, 2)
    along = as_axis("dft", axis, x.rank)
    if along == x.rank - 1:
        raise ShapeError("dft along the last axis, which holds the parts of complex numbers")
    facts, extent = Analyzer(), x.shape[along]
    is_half = inverse and onesided
    default = (extent - 1) * 2 if is_half else extent
    n = facts.simplify(default if length is None else as_expr(length))
    signal = _signal(x, along, n, is_half=is_half)
    bins = facts.simplify(n // 2 + 1) if onesided and not inverse else n
    result = _transformed(signal, bins, 1 if inverse else -1)
    parts = [result.re] if is_half else [result.re, result.im]
    shape = (*x.shape[:along], bins, *x.shape[along + 1 : -1], as_expr(len(parts)))

    def element(*i: Expr) -> Expr:
        at = (*i[:along], *i[along + 1 : -1], i[along])
        value = _chosen(i[-1], [p[at] for p in parts if p is not None])
        if inverse:
            value = value / T.cast(n, value.dtype)
        return converted(value, type_)

    return te.compute(shape, element, "dft")


def _chosen(part: Expr, values: Sequence[Expr]) -> Expr:
    return values[0] if len(values) == 1 else T.select(T.equal(part, 0), values[0], values[1])


def _signal(x: Tensor, along: int, n: Expr, *, is_half: bool) -> _Complex:
    """`x` with the axis last, cut or filled to `n`, in the type to compute in.

    is_half: the second half is the conjugate of the first, in reverse.
    """
    wide, extent = _inner(x.dtype, n), x.shape[along]
    lead = (*x.shape[:along], *x.shape[along + 1 : -1])
    shape = (*lead, n)

    def part(number: int) -> Callable[..., Expr]:
        def element(*i: Expr) -> Expr:
            at, facts = i[-1], ranges(i, shape)
            mirrored = at > n // 2
            if is_half:
                at = T.select(mirrored, n - at, at)
            place = (*i[:along], at, *i[along:-1], as_expr(number))
            value = T.select(at < extent, converted(read(x, place, facts), wide), 0.0)
            if is_half and number == 1:
                is_own = T.equal(at, 0) | T.equal(at * 2, n)
                value = T.select(is_own, 0.0, T.select(mirrored, T.neg(value), value))
            return value

        return element

    re = te.compute(shape, part(0), "real")
    if is_one(x.shape[-1]):
        return _Complex(re, None)
    check_extents(x.shape[-1], 2, "complex numbers have two parts")
    return _Complex(re, te.compute(shape, part(1), "imaginary"))


def stft(
    x: Tensor,
    window: Tensor | None = None,
    *,
    step: ExprLike,
    length: ExprLike,
    onesided: bool = True,
) -> Tensor:
    """The transforms of the frames of a signal (batch, samples, 1 or 2): (batch, frames, bins, 2).

    A frame begins each `step` samples and has `length` of them, times the window if there is one.
    """
    type_ = one_dtype("stft", Kind.FLOAT, *(t for t in (x, window) if t is not None))
    check_rank("stft", x, 3, 3)
    facts, n, hop = Analyzer(), as_expr(length), as_expr(step)
    if window is not None:
        check_rank("the window of stft", window, 1, 1)
        check_extents(window.shape[0], n, "the window of stft is as long as a frame")
    count = facts.simplify(T.max((x.shape[1] - n) // hop + 1, 0))
    bins = facts.simplify(n // 2 + 1) if onesided else n
    wide, shape = _inner(type_, n), (x.shape[0], count, n)

    def part(number: int) -> Callable[..., Expr]:
        def element(*i: Expr) -> Expr:
            b, f, j = i
            value = converted(read(x, (b, f * hop + j, number), ranges(i, shape)), wide)
            return value if window is None else value * converted(window[j], wide)

        return element

    re = te.compute(shape, part(0), "frames")
    im = None if is_one(x.shape[2]) else te.compute(shape, part(1), "imaginary_frames")
    result = _transformed(_Complex(re, im), bins, -1)
    imaginary = result.im
    assert imaginary is not None
    return te.compute(
        (*shape[:2], bins, 2),
        lambda b, f, k, p: converted(_chosen(p, [result.re[b, f, k], imaginary[b, f, k]]), type_),
        "stft",
    )


WINDOWS: Final[dict[str, tuple[float, float, float]]] = {
    "hann": (0.5, -0.5, 0.0),
    "hamming": (25.0 / 46.0, 25.0 / 46.0 - 1.0, 0.0),
    "blackman": (0.42, -0.5, 0.08),
}
"""The constant of a window, and the factors of cosines of one and two turns."""


def window(*, kind: str, size: ExprLike, periodic: bool = True, dtype: str = "float32") -> Tensor:
    """A window of `size` elements. kind: of `WINDOWS`. periodic: a whole turn takes one step more.

    Source: Harris, On the use of windows for harmonic analysis, 1978.
    """
    if kind not in WINDOWS:
        raise ShapeError(f"there is no window {kind!r}", try_=f"one of {', '.join(WINDOWS)}")
    constant, once, twice = WINDOWS[kind]
    extent, type_ = as_expr(size), as_dtype(dtype)
    turn = extent if periodic else extent - 1

    def element(i: Expr) -> Expr:
        angle = T.cast(i, float64) * (2.0 * math.pi) / T.cast(turn, float64)
        value = constant + once * T.cos(angle)
        if twice:
            value = value + twice * T.cos(angle * 2.0)
        return T.cast(value, type_)

    return te.compute((extent,), element, "window")


def mel_weight_matrix(
    *,
    bins: ExprLike,
    length: ExprLike,
    rate: ExprLike,
    lower: float,
    upper: float,
    dtype: str = "float32",
) -> Tensor:
    """The weights by which `length` // 2 + 1 bins of a spectrum make `bins` on the mel scale.

    rate: of the samples. lower, upper: the ends of what is looked at, in hertz.
    Source: ONNX, MelWeightMatrix; O'Shaughnessy, Speech communication, 1987.
    """
    count, size, type_ = as_expr(bins), as_expr(length), as_dtype(dtype)
    low, high = (2595.0 * math.log1p(e / 700.0) / math.log(10.0) for e in (lower, upper))

    def point(m: Expr) -> Expr:
        step = (high - low) / T.cast(count + 2, float64)
        mel = T.cast(m, float64) * step + low
        hertz = 700.0 * T.expm1(mel / 2595.0 * math.log(10.0))
        return T.cast(T.floor(T.cast(size + 1, float64) * hertz / T.cast(rate, float64)), "int64")

    points = te.compute((count + 2,), point, "points")

    def element(j: Expr, i: Expr) -> Expr:
        begin, middle, end = (points[i + d] for d in range(3))
        here = T.cast(j, "int64")
        fall = T.cast(end - here, float64) / T.cast(end - middle, float64)
        rise = T.cast(here - begin, float64) / T.cast(middle - begin, float64)
        rises = (here >= begin) & (here <= middle)
        steep = T.select(T.equal(middle, begin), 1.0, rise)
        value = T.select((here >= middle) & (here < end), fall, T.select(rises, steep, 0.0))
        return T.cast(value, type_)

    return te.compute((size // 2 + 1, count), element, "mel_weight_matrix")


OPERATORS: Final[tuple[Operator, ...]] = operators(dft, stft, window, mel_weight_matrix)
