"""Einstein sums: products of tensors whose axes are named, summed over those the result lacks."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Final

from tensorsmith.errors import ShapeError
from tensorsmith.ir import Const, Expr, Kind
from tensorsmith.ops.contract import Term, contracted, label_extents
from tensorsmith.ops.operands import one_dtype, rounded
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor

Labels = tuple[str, ...]
_TERM: Final = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")
_UNKNOWN: Final = 64.0
"""What an extent that is not constant counts as when the order of products is chosen."""


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand's axes, and of the result's.

    The axes of an ellipsis are labelled by their place from the end: '.1', '.0'.
    Raises ShapeError if the equation is malformed or does not fit the ranks.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not all(_TERM.fullmatch(t) for t in (*terms, right)):
        raise ShapeError(
            f"{equation!r} is no equation of an Einstein sum",
            because="terms are letters, with at most one '...', separated by commas",
        )
    if len(terms) != len(ranks):
        raise ShapeError(
            f"the equation {equation!r} has {_count(len(terms), 'term')}, and there are"
            f" {_count(len(ranks), 'operand')}"
        )
    labels = [_spread(t, rank, equation) for t, rank in zip(terms, ranks, strict=True)]
    widest = max((_dots(found) for found in labels), key=len)
    if arrow:
        result = tuple(right.partition("...")[0])
        if "..." in right:
            result = (*result, *widest, *right.partition("...")[2])
    else:
        counts = Counter(x for found in labels for x in found if not x.startswith("."))
        result = (*widest, *sorted(x for x, n in counts.items() if n == 1))
    known = {x for found in labels for x in found}
    if len(set(result)) < len(result) or not known.issuperset(result):
        raise ShapeError(
            f"the result of {equation!r} names an axis that no operand has, or one twice"
        )
    return labels, result


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _dots(labels: Labels) -> Labels:
    return tuple(x for x in labels if x.startswith("."))


def _spread(term: str, rank: int, equation: str) -> Labels:
    """The labels of a term, with one for each axis of the ellipsis."""
    before, dots, after = term.partition("...")
    free = rank - len(before) - len(after)
    if free < 0 or (free > 0 and not dots):
        raise ShapeError(
            f"the term {term!r} of {equation!r} does not fit an operand of rank {rank}"
        )
    return (*before, *(f".{k}" for k in reversed(range(free))), *after)


def einsum(*xs: Tensor, equation: str) -> Tensor:
    """The Einstein sum of the operands by an equation as ``'bij,bjk->bik'``.

    Three operands and more are multiplied two by two, in an order that keeps results small.
    Raises ShapeError for a malformed equation or operands that do not fit it.
    """
    if not xs:
        raise ShapeError("einsum takes one operand or more")
    type_ = one_dtype("einsum", Kind.BITS | Kind.FLOAT, *xs)
    labels, to = parse_equation(equation, [x.rank for x in xs])
    terms = [Term(x, found) for x, found in zip(xs, labels, strict=True)]
    extents = label_extents("einsum", terms)
    while len(terms) > 2:
        first, second = _cheapest(terms, to, extents)
        rest = [t for t in terms if t is not first and t is not second]
        terms = [*rest, _combined((first, second), rest, to, extents)]
    if len(terms) == 2:
        terms = [_alone(t, terms[1 - k], to, extents) for k, t in enumerate(terms)]
    product = contracted("einsum", terms, to, extents)
    return rounded(product, type_, "einsum_rounded")


def _kept(terms: Sequence[Term], rest: Sequence[Term], to: Labels) -> Labels:
    """The labels of a product that the result or another term needs, in order of first use."""
    needed = {*to, *(x for t in rest for x in t.labels)}
    return tuple(dict.fromkeys(x for t in terms for x in t.labels if x in needed))


def _cheapest(terms: Sequence[Term], to: Labels, extents: dict[str, Expr]) -> tuple[Term, Term]:
    """The two terms whose product is smallest, then takes the fewest operations."""

    def cost(pair: tuple[Term, Term]) -> tuple[float, float]:
        rest = [t for t in terms if t not in pair]
        every = dict.fromkeys((*pair[0].labels, *pair[1].labels))
        return _size(_kept(pair, rest, to), extents), _size(tuple(every), extents)

    return min(combinations(terms, 2), key=cost)


def _size(labels: Labels, extents: dict[str, Expr]) -> float:
    found = (extents[x] for x in labels)
    return math.prod(float(e.value) if isinstance(e, Const) else _UNKNOWN for e in found)


def _combined(
    terms: tuple[Term, Term], rest: Sequence[Term], to: Labels, extents: dict[str, Expr]
) -> Term:
    left, right = terms
    kept = _kept(terms, rest, to)
    pair = [_alone(left, right, kept, extents), _alone(right, left, kept, extents)]
    return Term(contracted("product", pair, kept, extents), kept)


def _alone(term: Term, other: Term, to: Labels, extents: dict[str, Expr]) -> Term:
    """`term` summed over the labels that neither the other one nor the result has."""
    kept = tuple(x for x in dict.fromkeys(term.labels) if x in to or x in other.labels)
    if len(kept) == len(set(term.labels)):
        return term
    return Term(contracted("partial", [term], kept, extents), kept)


OPERATORS: Final[tuple[Operator, ...]] = operators(einsum)
