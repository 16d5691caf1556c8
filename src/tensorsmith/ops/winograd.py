"""Convolutions of three by three taps by minimal filtering: fewer products, more sums.

The image is cut into tiles that overlap by two. A linear map takes each tile, and each kernel, to
as many points as a tile has elements; there, convolution is a product point by point, so that what
is left is one matrix product over the channels for each point. Another map takes the sums back to
the elements of the result. Tiles of 4 by 4 results take 36 products for 144, those of 2 by 2 take
16 for 36. Source: Winograd, Arithmetic complexity of computations, 1980; Lavin and Gray, Fast
algorithms for convolutional neural networks, 2016.

The maps follow from polynomials of the degree of a tile, known by their values at some points and
by their highest coefficient. Which points these are decides how much rounding errors grow.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.ir import Const, Expr, ExprLike, Select, as_expr, equal
from tensorsmith.ir.dtype import DType
from tensorsmith.ops.channels import Channels, channels_of
from tensorsmith.ops.convolution import finished
from tensorsmith.ops.indexing import check_extents, check_type, ranges, zero
from tensorsmith.ops.operands import check_rank
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.padding import padded
from tensorsmith.ops.windows import Windows, windows
from tensorsmith.te import Tensor

TAPS: Final = 3
"""Taps of a kernel along each dimension."""
POINTS: Final[dict[int, tuple[Fraction, ...]]] = {
    2: tuple(map(Fraction, (0, 1, -1))),
    4: tuple(map(Fraction, ("0", "5/8", "-5/8", "3/2", "-3/2"))),
}
"""For each number of results that a tile has along a dimension, where polynomials are evaluated.

Those for 4 have the least error among 0 and two pairs of eighths; with the usual 1 and 2 it is
three times as large. Pairs of opposite points share the even and odd parts of their sums.
"""
TOGETHER: Final = 4
"""Tiles side by side that are always computed together where the call tells how long a row is."""
WIDE: Final = "float64"
"""What kernels are taken to the points in, to be rounded once."""

Matrix = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True, slots=True)
class Maps:
    """The linear maps of one dimension: ``result @ ((kernel @ g) * (image @ d))``.

    image: from the elements of a tile to the points. kernel: from the taps to the points. result:
    from the points to the results.
    """

    image: Matrix
    kernel: Matrix
    result: Matrix


@functools.cache
def maps(tile: int) -> Maps:
    """The maps for tiles of so many results.

    They are the transposes of those that multiply two polynomials: evaluate both, multiply, and
    interpolate (Toom and Cook). The last row is the highest coefficient, the value at infinity.
    """
    points = POINTS[tile]
    size = tile + TAPS - 1
    image, kernel = [], []
    for at, p in enumerate(points):
        others = points[:at] + points[at + 1 :]
        scale = Fraction(1)
        for q in others:
            scale *= p - q
        image.append(_filled(_with_roots(others), size))
        kernel.append(tuple(p**k / scale for k in range(TAPS)))
    image.append(_with_roots(points))
    kernel.append((*_filled((), TAPS - 1), Fraction(1)))
    result = [(*(p**k for p in points), Fraction(1 if k == tile - 1 else 0)) for k in range(tile)]
    return Maps(tuple(image), tuple(kernel), tuple(result))


def _with_roots(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """The coefficients, lowest first, of the polynomial ``(x - r) * ...``."""
    made = [Fraction(1)]
    for r in roots:
        above, below = [Fraction(0), *made], [*made, Fraction(0)]
        made = [a - r * b for a, b in zip(above, below, strict=True)]
    return tuple(made)


def _filled(values: tuple[Fraction, ...], size: int) -> tuple[Fraction, ...]:
    return values + (Fraction(0),) * (size - len(values))


# --- Linear maps of expressions --------------------------------------------------------------


def mapped(matrix: Matrix, values: Sequence[Expr]) -> list[Expr]:
    """What a matrix makes of values. Pairs of columns, or of rows, that are equal but for signs are
    computed from what they share."""
    rows = [list(row) for row in matrix]
    terms = list(values)
    for a, b in combinations(range(len(values)), 2):
        if not _are_alike([r[a] for r in rows], [r[b] for r in rows]):
            continue
        terms += [terms[a] + terms[b], terms[a] - terms[b]]
        for r in rows:
            r.extend((r[a], Fraction(0)) if r[a] == r[b] else (Fraction(0), r[a]))
            r[a] = r[b] = Fraction(0)
    made: dict[int, Expr] = {}
    for a, b in combinations(range(len(rows)), 2):
        if a not in made and b not in made and _are_alike(rows[a], rows[b]):
            made[a], made[b] = _sum_and_difference(rows[a], rows[b], terms)
    return [made[at] if at in made else combined(r, terms) for at, r in enumerate(rows)]


def _are_alike(a: Sequence[Fraction], b: Sequence[Fraction]) -> bool:
    """Whether two sequences are equal but for signs, some of which are equal and some are not."""
    signs = {x == y for x, y in zip(a, b, strict=True) if x}
    return len(signs) > 1 and all(abs(x) == abs(y) for x, y in zip(a, b, strict=True))


def _sum_and_difference(
    a: Sequence[Fraction], b: Sequence[Fraction], terms: Sequence[Expr]
) -> tuple[Expr, Expr]:
    """What two rows that are alike make of values."""
    equal_part = [x if x == y else Fraction(0) for x, y in zip(a, b, strict=True)]
    other_part = [x - y for x, y in zip(a, equal_part, strict=True)]
    factor = next(x for x in reversed(other_part) if x)
    even = combined(equal_part, terms)
    odd = combined([x / factor for x in other_part], terms)
    type_ = even.dtype
    return odd * _number(factor, type_) + even, odd * _number(-factor, type_) + even


def combined(row: Sequence[Fraction], terms: Sequence[Expr]) -> Expr:
    """The sum of the terms, each times its factor."""
    total: Expr | None = None
    for factor, term in zip(row, terms, strict=True):
        if factor:
            part = term if factor == 1 else term * _number(factor, term.dtype)
            total = part if total is None else total + part
    assert total is not None
    return total


def _number(value: Fraction, type_: DType) -> Expr:
    return T.const(float(value), type_.name)


def _picked(at: Expr, values: Sequence[Expr]) -> Expr:
    """The value of this number."""
    *others, chosen = values
    for k in reversed(range(len(others))):
        chosen = Select(equal(at, k), others[k], chosen)
    return chosen


# --- The convolution -------------------------------------------------------------------------


def winograd_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    block: int,
    pads: tuple[ExprLike, ...] = (),
    tile: int = 4,
) -> Tensor:
    """`blocked_conv` with a kernel of three by three taps, by minimal filtering, in float32.

    x: (n, c / b, h, w, b). tile: results of a tile along each dimension, 2 or 4. The result differs
    by rounding: for tiles of 4 as much as the plain sum does from the exact one, about.
    """
    for operand in (x, weight, *(() if bias is None else (bias,))):
        check_type(operand, "float32", "an operand of winograd_conv")
    if tile not in POINTS:
        raise ShapeError(f"no tiles of {tile} results", try_=f"one of {sorted(POINTS)}")
    check_rank("winograd_conv", x, 5, 5)
    check_rank("winograd_conv", weight, 4, 4)
    given, made = channels_of(x, 2), Channels(weight.shape[0], block)
    check_extents(given.extent, weight.shape[1], "channels of a convolution and of its weight")
    for taps in weight.shape[2:]:
        check_extents(taps, TAPS, "taps of a kernel for winograd_conv")
    shape = windows(x.shape[2:4], weight.shape[2:], (), (), pads)
    counts, facts = shape.counts(), Analyzer()
    whole = [tile, tile if isinstance(counts[1], Const) else tile * TOGETHER]
    tiles = [
        facts.simplify((n + size - 1) // size * (size // tile))
        for n, size in zip(counts, whole, strict=True)
    ]
    columns = facts.simplify(tiles[1] * tile + TAPS - 1)
    points = _image_points(_image_rows(x, shape, (tiles[0], columns), tile), tiles, tile)
    products = _products(points, _kernel_points(weight, tile), given, made)
    result = _results(_result_rows(products, tile), counts, tile)
    return finished(result, bias, "float32", made)


def _image_rows(x: Tensor, shape: Windows, extents: Sequence[Expr], tile: int) -> Tensor:
    """(n, c / b, rows of tiles, points, columns, b): the image, mapped along its columns."""
    matrix, outside = maps(tile).image, zero(x.dtype)
    points = as_expr(len(matrix))
    whole = (*x.shape[:2], extents[0], points, extents[1], x.shape[4])

    def element(n: Expr, c: Expr, ty: Expr, i: Expr, column: Expr, lane: Expr) -> Expr:
        known = ranges((n, c, ty, i, column, lane), whole)
        at = known.simplify(column - shape.before[1])
        pixels = []
        for k in range(len(matrix)):
            row = known.simplify(ty * tile + k - shape.before[0])
            pixels.append(padded(x, (n, c, row, at, lane), outside, known))
        return _picked(i, mapped(matrix, pixels))

    return te.compute(whole, element, "image_rows")


def _image_points(rows: Tensor, tiles: Sequence[Expr], tile: int) -> Tensor:
    """(points, points, n, c / b, *tiles, b): the same, mapped along its rows, too."""
    matrix = maps(tile).image
    size = len(matrix)

    def element(i: Expr, j: Expr, n: Expr, c: Expr, *rest: Expr) -> Expr:
        ty, tx, lane = rest
        values = [rows[n, c, ty, i, tx * tile + k, lane] for k in range(size)]
        return _picked(j, mapped(matrix, values))

    points = as_expr(size)
    whole = (points, points, *rows.shape[:2], *tiles, rows.shape[5])
    return te.compute(whole, element, "image_points")


def _kernel_points(weight: Tensor, tile: int) -> Tensor:
    """(points, points, c, m): the kernels, mapped along both dimensions and rounded once."""
    matrix = maps(tile).kernel
    size = len(matrix)

    def element(i: Expr, j: Expr, c: Expr, m: Expr) -> Expr:
        along = []
        for b in range(TAPS):
            taps = [T.cast(weight[m, c, a, b], WIDE) for a in range(TAPS)]
            along.append(_picked(i, [combined(row, taps) for row in matrix]))
        found = _picked(j, [combined(row, along) for row in matrix])
        return T.cast(found, weight.dtype)

    return te.compute((size, size, *weight.shape[1::-1]), element, "kernel_points")


def _products(points: Tensor, kernels: Tensor, given: Channels, made: Channels) -> Tensor:
    """(points, points, n, m / block, *tiles, block): the sums over the channels."""
    size, _, batch, _, *tiles, _ = points.shape
    outer, inner = given.axes()

    def element(i: Expr, j: Expr, n: Expr, m: Expr, *rest: Expr) -> te.Reduce:
        ty, tx, lane = rest
        value = points[i, j, n, outer, ty, tx, inner]
        factor = kernels[i, j, given.number(outer.var, (inner.var,)), made.number(m, (lane,))]
        return te.sum(value * factor, axis=(outer, inner))

    whole = (size, size, batch, made.lead, *tiles, *made.trail)
    return te.compute(whole, element, "products")


def _result_rows(products: Tensor, tile: int) -> Tensor:
    """(n, m / block, rows of tiles, tile, tiles, points, block): mapped back along the columns."""
    size, _, batch, lead, high, wide, block = products.shape
    matrix = maps(tile).result

    def element(n: Expr, m: Expr, ty: Expr, y: Expr, *rest: Expr) -> Expr:
        tx, j, lane = rest
        values = [products[k, j, n, m, ty, tx, lane] for k in range(len(matrix[0]))]
        return _picked(y, mapped(matrix, values))

    return te.compute((batch, lead, high, tile, wide, size, block), element, "result_rows")


def _results(rows: Tensor, counts: Sequence[Expr], tile: int) -> Tensor:
    """(n, m / block, *counts, block): mapped back along the rows, too."""
    matrix = maps(tile).result
    facts = Analyzer()

    def element(n: Expr, m: Expr, y: Expr, x: Expr, lane: Expr) -> Expr:
        values = [
            rows[n, m, y // tile, y % tile, x // tile, k, lane] for k in range(len(matrix[0]))
        ]
        return _picked(facts.simplify(x % tile), mapped(matrix, values))

    return te.compute((*rows.shape[:2], *counts, rows.shape[6]), element, "winograd_conv")


OPERATORS: Final[tuple[Operator, ...]] = operators(winograd_conv)
