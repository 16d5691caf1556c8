"""Attention as the domain com.microsoft has it. Source: ONNX Runtime, ContribOperators.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tensorsmith.frontend.onnx.attention import in_heads, with_past
from tensorsmith.frontend.onnx.microsoft import with_bias
from tensorsmith.frontend.onnx.movement import split_in
from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.ir import Buffer, Const, Expr, as_expr
from tensorsmith.ir.expr import Max


def _mask(node: Node, given: Buffer | None, bias: Buffer | None, keys: Expr) -> Buffer | None:
    """The mask (bools or floats) that a mask of integers, or lengths, and a bias mean."""
    if given is None:
        return bias
    if given.rank not in (1, 2, 3):
        node.unsupported(f"a mask of rank {given.rank}")
    zero, one = (node.builder.scalar(n, given.dtype) for n in (0, 1))
    if given.rank == 1:  # how many keys of each batch there are
        places = node("range", zero, one, count=keys)
        seen = node("less", places, node("expand_dims", given, axes=(1,)))
    else:
        seen = node("logical_not", node("equal", given, zero))
    seen = node("expand_dims", seen, axes=(1,) if given.rank == 3 else (1, 2))
    if bias is None:
        return seen
    return node("where", seen, bias, node.builder.scalar(float("-inf"), bias.dtype))


def _view(node: Node, offset: Expr | int) -> dict[str, Any]:
    """Attributes of the products that several operators share."""
    node.ignore("mask_filter_value")
    scale = node.number("scale", 0.0)
    return {
        "scale": scale or None,
        "offset": offset,
        "is_causal": node.flag("unidirectional"),
    }


def attention(node: Node) -> tuple[Buffer | None, ...]:
    """Products of one tensor with weights for queries, keys and values, and attention."""
    node.ignore("past_present_share_buffer", "rotary_embedding_dim")
    if node.flag("do_rotary") or node.value(6) is not None:
        node.unsupported("rotary embedding or a shared past in this operator")
    weight = node.tensor(1)
    joined = with_bias(node, node("matmul", node.tensor(0), weight), node.optional(2))
    width = node.builder.facts.simplify(weight.shape[1] // 3)
    sizes = node.integers("qkv_hidden_sizes", None) or (width,) * 3
    operands = (node.optional(3), node.optional(4), node.optional(5))
    return _attended(node, joined, tuple(map(as_expr, sizes)), operands)


def quantized_attention(node: Node) -> tuple[Buffer | None, ...]:
    """The same, of bytes: the products are exact, and floats from there on."""
    node.ignore("past_present_share_buffer", "rotary_embedding_dim")
    if node.flag("do_rotary"):
        node.unsupported("rotary embedding in this operator")
    weight = node.tensor(1)
    total = node("matmul_integer", node.tensor(0), weight, node.optional(6), node.optional(7))
    scale = node("mul", node.tensor(3), node.tensor(4))
    floats = node("mul", node("cast", total, dtype=scale.dtype.name), scale)
    width = node.builder.facts.simplify(weight.shape[1] // 3)
    joined = with_bias(node, floats, node.optional(2))
    operands = (node.optional(5), node.optional(8), None)
    return _attended(node, joined, (width,) * 3, operands)


def _attended(
    node: Node,
    joined: Buffer,
    sizes: tuple[Expr, ...],
    operands: tuple[Buffer | None, Buffer | None, Buffer | None],
) -> tuple[Buffer | None, ...]:
    """Attention of projections side by side. operands: the mask, the past, and a bias."""
    mask, past, bias = operands
    heads = node.integer("num_heads")
    parts = split_in(node, joined, sizes, 2)
    query, key, value = (in_heads(node, p, heads, "a projection") for p in parts)
    halves = (None, None) if past is None else _halves(node, past)
    key, offset = with_past(node, key, halves[0])
    value, _ = with_past(node, value, halves[1])
    seen = _mask(node, mask, bias, key.shape[2])
    made = node("attention", query, key, value, seen, **_view(node, offset))
    present = node("stack", key, value, axis=0) if node.has_output(1) else None
    return node("merge_heads", made), present


def _halves(node: Node, past: Buffer) -> tuple[Buffer, Buffer]:
    """The keys and the values of a past that holds both."""
    pieces = split_in(node, past, (as_expr(1), as_expr(1)), 0)
    key, value = (node("squeeze", p, axes=(0,)) for p in pieces)
    return key, value


def multi_head_attention(node: Node) -> tuple[Buffer, ...]:
    """Attention of queries, keys and values that are given."""
    query, key, value = (node.tensor(n) for n in range(3))
    heads = node.integer("num_heads")
    bias = node.optional(3)
    if bias is not None:
        sizes = (query.shape[-1], key.shape[-1], value.shape[-1])
        parts = split_in(node, bias, sizes, 0)
        query, key, value = (
            node("add", x, b) for x, b in zip((query, key, value), parts, strict=True)
        )
    query, key, value = (in_heads(node, x, heads, "an operand") for x in (query, key, value))
    key, offset = with_past(node, key, node.optional(6))
    value, _ = with_past(node, value, node.optional(7))
    mask = _mask(node, node.optional(4), node.optional(5), key.shape[2])
    made = node("attention", query, key, value, mask, **_view(node, offset))
    return node("merge_heads", made), key, value


# --- Groups of queries -----------------------------------------------------------------------


def group_query_attention(node: Node) -> tuple[Buffer, ...]:
    """Causal attention with fewer heads of keys, a cache, and rotary embedding on request.

    The length of each sequence of the batch is an operand; what is new stands at its end.
    """
    if node.flag("smooth_softmax") or node.value(11) is not None:
        node.unsupported("softmax with a sink")
    node.ignore("qk_output")
    heads, key_heads = node.integer("num_heads"), node.integer("kv_num_heads")
    query, key, value = _operands(node, heads, key_heads)
    lengths = node("add", node.tensor(5), node.builder.scalar(1, "int32"))
    new = node.builder.elements((query.shape[2],), "int32")
    starts = node("sub", lengths, new)
    if node.flag("do_rotary"):
        places = _positions(node, starts, query.shape[2])
        query, key = (_rotated(node, x, places) for x in (query, key))
    else:
        node.ignore("rotary_interleaved")
    key = _cached(node, key, node.optional(3), starts)
    value = _cached(node, value, node.optional(4), starts)
    window = node.integer("local_window_size", -1)
    made = node(
        "attention",
        query,
        key,
        value,
        node.optional(10),
        lengths,
        scale=node.number("scale", 0.0) or None,
        softcap=node.number("softcap", 0.0),
        is_causal=True,
        window=(window - 1 if window > 0 else -1, -1),
    )
    return node("merge_heads", made), key, value


def _operands(node: Node, heads: int, key_heads: int) -> tuple[Buffer, ...]:
    """Queries, keys and values by heads, which one operand may hold together."""
    query, key, value = node.tensor(0), node.optional(1), node.optional(2)
    if key is None or value is None:
        facts = node.builder.facts
        size = facts.simplify(query.shape[2] // (heads + 2 * key_heads))
        sizes = tuple(facts.simplify(size * n) for n in (heads, key_heads, key_heads))
        query, key, value = split_in(node, query, sizes, 2)
    parts = ((query, heads), (key, key_heads), (value, key_heads))
    return tuple(in_heads(node, x, n, "an operand") for x, n in parts)


def _positions(node: Node, starts: Buffer, length: Expr) -> Buffer:
    """Where each new token stands in its sequence: (batch, length)."""
    given = node.optional(9)
    if given is not None:
        return given
    zero, one = (node.builder.scalar(n, "int32") for n in (0, 1))
    steps = node("range", zero, one, count=length)
    rows, columns = node("expand_dims", starts, axes=(1,)), node("expand_dims", steps, axes=(0,))
    return node("add", rows, columns)


def _rotated(node: Node, x: Buffer, places: Buffer) -> Buffer:
    turned = node.tensor(7).shape[1] * 2
    whole = node.builder.facts.equal(turned, x.shape[3])
    return node(
        "rotary_embedding",
        x,
        node.tensor(7),
        node.tensor(8),
        places,
        size=0 if whole else turned,
        interleaved=node.flag("rotary_interleaved"),
    )


def _cached(node: Node, new: Buffer, past: Buffer | None, starts: Buffer) -> Buffer:
    """The cache with what is new, as long as the longest sequence needs or longer."""
    if past is None:
        return new
    totals = node.numbers_of(6, "total", low=0)
    if not totals:
        node.wrong("the total length is missing")
    facts = node.builder.facts
    length = facts.simplify(Max(past.shape[2], totals[0]))
    more = facts.simplify(length - past.shape[2])
    zeros = (as_expr(0),) * 4
    room = node("pad", past, before=zeros, after=(*zeros[:2], more, zeros[3]))
    return node("tensor_scatter", room, new, starts, axis=2)


def rotary_embedding(node: Node) -> Buffer:
    """Pairs of elements turned by angles; positions are given, or where the first one is."""
    node.ignore("is_packed_batching", "scale")
    x, positions = node.tensor(0), node.tensor(1)
    cosines, sines = node.tensor(2), node.tensor(3)
    size = node.integer("rotary_embedding_dim", 0)
    heads = node.integer("num_heads", 0)
    turned = node.builder.facts.simplify(as_expr(size) if size else cosines.shape[1] * 2)
    if x.rank == 3 and not heads:
        count = node.builder.facts.simplify(x.shape[2] // turned)
        heads = int(count.value) if isinstance(count, Const) else 0
    apart = in_heads(node, x, heads, "the operand")
    if positions.rank == 1:
        zero, one = (node.builder.scalar(n, positions.dtype) for n in (0, 1))
        steps = node("range", zero, one, count=apart.shape[2])
        row = node("expand_dims", node("add", positions, steps), axes=(0,))
        positions = node("expand", row, shape=(apart.shape[0], apart.shape[2]))
    made = node(
        "rotary_embedding",
        apart,
        cosines,
        sines,
        positions,
        size=size,
        interleaved=node.flag("interleaved"),
    )
    return made if x.rank == 4 else node("merge_heads", made)


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "Attention": attention,
    "GroupQueryAttention": group_query_attention,
    "MultiHeadAttention": multi_head_attention,
    "QAttention": quantized_attention,
    "RotaryEmbedding": rotary_embedding,
}
"""By operator of the domain com.microsoft."""
