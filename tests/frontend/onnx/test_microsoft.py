"""Operators of com.microsoft against ONNX Runtime, which defines them."""

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from frontend.onnx.running import run

TYPES = {
    np.dtype(t): helper.np_dtype_to_tensor_dtype(np.dtype(t))
    for t in ("float32", "int32", "int64", "uint8", "int8", "bool", "object")
}


def model(op, inputs, results, attrs=None, constants=()):
    """A model of one node. inputs: arrays or None; constants: which of them it holds."""
    names = ["" if v is None else f"x{n}" for n, v in enumerate(inputs)]
    node = helper.make_node(op, names, list(results), domain="com.microsoft", **(attrs or {}))
    params = [
        helper.make_tensor_value_info(f"x{n}", TYPES[v.dtype], v.shape)
        for n, v in enumerate(inputs)
        if v is not None and n not in constants
    ]
    held = [numpy_helper.from_array(inputs[n], f"x{n}") for n in constants]
    outputs = [helper.make_tensor_value_info(r, t, None) for r, t in results.items() if r]
    graph = helper.make_graph([node], "g", params, outputs, initializer=held)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=imports)
    made.ir_version = 10
    return made


def check(op, inputs, results, *, attrs=None, constants=(), rtol=1e-4, atol=1e-5):
    made = model(op, inputs, results, attrs, constants)
    fed = [v for n, v in enumerate(inputs) if v is not None and n not in constants]
    ours = run(made, *fed)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    theirs = session.run(None, dict(zip((i.name for i in session.get_inputs()), fed, strict=True)))
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


F, I32, U8, S = (getattr(TensorProto, n) for n in ("FLOAT", "INT32", "UINT8", "STRING"))
rng = np.random.default_rng(0)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("a", "b"), [((0, 0), (1.0, 0)), ((1, 0), (0.5, 0)), ((1, 1), (2.0, 0))])
def test_fused_matmul(a, b):
    left = floats(2, 4, 3) if a[0] else floats(2, 3, 4)
    right = floats(2, 5, 4) if a[1] else floats(2, 4, 5)
    attrs = {"transA": a[0], "transB": a[1], "alpha": b[0]}
    check("FusedMatMul", [left, right], {"y": F}, attrs=attrs)


@pytest.mark.parametrize("activation", ["Relu", "Tanh", "Sigmoid", "LeakyRelu"])
def test_fused_conv(activation):
    attrs = {"activation": activation, "pads": [1, 1, 1, 1]}
    if activation == "LeakyRelu":
        attrs["activation_params"] = [0.2]
    check("FusedConv", [floats(1, 3, 5, 7), floats(4, 3, 3, 3), floats(4)], {"y": F}, attrs=attrs)


@pytest.mark.parametrize("op", ["BiasGelu", "FastGelu"])
def test_gelu_with_bias(op):
    check(op, [floats(3, 5), floats(5)], {"y": F})


def test_quick_gelu():
    check("QuickGelu", [floats(3, 5)], {"y": F})


def test_skip_layer_norm():
    inputs = [floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8)]
    check("SkipLayerNormalization", inputs, {"y": F})
    attrs = {"epsilon": 1e-3}
    check("SkipLayerNormalization", inputs[:4], {"y": F}, attrs=attrs)


def test_skip_rms_norm():
    inputs = [floats(2, 3, 8), floats(2, 3, 8), floats(8)]
    check("SkipSimplifiedLayerNormalization", inputs, {"y": F})


def test_embed_layer_norm():
    ids = rng.integers(0, 11, (2, 5)).astype(np.int32)
    segments = rng.integers(0, 2, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    tables = [floats(11, 8), floats(6, 8), floats(2, 8), floats(8), floats(8)]
    check("EmbedLayerNormalization", [ids, segments, *tables, mask], {"y": F, "m": I32})


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("masked", ["none", "lengths", "raw"])
def test_attention(unidirectional, masked):
    mask = {
        "none": None,
        "lengths": np.array([3, 5], np.int32),
        "raw": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32),
    }[masked]
    inputs = [floats(2, 5, 8), floats(8, 24), floats(24), mask]
    attrs = {"num_heads": 2, "unidirectional": unidirectional}
    check("Attention", inputs, {"y": F}, attrs=attrs)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_quantized_attention(unidirectional):
    inputs = [
        *(quantized(2, 5, 8), quantized(8, 24), floats(24)),
        *(np.array(0.01, np.float32), np.array(0.02, np.float32)),
        np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32),
        *(np.array(120, np.uint8), np.array(130, np.uint8)),
    ]
    attrs = {"num_heads": 2, "unidirectional": unidirectional}
    check("QAttention", inputs, {"y": F}, attrs=attrs, constants=(1, 4, 7), rtol=1e-3)


def test_attention_with_a_past():
    inputs = [floats(2, 3, 8), floats(8, 24), floats(24), None, floats(2, 2, 2, 4, 4)]
    attrs = {"num_heads": 2, "unidirectional": 1}
    check("Attention", inputs, {"y": F, "p": F}, attrs=attrs)


@pytest.mark.parametrize("extras", ["plain", "bias", "padding", "past"])
def test_multi_head_attention(extras):
    query, key, value = floats(2, 3, 8), floats(2, 5, 8), floats(2, 5, 8)
    inputs = [query, key, value]
    results = {"y": F}
    if extras == "bias":
        inputs += [floats(24), None, floats(2, 2, 3, 5)]
    if extras == "padding":
        inputs += [None, np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)]
    if extras == "past":
        inputs += [None, None, None, floats(2, 2, 4, 4), floats(2, 2, 4, 4)]
        results = {"y": F, "k": F, "v": F}
    check("MultiHeadAttention", inputs, results, attrs={"num_heads": 2})


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("window", [-1, 2])
@pytest.mark.parametrize("past", [0, 4])
def test_group_query_attention(rotary, window, past):
    new = 3 if not past else 1
    total = past + new
    caches = [floats(2, 2, past, 16), floats(2, 2, past, 16)]
    inputs = [
        floats(2, new, 64),
        floats(2, new, 32),
        floats(2, new, 32),
        *caches,
        np.full(2, total - 1, np.int32),
        np.array(total, np.int32),
    ]
    if rotary:
        inputs += [floats(16, 8), floats(16, 8)]
    attrs = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": rotary, "local_window_size": window}
    check("GroupQueryAttention", inputs, {"y": F, "k": F, "v": F}, attrs=attrs)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("first", [True, False])
def test_rotary_embedding(interleaved, first):
    positions = np.array([2], np.int64) if first else rng.integers(0, 9, (2, 3))
    inputs = [floats(2, 3, 16), positions.astype(np.int64), floats(9, 4), floats(9, 4)]
    check("RotaryEmbedding", inputs, {"y": F}, attrs={"interleaved": interleaved})


@pytest.mark.parametrize("zero_points", [False, True])
def test_matmul_n_bits(zero_points):
    rows, size, block = 5, 64, 32
    inputs = [
        floats(3, size),
        rng.integers(0, 256, (rows, size // block, block // 2)).astype(np.uint8),
        floats(rows * (size // block)),
    ]
    if zero_points:
        inputs.append(rng.integers(0, 256, rows * ((size // block + 1) // 2)).astype(np.uint8))
    attrs = {"K": size, "N": rows, "bits": 4, "block_size": block}
    constants = tuple(range(1, len(inputs)))
    check("MatMulNBits", inputs, {"y": F}, attrs=attrs, constants=constants, atol=1e-3)


def quantized(*shape):
    return rng.integers(0, 256, shape).astype(np.uint8)


def scale(value):
    return np.array(value, np.float32)


def zero(value):
    return np.array(value, np.uint8)


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_quantized_arithmetic(op):
    inputs = [
        *(quantized(3, 5), scale(0.05), zero(120)),
        *(quantized(3, 5), scale(0.1), zero(3)),
        *(scale(0.2), zero(90)),
    ]
    check(op, inputs, {"y": U8}, atol=1)


@pytest.mark.parametrize("op", ["QLinearSigmoid", "QLinearLeakyRelu"])
def test_quantized_activations(op):
    inputs = [quantized(3, 5), scale(0.05), zero(120), scale(0.01), zero(10)]
    check(op, inputs, {"y": U8}, atol=1)


def test_quantized_average_pool():
    inputs = [quantized(1, 2, 6, 6), scale(0.05), zero(120), scale(0.04), zero(100)]
    attrs = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    check("QLinearAveragePool", inputs, {"y": U8}, attrs=attrs, atol=1)


def test_quantized_concat():
    inputs = [
        *(scale(0.2), zero(90)),
        *(quantized(3, 5), scale(0.05), zero(120)),
        *(quantized(3, 2), scale(0.1), zero(3)),
    ]
    check("QLinearConcat", inputs, {"y": U8}, attrs={"axis": 1}, atol=1)


def test_matmul_integer_to_float():
    inputs = [quantized(3, 6), quantized(6, 5), scale(0.1), floats(5), zero(100), quantized(5)]
    check("MatMulIntegerToFloat", [*inputs, floats(5)], {"y": F}, rtol=1e-3)


def test_dynamic_quantize_matmul():
    inputs = [floats(3, 6), quantized(6, 5), floats(1), quantized(1), floats(5)]
    check("DynamicQuantizeMatMul", inputs, {"y": F}, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances(metric):
    check("CDist", [floats(4, 3), floats(5, 3)], {"y": F}, attrs={"metric": metric})


def test_a_new_axis_a_range_and_tuples():
    check("ExpandDims", [floats(3, 4), np.array(-2, np.int32)], {"y": F}, constants=[1])
    bounds = [np.array(v, np.float32) for v in (1, 7, 1.5)]
    check("Range", bounds, {"y": F})
    check("GatherND", [floats(3, 4), np.array([[2, 3], [0, -1]])], {"y": F})


def test_a_choice_of_quantized_tensors():
    condition = rng.random((3, 4)) < 0.5
    x, y = (rng.integers(0, 256, (3, 4)).astype(np.uint8) for _ in range(2))
    parts = [np.float32(0.1), np.uint8(3), np.float32(0.2), np.uint8(130)]
    scales = [np.array(p) for p in (*parts, np.float32(0.15), np.uint8(100))]
    inputs = [condition, x, *scales[:2], y, *scales[2:4], *scales[4:]]
    check("QLinearWhere", inputs, {"z": U8}, constants=[2, 3, 5, 6, 7, 8])


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("with_zero", [False, True])
def test_rows_of_a_quantized_table(bits, with_zero):
    rows, columns, block = 6, 64, 16
    data = rng.integers(0, 256, (rows, columns * bits // 8)).astype(np.uint8)
    scales = np.abs(floats(rows, columns // block))
    zero = rng.integers(0, 256, (rows, -(-columns // block * bits // 8))).astype(np.uint8)
    inputs = [data, np.array([[0, 5, -1], [2, 2, 1]]), scales, *([zero] if with_zero else [])]
    attrs = {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}
    check(
        "GatherBlockQuantized", inputs, {"y": F}, attrs=attrs, constants=[0, 2, 3][: 2 + with_zero]
    )


@pytest.mark.parametrize(
    "attrs",
    [
        {"separators": [" ", ","], "mark": 0, "mincharnum": 1},
        {"separators": [" "], "mark": 1, "mincharnum": 2},
        {"separators": [""], "mark": 0, "mincharnum": 1},
        {"tokenexp": "[a-z]+", "mark": 0, "mincharnum": 2},
        {"tokenexp": ".", "mark": 1, "mincharnum": 1},
    ],
)
@pytest.mark.parametrize("shape", [(3,), (1, 3)])
def test_words_of_strings(attrs, shape):
    words = np.array(["ab, c def", "x", "\u00e4b  cd,e"], object).reshape(shape)
    made = model("Tokenizer", [words], {"y": S}, {"pad_value": "#", **attrs})
    (ours,) = run(made, words)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, {"x0": words})
    assert ours.tolist() == theirs.tolist()
