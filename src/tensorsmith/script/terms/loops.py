"""The loops of the script form.

Called by Python the functions only note their arguments. The parser calls them too, on the values
that it found in the source, and makes statements of the notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tensorsmith.errors import ScriptError
from tensorsmith.ir.expr import Expr, ExprLike, Var, as_expr
from tensorsmith.ir.stmt import NO_ATTRS, Attrs, LoopKind
from tensorsmith.script.terms import checks
from tensorsmith.script.terms.attributes import attrs_of
from tensorsmith.script.terms.outside import run_by_python
from tensorsmith.script.terms.scalars import index_expr


@dataclass(frozen=True)
class Loops:
    """One loop, or several perfectly nested ones of one kind."""

    kind: LoopKind
    extents: tuple[Expr, ...]
    start: Expr
    thread: str | None
    attrs: Attrs

    def __iter__(self) -> Iterator[Var]:
        run_by_python("a loop")


def _loop(
    kind: LoopKind,
    extent: ExprLike,
    start: ExprLike,
    attrs: Mapping[str, object] | None,
    thread: str | None = None,
) -> Loops:
    return Loops(kind, (index_expr(extent),), index_expr(start), thread, attrs_of(attrs))


def grid(*extents: ExprLike) -> Iterable[tuple[Var, ...]]:
    """Perfectly nested serial loops: ``for i, j in T.grid(n, m)``."""
    if not extents:
        raise ScriptError("T.grid takes one extent a loop, and has none")
    loops = tuple(map(index_expr, extents))
    return Loops(LoopKind.SERIAL, loops, as_expr(0), None, NO_ATTRS)  # type: ignore[return-value]


def serial(
    extent: ExprLike, *, start: ExprLike = 0, attrs: Mapping[str, object] | None = None
) -> Iterable[Var]:
    """A loop in order, as ``range(extent)``."""
    return _loop(LoopKind.SERIAL, extent, start, attrs)


def parallel(
    extent: ExprLike, *, start: ExprLike = 0, attrs: Mapping[str, object] | None = None
) -> Iterable[Var]:
    """A loop by the threads of a pool."""
    return _loop(LoopKind.PARALLEL, extent, start, attrs)


def vectorized(
    extent: ExprLike, *, start: ExprLike = 0, attrs: Mapping[str, object] | None = None
) -> Iterable[Var]:
    """A loop as the lanes of vector instructions."""
    return _loop(LoopKind.VECTORIZED, extent, start, attrs)


def unrolled(
    extent: ExprLike, *, start: ExprLike = 0, attrs: Mapping[str, object] | None = None
) -> Iterable[Var]:
    """A loop as copies of its body."""
    return _loop(LoopKind.UNROLLED, extent, start, attrs)


def thread(
    axis: str,
    extent: ExprLike,
    *,
    start: ExprLike = 0,
    attrs: Mapping[str, object] | None = None,
) -> Iterable[Var]:
    """A loop by a hardware axis such as 'threadIdx.x'."""
    return _loop(LoopKind.THREAD, extent, start, attrs, checks.string(axis, "an axis"))
