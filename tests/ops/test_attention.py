"""Attention against ONNX."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference, random
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def operands(rng, heads=4, groups=4, dtype="float32"):
    shapes = (2, heads, 3, 8), (2, groups, 5, 8), (2, groups, 5, 6)
    return [random(rng, s, dtype) for s in shapes]


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {}),
        ({"is_causal": True}, {"is_causal": 1}),
        ({"scale": 0.3, "softcap": 2.0}, {"scale": 0.3, "softcap": 2.0}),
        ({"window": (1, 0)}, {"left_window_size": 1, "right_window_size": 0}),
    ],
)
@pytest.mark.parametrize("groups", [4, 2, 1])
def test_attention(groups, ours, theirs, native):
    q, k, v = operands(np.random.default_rng(0), groups=groups)
    got = compute("attention", q, k, v, native=native, **ours)
    expected = onnx_reference("Attention", q, k, v, opset=25, **theirs)
    np.testing.assert_allclose(got, expected, **TOLERANCE)


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize("dtype", ["bool", "float32"])
@pytest.mark.parametrize("shape", [(3, 5), (4, 3, 5), (2, 1, 3, 5), (1, 1, 1, 5), (3, 4)])
def test_masks(shape, dtype, symbolic):
    rng = np.random.default_rng(1)
    q, k, v = operands(rng)
    mask = random(rng, shape, dtype)
    sizes = {(k, d) for k in range(3) for d in (0, 2)} if symbolic else False
    got = compute("attention", q, k, v, mask, symbolic=sizes)
    expected = onnx_reference("Attention", q, k, v, mask, opset=25)
    np.testing.assert_allclose(got, expected, **TOLERANCE)


def test_lengths_and_rows_that_see_nothing():
    q, k, v = operands(np.random.default_rng(2))
    lengths = np.array([2, 5])
    for causal in (False, True):
        got = compute("attention", q, k, v, None, lengths, is_causal=causal)
        expected = onnx_reference(
            "Attention", q, k, v, None, None, None, lengths, opset=25, is_causal=int(causal)
        )
        np.testing.assert_allclose(got, expected, **TOLERANCE)
        assert causal != bool(got[0, :, 0].any())


def test_keys_of_the_past():
    rng = np.random.default_rng(3)
    q, k, v = operands(rng)
    past = random(rng, (2, 4, 2, 8)), random(rng, (2, 4, 2, 6))
    expected, keys, values = onnx_reference(
        "Attention", q, k, v, None, *past, opset=25, is_causal=1, outputs=3
    )
    got = compute("attention", q, keys, values, is_causal=True, offset=2)
    np.testing.assert_allclose(got, expected, **TOLERANCE)


@pytest.mark.parametrize("mode", range(4))
def test_scores(mode):
    rng = np.random.default_rng(4)
    q, k, v = operands(rng)
    mask, cap = random(rng, (3, 5)), 1.5 if mode else 0.0
    *_, expected = onnx_reference(
        "Attention", q, k, v, mask, opset=25, outputs=4, softcap=cap, qk_matmul_output_mode=mode
    )
    name = ("raw", "capped", "masked", "softmax")[mode]
    got = compute("attention_scores", q, k, mask, mode=name, softcap=cap)
    np.testing.assert_allclose(got, expected, **TOLERANCE)


def test_narrow_floats():
    q, k, v = operands(np.random.default_rng(5), dtype="float16")
    got = compute("attention", q, k, v)
    wide = compute("attention", *(a.astype(np.float32) for a in (q, k, v)))
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, wide, rtol=2**-10, atol=1e-4)


def test_attention_from_its_parts():
    q, k, v = operands(np.random.default_rng(6), groups=2)
    scores = compute("query_key", q, k)
    weights = compute("softmax", scores)
    got = compute("weighted_values", weights, v)
    np.testing.assert_allclose(got, compute("attention", q, k, v), **TOLERANCE)


@pytest.mark.parametrize("native", WAYS)
def test_means_by_softmax(native):
    rng = np.random.default_rng(8)
    scores, value = random(rng, (2, 3, 4, 5)) * 40, random(rng, (2, 3, 5, 6))
    scores[0, 0, 1, 2:] = -np.inf
    scores[1, 2, 3] = -np.inf
    got = compute("softmax_means", scores, value, native=native)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ value
    np.testing.assert_allclose(got, expected, **TOLERANCE)
    assert np.isnan(got[1, 2, 3]).all(), "a row of nothing has no mean, as with softmax"


def test_heads():
    x = random(np.random.default_rng(7), (2, 3, 8))
    got = compute("split_heads", x, heads=4)
    np.testing.assert_array_equal(got, x.reshape(2, 3, 4, 2).transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(compute("merge_heads", got), x)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("size", [0, 4])
@pytest.mark.parametrize("has_positions", [False, True])
def test_rotary_embedding(has_positions, size, interleaved, native):
    rng = np.random.default_rng(8)
    x, half = random(rng, (2, 3, 4, 8)), (size or 8) // 2
    shape = (7, half) if has_positions else (2, 4, half)
    angles = [random(rng, shape), random(rng, shape)]
    at = [rng.integers(0, 7, (2, 4))] if has_positions else []
    got = compute(
        "rotary_embedding", x, *angles, *at, size=size, interleaved=interleaved, native=native
    )
    expected = onnx_reference(
        "RotaryEmbedding", x, *angles, *at, rotary_embedding_dim=size, interleaved=int(interleaved)
    )
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("has_past", [False, True])
def test_linear_attention(has_past, rule, native):
    rng = np.random.default_rng(9)
    b, t, heads, groups, size, width = 2, 5, 4, 2, 3, 4
    q = random(rng, (b, t, heads * size))
    k, v = random(rng, (b, t, groups * size)), random(rng, (b, t, groups * width))
    past = random(rng, (b, groups, size, width)) if has_past else None
    decay = -np.abs(random(rng, (b, t, groups * size))) if "gated" in rule else None
    rate = random(rng, (b, t, groups)) if "delta" in rule else None
    expected = onnx_reference(
        "LinearAttention", q, k, v, past, decay, rate,
        opset=27, outputs=2, update_rule=rule, q_num_heads=heads, kv_num_heads=groups,
    )  # fmt: skip

    def split(x, n):
        return x.reshape(b, t, n, -1).transpose(0, 2, 1, 3)

    log = None if decay is None else decay.reshape(b, t, groups, size)
    out, state = compute(
        "linear_attention", split(q, heads), split(k, groups), split(v, groups), past, log, rate,
        rule=rule, native=native,
    )  # fmt: skip
    merged = out.transpose(0, 2, 1, 3).reshape(b, t, heads * width)
    np.testing.assert_allclose(merged, expected[0], **TOLERANCE)
    np.testing.assert_allclose(state, expected[1], **TOLERANCE)


def test_operands_that_do_not_fit():
    q, k = placeholder((1, 4, 3, 8)), placeholder((1, 3, 5, 8))
    with pytest.raises(ShapeError):
        OPERATORS["attention"]([q, k, k], {})
    with pytest.raises(ShapeError):
        OPERATORS["attention"]([q, q, placeholder((1, 4, 2, 8))], {})
    with pytest.raises(DTypeError):
        OPERATORS["attention"]([q, q, q, placeholder((3, 3), "int32")], {})
    with pytest.raises(ShapeError):
        OPERATORS["split_heads"]([placeholder((1, 3, 10))], {"heads": 4})
    with pytest.raises(ShapeError):
        OPERATORS["linear_attention"]([q, q, q], {"rule": "gated"})
