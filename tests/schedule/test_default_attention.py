"""Attention of any sizes, layouts and masks in one pass over tiles of rows, natively."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorsmith.compiler import compile
from tensorsmith.compiler.pipeline import run
from tensorsmith.ir import Buffer, GraphFunction, IRModule, Var
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.schedule import Fallback, default_schedule
from tensorsmith.verify import verify

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Draw:
    """Extents, which of them are symbolic, whether heads lie inside of positions, the mask, and the
    type of elements."""

    batch: int
    heads: int
    queries: int
    keys: int
    size: int
    values: int
    symbolic: str
    inside: bool
    mask: str
    dtype: str


DRAWS = st.builds(
    Draw,
    st.sampled_from((1, 2)),
    st.sampled_from((1, 3)),
    st.sampled_from((2, 5, 8, 17, 33)),
    st.sampled_from((2, 7, 16, 31, 32, 65, 130)),
    st.sampled_from((2, 8, 13, 32)),
    st.sampled_from((4, 16, 20, 32, 64, 80)),
    st.sampled_from(("", "bij", "ij", "j", "i")),
    st.booleans(),
    st.sampled_from(("", "keys", "causal", "none first")),
    st.sampled_from(("float32", "float32", "float64")),
)


def graph(d: Draw) -> GraphFunction:
    """The softmax of scaled, masked scores, times the values."""
    b, i, j = (
        Var(name, low=1) if name in d.symbolic else extent
        for name, extent in (("b", d.batch), ("i", d.queries), ("j", d.keys))
    )
    g = GraphBuilder(OPERATORS)

    def operand(name: str, length: object, size: int) -> Buffer:
        if not d.inside:
            return g.param(name, (b, d.heads, length, size), d.dtype)
        x = g.param(name, (b, length, d.heads, size), d.dtype)
        return g("transpose", x, axes=(0, 2, 1, 3))

    q, k, v = operand("q", i, d.size), operand("k", j, d.size), operand("v", j, d.values)
    scores = g("matmul", q, g("transpose", k, axes=(0, 1, 3, 2)))
    scores = g("div", scores, g.scalar(2.7, d.dtype))
    if d.mask:
        shape = (b, 1, 1, j) if d.mask == "keys" else (i, j)
        scores = g("add", scores, g.param("mask", shape, d.dtype))
    means = g("matmul", g("softmax", scores), v)
    if d.inside:
        means = g("transpose", means, axes=(0, 2, 1, 3))
    return g.function("main", [means])


def reference(d: Draw, arrays: list[Array]) -> Array:
    """The same in double precision."""
    q, k, v, *mask = (a.astype(np.float64) for a in arrays)
    if d.inside:
        q, k, v = (a.transpose(0, 2, 1, 3) for a in (q, k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / 2.7
    if mask:
        scores += mask[0]
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
    found = weights / weights.sum(-1, keepdims=True) @ v
    return found.transpose(0, 2, 1, 3) if d.inside else found


def operands(d: Draw, rng: np.random.Generator) -> list[Array]:
    """Large queries, so that scores are far apart."""
    sizes = (d.queries, d.size), (d.keys, d.size), (d.keys, d.values)
    shapes = [(d.batch, n, d.heads, s) if d.inside else (d.batch, d.heads, n, s) for n, s in sizes]
    q, k, v = (rng.standard_normal(s).astype(d.dtype) for s in shapes)
    arrays = [q * 8, k, v]
    if d.mask == "keys":
        hidden = rng.random((d.batch, 1, 1, d.keys)) < 0.3
        arrays.append(np.where(hidden, -np.inf, 0).astype(d.dtype))
    elif d.mask:
        r, c = np.indices((d.queries, d.keys))
        arrays.append(np.where(c > r - (d.mask == "none first"), -np.inf, 0).astype(d.dtype))
    return arrays


@given(DRAWS)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_attention_of_any_sizes(d: Draw) -> None:
    module = run(IRModule.of(graph(d)))
    (program,) = module.programs.values()
    notes: list[Fallback] = []
    verify(default_schedule(program, fallbacks=notes).program)
    assert not notes
    arrays = operands(d, np.random.default_rng(d.keys))
    expected = reference(d, arrays)
    out = compile(IRModule.of(graph(d)), threads=2, cache=False)(*arrays)
    eps = float(np.finfo(np.dtype(d.dtype)).eps)
    largest = float(np.abs(arrays[0]).max() * np.abs(arrays[1]).max()) * d.size
    np.testing.assert_allclose(out, expected, rtol=0, atol=4 * eps * (d.keys + largest))


def seen(options: dict[str, Any], queries: int, keys: int) -> Array:
    """Which keys a query sees."""
    i, j = np.indices((queries, keys))
    here = i + options.get("offset", 0)
    before, after = options.get("window", (-1, -1))
    found = np.ones((queries, keys), bool)
    if options.get("is_causal"):
        found &= j <= here
    if before >= 0:
        found &= here - before <= j
    return found if after < 0 else found & (j <= here + after)


@pytest.mark.parametrize("groups", [3, 1])
@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True, "offset": -3}, {"window": (4, 0)}, {"softcap": 3.0}],
    ids=lambda options: "-".join(options) or "plain",
)
def test_the_operator_with_fewer_heads_of_keys(options: dict[str, Any], groups: int) -> None:
    g = GraphBuilder(OPERATORS)
    n = Var("n", low=1)
    q = g.param("q", (2, 6, n, 16), "float32")
    k, v = (g.param(name, (2, groups, n, 16), "float32") for name in "kv")
    module = IRModule.of(g.function("main", [g("attention", q, k, v, **options)]))
    notes: list[Fallback] = []
    (program,) = run(module).programs.values()
    default_schedule(program, fallbacks=notes)
    assert not notes
    model = compile(module, threads=2, cache=False)
    for length in (1, 19):
        rng = np.random.default_rng(length)
        shapes = [(2, heads, length, 16) for heads in (6, groups, groups)]
        args = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        a, b, c = (np.repeat(x, 6 // x.shape[1], axis=1).astype(np.float64) for x in args)
        scores = a @ b.transpose(0, 1, 3, 2) / 4
        if "softcap" in options:
            scores = 3 * np.tanh(scores / 3)
        weights = np.where(seen(options, length, length), np.exp(scores), 0)
        total = weights.sum(-1, keepdims=True)
        expected = weights @ c / np.where(total == 0, 1, total)  # what sees nothing gives zeros
        np.testing.assert_allclose(model(*args), expected, rtol=1e-5, atol=1e-5)


def test_decoding_is_no_tile_of_rows() -> None:
    g = GraphBuilder(OPERATORS)
    n = Var("n", low=1)
    q = g.param("q", (1, 2, 1, 16), "float32")
    k, v = (g.param(name, (1, 2, n, 16), "float32") for name in "kv")
    model = compile(IRModule.of(g.function("main", [g("attention", q, k, v)])), threads=1)
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((1, 2, m, 16)).astype(np.float32) for m in (1, 21, 21))
    weights = np.exp((a.astype(np.float64) @ b.transpose(0, 1, 3, 2)) / 4)
    expected = weights @ c / weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(model(a, b, c), expected, rtol=1e-5, atol=1e-5)
