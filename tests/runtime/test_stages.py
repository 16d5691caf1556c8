"""Models that call Python functions between native programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.models import HEADER
from tensorsmith.codegen import compile_module
from tensorsmith.codegen.models import machine_of
from tensorsmith.errors import EvaluationError
from tensorsmith.runtime.manifest import (
    DimensionInfo,
    DimensionStage,
    Manifest,
    NativeStage,
    Operand,
    PythonStage,
    TensorInfo,
)
from tensorsmith.runtime.model import Model
from tensorsmith.script import parse_module
from tensorsmith.target import Target

SOURCE = (
    HEADER
    + """
n = T.dim("n", min=0)

@T.program(attrs={"host": True})
def double(x: T.Buffer((n,), "int64"), y: T.Buffer((n,), "int64")):
    for i in range(n):
        y[i] = x[i] * 2

@T.program(attrs={"host": True})
def pad(x: T.Buffer((n,), "int64"), k: T.Scalar("index", min=0), y: T.Buffer((n + k,), "int64")):
    for i in range(n + k):
        y[i] = T.select(i < n, x[T.min(i, T.max(n - 1, 0))], T.int64(-1))
"""
)
X, WORDS = TensorInfo("x", "int64", ("n",)), TensorInfo("words", "string", ("n",))
Y, LENGTHS = TensorInfo("y", "int64", ("n",)), TensorInfo("lengths", "int64", ("n",))
SUM, PADDED = TensorInfo("sum", "int64", ()), TensorInfo("padded", "int64", (("add", "n", "k"),))


def lengths(words: Any, y: Any, scale: Any, *, add: int) -> tuple[Any, Any]:
    """The lengths of words, and their sum; some arithmetic to see all kinds of operands."""
    found = np.array([len(w) for w in words.reshape(-1)], np.int64) + add
    assert y.shape == found.shape
    return found, np.array(found.sum() * scale, np.int64)


@pytest.fixture(scope="module")
def model() -> Model:
    target = Target.host()
    stages = (
        NativeStage("double", (X,), (Y,)),
        PythonStage(
            "lengths",
            (Operand("words"), Operand("y"), Operand(extent=1)),
            (LENGTHS, SUM),
            {"add": 0},
        ),
        DimensionStage(((DimensionInfo("k", low=1, high=100), "sum", ()),)),
        NativeStage("pad", (LENGTHS,), (PADDED,), scalars=("k",)),
    )
    manifest = Manifest("words", (X, WORDS), (PADDED, Y, X), stages, machine_of(target))
    objects = compile_module(parse_module(SOURCE), target)
    return Model(objects, manifest, functions={"lengths": lengths})


def test_values_go_from_stage_to_stage(model: Model, tmp_path: Path) -> None:
    x = np.array([5, 6], np.int64)
    words = np.array(["ab", "c"], object)
    model.save(tmp_path / "words.tsm")
    loaded = Model.load(tmp_path / "words.tsm", functions={"lengths": lengths})
    for each in (model, loaded):
        for given in (words, words.tolist(), words.astype(str)):
            padded, y, same = each(x, given)
            assert padded.tolist() == [2, 1, -1, -1, -1]
            assert y.tolist() == [10, 12]
            assert same.tolist() == x.tolist()
            assert not np.shares_memory(same, x)


def failing(model: Model, function: Any) -> str:
    changed = Model(model.objects, model.manifest, functions={"lengths": function})
    with pytest.raises(EvaluationError) as raised:
        changed(np.array([1], np.int64), np.array(["word"], object))
    return str(raised.value)


def test_functions_that_fail(model: Model) -> None:
    assert failing(model, lambda *args, **named: 1 // 0) == (
        "the Python function 'lengths' failed\n"
        "  because: ZeroDivisionError('integer division or modulo by zero')"
    )
    assert failing(model, lambda *args, **named: args[1]) == (
        "the Python function 'lengths' gave 1 results, and the model takes 2"
    )
    assert failing(model, lambda *args, **named: (args[1], np.zeros(1))) == (
        "the Python function 'lengths' gave float64 of rank 1 for 'sum'\n"
        "  because: the model expects sum: int64[]"
    )
    assert failing(model, lambda *args, **named: (np.zeros(2, np.int64), np.int64(1))) == (
        "axis 0 of 'lengths' is 2, and n is 1"
    )
    assert failing(model, lambda *args, **named: (args[1], np.int64(0))) == (
        "'k' is 0, and must be at least 1"
    )
    unknown = replace(model.manifest, stages=model.manifest.stages)
    with pytest.raises(EvaluationError) as raised:
        Model(model.objects, unknown)(np.array([1], np.int64), ["word"])
    assert str(raised.value) == (
        "the model calls the Python function 'lengths', which is not known here\n"
        "  try: functions={'lengths': ...}"
    )
