"""Attention over heads: scores of queries and keys, masks, and means of values by softmax.

Heads are a dimension: (batch, heads, length, size). There may be fewer heads of keys and values
than of queries; each then serves a run of query heads. Narrow floats are computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ir import Const, DType, Expr, ExprLike, Kind, Select, as_expr, equal
from tensorsmith.ir.dtype import dtype as as_dtype
from tensorsmith.ops.broadcast import broadcast_index
from tensorsmith.ops.gather import held
from tensorsmith.ops.indexing import as_index, check_extents, check_integer, check_positions, is_one
from tensorsmith.ops.movement import reshape
from tensorsmith.ops.operands import check_rank, computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.requirements import require
from tensorsmith.te import Tensor

MODES: Final = ("raw", "capped", "masked", "softmax")
"""How far scores have come, in the order of ONNX's ``qk_matmul_output_mode``."""


def split_heads(x: Tensor, *, heads: int) -> Tensor:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    check_rank("split_heads", x, 3, 3)
    batch, length, width = x.shape
    check_extents(width % heads, 0, "a width that heads do not divide")
    size = Analyzer().simplify(width // heads)
    return te.compute(
        (batch, heads, length, size), lambda b, h, i, d: x[b, i, h * size + d], "heads"
    )


def merge_heads(x: Tensor) -> Tensor:
    """(batch, heads, length, size) as (batch, length, heads * size)."""
    check_rank("merge_heads", x, 4, 4)
    batch, heads, length, size = x.shape
    width = Analyzer().simplify(heads * size)
    return te.compute(
        (batch, length, width), lambda b, i, w: x[b, w // size, i, w % size], "merged_heads"
    )


def query_key(
    query: Tensor, key: Tensor, *, scale: float | None = None, dtype: str | None = None
) -> Tensor:
    """The scaled products of queries and keys: (batch, heads, queries, keys).

    scale: 1 / sqrt(size) if None. dtype: of the result, by default that of the operands.
    """
    type_ = one_dtype("attention", Kind.FLOAT, query, key)
    scores = _scores(query, key, scale)
    result = type_ if dtype is None else as_dtype(dtype)
    return te.compute(scores.shape, lambda *i: converted(scores[i], result), "query_key")


def weighted_values(weights: Tensor, value: Tensor) -> Tensor:
    """The sums of values (batch, heads, keys, size) by weights (batch, heads, queries, keys)."""
    one_dtype("attention", Kind.FLOAT, weights)
    type_ = one_dtype("attention", Kind.FLOAT, value)
    total = _weighted(weights, value)
    return te.compute(total.shape, lambda *i: converted(total[i], type_), "weighted_values")


def softmax_means(scores: Tensor, value: Tensor) -> Tensor:
    """The softmax along rows of scores (.., rows, keys), times values (.., keys, size).

    Sums are divided by the total of a row, not each weight of it.
    """
    type_ = one_dtype("softmax_means", Kind.FLOAT, scores, value)
    rank = scores.rank
    check_rank("softmax_means", scores, 2)
    check_rank("softmax_means", value, rank, rank)
    for own, other in zip((*scores.shape[:-2], scores.shape[-1]), value.shape[:-1], strict=True):
        check_extents(own, other, "softmax_means takes one value a key")
    rows, keys, size = scores.shape[:-1], scores.shape[-1], value.shape[-1]
    wide = computed_in(type_)
    j = te.reduce_axis(keys, "j")
    largest = te.compute(
        rows, lambda *i: te.max(converted(scores[(*i, j)], wide), axis=j), "largest"
    )
    powers = te.compute(
        scores.shape, lambda *i: T.exp(converted(scores[i], wide) - largest[i[:-1]]), "powers"
    )
    total = te.compute(rows, lambda *i: te.sum(powers[(*i, j)], axis=j), "total")

    def term(*i: Expr) -> te.Reduce:
        return te.sum(powers[(*i[:-1], j)] * converted(value[(*i[:-2], j, i[-1])], wide), axis=j)

    weighted = te.compute((*rows, size), term, "weighted")
    return te.compute(
        weighted.shape, lambda *i: converted(weighted[i] / total[i[:-1]], type_), "softmax_means"
    )


@dataclass(frozen=True, slots=True)
class _View:
    """Which keys a query sees, and what becomes of scores; see `attention`."""

    mask: Tensor | None
    lengths: Tensor | None
    offset: Expr
    is_causal: bool
    window: tuple[int, int]
    softcap: float

    def capped(self, score: Expr) -> Expr:
        """The score within the soft cap."""
        if not self.softcap:
            return score
        cap = as_expr(self.softcap, score.dtype)
        return cap * T.tanh(score / cap)

    def biased(self, score: Expr, shape: Sequence[Expr], at: Sequence[Expr]) -> Expr:
        """The score with the mask added, minus infinity for a key that is not seen."""
        hidden = score.dtype("-inf")
        seen: list[Expr] = self._by_position(at, shape)
        if self.mask is not None:
            inside, place = _mask_place(self.mask, shape, at)
            value = self.mask[place]
            if self.mask.dtype.is_bool:
                seen.append(value if inside is None else inside & value)
            else:
                score = score + converted(value, score.dtype)
                score = score if inside is None else Select(inside, score, hidden)
        for condition in reversed(seen):
            score = Select(condition, score, hidden)
        return score

    def _by_position(self, at: Sequence[Expr], shape: Sequence[Expr]) -> list[Expr]:
        """The conditions on where the query and the key stand."""
        batch, _, i, j = at
        seen = []
        first = self.offset
        if self.lengths is not None:
            count = as_index(self.lengths[batch])
            seen.append(j < count)
            first = count - shape[2]
        here = i + first
        before, after = self.window
        if self.is_causal:
            seen.append(j <= here)
        if before >= 0:
            seen.append(here - before <= j)
        if after >= 0:
            seen.append(j <= here + after)
        return seen


def _mask_place(
    mask: Tensor, shape: Sequence[Expr], at: Sequence[Expr]
) -> tuple[Expr | None, tuple[Expr, ...]]:
    """Where the mask of a score stands, and whether there is one, if it may end before the keys."""
    keys, last = shape[-1], mask.shape[-1]
    if is_one(last) or Analyzer().equal(last, keys):
        return None, broadcast_index(mask.shape, shape, at)
    place = broadcast_index(mask.shape[:-1], shape[:-1], at[:-1])
    return at[-1] < last, (*place, at[-1])


def _view(
    query: Tensor, key: Tensor, seen: tuple[Tensor | None, Tensor | None], view: Mapping[str, Any]
) -> _View:
    """What is seen, checked. seen: the mask and the lengths."""
    mask, lengths = seen
    for operand in (query, key):
        check_rank("attention", operand, 4, 4)
    if mask is not None:
        check_rank("the mask of attention", mask, 1, 4)
        rows = zip(reversed(mask.shape[:-1]), reversed(query.shape[:3]), strict=False)
        for extent, whole in rows:
            fits = equal(extent, 1) | equal(extent, whole)
            require(Analyzer().simplify(fits), "a mask of attention that does not broadcast")
        if not (mask.dtype.is_bool or mask.dtype.is_float):
            raise DTypeError("a mask of attention holds bools or floats", given=repr(mask))
    if lengths is not None:
        check_integer(lengths, "the lengths of attention")
        check_rank("the lengths of attention", lengths, 1, 1)
        check_extents(lengths.shape[0], query.shape[0], "attention takes one length a batch")
    return _View(mask=mask, lengths=lengths, **view)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    scale: float | None = None,
    offset: ExprLike = 0,
    is_causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
) -> Tensor:
    """For each query the mean of the values, weighted by the softmax of its scores.

    mask: broadcasts to (batch, heads, queries, keys): bools, true where a key counts, or floats,
    added to the scores; keys beyond its last position do not count. lengths: how many keys of each
    batch count. is_causal: query i, at position ``i + offset`` (with lengths: counted from the end
    of them), sees the keys up to its own position. window: how many keys it sees before and after
    its position, -1 for all. softcap: scores become ``softcap * tanh(score / softcap)``.
    A query that sees no key gives zeros. Sources: Vaswani et al., 2017; ONNX, Attention.
    """
    type_ = one_dtype("attention", Kind.FLOAT, query, key)
    one_dtype("attention", Kind.FLOAT, value)
    rest = {"is_causal": is_causal, "window": window, "softcap": softcap}
    view = _view(query, key, (mask, lengths), {"offset": as_expr(offset), **rest})
    power, total = _powers(_masked(_scores(query, key, scale), view))
    mean = _weighted(power, value)

    def element(b: Expr, h: Expr, i: Expr, d: Expr) -> Expr:
        return converted(_share(mean[b, h, i, d], total[b, h, i]), type_)

    return te.compute(mean.shape, element, "attention")


def attention_scores(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    mode: str = "softmax",
    scale: float | None = None,
    offset: ExprLike = 0,
    is_causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
) -> Tensor:
    """The scores that `attention` uses: (batch, heads, queries, keys).

    mode: 'raw', 'capped', 'masked' or 'softmax': how far they have come.
    """
    if mode not in MODES:
        raise ShapeError(f"scores have no mode {mode!r}", try_=f"one of {', '.join(MODES)}")
    type_ = one_dtype("attention_scores", Kind.FLOAT, query, key)
    rest = {"is_causal": is_causal, "window": window, "softcap": softcap}
    view = _view(query, key, (mask, lengths), {"offset": as_expr(offset), **rest})
    scores = _scores(query, key, scale)
    if mode == "capped":
        plain = scores
        scores = te.compute(plain.shape, lambda *i: view.capped(plain[i]), "capped_scores")
    elif mode == "masked":
        scores = _masked(scores, view)
    elif mode == "softmax":
        power, total = _powers(_masked(scores, view))
        scores = te.compute(power.shape, lambda *i: _share(power[i], total[i[:3]]), "weights")
    found = scores
    return te.compute(found.shape, lambda *i: converted(found[i], type_), "attention_scores")


def _scores(query: Tensor, key: Tensor, scale: float | None) -> Tensor:
    """The scaled products of queries and keys, in the type to compute in."""
    for operand in (query, key):
        check_rank("attention", operand, 4, 4)
    check_extents(query.shape[0], key.shape[0], "batches of attention")
    check_extents(query.shape[3], key.shape[3], "sizes of the heads of queries and keys")
    size, wide = key.shape[3], computed_in(query.dtype)
    factor = scale_of(size, scale, wide)
    d = te.reduce_axis(size, "d")
    queries, keys = query.shape[2], key.shape[2]

    def product(at: Sequence[Expr], j: Expr, b: Expr, n: Expr) -> te.Reduce:
        left = converted(query[(*at, d)], wide)
        return te.sum(left * converted(key[b, n, j, d], wide), axis=d)

    split = _groups(query, key)
    heads, each = (key.shape[1], as_expr(1)) if split is None else split
    if isinstance(each, Const):
        dots = te.compute(
            (*query.shape[:3], keys),
            lambda b, h, i, j: product((b, h, i), j, b, h if split is None else h // each),
            "query_key",
        )
    else:
        apart = te.compute(
            (query.shape[0], heads, each, queries, keys),
            lambda b, n, g, i, j: product((b, n * each + g, i), j, b, n),
            "query_key",
        )
        dots = reshape(apart, shape=(*query.shape[:3], keys))
    return te.compute(dots.shape, lambda *i: dots[i] * factor, "scores")


def scale_of(size: Expr, scale: float | None, type_: DType) -> Expr:
    """The scale of scores: that which is given, or 1 over the root of the size of heads."""
    if scale is not None:
        return as_expr(scale, type_)
    if isinstance(size, Const):
        return as_expr(1 / math.sqrt(max(int(size.value), 1)), type_)
    return 1.0 / T.sqrt(T.cast(T.max(size, 1), type_))


def _groups(query: Tensor, key: Tensor) -> tuple[Expr, Expr] | None:
    """The heads of keys and how many query heads each serves; None if it is one each."""
    heads, all_ = key.shape[1], query.shape[1]
    if Analyzer().equal(heads, all_):
        return None
    check_extents(all_ % heads, 0, "query heads that do not divide among heads of keys")
    return heads, Analyzer().simplify(all_ // heads)


def _masked(scores: Tensor, view: _View) -> Tensor:
    """The scores within the soft cap, minus infinity where a key is not seen."""
    return te.compute(
        scores.shape,
        lambda *i: view.biased(view.capped(scores[i]), scores.shape, i),
        "masked_scores",
    )


def _powers(scores: Tensor) -> tuple[Tensor, Tensor]:
    """exp of scores less the greatest of the row, and their sums; zeros where no key is seen."""
    j = te.reduce_axis(scores.shape[3], "j")
    rows = scores.shape[:3]
    largest = te.compute(rows, lambda b, h, i: te.max(scores[b, h, i, j], axis=j), "largest")

    def power(b: Expr, h: Expr, i: Expr, k: Expr) -> Expr:
        most = largest[b, h, i]
        return T.exp(scores[b, h, i, k] - T.select(T.equal(most, most.dtype("-inf")), 0.0, most))

    powers = te.compute(scores.shape, power, "powers")
    total = te.compute(rows, lambda b, h, i: te.sum(powers[b, h, i, j], axis=j), "total")
    return powers, total


def _share(part: Expr, total: Expr) -> Expr:
    """A part of a total; nothing of nothing."""
    none = as_expr(0.0, part.dtype)
    return Select(T.equal(total, none), none, part / total)


def _weighted(weights: Tensor, value: Tensor) -> Tensor:
    """The sums of values by weights, in the type to compute in."""
    for operand in (weights, value):
        check_rank("attention", operand, 4, 4)
    check_extents(weights.shape[3], value.shape[2], "attention takes one value a key")
    wide = computed_in(weights.dtype)
    j = te.reduce_axis(value.shape[2], "j")
    size = value.shape[3]

    def term(b: Expr, n: Expr, d: Expr, weight: Expr) -> te.Reduce:
        return te.sum(converted(weight, wide) * converted(value[b, n, j, d], wide), axis=j)

    split = _groups(weights, value)
    heads, each = (value.shape[1], as_expr(1)) if split is None else split
    if isinstance(each, Const):
        return te.compute(
            (*weights.shape[:3], size),
            lambda b, h, i, d: term(b, h if split is None else h // each, d, weights[b, h, i, j]),
            "weighted",
        )
    apart = te.compute(
        (weights.shape[0], heads, each, weights.shape[2], size),
        lambda b, n, g, i, d: term(b, n, d, weights[b, n * each + g, i, j]),
        "weighted",
    )
    return reshape(apart, shape=(*weights.shape[:3], size))


def rotary_embedding(
    x: Tensor,
    cosines: Tensor,
    sines: Tensor,
    positions: Tensor | None = None,
    *,
    size: int = 0,
    interleaved: bool = False,
) -> Tensor:
    """Pairs of elements of each head turned by angles that depend on the position.

    x: (batch, heads, length, head size). cosines, sines: (batch, length, half), or tables
    (positions, half) that `positions` (batch, length) looks up. size: how many elements of a head
    are turned, 0 for all. interleaved: pairs are neighbours, else an element of each half.
    Source: Su et al., RoFormer, 2021.
    """
    type_ = one_dtype("rotary_embedding", Kind.FLOAT, x, cosines, sines)
    check_rank("rotary_embedding", x, 4, 4)
    rank = 3 if positions is None else 2
    for table in (cosines, sines):
        check_rank("the angles of rotary_embedding", table, rank, rank)
    head = x.shape[3]
    turned = head if size == 0 else as_expr(size)
    half = Analyzer().simplify(turned // 2)
    for table in (cosines, sines):
        check_extents(table.shape[-1] * 2, turned, "rotary_embedding takes an angle a pair")
    rows = (cosines, sines) if positions is None else (positions,)
    for d, extent in enumerate((x.shape[0], x.shape[2])):
        for table in rows:
            if not is_one(table.shape[d]):
                check_extents(table.shape[d], extent, "rotary_embedding takes a row a position")
    wide = computed_in(type_)
    if positions is not None:
        check_integer(positions, "the positions of rotary_embedding")
        check_rank("the positions of rotary_embedding", positions, 2, 2)
        check_positions(cosines.shape[0], positions.shape, "rotary_embedding")
        check_extents(sines.shape[0], cosines.shape[0], "tables of rotary_embedding")

    def angle(table: Tensor, b: Expr, i: Expr, k: Expr) -> Expr:
        if positions is None:
            return converted(table[(*_row(table, b, i), k)], wide)
        at = positions[_row(positions, b, i)]
        return converted(table[held(at, table.shape[0]), k], wide)

    def turn(place: Sequence[Expr], pair: Expr, ends: tuple[Expr, Expr], *, first: bool) -> Expr:
        """An end of a pair, turned."""
        b, h, i = place
        one, other = (converted(x[b, h, i, k], wide) for k in ends)
        c, s = angle(cosines, b, i, pair), angle(sines, b, i, pair)
        return converted(c * one - s * other if first else s * one + c * other, type_)

    def element(b: Expr, h: Expr, i: Expr, d: Expr) -> Expr:
        at = (b, h, i)
        if interleaved:
            pair = d // 2
            ends = (pair * 2, pair * 2 + 1)
            choices = [turn(at, pair, ends, first=first) for first in (True, False)]
            value = T.select(T.equal(d % 2, 0), *choices)
        else:
            front = turn(at, d, (d, d + half), first=True)
            value = T.select(d < half, front, turn(at, d - half, (d - half, d), first=False))
        return value if turned is head else T.select(d < turned, value, x[b, h, i, d])

    return te.compute(x.shape, element, "rotary_embedding")


def _row(table: Tensor, batch: Expr, position: Expr) -> tuple[Expr, Expr]:
    """Where the row of a position stands, in a table that may have one for all."""
    first, second = table.shape[:2]
    zero = as_expr(0)
    return zero if is_one(first) else batch, zero if is_one(second) else position


OPERATORS: Final[tuple[Operator, ...]] = operators(
    split_heads,
    merge_heads,
    query_key,
    weighted_values,
    softmax_means,
    attention,
    attention_scores,
    rotary_embedding,
)
