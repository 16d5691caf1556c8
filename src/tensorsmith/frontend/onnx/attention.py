"""Attention and its relatives in ONNX's own domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import Buffer, Expr, as_expr

_MODES: Final = ("raw", "capped", "masked", "softmax")
"""What `qk_matmul_output_mode` asks for."""


def in_heads(node: Node, x: Buffer, heads: int, what: str) -> Buffer:
    """(batch, heads, length, size) of that, or of (batch, length, heads * size)."""
    if x.rank == 4:
        return x
    if x.rank != 3 or heads < 1:
        node.wrong(
            f"{what} has rank 4, or rank 3 and a number of heads", given=f"{x!r}, {heads} heads"
        )
    return node("split_heads", x, heads=heads)


def with_past(node: Node, x: Buffer, past: Buffer | None) -> tuple[Buffer, Expr]:
    """The keys or values with those of the past before them, and how many those are."""
    if past is None:
        return x, as_expr(0)
    return node("concat", past, x, axis=2), past.shape[2]


def attention(node: Node) -> tuple[Buffer | None, ...]:
    """Scaled products of queries and keys, masks, softmax, and means of values."""
    query, key, value = (node.tensor(n) for n in range(3))
    merged = query.rank == 3
    heads = node.integer("q_num_heads", 0)
    key_heads = node.integer("kv_num_heads", 0)
    query = in_heads(node, query, heads, "the query")
    key, offset = with_past(node, in_heads(node, key, key_heads, "the key"), node.optional(4))
    value, _ = with_past(node, in_heads(node, value, key_heads, "the value"), node.optional(5))
    node.ignore("softmax_precision")
    mask, lengths = node.optional(3), node.optional(6)
    view = {
        "scale": node.number("scale") if node.has("scale") else None,
        "offset": offset,
        "is_causal": node.flag("is_causal"),
        "softcap": node.number("softcap", 0.0),
        "window": (node.integer("left_window_size", -1), node.integer("right_window_size", -1)),
    }
    mode = node.integer("qk_matmul_output_mode", 0)
    made = node("attention", query, key, value, mask, lengths, **view)
    scores = None
    if node.has_output(3):
        if not 0 <= mode < len(_MODES):
            node.wrong(f"qk_matmul_output_mode is {mode}")
        scores = node("attention_scores", query, key, mask, lengths, mode=_MODES[mode], **view)
    return (node("merge_heads", made) if merged else made, key, value, scores)


def rotary_embedding(node: Node) -> Buffer:
    """Pairs of elements turned by angles that depend on the position."""
    x = node.tensor()
    made = node(
        "rotary_embedding",
        in_heads(node, x, node.integer("num_heads", 0), "the operand"),
        node.tensor(1),
        node.tensor(2),
        node.optional(3),
        size=node.integer("rotary_embedding_dim", 0),
        interleaved=node.flag("interleaved"),
    )
    return made if x.rank == 4 else node("merge_heads", made)


def linear_attention(node: Node) -> tuple[Buffer, ...]:
    """Attention with a state of constant size."""
    node.ignore("chunk_size")
    heads, key_heads = node.integer("q_num_heads"), node.integer("kv_num_heads")
    query = in_heads(node, node.tensor(0), heads, "the query")
    key = in_heads(node, node.tensor(1), key_heads, "the key")
    value = in_heads(node, node.tensor(2), key_heads, "the value")
    decay = node.optional(4)
    if decay is not None:
        apart = node("split_heads", decay, heads=key_heads)
        decay = node("transpose", apart, axes=(0, 2, 1, 3))
    result, state = node.apply(
        "linear_attention",
        query,
        key,
        value,
        node.optional(3),
        decay,
        node.optional(5),
        rule=node.text("update_rule", "gated_delta"),
        scale=node.number("scale", 0.0),
    )
    return node("merge_heads", result), state


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "Attention": attention,
    "LinearAttention": linear_attention,
    "RotaryEmbedding": rotary_embedding,
}
"""By operator of ONNX's own domain."""
