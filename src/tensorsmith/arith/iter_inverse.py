"""Inverses of iterator maps: the loop variables in terms of the bindings' values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorsmith.arith.analyzer import Analyzer
from tensorsmith.arith.iter_map import IterMap
from tensorsmith.arith.iter_sum import ONE, ZERO, Fused, IterMark, IterSplit, is_one, is_zero
from tensorsmith.errors import ArithError
from tensorsmith.ir.expr import Expr, Le, Lt, Or, Var
from tensorsmith.ir.stmt import TRUE


def inverse(
    iter_map: IterMap, outputs: Sequence[Expr], analyzer: Analyzer | None = None
) -> dict[Var, Expr]:
    """The loop variables in terms of `outputs`, the values of the bindings.

    Right for those outputs that the map takes, which for a bijective map is its whole box. Loop
    variables of extent 1 have their start. Raises ArithError if the map is not injective.
    """
    analyzer = analyzer or Analyzer()
    with analyzer.scope():
        _bind_outputs(iter_map, outputs, analyzer)
        values = _mark_values(iter_map, outputs, analyzer)
        found: dict[Var, Expr] = {}
        for mark, value in values.items():
            if isinstance(mark.source, Var):
                found[mark.source] = analyzer.simplify(mark.start + value)
        return {
            var: found.get(var, analyzer.simplify(start))
            for var, (start, _) in iter_map.ranges.items()
        }


def padding_predicate(
    iter_map: IterMap, outputs: Sequence[Expr], analyzer: Analyzer | None = None
) -> Expr:
    """Where in its box the map takes no point, in terms of `outputs`: a bool, simplified.

    false for a bijective map.
    """
    analyzer = analyzer or Analyzer()
    with analyzer.scope():
        _bind_outputs(iter_map, outputs, analyzer)
        values = _mark_values(iter_map, outputs, analyzer)
        holes: list[Expr] = []
        for mark in iter_map.padded:
            if not is_zero(mark.first):
                holes.append(Lt(values[mark], mark.first))
            holes.append(Le(mark.extent, values[mark]))
        holes = [analyzer.simplify(h) for h in holes]
        padding = ~TRUE
        for hole in holes:
            padding = Or(padding, hole)
        return analyzer.simplify(padding)


def _bind_outputs(iter_map: IterMap, outputs: Sequence[Expr], analyzer: Analyzer) -> None:
    if len(outputs) != len(iter_map.bindings):
        raise ArithError(
            f"the map has {len(iter_map.bindings)} bindings, and {len(outputs)} outputs are given"
        )
    for output, start, extent in zip(outputs, iter_map.starts, iter_map.extents, strict=True):
        if isinstance(output, Var):
            analyzer.bind(output, start, extent)


def _mark_values(
    iter_map: IterMap, outputs: Sequence[Expr], analyzer: Analyzer
) -> Mapping[IterMark, Expr]:
    """The value of each mark: the sum of its digits, which those above it give."""
    if not iter_map.is_bijective and not iter_map.padded:
        raise ArithError(
            "the map has no inverse",
            given=", ".join(map(repr, iter_map.bindings)),
            because="several iterations have the same values",
        )
    digits: dict[IterSplit, Expr] = {}
    for fused, output in zip(iter_map.fused, outputs, strict=True):
        digits |= _digit_values(fused, output, analyzer)
    values: dict[IterMark, Expr] = {}
    for mark, splits in iter_map.uses.items():
        value: Expr = ZERO
        for s in splits:
            value = value + digits[s] * s.lower_factor
        values[mark] = analyzer.simplify(value)
        if isinstance(mark.source, Fused):
            digits |= _digit_values(mark.source, values[mark], analyzer)
    return values


def _digit_values(fused: Fused, value: Expr, analyzer: Analyzer) -> dict[IterSplit, Expr]:
    """The digits of a fused sum that has the value `value`."""
    number = analyzer.simplify((value - fused.low) // fused.unit)
    digits: dict[IterSplit, Expr] = {}
    scale: Expr = ONE
    last = len(fused.digits) - 1
    for at, (s, descending) in enumerate(zip(fused.digits, fused.descending, strict=True)):
        digit = number if is_one(scale) else number // scale
        digit = digit if at == last else digit % s.extent
        digits[s] = s.extent - 1 - digit if descending else digit
        scale = analyzer.simplify(scale * s.extent)
    return digits
