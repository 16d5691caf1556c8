"""Broadcasting: tensors of several shapes read as one shape, over symbolic dimensions too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.ir import Const, Expr, ExprLike, Min, Or, Select, Var, as_expr, const
from tensorsmith.ir.expr import equal
from tensorsmith.ops.indexing import is_one, zero
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.requirements import require
from tensorsmith.te import Tensor

Shape: TypeAlias = "Sequence[Expr]"


def broadcast_shapes(*shapes: Shape) -> tuple[Expr, ...]:
    """The shape that all of these broadcast to, aligned at their last dimensions.

    That each extent equals the result's or is 1 is required, as far as it is not known.
    Raises ShapeError where two extents cannot be equal and neither can be 1.
    """
    facts = Analyzer()
    whole: tuple[Expr, ...] = ()
    for shape in shapes:
        whole = _common(whole, tuple(shape), facts)
    for shape in shapes:
        for extent, common in zip(reversed(shape), reversed(whole), strict=False):
            if extent is not common and not is_one(extent):
                same = equal(extent, common)
                together = _are_one_together(extent, common, facts)
                require(
                    same if together else Or(equal(extent, 1), same),
                    f"the shapes {' and '.join(map(_text, shapes))} do not broadcast",
                )
    return whole


def _common(a: tuple[Expr, ...], b: tuple[Expr, ...], facts: Analyzer) -> tuple[Expr, ...]:
    long, short = (a, b) if len(a) >= len(b) else (b, a)
    lead = len(long) - len(short)
    found = [_extent(m, n, facts) for m, n in zip(long[lead:], short, strict=True)]
    if any(e is None for e in found):
        raise ShapeError(
            f"the shapes {_text(a)} and {_text(b)} do not broadcast",
            because="extents that are aligned at the end must be equal, or one of them 1",
        )
    return (*long[:lead], *(e for e in found if e is not None))


def _extent(m: Expr, n: Expr, facts: Analyzer) -> Expr | None:
    """The extent that `m` and `n` broadcast to; None if they cannot."""
    if m is n or is_one(n):
        return m
    if is_one(m):
        return n
    if isinstance(m, Const) and isinstance(n, Const):
        return None
    m, n = facts.simplify(m), facts.simplify(n)
    if m is n or is_one(n) or facts.prove(equal(m, n)) is True:
        return m
    if is_one(m):
        return n
    may_be = [facts.prove(c) is not False for c in (equal(m, 1), equal(n, 1), equal(m, n))]
    if not any(may_be):
        return None
    if may_be[2] and _are_one_together(m, n, facts):
        return n if isinstance(n, Var) else m
    if not may_be[0]:
        return m
    return Select(equal(n, 1), m, n) if may_be[1] else n


def _are_one_together(m: Expr, n: Expr, facts: Analyzer) -> bool:
    """Whether neither extent is 1 while the other is not, so that they must be equal."""
    return _is_one_where(n, m, facts) and _is_one_where(m, n, facts)


def _is_one_where(extent: Expr, other: Expr, facts: Analyzer) -> bool:
    """Whether `extent` is 1 wherever `other` is.

    The least of several is 1 only where one of those is that can be.
    """
    if isinstance(other, Min):
        able = [e for e in (other.a, other.b) if facts.prove(equal(e, 1)) is not False]
        return all(_is_one_where(extent, e, facts) for e in able)
    if facts.prove(equal(other, 1)) is False:
        return True
    with facts.scope():
        facts.assume(equal(other, 1))
        return facts.prove(equal(extent, 1)) is True


def _text(shape: Shape) -> str:
    return f"({', '.join(map(repr, shape))}{',' if len(shape) == 1 else ''})"


def check_broadcasts(operand: Tensor, to: Tensor, what: str) -> None:
    """Have `operand` broadcast to the shape of `to` as it is.

    Raises ShapeError, with `what` as the message, if it cannot.
    """
    given = f"{operand!r} and {to!r}"
    if operand.rank > to.rank:
        raise ShapeError(what, given=given)
    for extent, whole in zip(reversed(operand.shape), reversed(to.shape), strict=False):
        if extent is not whole and not is_one(extent):
            require(Or(equal(extent, 1), equal(extent, whole)), what, given=given)


def broadcast_index(shape: Shape, to: Shape, indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """The element of a tensor of `shape` that stands at `indices` of the shape it broadcasts to."""
    lead = len(to) - len(shape)
    return tuple(
        _position(extent, whole, i)
        for extent, whole, i in zip(shape, to[lead:], indices[lead:], strict=True)
    )


def _position(extent: Expr, whole: Expr, i: Expr) -> Expr:
    if extent is whole:
        return i
    if isinstance(extent, Const):
        return const(0) if extent.value == 1 else i
    facts = Analyzer()
    if facts.prove(equal(extent, whole)) is True or facts.prove(equal(extent, 1)) is False:
        return i
    if _is_one_where(whole, extent, facts):
        return i
    return Min(i, facts.simplify(extent - 1))  # in bounds whatever else is known, unless that is -1


def broadcast_element(x: Tensor, to: Shape, indices: Sequence[Expr]) -> Expr:
    """The element of `x` that stands at `indices` of the shape it broadcasts to.

    An extent that may be 0 need not be 1 for there to be nothing at all; so the element is read
    only where there is one.
    """
    at = broadcast_index(x.shape, to, indices)
    lead = len(to) - x.rank
    facts = Analyzer()
    value = x[at]
    for extent, place, i in zip(x.shape, at, indices[lead:], strict=True):
        if isinstance(place, Min) and place is not i and facts.prove(extent >= 1) is not True:
            value = Select(extent >= 1, value, zero(x.dtype))
    return value


def elementwise(name: str, function: Callable[..., ExprLike], *operands: Tensor) -> Tensor:
    """``function`` of one element of each operand, for each element of their common shape."""
    shape = broadcast_shapes(*(o.shape for o in operands))

    def element(*i: Expr) -> ExprLike:
        return function(*(broadcast_element(o, shape, i) for o in operands))

    return te.compute(shape, element, name)


def expand(x: Tensor, *, shape: tuple[ExprLike, ...]) -> Tensor:
    """`x` repeated to the shape that its own and `shape` broadcast to."""
    whole = broadcast_shapes(x.shape, tuple(as_expr(e) for e in shape))
    return te.compute(whole, lambda *i: broadcast_element(x, whole, i), "expand")


OPERATORS: Final[tuple[Operator, ...]] = operators(expand)
