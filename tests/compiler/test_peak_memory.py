"""How much memory it takes to compile a model: little more than its weights."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

MIB = 2**20
SIDE = 2048
COMPILE = """
import sys
from pathlib import Path

import tensorsmith
from onnx import parser

small = parser.parse_model('<ir_version: 10, opset_import: ["" : 18]>'
    'g (float[n, 64] x, float[64, 64] w) => (float[n, 64] y) { y = MatMul(x, w) }')
tensorsmith.compile(small)  # so that what is imported counts for nothing


def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


before = status("VmRSS")
exe = tensorsmith.compile(sys.argv[1], cache=False)
print(status("VmHWM") - before)
"""


def write_model(path, mib, *, external):
    """Rows of a table, layers, and the same table as the last layer."""
    rng = np.random.default_rng(0)
    count = mib * MIB // (SIDE * SIDE * 4)
    weights = [
        numpy_helper.from_array(rng.standard_normal((SIDE, SIDE), np.float32) / 64, f"w{k}")
        for k in range(count)
    ]
    nodes = [helper.make_node("Gather", ["w0", "ids"], ["x1"])]
    for k in range(1, count):
        nodes.append(helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"m{k}"]))
        nodes.append(helper.make_node("Relu", [f"m{k}"], [f"x{k + 1}"]))
    nodes.append(helper.make_node("Transpose", ["w0"], ["head"]))
    nodes.append(helper.make_node("MatMul", [f"x{count}", "head"], ["y"]))
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", SIDE])
    graph = helper.make_graph(nodes, "g", [ids], [y], weights)
    imports = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    where = {"save_as_external_data": True, "location": "weights.bin"} if external else {}
    onnx.save(model, str(path), **where)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.parametrize("external", [False, True], ids=["embedded", "external"])
def test_compiling_takes_less_than_twice_the_weights(tmp_path, external):
    """A weight that two use in different forms counts twice, and nothing else does."""
    mib = 512
    write_model(tmp_path / "model.onnx", mib, external=external)
    command = [sys.executable, "-c", COMPILE, str(tmp_path / "model.onnx")]
    peak = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert peak < 1.25 * mib * MIB, f"{peak / (mib * MIB):.2f} times the weights"
