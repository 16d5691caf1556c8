"""Quasi-affine iterators: marks, splits, sums, and fused sums.

The pieces of which an iterator map is made. Source: the quasi-affine part of Feng et al., TensorIR,
ASPLOS 2023, section 3.3; the digits of a mixed-radix number are the picture to keep in mind:

* a *mark* is a source of values, a loop variable or a fused sum, counted from 0;
* a *split* is one digit of a mark, ``mark // lower_factor % extent``, times a scale;
* a *sum* adds splits and a base that has no loop variables;
* a *fused* sum is a sum whose splits, in some order, are the digits of one number: the scale of
  each is the scale times the extent of the one before. It takes every value of its range exactly
  once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from tensorsmith.ir.expr import Const, Expr, Var, const

ZERO: Final = const(0)
ONE: Final = const(1)


@dataclass(frozen=True, slots=True, eq=False)
class IterMark:
    """A source of values ``first <= value < extent``.

    source: a variable, whose value is ``start`` more than the mark's, or a fused sum, of which the
        mark has the values that lie in its range. `first` is 0 unless a sum is padded on the left
        to be divisible.
    serial: counts the marks of a map; a mark's source has lower ones only.
    """

    source: Var | Fused
    start: Expr
    first: Expr
    extent: Expr
    serial: int


Digit: TypeAlias = tuple[IterMark, Expr, Expr]
"""What identifies a digit: its mark, lower factor and extent."""


@dataclass(frozen=True, slots=True, eq=False)
class IterSplit:
    """``source // lower_factor % extent * scale``.

    The extent of the uppermost digit of a mark may be rounded up.
    """

    source: IterMark
    lower_factor: Expr
    extent: Expr
    scale: Expr

    @property
    def digit(self) -> Digit:
        """The split without its scale."""
        return self.source, self.lower_factor, self.extent

    def scaled(self, scale: Expr) -> IterSplit:
        """The same digit with another scale."""
        return IterSplit(self.source, self.lower_factor, self.extent, scale)


@dataclass(frozen=True, slots=True, eq=False)
class IterSum:
    """The sum of `splits`, no two of one digit, and of `base`."""

    splits: tuple[IterSplit, ...]
    base: Expr

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for sums of equal parts in equal order."""
        return (*((s.digit, s.scale) for s in self.splits), self.base)


@dataclass(frozen=True, slots=True, eq=False)
class Fused:
    """A sum that is ``low + unit * number``, with ``0 <= number < extent``.

    digits: the digits of the number, least significant first. A digit with a negative scale counts
    downwards: it stands for ``extent - 1 - digit``.
    """

    digits: tuple[IterSplit, ...]
    descending: tuple[bool, ...]
    unit: Expr
    low: Expr
    extent: Expr

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for fused sums of equal digits."""
        return tuple(zip((s.digit for s in self.digits), self.descending, strict=True))


def is_one(e: Expr) -> bool:
    """Whether `e` is the constant 1."""
    return type(e) is Const and e.value == 1


def is_zero(e: Expr) -> bool:
    """Whether `e` is the constant 0."""
    return type(e) is Const and e.value == 0


def marks_under(marks: Iterable[IterMark]) -> list[IterMark]:
    """`marks` and every mark that they are made of, each once."""
    found: dict[IterMark, None] = {}
    stack = list(marks)
    while stack:
        mark = stack.pop()
        if mark in found:
            continue
        found[mark] = None
        if isinstance(mark.source, Fused):
            stack.extend(s.source for s in mark.source.digits)
    return list(found)


def variables_under(splits: Iterable[IterSplit]) -> set[Var]:
    """The loop variables that `splits` are made of."""
    marks = marks_under(s.source for s in splits)
    return {m.source for m in marks if isinstance(m.source, Var)}


def mark_value(mark: IterMark) -> Expr:
    """The value of a mark in terms of loop variables; not simplified."""
    if isinstance(mark.source, Var):
        return mark.source - mark.start
    return fused_value(mark.source)


def fused_value(fused: Fused) -> Expr:
    """The value of a fused sum in terms of loop variables; not simplified."""
    value = fused.low
    for split, descending in zip(fused.digits, fused.descending, strict=True):
        term = split_value(split)
        value = value + term + (-(split.scale * (split.extent - 1)) if descending else ZERO)
    return value


def split_value(split: IterSplit) -> Expr:
    """The value of a split in terms of loop variables; not simplified."""
    value = mark_value(split.source)
    if not is_one(split.lower_factor):
        value = value // split.lower_factor
    if split.lower_factor is not ONE or split.extent is not split.source.extent:
        value = value % split.extent
    return value * split.scale
