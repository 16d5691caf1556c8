"""Operators whose meaning changed from version to version, each in its versions."""

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from frontend.onnx.running import check, parse, run, same
from tensorsmith.frontend.onnx import from_onnx

F = np.float32
rng = np.random.default_rng(0)


def by_runtime(model, *inputs, rtol=1e-6):
    """Compare with ONNX Runtime, which knows the old versions."""
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    theirs = session.run(None, dict(zip(names, inputs, strict=True)))
    for a, b in zip(run(model, *inputs), theirs, strict=True):
        same(a, b, rtol)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_softmax_of_rows_and_of_one_axis(op, opset, axis):
    attrs = "" if axis is None else f"<axis = {axis}>"
    model = parse(f"g (float[n, 3, 4] x) => (float[n, 3, 4] y) {{ y = {op}{attrs}(x) }}", opset)
    by_runtime(model, rng.standard_normal((2, 3, 4)).astype(F), rtol=1e-5)


@pytest.mark.parametrize(
    ("opset", "text"),
    [
        (11, "y = Squeeze<axes = [1]>(x)"),
        (13, "a = Constant<value_ints = [1]>() y = Squeeze(x, a)"),
        (11, "y = Unsqueeze<axes = [0, 2]>(x)"),
        (13, "a = Constant<value_ints = [0, -1]>() y = Unsqueeze(x, a)"),
        (9, "y = Slice<starts = [1], ends = [100], axes = [0]>(x)"),
        (6, "y = Clip<min = -0.5, max = 0.5>(x)"),
        (11, "y = ReduceSum<axes = [0], keepdims = 0>(x)"),
        (13, "a = Constant<value_ints = [0]>() y = ReduceSum<keepdims = 0>(x, a)"),
        (11, "y = ReduceMean<axes = [-1]>(x)"),
        (18, "a = Constant<value_ints = [-1]>() y = ReduceMean(x, a)"),
        (18, "y = ReduceSum<noop_with_empty_axes = 1>(x)"),
        (10, "y = Dropout(x)"),
        (13, "y = Dropout(x)"),
    ],
)
def test_attributes_became_operands(opset, text):
    model = parse(f"g (float[n, 1, 4] x) => (float[] y) {{ {text} }}", opset)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    by_runtime(model, rng.standard_normal((3, 1, 4)).astype(F), rtol=1e-5)


def test_upsample_by_attribute():
    model = parse(
        'g (float[1, 1, 2, 3] x) => (float[a, b, c, d] y) { y = Upsample<mode = "nearest",'
        " scales = [1.0, 1.0, 2.0, 3.0]>(x) }",
        7,
    )
    x = np.arange(6, dtype=F).reshape(1, 1, 2, 3)
    np.testing.assert_array_equal(run(model, x)[0], x.repeat(2, 2).repeat(3, 3))


@pytest.mark.parametrize(("axis", "shape"), [(None, (4, 5)), (1, (3,)), (0, (2, 3)), (0, (2,))])
def test_broadcast_by_attribute(axis, shape):
    attrs = "broadcast = 1" + ("" if axis is None else f", axis = {axis}")
    dims = ", ".join(map(str, shape))
    model = parse(
        f"g (float[2, 3, 4, 5] a, float[{dims}] b) => (float[2, 3, 4, 5] y)"
        f" {{ y = Add<{attrs}>(a, b) }}",
        6,
    )
    a, b = rng.standard_normal((2, 3, 4, 5)).astype(F), rng.standard_normal(shape).astype(F)
    start = 4 - len(shape) if axis is None else axis
    expected = a + b.reshape(shape + (1,) * (4 - start - len(shape)))
    np.testing.assert_array_equal(run(model, a, b)[0], expected)


def test_slope_of_one_a_channel():
    model = parse(
        "g (float[1, 4, 2, 4] x, float[4] s) => (float[a, b, c, d] y) { y = PRelu(x, s) }", 6
    )
    x, s = rng.standard_normal((1, 4, 2, 4)).astype(F), rng.standard_normal(4).astype(F)
    expected = np.where(x < 0, x * s[:, None, None], x)
    np.testing.assert_array_equal(run(model, x, s)[0], expected)


def test_slope_broadcasts_from_the_last_axis():
    model = parse(
        "g (float[1, 4, 4, 4] x, float[4] s) => (float[a, b, c, d] y) { y = PRelu(x, s) }"
    )
    check(model, rng.standard_normal((1, 4, 4, 4)).astype(F), rng.standard_normal(4).astype(F))


def test_extremes_keep_nan():
    one = parse("g (float[4] x) => (float y) { y = ReduceMax<keepdims = 0>(x) }")
    check(one, np.array([np.nan, np.nan, np.nan, 42], F))
    rows = parse(
        "g (float[2, 2] x) => (float[2] y) { a = Constant<value_ints = [1]>()"
        " y = ReduceMax<keepdims = 0>(x, a) }"
    )
    check(rows, np.array([[np.nan, 1], [2, np.nan]], F))


@pytest.mark.parametrize("extents", [(9, 10), (8, 8), (4, 7)])
@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_automatic_padding_of_symbolic_images(extents, pad):
    model = parse(
        "g (float[n, 3, h, w] x, float[4, 3, 3, 3] k) => (float[n, 4, a, b] y)"
        f' {{ y = Conv<auto_pad = "{pad}", strides = [2, 2]>(x, k) }}'
    )
    x = rng.standard_normal((1, 3, *extents)).astype(F)
    by_runtime(model, x, rng.standard_normal((4, 3, 3, 3)).astype(F), rtol=1e-3)


def test_grouped_convolution_with_a_kernel_longer_than_the_input():
    model = parse(
        "g (float[1, 64, 8] x, float[64, 4, 6] k) => (float[1, 64, m] y)"
        " { y = Conv<group = 16, pads = [3, 3]>(x, k) }"
    )
    x = rng.standard_normal((1, 64, 8)).astype(F)
    by_runtime(model, x, rng.standard_normal((64, 4, 6)).astype(F), rtol=1e-3)


def test_a_model_without_a_stated_opset_is_of_the_first():
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (2,)) for n in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph)
    del model.opset_import[:]
    model.ir_version = 2
    assert "neg" in from_onnx(model).script()


def test_an_initializer_among_the_inputs_is_a_constant():
    model = parse("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }", 7)
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0]))
    module = from_onnx(model)
    assert [p.name for p in module["main"].params] == ["x"]


def test_functions_of_the_model():
    model = parse(
        """g (float[n] x) => (float[n] y) { y = local.twice<alpha = 0.25>(x) }
        <domain: "local", opset_import: ["" : 18]>
        once<alpha>(a) => (b) { b = LeakyRelu<alpha: float = @alpha>(a) }
        <domain: "local", opset_import: ["" : 18, "local" : 1]>
        twice<alpha>(a) => (b) {
            c = local.once<alpha: float = @alpha>(a)
            b = local.once<alpha: float = @alpha>(c)
        }""",
        local=1,
    )
    x = rng.standard_normal(7).astype(F)
    np.testing.assert_array_equal(run(model, x)[0], np.where(x < 0, x * F(0.0625), x))


def test_outputs_may_be_inputs_and_repeat():
    model = parse("g (float[n] x) => (float[n] x, float[n] y) { y = Neg(x) }")
    x = rng.standard_normal(3).astype(F)
    found = run(model, x)
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], -x)
