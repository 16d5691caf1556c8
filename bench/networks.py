"""Whole models against every peer that is installed, in one run.

Each peer runs in a process of its own and takes turns with the others. Outputs are compared with
ONNX Runtime's before a time counts. Prints a table of medians, and writes all figures with the
machine they are from. Cases are called 'model', or 'model@number' for a choice of its sizes.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import measure
from models import LIGHT, MODELS, light_inputs, light_model
from peers import OURS, PEERS, OnnxRuntime
from work import Expected, Work

from tensorsmith.codegen.limits import Limits

RELATIVE = 2e-3
"""Of the largest output: how far peers may differ. Networks of a hundred layers in f32 differ by
some 1e-5."""
QUICK = (
    *("minilm-l3@0", "minilm-l6-int8@0", "silero-vad-sequence@0", "magika@0"),
    *("resnet50", "squeezenet", "shufflenet"),
)


def all_cases() -> list[str]:
    """Every case."""
    packaged = [f"{name}@{k}" for name, m in MODELS.items() for k in range(len(m.sizes))]
    return packaged + list(LIGHT)


def work(case: str) -> Work:
    """The model file of a case and its inputs."""
    name, _, choice = case.partition("@")
    if name in LIGHT:
        model = light_model(name)
        return Work(model.SerializeToString(), light_inputs(model))
    packaged = MODELS[name]
    return Work(packaged.path().read_bytes(), packaged.inputs(packaged.sizes[int(choice or 0)]))


def expected(case: str) -> Expected:
    """What ONNX Runtime gives."""
    return Expected(OnnxRuntime().prepare(work(case), 1)(), relative=RELATIVE)


def facts(case: str, ours: dict[str, Any], limit: Limits) -> dict[str, Any]:
    """What the tables call it: the model with its sizes."""
    name, _, choice = case.partition("@")
    if not choice:
        return {"title": name, "group": "architecture"}
    sizes = MODELS[name].sizes[int(choice)]
    return {"title": f"{name} {'x'.join(map(str, sizes.values()))}", "group": "packaged"}


def offered() -> list[str]:
    """The peers that can run ONNX models; PyTorch by a converter."""
    names = [n for n in PEERS if not n.startswith(OURS) and n != "numpy"]
    if importlib.util.find_spec("onnx2pytorch") is None:
        names = [n for n in names if not n.startswith("torch")]
    return names


SUITE = measure.Suite(
    name="networks",
    cases=all_cases(),
    quick=QUICK,
    peers=offered(),
    expected=expected,
    facts=facts,
    dynamic=lambda case: "@" in case,
)

if __name__ == "__main__":
    measure.main(SUITE)
