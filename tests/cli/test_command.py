"""The command as a user runs it: in a process of its own, on real files."""

import json
import subprocess
import sys
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

RUN = [sys.executable, "-c", "from tensorsmith.cli.main import main; main()"]


def tensorsmith(*arguments, folder=None, status=0):
    """What the command prints to standard output and to standard error."""
    done = subprocess.run(
        [*RUN, *map(str, arguments)], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == status, done.stderr + done.stdout
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout, done.stderr


def two_layers():
    """relu(x @ w) @ v with a dynamic number of rows."""
    rng = np.random.default_rng(0)
    w, v = (rng.standard_normal(s).astype(np.float32) for s in ((8, 16), (16, 4)))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
        helper.make_node("Relu", ["h"], ["r"], name="middle"),
        helper.make_node("MatMul", ["r", "v"], ["y"], name="last"),
    ]
    graph = helper.make_graph(
        nodes,
        "two_layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 4])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(v, "v")],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="tests"
    )
    return model, lambda x: np.maximum(x @ w, 0) @ v


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a model, and what it computes."""
    folder = tmp_path_factory.mktemp("model")
    proto, function = two_layers()
    onnx.save(proto, folder / "two.onnx")
    np.save(folder / "x.npy", np.random.default_rng(1).standard_normal((5, 8)).astype(np.float32))
    return folder, function


def test_help_lists_the_commands():
    text, _ = tensorsmith("--help")
    for name in ("compile", "run", "bench", "profile", "explain", "compare", "inspect", "cache"):
        assert name in text
    assert "doctor" in text
    assert "MODEL" in tensorsmith("explain", "--help")[0]


def test_version():
    assert tensorsmith("--version")[0].startswith("tensorsmith ")


def test_compiled_file_runs_and_is_a_zip_archive(model):
    folder, function = model
    text, _ = tensorsmith("compile", "two.onnx", folder=folder)
    assert "x: float32[rows, 8]" in text
    assert zipfile.is_zipfile(folder / "two.tensorsmith")
    x = np.load(folder / "x.npy")
    tensorsmith("run", "two.tensorsmith", "-i", "x=x.npy", "-o", "y.npz", folder=folder)
    np.testing.assert_allclose(np.load(folder / "y.npz")["y"], function(x), rtol=1e-5, atol=1e-5)


def test_sizes_of_dynamic_dimensions(model):
    text, _ = tensorsmith("run", "two.onnx", "--size", "rows=7", "--json", folder=model[0])
    assert json.loads(text)["outputs"][0]["shape"] == [7, 4]


def test_bench_against_a_peer(model):
    arguments = ("bench", "two.onnx", "--vs", "onnxruntime", "--seconds", "0.05", "--threads", "1")
    found = json.loads(tensorsmith(*arguments, "--json", folder=model[0])[0])
    assert [r["contestant"] for r in found["rows"]] == ["tensorsmith", "onnxruntime"]
    assert found["difference"] < 1e-5
    assert found["ratio"] > 0
    assert "onnxruntime" in tensorsmith(*arguments, folder=model[0])[0]


def test_profile_names_kernels_and_nodes(model):
    folder = model[0]
    arguments = ("profile", "two.onnx", "--no-limits", "--repeats", "3")
    trace = folder / "trace.json"
    found = json.loads(tensorsmith(*arguments, "--json", "--trace", trace, folder=folder)[0])
    nodes = " ".join(n for k in found["kernels"] for n in k["nodes"])
    assert all(name in nodes for name in ("first", "middle", "last"))
    assert sum(k["share"] for k in found["kernels"]) <= 1.0 + 1e-6
    assert json.loads(trace.read_text())["traceEvents"]


def test_explain_says_what_was_fused(model):
    text, _ = tensorsmith("explain", "two.onnx", folder=model[0])
    assert "middle" in text
    assert "fused" in text


def test_compare_agrees_with_both_oracles(model):
    for oracle in ("onnxruntime", "reference"):
        text, _ = tensorsmith("compare", "two.onnx", "--oracle", oracle, folder=model[0])
        assert "3 values compared" in text


def test_inspect(model):
    found = json.loads(tensorsmith("inspect", "two.onnx", "--json", folder=model[0])[0])
    assert found["operators"] == {"MatMul": 2, "Relu": 1}
    assert found["inputs"] == ["x: float[rows, 8]"]
    assert "T.graph" in tensorsmith("inspect", "two.onnx", "--ir", folder=model[0])[0]


def test_doctor_tests_itself():
    found = json.loads(tensorsmith("doctor", "--json")[0])
    assert all(check["problem"] is None for check in found["checks"])


def test_cache_lists_verifies_and_prunes(model, tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORSMITH_CACHE_DIR", str(tmp_path))
    tensorsmith("run", "two.onnx", folder=model[0])
    entries = json.loads(tensorsmith("cache", "list", "--json")[0])
    assert entries
    assert json.loads(tensorsmith("cache", "verify", "--json")[0])["damaged"] == []
    kept = next(tmp_path.glob("*.zip"))
    kept.write_bytes(kept.read_bytes()[:-40])
    assert "1 entries are damaged" in tensorsmith("cache", "verify", status=1)[1]
    tensorsmith("cache", "prune", "--mib", "0")
    assert json.loads(tensorsmith("cache", "info", "--json")[0])["entries"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "none.onnx"), "error: there is no file none.onnx"),
        (("run", "two.onnx", "-s", "cols=3"), "no input has a dynamic dimension 'cols'"),
        (("run", "two.onnx", "-s", "rows=many"), "an extent is a whole number"),
        (("run", "two.onnx", "-i", "z=x.npy"), "the model has no input 'z'"),
        (("run", "two.onnx", "--fill", "x=sevens"), "one of random, zeros, ones"),
        (("bench", "two.onnx", "--vs", "nobody"), "there is no peer 'nobody'"),
        (("compare", "two.onnx", "--oracle", "me"), "there is no oracle 'me'"),
        (("compile", "two.onnx", "-o", "/none/such/file"), "/none/such"),
    ],
    ids=lambda x: "-".join(x) if isinstance(x, tuple) else "",
)
def test_errors_say_what_to_do(model, arguments, said):
    _, errors = tensorsmith(*arguments, folder=model[0], status=1)
    assert said in errors.replace("\n", " ").replace("  ", " "), errors
