"""Division of an iterator map into an outer and an inner part, as making a block of loops needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tensorsmith.arith.analyzer import Analyzer
from tensorsmith.arith.iter_algebra import IterAlgebra
from tensorsmith.arith.iter_map import Ranges, detect_iter_map
from tensorsmith.arith.iter_sum import (
    ONE,
    ZERO,
    Fused,
    IterSplit,
    IterSum,
    is_one,
    split_value,
    variables_under,
)
from tensorsmith.errors import ArithError
from tensorsmith.ir.expr import Expr, Var
from tensorsmith.ir.stmt import TRUE


class Division(NamedTuple):
    """``binding == outer * inner_extent + inner``.

    `outer` takes `outer_extent` values in a row, whatever the inner variables are, and `inner`
    `inner_extent` values. Where the binding starts at 0, so do both.
    """

    outer: Expr
    inner: Expr
    outer_extent: Expr
    inner_extent: Expr


def subspace_divide(
    bindings: Sequence[Expr],
    ranges: Ranges,
    inner_vars: Collection[Var],
    predicate: Expr = TRUE,
    *,
    analyzer: Analyzer | None = None,
) -> list[Division]:
    """Each binding as an outer part, free of `inner_vars`, and an inner part of them alone.

    A predicate that ties outer to inner variables is left to the caller: the parts then range over
    the whole box of the digits, ``outer * inner_extent + inner < n`` still to be checked.
    Raises ArithError if the bindings are not quasi-affine, or where no such parts exist: an inner
    variable stands above an outer one in a binding, or a digit is of both.
    """
    analyzer = analyzer or Analyzer()
    detected = detect_iter_map(bindings, ranges, predicate, bijective=False, analyzer=analyzer)
    with analyzer.scope():
        for var, (start, extent) in ranges.items():
            analyzer.bind(var, start, extent)
        algebra = IterAlgebra(ranges, analyzer)
        return [
            _divide(binding, fused, frozenset(inner_vars), algebra)
            for binding, fused in zip(detected.bindings, detected.fused, strict=True)
        ]


def _divide(binding: Expr, fused: Fused, inner: frozenset[Var], algebra: IterAlgebra) -> Division:
    parts = algebra.fuse(_expand_mixed(_sum_of(fused), inner, algebra))
    if parts is None:
        raise _refusal(binding, inner, "a bound of the predicate ties outer and inner variables")
    sides = [_is_inner(s, inner) for s in parts.digits]
    if None in sides:
        raise _refusal(binding, inner, "one digit depends on outer and on inner variables")
    count = sides.index(False) if False in sides else len(sides)
    if True in sides[count:]:
        raise _refusal(binding, inner, "an inner variable stands above an outer one")
    inner_extent = _extent(parts.digits[:count], algebra)
    outer_extent = _extent(parts.digits[count:], algebra)
    simplify = algebra.simplify
    base = _sum_of(parts).base
    outer_base, inner_base = _divide_base(base, inner_extent, count == len(sides), algebra)
    outer, low = outer_base, inner_base
    for s in parts.digits[:count]:
        low = low + split_value(s)
    for s in parts.digits[count:]:
        outer = outer + split_value(s.scaled(simplify(s.scale // inner_extent)))
    return Division(simplify(outer), simplify(low), outer_extent, inner_extent)


def _divide_base(
    base: Expr, inner_extent: Expr, no_outer: bool, algebra: IterAlgebra
) -> tuple[Expr, Expr]:
    if no_outer:
        return ZERO, base
    if is_one(inner_extent):
        return base, ZERO
    return algebra.simplify(base // inner_extent), algebra.simplify(base % inner_extent)


def _sum_of(fused: Fused) -> IterSum:
    """A fused sum as a plain one."""
    base = fused.low
    for s, descending in zip(fused.digits, fused.descending, strict=True):
        base = base - s.scale * (s.extent - 1) if descending else base
    return IterSum(fused.digits, base)


def _expand_mixed(total: IterSum, inner: frozenset[Var], algebra: IterAlgebra) -> IterSum:
    """`total` with whole marks of both outer and inner variables replaced by their sources."""
    while True:
        mixed = [s for s in total.splits if _is_inner(s, inner) is None and _is_whole(s)]
        if not mixed:
            return total
        splits = [s for s in total.splits if s not in mixed]
        base = total.base
        for s in mixed:
            assert isinstance(s.source.source, Fused)
            source = algebra.scale(_sum_of(s.source.source), s.scale)
            splits += source.splits
            base = base + source.base
        total = algebra.make_sum(splits, base)


def _is_whole(s: IterSplit) -> bool:
    return (
        isinstance(s.source.source, Fused)
        and is_one(s.lower_factor)
        and (s.extent is s.source.extent)
    )


def _is_inner(s: IterSplit, inner: frozenset[Var]) -> bool | None:
    """Whether a digit is of inner variables alone; None if it is of both kinds."""
    variables = variables_under((s,))
    if variables <= inner:
        return True
    return None if variables & inner else False


def _extent(splits: Sequence[IterSplit], algebra: IterAlgebra) -> Expr:
    extent: Expr = ONE
    for s in splits:
        extent = s.extent if extent is ONE else algebra.simplify(extent * s.extent)
    return extent


def _refusal(binding: Expr, inner: frozenset[Var], reason: str) -> ArithError:
    names = ", ".join(sorted(v.name for v in inner))
    return ArithError(
        f"{binding!r} cannot be divided into an outer and an inner part",
        given=f"inner variables: {names}",
        because=reason,
    )
