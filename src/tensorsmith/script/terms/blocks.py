"""Blocks: their iterators, and what they say of themselves.

Called by Python the functions only note their arguments. The parser calls them too, on the values
that it found in the source, and makes statements of the notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeAlias

from tensorsmith.errors import DTypeError, ScriptError
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import Expr, ExprLike, Load, as_expr
from tensorsmith.ir.stmt import IterKind
from tensorsmith.script.terms import checks
from tensorsmith.script.terms.attributes import attrs_of
from tensorsmith.script.terms.outside import run_by_python
from tensorsmith.script.terms.scalars import index_expr

RegionLike: TypeAlias = "Region | Buffer | Expr"


class _Context:
    """Something that stands in a ``with``."""

    def __enter__(self) -> Self:
        run_by_python("a block")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return


@dataclass(frozen=True)
class BlockStart(_Context):
    """``with T.block("name"):``."""

    name: str


@dataclass(frozen=True)
class InitStart(_Context):
    """``with T.init():``."""


def block(name: str = "") -> BlockStart:
    """A computation for each point of its iterators: ``with T.block("C"):``."""
    return BlockStart(checks.string(name, "the name of a block"))


def init() -> InitStart:
    """What a block does first, before its reduction starts: ``with T.init():``."""
    return InitStart()


@dataclass(frozen=True)
class Iteration:
    """An iterator of a block, without its name."""

    kind: IterKind
    extent: Expr
    binding: Expr
    start: Expr


def _iterator(kind: IterKind, extent: ExprLike, binding: ExprLike, start: ExprLike) -> Expr:
    # For Python's type checkers a script's iterator is an index.
    return Iteration(  # type: ignore[return-value]
        kind, index_expr(extent), index_expr(binding), index_expr(start)
    )


def spatial(extent: ExprLike, binding: ExprLike, *, start: ExprLike = 0) -> Expr:
    """A block iterator of which each value writes its own elements: any order is right."""
    return _iterator(IterKind.SPATIAL, extent, binding, start)


def reduce(extent: ExprLike, binding: ExprLike, *, start: ExprLike = 0) -> Expr:
    """A block iterator whose values a commutative and associative reducer combines."""
    return _iterator(IterKind.REDUCE, extent, binding, start)


def opaque(extent: ExprLike, binding: ExprLike, *, start: ExprLike = 0) -> Expr:
    """A block iterator whose values come in the order written."""
    return _iterator(IterKind.OPAQUE, extent, binding, start)


@dataclass(frozen=True)
class Remap:
    """Iterators that are bound to whole loops."""

    kinds: tuple[IterKind, ...]
    loops: tuple[Expr, ...]


_LETTERS: Final = {"S": IterKind.SPATIAL, "R": IterKind.REDUCE, "O": IterKind.OPAQUE}


def remap(kinds: str, *loops: Expr) -> tuple[Expr, ...]:
    """One iterator a loop, which takes the loop's values: ``vi, vk = T.remap("SR", i, k)``.

    kinds: a letter each: S spatial, R reduce, O opaque.
    """
    if wrong := sorted(set(kinds) - set(_LETTERS)):
        raise ScriptError(f"{wrong[0]!r} is not a kind of iterator", try_="the letters S, R and O")
    if len(kinds) != len(loops):
        raise ScriptError(f"T.remap has {len(kinds)} kinds for {len(loops)} loops")
    # For Python's type checkers the iterators are indices.
    return Remap(tuple(_LETTERS[k] for k in kinds), loops)  # type: ignore[return-value]


@dataclass(frozen=True)
class Clause:
    """What a block says of itself: the field `Block` has for it, and its value."""

    field: str
    value: object


def where(predicate: ExprLike) -> Clause:
    """The points for which the block runs, in terms of the loops around it."""
    e = as_expr(predicate)
    if not e.dtype.is_bool:
        raise DTypeError(f"a predicate is bool, and {e!r} is {e.dtype}")
    return Clause("predicate", e)


def reads(*regions: RegionLike) -> Clause:
    """The regions that the block reads, where the accesses in it do not tell."""
    return Clause("reads", tuple(map(region_of, regions)))


def writes(*regions: RegionLike) -> Clause:
    """The regions that the block writes, where the accesses in it do not tell."""
    return Clause("writes", tuple(map(region_of, regions)))


def block_attrs(attrs: Mapping[str, object]) -> Clause:
    """Attributes of the block."""
    return Clause("attrs", attrs_of(attrs))


def region_of(value: RegionLike) -> Region:
    """A region from ``A``, ``A[i, j]`` or ``A[i, 0:4]``. Raises ScriptError for something else."""
    if isinstance(value, Region):
        return value
    if isinstance(value, Buffer):
        return value.region()
    if isinstance(value, Load):
        return Region.point(value.buffer, value.indices)
    raise ScriptError(f"{value!r} is not a region of a buffer", try_="a buffer, as A or A[i, 0:4]")
