"""Positions outside of their axes: an error that names the node, by either way of running."""

import numpy as np
import pytest
from onnx import helper

import tensorsmith
from frontend.onnx.running import check, parse, run
from tensorsmith.errors import EvaluationError, ShapeError
from tensorsmith.frontend.onnx import from_onnx

X = np.arange(12, dtype=np.float32).reshape(3, 4)
U = np.full((2, 4), -1, np.float32)

CASES = {
    "Gather": ("int64[k] i", "Gather(x, i)", [np.array([0, -3, 2])], [np.array([3]), [-4]]),
    "Gather<axis = 1>": ("int32[k] i", "Gather<axis = 1>(x, i)", [np.array([3, -4])], [[4], [-5]]),
    "GatherElements": (
        "int64[k, m] i",
        "GatherElements<axis = 1>(x, i)",
        [np.array([[0, -4], [3, 1], [2, 2]])],
        [np.array([[0, 4]]), np.array([[-5, 0]])],
    ),
    "GatherND": (
        "int64[k, 2] i",
        "GatherND(x, i)",
        [np.array([[2, 3], [-3, -4]])],
        [np.array([[3, 0]]), np.array([[0, 4]]), np.array([[0, -5]])],
    ),
    "ScatterElements": (
        "int64[2, 4] i, float[2, 4] u",
        "ScatterElements(x, i, u)",
        [np.array([[0, 1, 2, -1], [1, 2, 0, -3]])],
        [np.array([[0, 0, 0, 3], [1, 1, 1, 1]]), np.array([[0, 0, 0, -4], [1, 1, 1, 1]])],
    ),
    "ScatterND": (
        "int64[2, 1] i, float[2, 4] u",
        "ScatterND(x, i, u)",
        [np.array([[2], [-3]])],
        [np.array([[2], [3]]), np.array([[-4], [0]])],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_given_positions(name):
    params, call, good, bad = CASES[name]
    model = parse(f"g (float[n, 4] x, {params}) => (float[a, b] y) {{ y = {call} }}")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    kind = np.int32 if "int32" in params else np.int64
    rest = [U] if "u" in params.split()[-1] else []
    exe = tensorsmith.compile(model)
    for i in good:
        at = np.asarray(i, kind)
        check(model, X, at, *rest)
        np.testing.assert_array_equal(exe(X, at, *rest), run(model, X, at, *rest)[0])
    for i in bad:
        at = np.asarray(i, kind)
        message = rf"{name.split('<')[0]} \(node 0\): a position lies outside of an axis of"
        with pytest.raises(EvaluationError, match=message):
            exe(X, at, *rest)
        with pytest.raises(EvaluationError, match=message):
            run(model, X, at, *rest)


def test_positions_that_the_model_computes():
    text = "g (float[n, 4] x, int64[k] i) => (float[k, 4] y) { j = Add(i, i) y = Gather(x, j) }"
    exe = tensorsmith.compile(parse(text))
    np.testing.assert_array_equal(exe(X, np.array([1, -1])), X[[2, -2]])
    with pytest.raises(EvaluationError, match=r"Gather \(node 1\): a position lies outside"):
        exe(X, np.array([2]))


def test_no_positions_at_all():
    model = parse("g (float[n, 4] x, int64[k] i) => (float[k, 4] y) { y = Gather(x, i) }")
    exe = tensorsmith.compile(model, min_extent=0)
    assert exe(X, np.zeros(0, np.int64)).shape == (0, 4)


def test_a_constant_position_is_refused_while_reading():
    text = """g (float[3, 4] x) => (float[2, 4] y) {
        i = Constant<value_ints = [3, -1]>()
        y = Gather(x, i)
    }"""
    with pytest.raises(ShapeError) as caught:
        from_onnx(parse(text))
    assert str(caught.value) == (
        "onnx: Gather (node 1): the position 3 lies outside of an axis of 3"
    )


def test_a_constant_position_in_an_axis_that_is_not_known():
    text = """g (float[n] x) => (float y) {
        i = Constant<value_int = 4>()
        y = Gather(x, i)
    }"""
    exe = tensorsmith.compile(parse(text))
    assert exe(np.arange(5, dtype=np.float32)) == 4
    with pytest.raises(EvaluationError, match="the position 4 lies outside of an axis of n"):
        exe(np.arange(4, dtype=np.float32))


def test_a_branch_that_is_not_taken_may_be_wrong():
    model = parse("""g (float[3] x, bool c) => (float y) {
        y = If (c) <
            then_branch = t () => (float a) { i = Constant<value_int = 5>() a = Gather(x, i) },
            else_branch = e () => (float b) { j = Constant<value_int = 2>() b = Gather(x, j) }
        >
    }""")
    exe = tensorsmith.compile(model)
    x = np.arange(3, dtype=np.float32)
    assert exe(x, np.array(False)) == 2
    with pytest.raises(EvaluationError, match="the position 5 lies outside of an axis of 3"):
        exe(x, np.array(True))


def test_strings_at_positions():
    model = parse("g (string[n] x, int64[k] i) => (string[k] y) { y = Gather(x, i) }")
    words = np.array(["a", "b"], object)
    assert run(model, words, np.array([1, -2]))[0].tolist() == ["b", "a"]
    with pytest.raises(EvaluationError, match="a position lies outside"):
        tensorsmith.compile(model)(words, np.array([2]))


def test_features_and_embeddings():
    node = helper.make_node("ArrayFeatureExtractor", ["x", "i"], ["y"], domain="ai.onnx.ml")
    model = parse("g (float[n, 4] x, int64[1, k] i) => (float[n, k] y) { y = Identity(x) }")
    model.graph.node[0].CopyFrom(node)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    exe = tensorsmith.compile(model)
    np.testing.assert_array_equal(exe(X, np.array([[3, 0]])), X[:, [3, 0]])
    with pytest.raises(EvaluationError, match="ArrayFeatureExtractor"):
        exe(X, np.array([[4]]))


@pytest.mark.parametrize("extents", ["4, d", "4, 3"])
@pytest.mark.parametrize("size", ["3", "e", "d"])
def test_elements_along_axes_that_may_be_empty(extents, size):
    """Along other axes there are no more positions than elements."""
    if (extents, size) == ("4, 3", "d"):
        return
    text = f"g (float[{extents}] x, int64[k, {size}] i) => (float[k, {size}] y)"
    exe = tensorsmith.compile(parse(text + " { y = GatherElements(x, i) }"), min_extent=0)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert exe(x, np.array([[3, 0, -2]])).tolist() == [[9, 1, 8]]
    if size == "e":
        assert exe(x, np.array([[1, 2]])).tolist() == [[3, 7]]
        with pytest.raises(EvaluationError, match="no more positions than elements along axis 1"):
            exe(x, np.array([[1, 2, 0, 0]]))
