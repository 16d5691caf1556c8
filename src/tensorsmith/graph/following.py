"""How operators compute on images whose channels are in blocks.

An operator *follows* if it gives blocked images for blocked images: it is then the same operator,
with attributes that say the same of the axes (n, c / b, *image, b). That operators are pointwise
follows from their computation; those over axes of the image say in their attributes which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tensorsmith.arith import Analyzer
from tensorsmith.errors import TensorsmithError
from tensorsmith.graph.kernel import Operators
from tensorsmith.ir import Buffer, Const, ExprLike, as_expr
from tensorsmith.ir.graph import Apply
from tensorsmith.ops.operator import placeholders
from tensorsmith.ops.requirements import collecting
from tensorsmith.te.graph import definitions_under
from tensorsmith.te.kind import is_pointwise

CHANNELS: Final = 1
"""The axis of the channels of plain images."""
LEAST_RANK: Final = 3
"""Of images: a batch, channels, and one dimension."""


@dataclass(frozen=True, slots=True)
class Follow:
    """How an operator follows.

    images: operands and the result whose channels lie in blocks of one size. Other operands are
        broadcast to them, but for those at the places `plain`, which stay as they are.
    multiples: numbers of channels that consist of whole blocks, besides those of the images.
    is_exact: whether the channels of the images, too, have to consist of whole blocks.
    attrs: the attributes for a size of blocks.
    """

    images: tuple[Buffer, ...]
    attrs: Callable[[int], Mapping[str, Any]]
    plain: frozenset[int] = frozenset()
    multiples: tuple[int, ...] = field(default=())
    is_exact: bool = False


def channels(value: object) -> int:
    """How many channels images have that may be in blocks; 0 for what is none."""
    if not isinstance(value, Buffer) or value.rank < LEAST_RANK or value.layout is not None:
        return 0
    extent = value.shape[CHANNELS]
    return int(extent.value) if isinstance(extent, Const) and int(extent.value) > 0 else 0


def is_point(value: Buffer) -> bool:
    """Whether images are of one point each: in blocks or not, they are the same in memory."""
    return all(isinstance(e, Const) and e.value == 1 for e in value.shape[2:])


def following(apply: Apply, operators: Operators) -> Follow | None:
    """How an operator follows; None if it does not."""
    if len(apply.results) != 1:
        return None
    rule = _RULES.get(apply.op)
    if rule is not None:
        return rule(apply)
    attributes = operators[apply.op].attributes
    if "axes" in attributes and "keep_dims" in attributes:
        return _reduced(apply)
    return _pointwise(apply, operators)


def _is_same(a: ExprLike, b: ExprLike) -> bool:
    return Analyzer().equal(as_expr(a), as_expr(b))


def _axes(apply: Apply, rank: int) -> list[int]:
    """The axes that an operator names, counted from the front; all if it names none."""
    named: Any = apply.attrs.get("axes")
    return [int(a) % rank for a in named] if named is not None else [*range(rank)]


def _as_they_are(apply: Apply) -> Callable[[int], Mapping[str, Any]]:
    return lambda _: apply.attrs


def _pointwise(apply: Apply, operators: Operators) -> Follow | None:
    """Each element is computed from those at its place, of tensors that broadcast to the result."""
    (result,) = apply.results
    count = channels(result)
    images = [o for o in apply.operands if o is not None and o.rank == result.rank]
    images = [o for o in images if channels(o) == count]
    if not count or not images:
        return None
    given = placeholders(apply.operands)
    try:
        with collecting():
            results = operators[apply.op](given, apply.attrs)
    except TensorsmithError:
        return None
    known = frozenset(t for t in given if t is not None)
    if not all(is_pointwise(d, result.rank) for d in definitions_under(results, known)):
        return None
    return Follow((*dict.fromkeys(images), result), _as_they_are(apply))


def _images(apply: Apply) -> tuple[Buffer, Buffer] | None:
    """The first operand and the result, if both are images of as many channels."""
    x, (result,) = apply.operands[0], apply.results
    if x is None or not channels(x) or channels(result) != channels(x) or x.rank != result.rank:
        return None
    return x, result


def _reduced(apply: Apply) -> Follow | None:
    """A reduction over axes of the image, which stay."""
    images = _images(apply)
    if images is None or not apply.attrs.get("keep_dims", True):
        return None
    over = tuple(_axes(apply, images[0].rank))
    return None if CHANNELS in over else Follow(images, lambda _: {**apply.attrs, "axes": over})


def _pooled(apply: Apply) -> Follow | None:
    """A pool: its windows do not reach over channels."""
    images = _images(apply)
    return None if images is None else Follow(images, lambda _: {**apply.attrs, "blocked": True})


def _joined(apply: Apply) -> Follow | None:
    """Images joined along the channels, or along another axis."""
    (result,) = apply.results
    parts = [o for o in apply.operands if o is not None]
    if not channels(result) or not all(map(channels, parts)):
        return None
    axis: Any = apply.attrs["axis"]
    attrs = {"axis": int(axis) % result.rank}
    along = attrs["axis"] == CHANNELS
    return Follow((*dict.fromkeys(parts), result), lambda _: attrs, is_exact=along)


def _cut(apply: Apply) -> Follow | None:
    """A piece of images; of the channels a run of whole blocks."""
    x, (result,) = apply.operands[0], apply.results
    if x is None or not channels(x) or not channels(result):
        return None
    axes = _axes(apply, x.rank)
    starts: Any = apply.attrs["starts"]
    extents: Any = apply.attrs["extents"]
    steps: Any = apply.attrs.get("steps") or (1,) * len(axes)
    at = axes.index(CHANNELS) if CHANNELS in axes else None
    multiples: tuple[int, ...] = ()
    if at is not None:
        start = as_expr(starts[at])
        if not isinstance(start, Const) or not _is_same(steps[at], 1):
            return None
        multiples = (int(start.value),)

    def attrs(block: int) -> Mapping[str, Any]:
        first, count = list(starts), list(extents)
        if at is not None:
            first[at], count[at] = multiples[0] // block, channels(result) // block
        return {
            "starts": tuple(first),
            "extents": tuple(count),
            "steps": tuple(steps),
            "axes": tuple(axes),
        }

    return Follow((x, result), attrs, multiples=multiples, is_exact=at is not None)


def _padded(apply: Apply) -> Follow | None:
    """Images with more around them; not with more channels."""
    images = _images(apply)
    before: Any = apply.attrs["before"]
    after: Any = apply.attrs["after"]
    if images is None or not (_is_same(before[CHANNELS], 0) and _is_same(after[CHANNELS], 0)):
        return None
    attrs = {**apply.attrs, "before": (*before, 0), "after": (*after, 0)}
    return Follow(images, lambda _: attrs, plain=frozenset({1}))


def _resized(apply: Apply) -> Follow | None:
    """Images of another size, by known scales."""
    images = _images(apply)
    if images is None or any(o is not None for o in apply.operands[1:]):
        return None
    axes = _axes(apply, images[0].rank)
    shape: Any = apply.attrs["shape"]
    factors: Any = apply.attrs.get("factors")
    kept = [k for k, a in enumerate(axes) if a != CHANNELS]
    if len(kept) < len(axes) and factors is not None and factors[axes.index(CHANNELS)] != 1.0:
        return None
    attrs = {
        **apply.attrs,
        "axes": tuple(axes[k] for k in kept),
        "shape": tuple(shape[k] for k in kept),
        "factors": None if factors is None else tuple(factors[k] for k in kept),
    }
    return Follow(images, lambda _: attrs, plain=frozenset({1, 2}))


_RULES: Final[Mapping[str, Callable[[Apply], Follow | None]]] = {
    **dict.fromkeys(("max_pool", "average_pool", "lp_pool"), _pooled),
    "concat": _joined,
    "slice": _cut,
    "pad": _padded,
    "resize": _resized,
}
"""Of operators whose attributes name axes."""
