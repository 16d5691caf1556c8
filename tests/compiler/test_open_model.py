"""Models that are compiled when they are called."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import tensorsmith
from tensorsmith.errors import ArtifactError, ShapeError
from tensorsmith.frontend.onnx import TensorType


def model_of(nodes, inputs, outputs):
    graph = helper.make_graph(nodes, "open", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def open_rank():
    return model_of(
        [helper.make_node("Exp", ["x"], ["y"])],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )


def test_one_model_serves_inputs_of_any_rank():
    exe = tensorsmith.compile(open_rank(), threads=1)
    assert [i.name for i in exe.inputs] == ["x"]
    for shape in [(), (3,), (2, 0), (2, 3, 5), (4,)]:
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(exe(x), np.exp(x), rtol=1e-6)
        np.testing.assert_allclose(exe.run(x=x)["y"], np.exp(x), rtol=1e-6)
    assert exe.profile(np.ones(3, np.float32), repeats=2).kernels


def test_an_open_model_cannot_be_saved_and_says_how_it_can(tmp_path):
    with pytest.raises(ArtifactError, match="input_types="):
        tensorsmith.compile(open_rank()).save(tmp_path / "m.tensorsmith")
    exe = tensorsmith.compile(open_rank(), input_types={"x": TensorType(("n", 3))})
    exe.save(tmp_path / "m.tensorsmith")
    assert tensorsmith.load(tmp_path / "m.tensorsmith")(np.zeros((2, 3), np.float32)).shape == (
        2,
        3,
    )


def test_what_does_not_fit_is_said_at_the_call():
    exe = tensorsmith.compile(open_rank())
    with pytest.raises((ShapeError, TypeError)):
        exe(np.ones(3, np.float32), np.ones(3, np.float32))


def test_a_size_that_decides_the_rank_of_a_result():
    """The side of an `If` that drops an axis is taken where there is one row."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])
    value = helper.make_empty_tensor_value_info
    then = helper.make_graph([helper.make_node("Squeeze", ["x"], ["a"])], "then", [], [value("a")])
    orelse = helper.make_graph([helper.make_node("Exp", ["x"], ["b"])], "else", [], [value("b")])
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["rows"]),
        helper.make_node("Equal", ["rows", "one"], ["is_one"]),
        helper.make_node("If", ["is_one"], ["y"], then_branch=then, else_branch=orelse),
    ]
    constants = [
        helper.make_node("Constant", [], [name], value=helper.make_tensor(name, 7, [], [number]))
        for name, number in (("zero", 0), ("one", 1))
    ]
    exe = tensorsmith.compile(model_of([*constants, *nodes], [x], [value("y")]))
    one, two = np.ones((1, 4), np.float32), np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(exe(one), np.ones(4, np.float32))
    np.testing.assert_allclose(exe(two), np.exp(two), rtol=1e-6)
    np.testing.assert_array_equal(exe(one), np.ones(4, np.float32))
