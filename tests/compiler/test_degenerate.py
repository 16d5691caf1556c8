"""Models so small that schedules find no loop where larger ones have one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tensorsmith.compiler import compile


def model_of(
    node: onnx.NodeProto, shape: tuple[int, ...], constants: dict[str, np.ndarray]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, name) for name, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])


@pytest.mark.parametrize("extent", [1, 3, 8, 10, 16, 17])
def test_a_window_over_one_row(extent: int) -> None:
    random = np.random.default_rng(1)
    weight = random.standard_normal((1, 1, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1])
    model = model_of(node, (1, 1, extent), {"w": weight})
    x = random.standard_normal((1, 1, extent)).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(compile(model, threads=1)(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("sizes", [(1, 1, 3, 3), (1, 1, 1, 1), (1, 1, 1, 3), (1, 1, 2, 4)])
def test_small_images_resized_by_means(mode: str, sizes: tuple[int, ...]) -> None:
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode=mode, antialias=1)
    given = np.array(sizes, np.int64)
    model = model_of(node, (1, 1, 4, 4), {"s": given})
    x = np.random.default_rng(2).standard_normal((1, 1, 4, 4)).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(compile(model, threads=1)(x), expected, rtol=1e-4, atol=1e-5)
    model.graph.initializer.pop()  # and with sizes that come with the call
    model.graph.input.append(helper.make_tensor_value_info("s", TensorProto.INT64, [4]))
    np.testing.assert_allclose(compile(model, threads=1)(x, given), expected, rtol=1e-4, atol=1e-5)
