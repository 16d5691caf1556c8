"""Profiles of models: times of calls and kernels, and traces."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from runtime.models import AFFINE, WEIGHTS, affine, compress, expected
from tensorsmith.codegen import HostInterface, build_model
from tensorsmith.errors import EvaluationError, ShapeError
from tensorsmith.runtime.manifest import KernelInfo
from tensorsmith.runtime.model import Model
from tensorsmith.script import parse_module

X = np.ones((40, 50), np.float32)


def test_kernels_have_times_calls_and_counts() -> None:
    module = parse_module(AFFINE)
    weights = np.zeros(64, np.uint8)
    weights[:12] = WEIGHTS.view(np.uint8)
    interface = HostInterface(tuple(module.program("main").buffers[2:4]), has_weights=True)
    size = ("mul", "n", "sequence_length")
    infos = {"add": KernelInfo("add", ("Add_0", "Add_1"), size, ("mul", size, 12))}
    model = build_model(module, "main", interface, weights, kernels=infos, threads=1)
    profile = model.profile(X, mask=X, repeats=5)
    assert [(k.name, k.calls) for k in profile.kernels] == [("add", 2), ("scale", 1)]
    add, scale = profile.kernels
    assert add.sources == ("Add_0", "Add_1")
    assert (add.flops, add.bytes_moved) == (2 * 2000, 2 * 24000)
    assert scale.flops is None
    for kernel in profile.kernels:
        assert len(kernel.seconds) == 5
        assert 0 < kernel.best <= kernel.median
    assert sum(k.best for k in profile.kernels) < profile.best
    assert 0 < profile.between < profile.median
    lines = str(profile).splitlines()
    assert lines[1].startswith("main: 5 calls on 1 threads ")
    assert any(line.startswith("  add (Add_0, Add_1) ") for line in lines)
    assert lines[-1].startswith("  between kernels ")


def test_profiles_leave_the_model_as_it_is(tmp_path: Path) -> None:
    model = affine(threads=2)
    model.profile(X, X)
    for x, y in zip(model(X, X), expected(X, X), strict=True):
        np.testing.assert_allclose(x, y)
    model.save(tmp_path / "model.tsm")
    loaded = Model.load(tmp_path / "model.tsm")
    assert [k.calls for k in loaded.profile(X, X, repeats=1, warmup=0).kernels] == [2, 1]
    assert [k.name for k in compress().profile(np.arange(-3, 3)).kernels] == ["count"]


def test_traces_nest_kernels_in_the_call(tmp_path: Path) -> None:
    affine(threads=1).profile(X, X).write_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    shown = [e for e in events if e["ph"] == "X"]
    assert [e["name"] for e in shown] == ["main", "add", "add", "scale"]
    whole, *kernels = shown
    assert whole["ts"] == 0
    for before, after in itertools.pairwise(kernels):
        assert before["ts"] + before["dur"] <= after["ts"] + 1e-3
    assert kernels[-1]["ts"] + kernels[-1]["dur"] <= whole["dur"] + 1e-3
    assert {e["args"]["name"] for e in events if e["ph"] == "M"} == {"main", "calls", "kernels"}


def test_what_cannot_be_profiled() -> None:
    model = affine()
    with pytest.raises(ShapeError, match="input 'mask' is not given"):
        model.profile(X)
    with pytest.raises(EvaluationError) as raised:
        model.profile(X, X, repeats=0)
    assert str(raised.value) == (
        "a profile of 0 calls after 1 is none\n  try: repeats=10, warmup=1"
    )
