"""What sampling primitives choose between, and how likely each choice is.

Every choice is a *decision*: a plain value that the trace keeps, and that replaces the draw when it
is given. A decision that is not possible (any more) raises ScheduleError.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, prod
from typing import Any, Final

import numpy as np

from tensorsmith.ir import Const, Expr, For, TensorProgram, Var
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.tree import find_loop

Factors = list[int | None]
"""Extents of loops, outermost first; None for the outermost: as many as are needed."""

LARGEST_SYMBOLIC_FACTOR: Final = 64
"""Powers of two up to this are tried where an extent is not known."""

LARGEST_EXTENT: Final = 1 << 40
"""Extents beyond this are not factored."""


def extent_of(program: TensorProgram, var: Var) -> Expr:
    """The extent of a loop."""
    loop = find_loop(program, var).node
    assert isinstance(loop, For)
    return loop.extent


def prime_factors(n: int) -> dict[int, int]:
    """The exponent of each prime that divides n >= 1. Cost: O(sqrt(n)).

    >>> prime_factors(360)
    {2: 3, 3: 2, 5: 1}
    """
    found: dict[int, int] = {}
    p = 2
    while p * p <= n:
        while n % p == 0:
            found[p] = found.get(p, 0) + 1
            n //= p
        p += 1 if p == 2 else 2
    if n > 1:
        found[n] = found.get(n, 0) + 1
    return found


def divisors(n: int) -> list[int]:
    """The divisors of n >= 1, in ascending order."""
    found = [1]
    for p, exponent in prime_factors(n).items():
        found = [d * p**e for d in found for e in range(exponent + 1)]
    return sorted(found)


def count_tilings(extent: int, parts: int) -> int:
    """In how many ways `extent` is a product of `parts` factors, in order."""
    if parts == 0:
        return int(extent == 1)
    return prod(comb(e + parts - 1, parts - 1) for e in prime_factors(extent).values())


def draw_perfect_tile(
    extent: int, parts: int, max_innermost: int, random: np.random.Generator
) -> list[int]:
    """Factors whose product is `extent`, each such list equally likely, the last one at most
    `max_innermost` (unless it is the only one)."""
    if parts == 1:
        return [extent]
    choices = [d for d in divisors(extent) if d <= max_innermost]
    ways = np.array([count_tilings(extent // d, parts - 1) for d in choices], float)
    innermost = choices[int(random.choice(len(choices), p=ways / ways.sum()))]
    return [*_draw_tiling(extent // innermost, parts - 1, random), innermost]


def _draw_tiling(extent: int, parts: int, random: np.random.Generator) -> list[int]:
    """A product of `parts` factors, uniformly: each prime's exponent is cut at random places."""
    factors = [1] * parts
    for p, exponent in prime_factors(extent).items():
        bars = np.sort(random.choice(exponent + parts - 1, parts - 1, replace=False))
        edges = [-1, *map(int, bars), exponent + parts - 1]
        for at in range(parts):
            factors[at] *= p ** (edges[at + 1] - edges[at] - 1)
    return factors


def draw_symbolic_tile(parts: int, max_innermost: int, random: np.random.Generator) -> Factors:
    """None, then powers of two whose product is at most `LARGEST_SYMBOLIC_FACTOR` ** 2."""
    inner: list[int] = []
    room = LARGEST_SYMBOLIC_FACTOR.bit_length() - 1
    for at in range(parts - 1):
        most = min(max_innermost, LARGEST_SYMBOLIC_FACTOR) if at == 0 else LARGEST_SYMBOLIC_FACTOR
        exponent = int(random.integers(0, min(room * 2, most.bit_length() - 1) + 1))
        room -= exponent // 2
        inner.insert(0, 1 << exponent)
    return [None, *inner]


def perfect_tile(
    extent: Expr,
    parts: int,
    max_innermost: int,
    decision: Sequence[int | None] | None,
    random: np.random.Generator,
) -> Factors:
    """The factors that `decision` says, else drawn ones. See `Schedule.sample_perfect_tile`."""
    name = "sample_perfect_tile"
    if parts < 1 or max_innermost < 1:
        raise ScheduleError(f"{name} takes positive numbers", given=f"{parts}, {max_innermost}")
    if decision is None:
        known = _known(extent)
        if known is None:
            return draw_symbolic_tile(parts, max_innermost, random)
        return [*draw_perfect_tile(known, parts, max_innermost, random)]
    return checked_factors(name, extent, parts, decision)


def checked_factors(name: str, extent: Expr, parts: int, decision: Sequence[int | None]) -> Factors:
    """A decision as factors. Raises ScheduleError if they do not tile the extent."""
    known = _known(extent)
    given = list(decision) if isinstance(decision, (list, tuple)) else []
    counted = given if known is not None else given[1:]
    fits = len(given) == parts and (known is not None or given[0] is None)
    if not (fits and all(map(_is_count, counted))):
        wanted = "positive numbers" if known is not None else "None, then positive numbers"
        raise ScheduleError(
            f"{name}: the decision is not {parts} factors: {wanted}", given=repr(decision)[:60]
        )
    factors: Factors = [None if f is None else int(f) for f in given]
    if known is not None and prod(f or 1 for f in factors) != known:
        raise ScheduleError(
            f"{name}: the factors {factors!r} are no perfect tile of {known} iterations"
        )
    return factors


def _is_count(v: object) -> bool:
    return isinstance(v, int) and not isinstance(v, bool) and v > 0


def _known(extent: Expr) -> int | None:
    if not isinstance(extent, Const) or not 1 <= int(extent.value) <= LARGEST_EXTENT:
        return None
    return int(extent.value)


def partitioned_tile(
    extent: Expr,
    cut: tuple[int, int],
    inner_extent: int,
    decision: Sequence[int | None] | None,
    random: np.random.Generator,
) -> Factors:
    """See `Schedule.sample_partitioned_tile`. cut: factors before and after the partition."""
    name = "sample_partitioned_tile"
    before, after = cut
    if before < 1 or after < 1 or inner_extent < 1:
        raise ScheduleError(
            f"{name} needs a factor on each side of the partition, and a positive inner extent",
            given=f"{before} and {after} factors, inner extent {inner_extent}",
        )
    known = _known(extent)
    if known is not None and known % inner_extent != 0:
        raise ScheduleError(
            f"{name}: the inner extent {inner_extent} does not divide the extent {known}",
            try_=f"one of {', '.join(map(str, divisors(known)[:12]))}",
        )
    if decision is None:
        inner = _draw_tiling(inner_extent, after, random)
        if known is None:
            return [*draw_symbolic_tile(before, LARGEST_SYMBOLIC_FACTOR, random), *inner]
        return [*_draw_tiling(known // inner_extent, before, random), *inner]
    factors = checked_factors(name, extent, before + after, decision)
    if prod(f or 1 for f in factors[before:]) != inner_extent:
        raise ScheduleError(
            f"{name}: the last {after} factors of {factors!r} do not make {inner_extent}"
        )
    return factors


def categorical(
    candidates: Sequence[int],
    probabilities: Sequence[float] | None,
    decision: int | None,
    random: np.random.Generator,
) -> int:
    """The index of a candidate. See `Schedule.sample_categorical`."""
    name = "sample_categorical"
    if not candidates:
        raise ScheduleError(f"{name} needs candidates")
    if decision is not None:
        return checked_index(name, decision, 0, len(candidates))
    if probabilities is None:
        return int(random.integers(len(candidates)))
    weights = _weights(name, probabilities, len(candidates))
    return int(random.choice(len(candidates), p=weights))


def _weights(name: str, probabilities: Sequence[float], number: int) -> Any:  # an array
    weights = np.asarray(probabilities, float)
    if weights.shape != (number,) or not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ScheduleError(
            f"{name} needs one probability, 0 or more, for each of {number} candidates",
            given=repr(list(probabilities))[:60],
        )
    if weights.sum() <= 0:
        raise ScheduleError(f"{name}: no candidate has a probability above 0")
    return weights / weights.sum()


def checked_index(name: str, decision: object, low: int, high: int) -> int:
    """A decision as a number from `low` to ``high - 1``. Raises ScheduleError if it is not."""
    if isinstance(decision, bool) or not isinstance(decision, int) or not low <= decision < high:
        raise ScheduleError(
            f"{name}: the decision {str(decision)[:60]!r} is not a number from {low} to {high - 1}"
        )
    return int(decision)
