"""Large weights are mapped from the model's own file."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensorsmith.errors import UntrustedModelError
from tensorsmith.frontend.onnx import from_onnx, large_tensors
from tensorsmith.frontend.onnx.large_tensors import without_large_tensors
from tensorsmith.ir.graph import Constant


def model_with(*arrays):
    names = [f"w{k}" for k in range(len(arrays))]
    graph = helper.make_graph(
        [helper.make_node("Sum", ["x", *names], ["y"])],
        "sum",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, arrays[0].shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in zip(names, arrays, strict=True)],
    )
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])


def constants(module):
    found = [b for b in module.graph("main").body if isinstance(b, Constant)]
    return {b.result.name: b.data for b in found}


@pytest.fixture
def small_limit(monkeypatch):
    monkeypatch.setattr(large_tensors, "LARGE", 64)


def test_values_are_those_of_the_file(tmp_path):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((600, 1000)).astype(np.float32) for _ in range(2)]
    arrays.append(np.ones((1, 1000), np.float32))  # small: stays in the message
    path = tmp_path / "model.onnx"
    onnx.save(model_with(*arrays), path)
    reduced = without_large_tensors(memoryview(path.read_bytes()), "model.onnx")
    assert len(reduced) < 10_000
    found = constants(from_onnx(path))
    for k, array in enumerate(arrays):
        np.testing.assert_array_equal(found[f"w{k}"], array)


def test_a_model_without_large_tensors_stays_as_it_is():
    data = model_with(np.ones((2, 3), np.float32)).SerializeToString()
    assert without_large_tensors(memoryview(data), "m") is None


def test_tensors_that_are_external_already_stay(small_limit):
    model = model_with(np.ones((8, 8), np.float32))
    tensor = model.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    assert without_large_tensors(memoryview(model.SerializeToString()), "m") is None


def test_cut_and_flipped_messages_are_left_to_protobuf_or_still_messages(small_limit):
    data = model_with(*(np.arange(100, dtype=np.float32) for _ in range(3))).SerializeToString()
    for end in range(0, len(data), 7):
        without_large_tensors(memoryview(data[:end]), "m")
    rng = np.random.default_rng(1)
    for _ in range(500):
        changed = bytearray(data)
        changed[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        without_large_tensors(memoryview(bytes(changed)), "m")


def test_a_cut_file_is_refused(tmp_path):
    path = tmp_path / "cut.onnx"
    path.write_bytes(model_with(np.zeros((600, 1000), np.float32)).SerializeToString()[:-100])
    with pytest.raises(UntrustedModelError, match="not an ONNX model, or only a part of one"):
        from_onnx(path)


@pytest.mark.slow
def test_memory_stays_under_twice_the_weights(tmp_path):
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal((1, 40_000_000)).astype(np.float32) for _ in range(3)]
    path = tmp_path / "large.onnx"
    onnx.save(model_with(*arrays), path)
    code = (  # the system's count: getrusage includes the process that starts this one
        "import sys, tensorsmith; tensorsmith.compile(sys.argv[1]);"
        "status = open('/proc/self/status').read();"
        "print(1024 * int(status.partition('VmHWM:')[2].split()[0]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 2 * path.stat().st_size
