"""Attention by a recurrent state instead of a softmax: one pass over the positions, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.errors import ShapeError
from tensorsmith.ir import Alloc, Buffer, Expr, Kind, Stmt, as_expr, seq
from tensorsmith.ops.attention import scale_of
from tensorsmith.ops.indexing import check_extents, is_one
from tensorsmith.ops.operands import check_rank, computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.statements import nest, store
from tensorsmith.te import Tensor

RULES: Final = ("linear", "gated", "delta", "gated_delta")
"""How the state changes at a position: whether it decays, and whether it is corrected."""


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *rest: Tensor | None,
    rule: str = "gated_delta",
    scale: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The queries' products with a state (size, value size) that each position adds to.

    query, key, value: (batch, heads, length, size); a head of keys serves a run of query heads.
    rest: up to three of the state before, (batch, heads of keys, size, value size); the logarithm
    of the decay, (batch, length, heads of keys, size or 1); and the rate of correction, (batch,
    length, heads of keys or 1). rule: see `RULES`; 'gated' ones take the decay, 'delta' ones the
    rate. scale: of the result; 1 / sqrt(size) if 0.
    Returns the result, (batch, heads, length, value size), and the state after the last position.
    Source: Yang et al., Gated delta networks, 2024.
    """
    type_ = one_dtype("linear_attention", Kind.FLOAT, query, key, value)
    past, decay, rate = (*rest, None, None, None)[:3]
    if rule not in RULES:
        raise ShapeError(f"linear attention has no rule {rule!r}", try_=f"one of {RULES}")
    is_gated, is_corrected = rule.startswith("gated"), rule.endswith("delta")
    if (decay is not None) != is_gated or (rate is not None) != is_corrected:
        raise ShapeError(
            f"the rule {rule!r} takes {'a' if is_gated else 'no'} decay"
            f" and {'a' if is_corrected else 'no'} rate"
        )
    for operand in (query, key, value):
        check_rank("linear_attention", operand, 4, 4)
    check_extents(key.shape[3], query.shape[3], "sizes of the heads of queries and keys")
    check_extents(key.shape[2], value.shape[2], "linear_attention takes one value a key")
    check_extents(query.shape[2], key.shape[2], "linear_attention takes one key a query")
    for d in range(2):
        check_extents(value.shape[d], key.shape[d], "linear_attention takes one value a key")
    check_extents(query.shape[0], key.shape[0], "batches of linear_attention")
    check_extents(query.shape[1] % key.shape[1], 0, "query heads that do not divide")
    size = key.shape[3]
    factor = scale_of(size, scale or None, computed_in(type_))
    given = [t for t in (query, key, value, past, decay, rate) if t is not None]
    state = (key.shape[0], key.shape[1], size, value.shape[3])
    wide = computed_in(type_)

    def body(*buffers: Buffer) -> Stmt:
        left = list(buffers)
        parts = [None if t is None else left.pop(0) for t in (query, key, value, past, decay, rate)]
        return _Recurrence(parts, left[0], left[1], factor).statement()

    out, last = te.extern(
        body,
        given,
        [((*query.shape[:3], value.shape[3]), wide), (state, wide)],
        "linear_attention",
    )
    kept = type_ if past is None else past.dtype
    return (
        te.compute(out.shape, lambda *i: converted(out[i], type_), "attended"),
        te.compute(last.shape, lambda *i: converted(last[i], kept), "present_state"),
    )


@dataclass(frozen=True, slots=True)
class _Recurrence:
    """The statements: parts are the query, key, value, state before, decay and rate."""

    parts: Sequence[Buffer | None]
    out: Buffer
    state: Buffer
    scale: Expr

    def _load(self, part: int, *at: Expr) -> Expr:
        buffer = self.parts[part]
        assert buffer is not None
        place = [as_expr(0) if is_one(e) else i for i, e in zip(at, buffer.shape, strict=True)]
        return converted(buffer[tuple(place)], self.state.dtype)

    def statement(self) -> Stmt:
        """A pass over the positions for each batch and head of keys."""
        batch, heads, size, width = self.state.shape

        def head(b: Expr, n: Expr) -> Stmt:
            start = nest(
                (size, width),
                lambda i, j: store(
                    self.state,
                    (b, n, i, j),
                    0.0 if self.parts[3] is None else self._load(3, b, n, i, j),
                ),
            )
            correction = Buffer("correction", (width,), self.state.dtype)
            steps = nest((self.out.shape[2],), lambda t: self._step(b, n, t, correction), "t")
            return seq(start, Alloc(correction), steps)

        return nest((batch, heads), head, "b")

    def _step(self, b: Expr, n: Expr, t: Expr, correction: Buffer) -> Stmt:
        """Decay, correction, addition and reading at one position."""
        _, heads, size, width = self.state.shape

        def at(i: Expr, j: Expr) -> Expr:
            return self.state[b, n, i, j]

        stmts: list[Stmt] = []
        if self.parts[4] is not None:
            stmts.append(
                nest(
                    (size, width),
                    lambda i, j: store(
                        self.state, (b, n, i, j), at(i, j) * T.exp(self._load(4, b, t, n, i))
                    ),
                )
            )
        stmts.append(nest((width,), lambda j: store(correction, j, self._load(2, b, n, t, j))))
        if self.parts[5] is not None:
            stmts.append(
                nest(
                    (size, width),
                    lambda i, j: store(
                        correction, j, correction[j] - at(i, j) * self._load(1, b, n, t, i)
                    ),
                )
            )
            rate = self._load(5, b, t, n)
            stmts.append(nest((width,), lambda j: store(correction, j, correction[j] * rate)))
        stmts.append(
            nest(
                (size, width),
                lambda i, j: store(
                    self.state,
                    (b, n, i, j),
                    at(i, j) + self._load(1, b, n, t, i) * correction[j],
                ),
            )
        )
        each = self.out.shape[1] // heads

        def read(g: Expr) -> Stmt:
            h = n * each + g
            clear = nest((width,), lambda j: store(self.out, (b, h, t, j), 0.0))
            add = nest(
                (size, width),
                lambda i, j: store(
                    self.out,
                    (b, h, t, j),
                    self.out[b, h, t, j] + self.scale * self._load(0, b, h, t, i) * at(i, j),
                ),
            )
            return seq(clear, add)

        return seq(*stmts, nest((each,), read, "g"))


OPERATORS: Final[tuple[Operator, ...]] = operators(linear_attention)
