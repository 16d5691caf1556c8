"""The algebra of index maps: layouts, relayouts and views of loop nests.

A map takes the indices of a shape to indices; its *image box* is a box around all of those.
``(i) -> (i // 4, i % 4)`` on extent 16 is a bijection onto (4, 4), and on extent 14 it leaves two
points of (4, 4) to padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tensorsmith.arith.analyzer import Analyzer
from tensorsmith.arith.iter_inverse import inverse as inverse_of
from tensorsmith.arith.iter_inverse import padding_predicate
from tensorsmith.arith.iter_map import Level, detect
from tensorsmith.arith.relax import symbolic_range
from tensorsmith.errors import ArithError, ShapeError
from tensorsmith.ir.buffer import IndexMap
from tensorsmith.ir.expr import Expr, ExprLike, Var, as_expr, as_exprs, const, substitute
from tensorsmith.ir.stmt import TRUE, ZERO, Iter, IterKind

Range = tuple[Expr, Expr]
"""A start and an extent."""


class PaddedInverse(NamedTuple):
    """The inverse of a map that is injective, and of what its image box has too much.

    inverse: from the image box to the map's inputs; right where `padding` is false.
    shape: the extents of the image box.
    padding: whether a point of the box is no image, in terms of the inverse's inputs.
    """

    inverse: IndexMap
    shape: tuple[Expr, ...]
    padding: Expr


# --- Common layouts --------------------------------------------------------------------------


def identity(rank: int) -> IndexMap:
    """``(i0, i1, ...) -> (i0, i1, ...)``."""
    return permuted(range(rank))


def permuted(order: Sequence[int]) -> IndexMap:
    """The map whose output ``d`` is the input ``order[d]``.

    >>> permuted((1, 0))
    IndexMap((i0, i1) -> (i1, i0))
    """
    if sorted(order) != list(range(len(order))):
        raise ShapeError(f"{list(order)} is not an order of {len(order)} dimensions")
    inputs = [Var(f"i{d}") for d in range(len(order))]
    return IndexMap(inputs, [inputs[d] for d in order])


def tiled(rank: int, tiles: Mapping[int, ExprLike]) -> IndexMap:
    """The dimensions in `tiles` cut into tiles of these sizes: outer indices first, then those
    inside of a tile, both in order of the dimensions.

    >>> tiled(2, {1: 8})
    IndexMap((i0, i1) -> (i0, i1 // 8, i1 % 8))
    """
    if unknown := sorted(tiles.keys() - set(range(rank))):
        raise ShapeError(f"there is no dimension {unknown[0]} among {rank} to be tiled")
    inputs = [Var(f"i{d}") for d in range(rank)]
    outer = [i // as_expr(tiles[d]) if d in tiles else i for d, i in enumerate(inputs)]
    inner = [inputs[d] % as_expr(tiles[d]) for d in sorted(tiles)]
    return IndexMap(inputs, [*outer, *inner])


# --- Algebra ---------------------------------------------------------------------------------


def compose(outer: IndexMap, inner: IndexMap, shape: Sequence[ExprLike] | None = None) -> IndexMap:
    """The map that applies `inner`, then `outer`; simplified, for indices of `shape` if given."""
    inputs = [v.renamed(v.name) for v in inner.inputs]
    outputs = outer(*inner(*inputs))
    analyzer = _analyzer(inputs, _shape(inner, shape) if shape is not None else None)
    return IndexMap(inputs, [analyzer.simplify(o) for o in outputs])


def map_ranges(
    index_map: IndexMap, ranges: Sequence[tuple[ExprLike, ExprLike]]
) -> tuple[Range, ...]:
    """The box, a start and extent for each output, around the images of the box `ranges`.

    The least box if the map is a bijection onto one; else one that covers them. Raises ArithError
    if an output has no bounds that could be said.
    """
    _check_rank(index_map, ranges)
    domain = {
        v: (as_expr(start), as_expr(extent))
        for v, (start, extent) in zip(index_map.inputs, ranges, strict=True)
    }
    try:
        detected = detect(index_map.outputs, domain, level=Level.INJECTIVE)
        return tuple(zip(detected.starts, detected.extents, strict=True))
    except ArithError:
        return tuple(_cover(output, domain) for output in index_map.outputs)


def _cover(output: Expr, domain: Mapping[Var, Range]) -> Range:
    analyzer = Analyzer()
    loops = [Iter(v, extent, IterKind.SPATIAL, v, start) for v, (start, extent) in domain.items()]
    for loop in loops:
        analyzer.bind(loop.var, loop.start, loop.extent)
    bounds = symbolic_range(analyzer.simplify(output), loops, analyzer)
    if bounds is None:
        raise ArithError(f"the output {output!r} of the map has no bounds that could be said")
    return bounds[0], analyzer.simplify(bounds[1] - bounds[0] + 1)


def map_shape(index_map: IndexMap, shape: Sequence[ExprLike]) -> tuple[Expr, ...]:
    """The extents of the image box of `shape`, counted from 0. Errors as `map_ranges`."""
    ranges = map_ranges(index_map, [(ZERO, e) for e in _shape(index_map, shape)])
    analyzer = Analyzer()
    return tuple(analyzer.simplify(start + extent) for start, extent in ranges)


def inverse(index_map: IndexMap, shape: Sequence[ExprLike]) -> IndexMap:
    """The inverse of a bijection from `shape` onto its image box.

    Raises ArithError, with the reason, if the map is not one or cannot be proven to be.
    """
    return _inverse(index_map, shape, Level.BIJECTIVE).inverse


def inverse_with_padding(index_map: IndexMap, shape: Sequence[ExprLike]) -> PaddedInverse:
    """The inverse of an injective map, whose image box may have points that are no images.

    Raises ArithError, with the reason, if the map is not injective or cannot be proven to be.
    """
    return _inverse(index_map, shape, Level.INJECTIVE)


def _inverse(index_map: IndexMap, shape: Sequence[ExprLike], level: Level) -> PaddedInverse:
    extents = _shape(index_map, shape)
    domain = {v: (ZERO, e) for v, e in zip(index_map.inputs, extents, strict=True)}
    detected = detect(index_map.outputs, domain, TRUE, level=level)
    for output, start in zip(index_map.outputs, detected.starts, strict=True):
        if Analyzer().prove(start >= 0) is not True:
            raise ArithError(f"the output {output!r} of the map may be negative")
    outputs = [Var(f"o{d}") for d in range(len(index_map.outputs))]
    values = inverse_of(detected, outputs)
    padding = _outside(outputs, detected.starts) if level is Level.INJECTIVE else ~TRUE
    analyzer = Analyzer()
    box = [
        analyzer.simplify(start + extent)
        for start, extent in zip(detected.starts, detected.extents, strict=True)
    ]
    analyzer = _analyzer(outputs, box)
    padding = analyzer.simplify(padding | padding_predicate(detected, outputs))
    inputs = [values[v] for v in index_map.inputs]
    return PaddedInverse(IndexMap(outputs, inputs), tuple(box), padding)


def _outside(outputs: Sequence[Var], starts: Sequence[Expr]) -> Expr:
    """Whether a point lies before the first image in some dimension."""
    outside: Expr = ~TRUE
    for output, start in zip(outputs, starts, strict=True):
        outside = outside | (output < start)
    return outside


def is_identity(index_map: IndexMap, shape: Sequence[ExprLike] | None = None) -> bool:
    """Whether the map is proven to give back its inputs, for indices of `shape` if given."""
    return is_equal(index_map, identity(len(index_map.inputs)), shape)


def is_equal(a: IndexMap, b: IndexMap, shape: Sequence[ExprLike] | None = None) -> bool:
    """Whether two maps are proven to be one up to the names of inputs, on `shape` if given."""
    if len(a.inputs) != len(b.inputs) or len(a.outputs) != len(b.outputs):
        return False
    analyzer = _analyzer(a.inputs, _shape(a, shape) if shape is not None else None)
    values: dict[Expr, Expr] = dict(zip(b.inputs, a.inputs, strict=True))
    return all(
        analyzer.equal(x, substitute(y, values)) for x, y in zip(a.outputs, b.outputs, strict=True)
    )


def _shape(index_map: IndexMap, shape: Sequence[ExprLike]) -> tuple[Expr, ...]:
    _check_rank(index_map, shape)
    return as_exprs(shape)


def _check_rank(index_map: IndexMap, axes: Sequence[object]) -> None:
    if len(axes) != len(index_map.inputs):
        raise ShapeError(
            f"the map takes {len(index_map.inputs)} indices, and the shape has rank {len(axes)}"
        )


def _analyzer(inputs: Sequence[Var], shape: Sequence[Expr] | None) -> Analyzer:
    analyzer = Analyzer()
    if shape is not None:
        for v, extent in zip(inputs, shape, strict=True):
            analyzer.bind(v, const(0), extent)
    return analyzer
