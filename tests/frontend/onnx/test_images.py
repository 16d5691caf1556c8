"""Files of images, decoded."""

import io
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image

import tensorsmith
from frontend.onnx.running import reference, run
from tensorsmith.errors import EvaluationError, ShapeError
from tensorsmith.frontend.onnx import from_onnx

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)


def model(order="RGB", kind=TensorProto.UINT8):
    x = helper.make_tensor_value_info("x", kind, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.UINT8, [None, None, None])
    node = helper.make_node("ImageDecoder", ["x"], ["y"], pixel_format=order)
    graph = helper.make_graph([node], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def encoded(form, pixels=PIXELS):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form)
    return np.frombuffer(file.getvalue(), np.uint8)


@pytest.mark.parametrize("form", ["BMP", "JPEG", "PNG", "PPM", "TIFF", "WEBP"])
@pytest.mark.parametrize("order", ["RGB", "BGR", "Grayscale"])
def test_formats_and_orders(form, order):
    (found,) = run(model(order), encoded(form))
    (expected,) = reference(model(order), encoded(form))
    np.testing.assert_array_equal(found, expected)


def test_one_executable_for_images_of_all_sizes():
    exe = tensorsmith.compile(model("BGR"))
    for pixels in (PIXELS, PIXELS[:2, :3]):
        np.testing.assert_array_equal(exe(encoded("PNG", pixels)), pixels[:, :, ::-1])


def test_a_palette_becomes_colours():
    file = io.BytesIO()
    Image.fromarray(PIXELS).quantize(8).save(file, "PNG")
    (found,) = run(model(), np.frombuffer(file.getvalue(), np.uint8))
    assert found.shape == (5, 7, 3)


@pytest.mark.parametrize("data", [b"no image at all", encoded("PNG").tobytes()[:40]])
def test_what_is_no_image_is_a_matrix_without_elements(data):
    exe = tensorsmith.compile(model())
    assert exe(np.frombuffer(data, np.uint8)).size == 0


def test_without_pillow(monkeypatch):
    exe = tensorsmith.compile(model())
    data = encoded("PNG")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(EvaluationError) as caught:
        exe(data)
    assert str(caught.value) == (
        "Pillow is not installed, which decodes images\n  try: pip install 'tensorsmith[images]'"
    )


def test_what_holds_no_bytes():
    with pytest.raises(ShapeError, match="takes the bytes of a file"):
        from_onnx(model(kind=TensorProto.FLOAT))
