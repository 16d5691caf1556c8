"""Which dimensions of a model may be empty."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import tensorsmith
from tensorsmith.errors import ShapeError, TensorsmithError
from tensorsmith.frontend.onnx import from_onnx

MODEL = """<ir_version: 10, opset_import: ["": 21]>
agraph (float[past, 4] x, float[length, 4] y) => (float[total, 4] z) {
    z = Concat<axis = 0>(x, y)
}"""


def test_dimensions_may_be_empty_by_name() -> None:
    past, length = from_onnx(parser.parse_model(MODEL), min_extent={"past": 0})["main"].params
    assert past.shape[0].low == 0
    assert length.shape[0].low == 1


def test_a_call_may_leave_them_empty() -> None:
    model = tensorsmith.compile(parser.parse_model(MODEL), min_extent={"past": 0}, threads=1)
    none, some = np.zeros((0, 4), np.float32), np.ones((2, 4), np.float32)
    assert model(none, some).tolist() == some.tolist()
    with pytest.raises(ShapeError, match="'length' must be at least 1"):
        model(some, none)


def test_a_name_that_the_model_lacks_is_told() -> None:
    with pytest.raises(TensorsmithError, match="the model has no dimension 'before'") as caught:
        from_onnx(parser.parse_model(MODEL), min_extent={"before": 0})
    assert "one of 'past', 'length'" in str(caught.value)
