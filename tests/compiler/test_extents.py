"""Models whose inputs may be empty."""

import numpy as np
from onnx import TensorProto, helper

from tensorsmith import compile


def test_what_came_before_may_be_empty():
    shapes = ("past", [1, "past", 4]), ("new", [1, "length", 4]), ("present", [1, "total", 4])
    past, new, present = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes
    )
    node = helper.make_node("Concat", ["past", "new"], ["present"], axis=1)
    graph = helper.make_graph([node], "append", [past, new], [present])
    opset = helper.make_opsetid("", 21)
    model = compile(helper.make_model(graph, opset_imports=[opset], ir_version=10), min_extent=0)
    rng = np.random.default_rng(0)
    for before in (0, 3):
        held, added = (rng.standard_normal((1, n, 4)).astype(np.float32) for n in (before, 2))
        np.testing.assert_array_equal(model(held, added), np.concatenate([held, added], 1))
