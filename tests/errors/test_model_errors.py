"""The whole text of the errors of calling a model with inputs that do not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from runtime.models import HEADER, affine, model_of
from tensorsmith.errors import DTypeError, EvaluationError, ShapeError, TensorsmithError
from tensorsmith.runtime.manifest import NativeStage, TensorInfo
from tensorsmith.runtime.model import Model
from tensorsmith.script import parse_module

IDS = np.zeros((2, 7), np.float32)


@pytest.fixture(scope="module")
def model() -> Model:
    return affine()


def given(model: Model, *args: Any, **named: Any) -> str:
    with pytest.raises(TensorsmithError) as raised:
        model(*args, **named)
    assert isinstance(raised.value, (ShapeError, DTypeError, EvaluationError))
    return str(raised.value)


def test_numbers_and_names(model: Model) -> None:
    assert given(model, IDS, IDS, IDS) == (
        "the model takes 2 inputs, and got 3\n  given: ids, mask"
    )
    assert given(model, IDS) == ("input 'mask' is not given\n  given: the model takes ids, mask")
    assert given(model) == (
        "inputs 'ids', 'mask' are not given\n  given: the model takes ids, mask"
    )
    assert given(model, IDS, masks=IDS) == (
        "the model has no input 'masks'\n  try: one of 'ids', 'mask'"
    )
    assert given(model, IDS, ids=IDS) == "input 'ids' is given twice, by position and by name"


def test_types(model: Model) -> None:
    assert given(model, IDS.astype(np.int64), IDS) == (
        "input 'ids' is int64, and the model takes float32\n  try: ids.astype(\"float32\")"
    )
    assert given(model, IDS, [1, 2]) == (
        "input 'mask' is a list, not a tensor\n  try: np.asarray(mask, \"float32\")"
    )
    assert given(model, IDS, 3.5) == (
        "input 'mask' is a float, not a tensor\n  given: 3.5\n  try: np.asarray(mask, \"float32\")"
    )
    torch = pytest.importorskip("torch")
    assert given(model, IDS, torch.zeros(2, 7, dtype=torch.float64)) == (
        "input 'mask' is float64, and the model takes float32\n  try: mask.to(torch.float32)"
    )


def test_shapes(model: Model) -> None:
    assert given(model, IDS[0], IDS) == (
        "input 'ids' has rank 1, and the model takes rank 2\n"
        "  given: shape (7,) for ids: float32[n, sequence_length]"
    )
    assert given(model, IDS, np.zeros((2, 9), np.float32)) == (
        "input 'mask' axis 1 is 9, and axis 1 of 'ids' is 7: both are 'sequence_length'"
    )
    assert given(model, IDS[:, :0], IDS[:, :0]) == (
        "input 'ids' axis 1 is 0, and 'sequence_length' must be at least 1"
    )


def test_options() -> None:
    with pytest.raises(DTypeError) as kind:
        affine(outputs="jax")
    assert str(kind.value) == (
        "outputs='jax' is no kind of tensors\n  try: one of 'numpy', 'torch', 'dlpack'"
    )
    with pytest.raises(ShapeError) as threads:
        affine(threads=0)
    assert str(threads.value) == "threads must be at least 1, not 0"


def test_outputs_that_cannot_be_made() -> None:
    text = HEADER + (
        'n = T.dim("n")\n\n'
        '@T.program(attrs={"host": True})\n'
        'def main(x: T.Buffer((n,), "float32"), y: T.Buffer((T.max(n, 3) - 3,), "float32"),\n'
        '         z: T.Buffer((n * n * n * n * 1048576,), "float32")):\n'
        "    for i in range(T.max(n, 3) - 3):\n"
        "        y[i] = x[i]\n"
    )
    module = parse_module(text)
    model = model_of(module, module.program("main").params[1:])
    assert given(model, np.zeros(5000, np.float32)) == (
        "there is no memory for the outputs\n  given: n = 5000"
    )
    (stage,) = model.manifest.stages
    assert isinstance(stage, NativeStage)
    changed = replace(
        stage,
        outputs=(TensorInfo("y", "float32", (("sub", "n", 3),)), model.outputs[1]),
    )
    outputs = changed.outputs
    shrinking = Model(
        model.objects, replace(model.manifest, stages=(changed,), outputs=outputs), threads=1
    )
    assert given(shrinking, np.zeros(1, np.float32)) == (
        "axis 0 of the output 'y' would be n - 3 = -2\n  given: n = 1"
    )
