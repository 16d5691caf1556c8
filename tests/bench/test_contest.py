"""Peers in processes of their own: what is timed, and what is not."""

import json

import decoders
import measure
import networks
import numpy as np
import operators
import pytest
import tables
from cases import all_cases
from contest import Contestant, PeerError, Settings
from peers import NumPy, OnnxRuntime
from rich.console import Console
from work import Expected, Work


def test_a_tiny_run_from_end_to_end(tmp_path):
    path = tmp_path / "figures.json"
    arguments = ["--cases", "layer_norm_128", "--peers", "onnxruntime", "numpy", "--threads", "1"]
    arguments += ["--rounds", "2", "--seconds", "0.01", "--json", str(path)]
    options = measure.options_of(operators.SUITE, arguments)
    document = measure.measure(operators.SUITE, options, Console(quiet=True))
    assert json.loads(path.read_text()) == document
    (row,) = document["results"]
    assert row["case"] == "layer_norm_128x768"
    peers = row["peers"]
    for name in ("tensorsmith", "onnxruntime"):
        assert peers[name]["verdict"] == "ok"
        assert peers[name]["p10_us"] <= peers[name]["median_us"] <= peers[name]["p90_us"]
    assert peers["numpy"] == {"verdict": "none: no NumPy form of it"}
    assert row["share"] > 0
    assert row["kernels"][0]["us"] > 0
    resumed = measure.options_of(operators.SUITE, [*arguments, "--resume"])
    again = measure.measure(operators.SUITE, resumed, Console(quiet=True))
    assert again["results"] == document["results"]


def test_a_peer_that_does_not_answer_is_ended_and_begun_anew():
    contestant = Contestant("operators", "numpy", 1, Settings(limit_s=0.001))
    try:
        with pytest.raises(PeerError, match="no answer to 'versions'"):
            contestant.ask("versions")
        assert contestant.process is None
        contestant.limit_s = 60
        assert contestant.ask("versions").startswith(np.__version__)
    finally:
        contestant.end()


def test_a_peer_whose_process_ends_says_so():
    contestant = Contestant("operators", "numpy", 1, Settings(limit_s=60))
    try:
        contestant.ask("versions")
        contestant.process.kill()
        with pytest.raises(PeerError, match="its process ended with status -9"):
            contestant.ask("versions")
    finally:
        contestant.end()


@pytest.mark.parametrize(
    ("got", "verdict"),
    [
        ([np.array([1.0, 2.0])], "ok"),
        ([np.array([1.0, 2.009])], "ok"),
        ([np.array([1.0, 2.2])], "wrong: output 0 is off by 0.2, its largest is 2"),
        ([np.array([1.0, np.nan])], "wrong: output 0 is off by nan, its largest is 2"),
        ([np.array([1.0])], "wrong: output 0 is (1,), not (2,)"),
        ([], "wrong: 0 outputs for 1"),
    ],
)
def test_verdicts(got, verdict):
    assert Expected([np.array([1.0, 2.0])], absolute=0.01).verdict(got) == verdict


def test_fixed_sizes_are_those_of_the_inputs(tmp_path):
    import onnx
    from onnx import TensorProto, helper

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    work = Work(helper.make_model(graph).SerializeToString(), {"x": np.ones((3, 4), np.float32)})
    assert work.has_dynamic_sizes()
    fixed = onnx.load_from_string(work.with_fixed_sizes())
    assert [d.dim_value for d in fixed.graph.input[0].type.tensor_type.shape.dim] == [3, 4]
    assert not Work(work.with_fixed_sizes(), work.inputs).has_dynamic_sizes()
    path = tmp_path / "model.onnx"
    path.write_bytes(work.model)
    assert Work(str(path), work.inputs).with_fixed_sizes() == work.with_fixed_sizes()


SMALL = ("matmul_256x256x256", "softmax_1536x128", "attention_12x128x64", "dwconv3x3_144_56")


@pytest.mark.parametrize("name", [n for n in all_cases() if n in SMALL])
def test_reference_agrees_with_a_peer(name):
    agrees_with_a_peer(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", all_cases())
def test_every_reference_agrees_with_a_peer(name):
    agrees_with_a_peer(name)


def agrees_with_a_peer(name):
    case = all_cases()[name]
    work, expected = case.work(), case.expected()
    assert expected.verdict(OnnxRuntime().prepare(work, 1)()) == "ok"
    if case.numpy is not None:
        assert expected.verdict(NumPy().prepare(work, 1)()) == "ok"
    if case.torch is not None:
        import torch

        with torch.no_grad():
            got = case.torch()(*map(torch.from_numpy, work.inputs.values()))
        assert expected.verdict([got.numpy()]) == "ok"


def test_quick_cases_exist():
    assert set(operators.QUICK) <= set(operators.SUITE.cases)
    for suite in (networks.SUITE, decoders.SUITE):
        assert set(suite.quick) <= set(suite.cases)
        assert suite.name in tables.SUITES
    only = measure.options_of(decoders.SUITE, ["--cases", "llama-1b@decode"])
    assert only.chosen == ["llama-1b@decode"]
    assert only.json is None
    assert measure.options_of(decoders.SUITE, []).json == decoders.SUITE.results
